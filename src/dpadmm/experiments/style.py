"""One look for all plots: a colour says which method, a line style says where its noise comes from."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from dpadmm.experiments.table import Reading, Table, chosen

# Okabe-Ito: distinguishable for most people with colour-vision deficiencies.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#6A51A3", "#7F7F7F",
)  # fmt: skip
BLACK = "#000000"

LINES: dict[str, Any] = {
    Reading.NON_PRIVATE.value: "-.",
    Reading.CLAIMED.value: "--",
    Reading.CERTIFIED.value: "-",
    Reading.THEORY.value: ":",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")

SETTINGS = {
    "font.size": 9.5,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": True,
    "legend.framealpha": 0.85,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.hashsalt": "dpadmm",
    "figure.constrained_layout.use": True,
}


class Spread(Enum):
    """What the shaded band shows around the mean over the runs."""

    NONE = "mean"
    STD = "mean and standard deviation"
    RANGE = "mean and range"


def canvas(rows: int, columns: int, width: float = 5.0, height: float = 3.7) -> tuple[Canvas, Any]:
    """Return an empty figure and its axes as a (rows, columns) array; no global state of pyplot is touched."""
    with mpl.rc_context(SETTINGS):
        picture = Canvas(figsize=(width * columns, height * rows), layout="constrained")
        axes = picture.subplots(rows, columns, squeeze=False)
    return picture, axes


def draw_curve(
    axes: Any,
    table: Table,
    *,
    label: str,
    place: int | None,
    reading: Reading,
    spread: Spread = Spread.NONE,
    is_marked: bool = False,
) -> None:
    """Draw the mean over runs of `value` against `x`, with its spread; place None is black."""
    if not len(table):
        return
    groups = table.groupby("x")["value"]
    mean = groups.mean()
    colour = BLACK if place is None else COLOURS[place % len(COLOURS)]
    marker = MARKERS[(place or 0) % len(MARKERS)] if is_marked else None
    axes.plot(mean.index, mean.to_numpy(), LINES[reading.value], color=colour, marker=marker, label=label)
    if spread is Spread.NONE or groups.size().max() < 2:
        return
    if spread is Spread.STD:
        low, high = mean - groups.std(ddof=0), mean + groups.std(ddof=0)
    else:
        low, high = groups.min(), groups.max()
    axes.fill_between(mean.index, low.to_numpy(), high.to_numpy(), color=colour, alpha=0.15, linewidth=0)


def draw_curves(
    axes: Any,
    table: Table,
    curves: Sequence[str],
    *,
    reading: Reading,
    spread: Spread = Spread.NONE,
    first: int = 0,
    is_marked: bool = False,
    note: str = "",
) -> None:
    """Draw several curves of one reading; the place in `curves` decides the colour."""
    for place, curve in enumerate(curves):
        rows = chosen(table, curve=curve, reading=reading)
        draw_curve(
            axes, rows, label=f"{curve}{note}", place=first + place, reading=reading, spread=spread, is_marked=is_marked
        )


def finish(
    axes: Any, title: str, x: str, y: str, *, is_log_y: bool = False, is_log_x: bool = False, legend: str = "best"
) -> None:
    """Title, labels, scales and legend."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if is_log_y:
        axes.set_yscale("log")
    if is_log_x:
        axes.set_xscale("log")
    axes.grid(visible=True, alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc=legend, fontsize=8)
