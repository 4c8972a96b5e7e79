"""The trade-off of an audit: error rates an attacker reached, against those the certificate allows."""

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from dpadmm.problems.arrays import Floats
from dpadmm.reporting.figures import BLUE, GREY, ORANGE, blank
from dpadmm_research.audit.audit import AuditResult
from dpadmm_research.audit.tradeoff import certified_tradeoff

_GRID = np.linspace(0.0, 1.0, 101)
_SIDE = 220.0  # of the small square, in pixels
_PAD = 26.0


def trade_off_plot(result: AuditResult) -> Figure:
    """Draw false negatives against false positives; no attack may enter the shaded region, if the certificate holds."""
    figure, (axes,) = blank(1, 5.2, 5.0)
    least = certified_tradeoff(result.curve, _GRID)
    axes.fill_between(_GRID, 0, least, color=BLUE, alpha=0.12, linewidth=0)
    axes.plot(_GRID, least, color=BLUE, linewidth=1.8, label=f"certified: epsilon = {result.certified_epsilon:.3g}")
    axes.plot((0, 1), (1, 0), color=GREY, linestyle="--", linewidth=1, label="guessing")
    axes.plot(result.fpr, result.fnr, ".", color=ORANGE, markersize=4, label="the attacker, as observed")
    at = result.estimate
    axes.plot(
        at.fpr, 1 - at.tpr, "o", markersize=10, markerfacecolor="none", markeredgecolor="#222222", markeredgewidth=1.6,
        label=f"audited: epsilon at least {at.epsilon_lower:.3g}",
    )  # fmt: skip
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    axes.set(xlabel="false positive rate", ylabel="false negative rate")
    axes.set_title(f"{result.method}, {result.view.value}\n{result.pair}", fontsize=10)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="upper right", fontsize=8.5)
    return figure


def small_trade_off(result: AuditResult) -> Markup:
    """Return the same as a small inline SVG for a page."""
    title = (
        f"{result.method}, {result.view.value}: certified epsilon {result.certified_epsilon:.3g}, "
        f"audited at least {result.estimate.epsilon_lower:.3g}"
    )
    least = certified_tradeoff(result.curve, _GRID)
    edge = _points(_GRID, least)
    region = f"{_points(np.array([0.0]), np.array([0.0]))} {edge} {_points(np.array([1.0]), np.array([0.0]))}"
    keep = np.unique(np.linspace(0, len(result.fpr) - 1, 60).astype(np.int64))
    at = result.estimate
    parts = [
        Markup('<rect class="frame" x="{p}" y="6" width="{s}" height="{s}"/>').format(p=_PAD, s=_SIDE),
        Markup('<polygon class="forbidden" points="{}"/>').format(region),
        Markup('<polyline class="chance" points="{}"/>').format(_points(np.array([0.0, 1.0]), np.array([1.0, 0.0]))),
        Markup('<polyline class="certified" points="{}"/>').format(edge),
        Markup('<polyline class="attacker" points="{}"/>').format(_points(result.fpr[keep], result.fnr[keep])),
        Markup('<circle class="chosen" cx="{:.1f}" cy="{:.1f}" r="5"/>').format(_x(at.fpr), _y(1 - at.tpr)),
        Markup('<text class="tick" x="{:.0f}" y="{:.0f}" text-anchor="middle">false positives</text>').format(
            _PAD + _SIDE / 2, _SIDE + 22
        ),
        Markup(
            '<text class="tick" transform="translate(14,{:.0f}) rotate(-90)" text-anchor="middle">'
            "false negatives</text>"
        ).format(6 + _SIDE / 2),
    ]
    head = Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}"><title>{}</title>').format(
        _PAD + _SIDE + 6, _SIDE + 30, title, title
    )
    return head + Markup("").join(parts) + Markup("</svg>")


def _x(rate: float) -> float:
    return _PAD + _SIDE * rate


def _y(rate: float) -> float:
    return 6 + _SIDE * (1 - rate)


def _points(fpr: Floats, fnr: Floats) -> str:
    return " ".join(f"{_x(float(a)):.1f},{_y(float(b)):.1f}" for a, b in zip(fpr, fnr, strict=True))
