"""Charts with axes: in the report, of rounds and of intervals; in files, of an evaluation and of other epsilons."""

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from dpadmm.planner.forecast import ScoreKind
from dpadmm.planner.utility import UtilityPoint
from dpadmm.reporting.evaluation import PrivateEvaluation
from dpadmm.reporting.evaluation_figures import DEVIATIONS
from dpadmm.reporting.files import write_file
from dpadmm.reporting.statement import RoundCurve

# Okabe-Ito: distinguishable for most people with colour-vision deficiencies.
BLUE, ORANGE, GREEN, GREY, BLACK = "#0072B2", "#D55E00", "#009E73", "#8a8a8a", "#222222"
SETTINGS = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "dpadmm",
    "svg.fonttype": "path",
}
_COLOURS = ("#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#e6ab02", "#666666")
"""Of groups; after the eighth they start anew, with another dash."""

_DASHES = ("-", "--", ":", "-.")
_LONGEST = 23  # letters of a name beside a chart
MOST_GROUPS = 16
"""So many groups are drawn at most; their figures are all printed."""


def blank(columns: int, width: float, height: float, rows: int = 1) -> tuple[Figure, Any]:
    """Return an empty figure and its axes as a flat array."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
    return figure, axes


def _save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PNG, the same bytes each time, in whole or not at all."""
    drawn, kind = io.BytesIO(), path.suffix[1:]
    with mpl.rc_context(SETTINGS):
        figure.savefig(drawn, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_file(path, drawn.getvalue())


_OF_THE_PAGE = {
    "#000001": "var(--accent)",
    "#000002": "var(--second)",
    "#000003": "var(--third)",
    "#000004": "var(--rule)",
    "#000005": "var(--muted)",
    "#000006": "var(--paper)",
}
"""Colours that the page's style decides, light or dark."""

_CURVES, _RULE, _MUTED, _PAPER = ("#000001", "#000002", "#000003"), "#000004", "#000005", "#000006"


def _inline(figure: Figure, title: str) -> Markup:
    """Return a figure as a part of the page, with its title for screen readers."""
    drawn, nothing = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context(SETTINGS | {"svg.fonttype": "none"}):
        figure.savefig(drawn, format="svg", transparent=True, metadata=nothing)
    _, size, body = re.split(r'<svg [^>]*(viewBox="[^"]*")[^>]*>', drawn.getvalue())
    unwanted = r'<(style|metadata|clipPath).*?</\1>| clip-path="[^"]*"'
    body = re.sub(unwanted, "", body, flags=re.DOTALL).replace("xlink:href", "href")
    for colour, name in _OF_THE_PAGE.items():
        body = body.replace(colour, name)
    head = Markup('<svg {} role="img" aria-label="{}"><title>{}</title>').format(Markup(size), title, title)
    return head + Markup(body)


def _chart(height: float) -> tuple[Figure, Any]:
    """Return an empty chart for the page, whose style decides the colours."""
    figure, (axes,) = blank(1, 5.2, height)
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(_MUTED)
    axes.tick_params(which="both", length=0)
    return figure, axes


def line_chart(title: str, curves: Sequence[RoundCurve]) -> Markup:
    """Return lines over the rounds, on a logarithmic scale; each has its own dash and colour, for print and eyes."""
    figure, axes = _chart(3.2)
    for curve, colour, dash in zip(curves, _CURVES, ("-", "--", ":"), strict=False):
        values = [value if value > 0 else math.nan for value in curve.values]
        marker = "o" if len(values) <= 40 else ""
        axes.plot(curve.rounds, values, color=colour, linestyle=dash, linewidth=2, marker=marker, markersize=4)
    shown = [value for curve in curves for value in curve.values if value > 0] or [1.0]
    least, most = min(shown), max(shown)
    room = 2.3 if most / least < 4 else 1.15
    axes.set(yscale="log", ylim=(least / room, most * room), xlabel="round")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 30 else (1,), numticks=6))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(axis="y", color=_RULE)
    return _inline(figure, title)


def forest_plot(title: str, bars: Sequence[tuple[str, float, float, float]]) -> Markup:
    """Return intervals one below the other, hollow dots where 0 is within. bars: name, low, middle and high."""
    figure, axes = _chart(0.7 + 0.36 * len(bars))
    for place, (_, low, middle, high) in enumerate(bars):
        axes.plot((low, high), (place, place), color=_CURVES[0], linewidth=3, alpha=0.45, solid_capstyle="butt")
        colours = (_PAPER, _MUTED) if low <= 0 <= high else (_CURVES[0], _CURVES[0])
        axes.plot(middle, place, "o", markersize=8, markerfacecolor=colours[0], markeredgecolor=colours[1])
    axes.axvline(0, color=_MUTED, linewidth=1)
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name, *_ in bars]
    axes.set(yticks=range(len(bars)), yticklabels=names, ylim=(len(bars) - 0.5, -0.5), xlabel="change of the log-odds")
    axes.grid(axis="x", color=_RULE)
    return _inline(figure, title)


def draw_utility(points: Sequence[UtilityPoint], epsilon: float, path: Path) -> None:
    """Write what remains of each signal against epsilon, as SVG or PNG: a band for all simulated runs of the signal.

    A dashed line shows what a model without privacy reaches by the signal. epsilon: the one to mark.
    """
    x, first = [point.epsilon for point in points], points[0].expected
    nothing = 0.0 if first.score is ScoreKind.R2 else 0.5
    figure, (axes,) = blank(1, 7.2, 4.6)
    beside = {"xycoords": ("axes fraction", "data"), "xytext": (6, 0), "textcoords": "offset points", "va": "center"}
    for i, (signal, colour) in enumerate(zip(first.signals, (BLUE, ORANGE, GREEN), strict=False)):
        found = [point.expected.signals[i] for point in points]
        low, high = [each.low for each in found], [each.high for each in found]
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, low, color=colour, linewidth=2)
        axes.plot(x, high, color=colour, linewidth=1)
        axes.axhline(signal.non_private, linestyle="--", linewidth=1, color=colour)
        words = f"{signal.signal} signal:\n{signal.non_private:g} without privacy"
        axes.annotate(words, (1, signal.non_private), color=colour, **beside)
    axes.axhline(nothing, linestyle=":", color=GREY)
    axes.annotate("nothing learned", (1, nothing), color=GREY, **beside)
    axes.axvline(epsilon, color=BLACK, linewidth=0.8)
    axes.set(xscale="log", xlim=(x[0], x[-1]), ylabel=f"{first.score.value} on new records")
    axes.set_xlabel(f"epsilon (vertical line: {epsilon:g}, as requested)")
    axes.set_ylim(bottom=max(axes.get_ylim()[0], nothing - 0.5))  # R^2 has no least value
    axes.set_xticks(x, ["" if 1 < max(epsilon / e, e / epsilon) < 1.4 else f"{e:g}" for e in x])
    axes.minorticks_off()
    axes.set_title(f"What remains with privacy\nbands: all {first.runs} simulated runs at each epsilon", fontsize=10)
    _save(figure, path)


def draw_evaluation(found: PrivateEvaluation, path: Path) -> None:
    """Write the ROC curve with a band for the noise, and predicted against observed shares if there are probabilities.

    Groups stand beside all records. SVG or PNG, by the suffix of the path.
    """
    panels = 2 if found.has_probabilities else 1
    figure, axes = blank(panels, 5.4 * panels, 5.2)
    _roc(axes[0], found)
    if found.has_probabilities:
        _calibration(axes[1], found)
    said = found.privacy
    figure.suptitle(
        f"{found.label}: {found.records} records, epsilon {said.epsilon:.3g} at delta {said.delta:.3g}", fontsize=11
    )
    _save(figure, path)


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
        words = f"{'all records' if name is None else name}: AUC {value} ({least:.2f} to {most:.2f})"
        if area.is_visible:
            x, y = _rising(line.false_positive_rate), _rising(line.true_positive_rate)
            axes.plot(x, y, color=colour, linestyle=dash, linewidth=2.0 if name is None else 1.2, label=words)
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
