"""The picture of the claims that were put on trial."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from dpadmm.report.figures import BLACK, BLUE, GREY, ORANGE, blank
from dpadmm_research.claims.trials import ClaimedQuantity, ClaimTrial, TrialVerdict


def trials_plot(trials: Sequence[ClaimTrial]) -> Figure:
    """Draw each claim on trial as a row: what is printed, what an attacker shows at least, what is exactly true."""
    figure, (axes,) = blank(1, 8.2, 0.5 * len(trials) + 1.2)
    for row, trial in enumerate(trials):
        y = len(trials) - row
        is_refuted = trial.verdict is TrialVerdict.REFUTED
        colour = ORANGE if is_refuted else GREY
        axes.plot((trial.claimed, trial.audited), (y, y), color=colour, linewidth=2.5, alpha=0.55, zorder=1)
        axes.plot(trial.claimed, y, "D", color=BLUE, markersize=7, label="claimed" if row == 0 else None)
        axes.plot(
            trial.audited, y, ">" if is_refuted else "<", color=colour, markersize=9,
            label="audited, at least" if row == 0 else None,
        )  # fmt: skip
        if trial.exact is not None:
            axes.plot(
                trial.exact, y, "|", color=BLACK, markersize=15, markeredgewidth=2, label="exact" if row == 0 else None
            )
    axes.set_yticks(range(1, len(trials) + 1), [_row_label(trial) for trial in reversed(trials)], fontsize=9)
    axes.set(xscale="log", ylim=(0.4, len(trials) + 0.6), xlabel="Renyi divergence at order 2 (PS-ADMM: epsilon)")
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.set_title("Claims on trial: what is printed, and what an attacker gets", fontsize=11)
    axes.legend(loc="lower left", fontsize=9)
    return figure


def _row_label(trial: ClaimTrial) -> str:
    figure = f"delta = {trial.at:g}" if trial.figure is ClaimedQuantity.EPSILON else ""
    details = ", ".join(part for part in (trial.setting, figure) if part)
    return f"{trial.claim}: {trial.verdict.value}\n{details}"
