"""One look for all plots: a colour says which method, a line style says where its noise comes from."""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator

from dpadmm_research.reproduction.table import Reading, Table, chosen

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


def readings_in(table: Table) -> tuple[Reading, ...]:
    """Return which of claimed and certified noise the table has, claimed first: one of them may not be asked for."""
    present = set(table["reading"])
    return tuple(reading for reading in (Reading.CLAIMED, Reading.CERTIFIED) if reading.value in present)


def draw_curve(
    axes: Any,
    table: Table,
    *,
    label: str,
    place: int | None,
    reading: Reading,
    spread: Spread = Spread.NONE,
    is_marked: bool = False,
    is_stepped: bool = False,
) -> None:
    """Draw the mean over runs of `value` against `x`, with its spread; place None is black.

    A stepped curve keeps its value until the next x: an accumulated epsilon, say.
    """
    if not len(table):
        return
    groups = table.groupby("x")["value"]
    mean = groups.mean()
    colour = BLACK if place is None else COLOURS[place % len(COLOURS)]
    marker = MARKERS[(place or 0) % len(MARKERS)] if is_marked else None
    axes.plot(
        mean.index, mean.to_numpy(), LINES[reading.value], color=colour, marker=marker, label=label,
        drawstyle="steps-post" if is_stepped else "default",
    )  # fmt: skip
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
    is_marked: bool = False,
    is_stepped: bool = False,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Draw those curves of one reading that the table has; the place in `curves` decides the colour.

    A figure hands the same `curves` to all its panels, so that a method keeps its colour. notes: what the legend says
    after a curve's name.
    """
    for place, curve in enumerate(curves):
        rows, note = chosen(table, curve=curve, reading=reading), (notes or {}).get(curve, "")
        draw_curve(
            axes, rows, label=f"{curve}{note}", place=place, reading=reading, spread=spread, is_marked=is_marked,
            is_stepped=is_stepped,
        )  # fmt: skip


def finish(
    axes: Any, title: str, x: str, y: str, *, is_log_y: bool = False, is_log_x: bool = False, legend: str = "best"
) -> None:
    """Title, labels, scales and legend; a legend "above" stands over the data, in room made for it at the top."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if is_log_y:
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
    if is_log_x:
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
    axes.grid(visible=True, alpha=0.3)
    labels = axes.get_legend_handles_labels()[1]
    if labels and legend == "above":
        columns = _columns(axes, labels)
        _make_space(axes, math.ceil(len(labels) / columns), is_log_y)
        axes.legend(loc="upper center", fontsize=8, ncols=columns)
    elif labels:
        axes.legend(loc=legend, fontsize=8)


def headline(picture: Canvas, title: str, *, data: str, privacy: str, shown: str) -> None:
    """Say above all panels what is drawn: from which data, for which budget (with its delta), and what lines mean."""
    picture.suptitle(f"{title}: {data}\n{privacy}; {shown}", fontsize=11)


def tell_apart(axes: Any, every: int) -> None:
    """Give each labelled line a marker of its own at every so many points, staggered: lines that hide each other show.

    Call it before `finish`, so that the legend shows the markers.
    """
    lines = [line for line in axes.lines if not line.get_label().startswith("_")]
    for place, line in enumerate(lines):
        line.set(marker=MARKERS[place % len(MARKERS)], markevery=(place * every // len(lines), every))


def plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis with numbers as people write them; 2 and 5 too where there are few powers of ten."""
    low, high = axis.get_view_interval()
    is_short = math.log10(high / low) < 1.6
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if is_short else (1.0,), numticks=9))
    axis.set_major_formatter(FuncFormatter(_plain_number))
    axis.set_minor_formatter(FuncFormatter(lambda value, place: ""))


def _plain_number(value: float, place: int) -> str:
    """Return 0.01 and 100 as such, and 1e-7 as a power of ten.

    >>> _plain_number(0.01, 0), _plain_number(2000.0, 0), _plain_number(1e-7, 0)
    ('0.01', '2000', '$10^{-7}$')
    """
    if 1e-4 < value < 2e5:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    factor = value / 10**power
    return f"$10^{{{power}}}$" if abs(factor - 1) < 1e-6 else f"${factor:g} \\cdot 10^{{{power}}}$"


def _columns(axes: Any, labels: Sequence[str]) -> int:
    """Return 2 where a long legend fits into the panel in two columns."""
    spec = axes.get_subplotspec().get_gridspec()
    # A letter takes about 0.06 inches, a line sample 0.5; the y axis takes about a sixth of a panel's width.
    needed = 2 * (0.06 * max(len(label) for label in labels) + 0.5)
    return 2 if len(labels) > 3 and needed < 0.83 * axes.figure.get_size_inches()[0] / spec.ncols else 1


def _make_space(axes: Any, lines: int, is_log_y: bool) -> None:
    """Stretch the y axis upwards by what a legend of so many lines takes."""
    spec = axes.get_subplotspec().get_gridspec()
    # Titles and the x axis take about a quarter of a panel's height; a line of the legend takes 0.17 inches.
    share = min(0.6, (0.17 * lines + 0.15) / (0.75 * axes.figure.get_size_inches()[1] / spec.nrows))
    low, high = axes.get_ylim()
    if is_log_y:
        axes.set_ylim(low, high * (high / low) ** (share / (1 - share)))
    else:
        axes.set_ylim(low, high + (high - low) * share / (1 - share))
