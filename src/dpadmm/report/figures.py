"""Charts with axes: in the report, of rounds and of intervals; in files, of other epsilons."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.models.files import write_file
from dpadmm.planner.forecast import ScoreKind
from dpadmm.planner.utility import UtilityPoint

if TYPE_CHECKING:
    from dpadmm.report.page import RoundCurve

# Okabe-Ito: distinguishable for most people with colour-vision deficiencies.
BLUE, ORANGE, GREEN, GREY, BLACK = "#0072B2", "#D55E00", "#009E73", "#8a8a8a", "#222222"
SETTINGS = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "dpadmm",
    "svg.fonttype": "path",
}
_LONGEST = 23  # letters of a name beside a chart


def blank(columns: int, width: float, height: float) -> tuple[Figure, Any]:
    """Return an empty figure and its axes as a flat array."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False).ravel()
    return figure, axes


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PNG, the same bytes each time, in whole or not at all."""
    drawn, kind = io.BytesIO(), path.suffix[1:]
    with mpl.rc_context(SETTINGS):
        figure.savefig(drawn, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_file(path, drawn.getvalue())


_MOST_CURVES = 10


def draw_privacy(spent: Mapping[str, ArrayLike], epsilon: float, delta: float, path: Path) -> None:
    """Write the running rho of zCDP against the rounds, a line for whoever spends alike."""
    if path.suffix not in (".svg", ".png"):
        checks.refuse("plot", "end in .svg or .png", path.name)
    figure, (axes,) = blank(1, 6.4, 4.2)
    alike: dict[bytes, list[str]] = {}
    for name, each in spent.items():
        alike.setdefault(np.asarray(each).round(12).tobytes(), []).append(name)
    for names in list(alike.values())[:_MOST_CURVES]:
        row = np.asarray(spent[names[0]])
        label = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        axes.step(np.arange(len(row) + 1), np.concatenate([[0.0], row]), where="post", label=label)
    axes.set(xlabel="round", ylabel="rho spent (zCDP)", ylim=(0, None))
    axes.set_title(f"In the end: epsilon {epsilon:.3g} at delta {delta:.3g}", fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, alpha=0.25)
    axes.legend(fontsize=8)
    save_figure(figure, path)


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


def line_chart(title: str, curves: Sequence["RoundCurve"]) -> Markup:
    """Return lines over the rounds, on a logarithmic scale; each has its own dash and colour, for print and eyes."""
    figure, axes = _chart(3.2)
    for curve, colour, dash in zip(curves, _CURVES, ("-", "--", ":"), strict=False):
        values = [value if value > 0 else math.nan for value in curve.values]
        marker = "o" if len(values) <= 40 else ""
        axes.plot(curve.rounds, values, color=colour, linestyle=dash, linewidth=2, marker=marker, markersize=4)
    shown = [value for curve in curves for value in curve.values if value > 0] or [1.0]
    least, most = min(shown), max(shown)
    headroom = 2.3 if most / least < 4 else 1.15
    axes.set(yscale="log", ylim=(least / headroom, most * headroom), xlabel="round")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 30 else (1,), numticks=6))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.grid(axis="y", color=_RULE)
    return _inline(figure, title)


def forest_plot(title: str, bars: Sequence[tuple[str, float, float, float]], adds_to: str = "the log-odds") -> Markup:
    """Return intervals one below the other, hollow dots where 0 is within. bars: name, low, middle and high.

    adds_to: what the intervals are changes of.
    """
    figure, axes = _chart(0.7 + 0.36 * len(bars))
    for place, (_, low, middle, high) in enumerate(bars):
        axes.plot((low, high), (place, place), color=_CURVES[0], linewidth=3, alpha=0.45, solid_capstyle="butt")
        colours = (_PAPER, _MUTED) if low <= 0 <= high else (_CURVES[0], _CURVES[0])
        axes.plot(middle, place, "o", markersize=8, markerfacecolor=colours[0], markeredgecolor=colours[1])
    axes.axvline(0, color=_MUTED, linewidth=1)
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name, *_ in bars]
    label = f"change of {adds_to}"
    axes.set(yticks=range(len(bars)), yticklabels=names, ylim=(len(bars) - 0.5, -0.5), xlabel=label)
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
        text = f"{signal.signal} signal:\n{signal.non_private:g} without privacy"
        axes.annotate(text, (1, signal.non_private), color=colour, **beside)
    axes.axhline(nothing, linestyle=":", color=GREY)
    axes.annotate("nothing learned", (1, nothing), color=GREY, **beside)
    axes.axvline(epsilon, color=BLACK, linewidth=0.8)
    axes.set(xscale="log", xlim=(x[0], x[-1]), ylabel=f"{first.score.value} on new records")
    axes.set_xlabel(f"epsilon (vertical line: {epsilon:g}, as requested)")
    axes.set_ylim(bottom=max(axes.get_ylim()[0], nothing - 0.5))  # R^2 has no least value
    axes.set_xticks(x, ["" if 1 < max(epsilon / e, e / epsilon) < 1.4 else f"{e:g}" for e in x])
    axes.minorticks_off()
    axes.set_title(f"What remains with privacy\nbands: all {first.runs} simulated runs at each epsilon", fontsize=10)
    save_figure(figure, path)
