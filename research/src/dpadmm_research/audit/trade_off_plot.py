"""The trade-off of an audit: error rates an attacker reached, against those the certificate allows."""

import numpy as np
from matplotlib.figure import Figure

from dpadmm.report.figures import BLUE, GREY, ORANGE, blank
from dpadmm_research.audit.audit import AuditResult
from dpadmm_research.audit.tradeoff import certified_tradeoff

_GRID = np.linspace(0.0, 1.0, 101)


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
