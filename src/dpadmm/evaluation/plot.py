"""A drawing of a private evaluation: the ROC curve, and calibration where there are probabilities."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.evaluation.metrics import PrivateEvaluation
from dpadmm.models.measurement import DEVIATIONS
from dpadmm.report.figures import BLUE, GREY, blank, save_figure

_COLOURS = ("#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#e6ab02", "#666666")
"""Of groups; after the eighth they start anew, with another dash."""

_DASHES = ("-", "--", ":", "-.")
MOST_GROUPS = 16
"""So many groups are drawn at most; their figures are all printed."""


def draw_evaluation(found: PrivateEvaluation, path: Path) -> None:
    """Write the ROC curve with a band for the noise, and predicted against observed shares if there are probabilities.

    Groups stand beside all records. SVG or PNG, by the suffix of the path.
    """
    panels = 2 if found.has_probabilities else 1
    figure, axes = blank(panels, 5.4 * panels, 5.2)
    _roc(axes[0], found)
    if found.has_probabilities:
        _calibration(axes[1], found)
    cost = found.privacy
    figure.suptitle(
        f"{found.label}: {found.records} records, epsilon {cost.epsilon:.3g} at delta {cost.delta:.3g}", fontsize=11
    )
    save_figure(figure, path)


def _roc(axes: Any, found: PrivateEvaluation) -> None:
    """Thresholds from high to low; rates are made to rise, and the band holds both rates' noise intervals."""
    curve, auc = found.roc_curve(), found.roc_auc()
    axes.plot((0, 1), (0, 1), color=GREY, linestyle="--", linewidth=1, label="guessing")
    if auc.is_visible:
        left, right = (curve.false_positive_rate + side * DEVIATIONS * curve.false_positive_error for side in (-1, 1))
        low, high = (curve.true_positive_rate + side * DEVIATIONS * curve.true_positive_error for side in (-1, 1))
        grid = np.linspace(0, 1, 201)
        upper, lower = np.interp(grid, _rising(left), _rising(high)), np.interp(grid, _rising(right), _rising(low))
        axes.fill_between(grid, lower, upper, color=BLUE, alpha=0.16, linewidth=0, label="95 % noise band")
    for name, colour, dash in _drawn(found):
        line, area = found.roc_curve(name), found.roc_auc(name)
        least, most = area.noise_interval
        value = f"{area.value:.3f}" if area.is_determined else "not determined"
        label = f"{'all records' if name is None else name}: AUC {value} ({least:.2f} to {most:.2f})"
        if area.is_visible:
            x, y = _rising(line.false_positive_rate), _rising(line.true_positive_rate)
            axes.plot(x, y, color=colour, linestyle=dash, linewidth=2.0 if name is None else 1.2, label=label)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    axes.set(xlabel="false positive rate", ylabel="true positive rate")
    axes.set_title("ROC curve", fontsize=10)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="lower right", fontsize=8)


def _calibration(axes: Any, found: PrivateEvaluation) -> None:
    """Bars: thick for the noise interval, thin for the population interval."""
    axes.plot((0, 1), (0, 1), color=GREY, linestyle="--", linewidth=1, label="perfectly calibrated")
    for name, colour, dash in _drawn(found):
        parts = [part for part in found.calibration(name) if part.observed.is_visible]
        if not parts:
            continue
        x, y = [part.predicted for part in parts], [part.observed.value for part in parts]
        label = "all records" if name is None else name
        axes.plot(x, y, color=colour, linestyle=dash, linewidth=1.0, marker="o", markersize=4, label=label)
        if name is None:
            for part in parts:
                axes.vlines(part.predicted, *part.observed.population_interval, color=colour, linewidth=1)
                axes.vlines(part.predicted, *part.observed.noise_interval, color=colour, linewidth=3.5, alpha=0.45)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    axes.set(xlabel="mean predicted probability", ylabel="share of positives")
    axes.set_title("Calibration (thick: noise interval, thin: population interval)", fontsize=10)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="upper left", fontsize=8)


def _drawn(found: PrivateEvaluation) -> list[tuple[str | None, str, str]]:
    """Return all records, then the groups, each with colour and dash."""
    styles = [(_COLOURS[j % len(_COLOURS)], _DASHES[j // len(_COLOURS)]) for j in range(MOST_GROUPS)]
    return [(None, BLUE, "-"), *((name, *style) for name, style in zip(found.groups, styles, strict=False))]


def _rising(rates: Any) -> Any:
    """Return rates within [0, 1] that never fall, between the least and the greatest such line."""
    kept = np.clip(np.nan_to_num(rates, nan=math.nan), 0.0, 1.0)
    return (np.maximum.accumulate(kept) + np.minimum.accumulate(kept[::-1])[::-1]) / 2
