"""Pictures of evidence: reconstruction attacks that die with epsilon."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dpadmm.report.figures import BLACK, BLUE, GREEN, GREY, ORANGE, SETTINGS, blank
from dpadmm_research.audit.reconstruction_by_epsilon import Decline


def save(figure: Figure, folder: Path, stem: str) -> tuple[Path, Path]:
    """Write `stem.svg` and `stem.png`, the same bytes every time; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{stem}.svg", folder / f"{stem}.png"
    with mpl.rc_context(SETTINGS):
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=130, metadata={"Software": None})
    return paths


def decline_plot(declines: Sequence[tuple[str, Decline]]) -> Figure:
    """Draw relative reconstruction error against epsilon: medians, with the middle half of the runs shaded."""
    figure, (axes,) = blank(1, 6.4, 3.9)
    for (label, decline), colour, marker in zip(declines, (BLUE, ORANGE, GREEN), "osD", strict=False):
        low, high = np.quantile(decline.errors, (0.25, 0.75), axis=1)
        axes.fill_between(decline.epsilons, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(decline.epsilons, decline.median, marker=marker, color=colour, label=label, markersize=5)
    axes.axhline(1.0, color=GREY, linestyle="--", linewidth=1)
    axes.annotate(
        "guessing without listening", (0, 1), xytext=(6, 5), textcoords="offset points",
        xycoords=("axes fraction", "data"), ha="left", color="#555555", fontsize=9,
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="epsilon (delta = 1e-5)", ylabel="relative error of the attacker")
    axes.invert_xaxis()
    axes.set_title("The more private the run, the less the attacker finds", fontsize=11)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="lower right", fontsize=9)
    return figure


def patient_plot(decline: Decline, features: int = 12) -> Figure:
    """Draw one record as it is (bars) and as the attacker finds it (dots), one panel for each epsilon."""
    figure, panels = blank(len(decline.epsilons), 2.75 * len(decline.epsilons), 2.9)
    truth = np.abs(decline.truth[:features])
    sign = np.sign(decline.truth[:features])
    places = np.arange(features)
    top = 1.15 * float(truth.max())
    for axes, epsilon, found in zip(panels, decline.epsilons, decline.finds, strict=True):
        axes.bar(places, truth, color="#c9d3da", width=0.8, label="the patient")
        axes.plot(places, found[:features] * sign, "o", color=ORANGE, markersize=5, label="what the attacker finds")
        axes.axhline(0, color=BLACK, linewidth=0.8)
        axes.set(ylim=(-0.45 * top, top), xticks=[], yticks=[])
        axes.set_title("no noise" if np.isinf(epsilon) else f"epsilon = {epsilon:g}", fontsize=11)
        axes.spines[["left", "bottom"]].set_visible(False)
    panels[0].set_ylabel("measurements, scaled")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9.5, frameon=False)
    return figure
