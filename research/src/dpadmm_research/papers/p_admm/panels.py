"""The panels of P-ADMM's figures: claimed and certified noise never share one, and P-ADMM has a scale of its own.

With the printed noise P-ADMM's loss is thousands of times the others'; with certified noise it lies on the non-private
curve. So the first has panels for P-ADMM alone and for the others, the second one for the difference.
"""

from typing import Any

from dpadmm_research.comparison.compare import CERTIFIED_EPS, CLAIMED_EPS, LOSS, cost_notes
from dpadmm_research.papers.p_admm.setting import AdultRace
from dpadmm_research.reproduction.style import Spread, draw_curve, draw_curves, finish, tell_apart
from dpadmm_research.reproduction.table import Reading, Table, chosen, means

ABOVE_BARE = "average loss minus non-private"


def draw_bare(ax: Any, table: Table) -> None:
    """The loss per iteration without noise."""
    rows = chosen(table, metric=LOSS, reading=Reading.NON_PRIVATE)
    draw_curve(ax, rows, label="non-private", place=None, reading=Reading.NON_PRIVATE)


def draw_losses(
    ax: Any, table: Table, setting: AdultRace, curves: list[str], reading: Reading, epsilon: float, title: str,
    *, has_bare: bool = True, is_log_y: bool = False,
) -> None:  # fmt: skip
    """Loss per iteration of these curves, claimed noise with what it costs by the certificates."""
    rows = chosen(table, metric=LOSS, epsilon=epsilon, curve=curves)
    notes = cost_notes(table, curves, reading=reading, epsilon=epsilon) if reading is Reading.CLAIMED else None
    draw_curves(ax, rows, setting.curves, reading=reading, spread=Spread.STD, notes=notes)
    if has_bare:
        draw_bare(ax, table)
    tell_apart(ax, every=10)
    legend = "center" if is_log_y else "above"  # a logarithmic axis is there for a gap, which has room
    finish(ax, f"{title}, {reading.value} noise", "iteration", LOSS, is_log_y=is_log_y, legend=legend)


def draw_above_bare(
    ax: Any, table: Table, setting: AdultRace, curves: list[str], reading: Reading, epsilon: float, title: str
) -> None:
    """The loss of these curves minus that without noise."""
    bare = means(chosen(table, metric=LOSS, reading=Reading.NON_PRIVATE))
    rows = chosen(table, metric=LOSS, reading=reading, epsilon=epsilon, curve=curves).copy()
    rows["value"] -= bare.reindex(rows["x"]).to_numpy()
    draw_curves(ax, rows, setting.curves, reading=reading, spread=Spread.STD)
    tell_apart(ax, every=10)
    finish(ax, f"{title}, {reading.value} noise", "iteration", ABOVE_BARE, legend="upper right")


def draw_spent(ax: Any, table: Table, setting: AdultRace, curves: list[str], reading: Reading, title: str) -> None:
    """Privacy loss after every iteration."""
    metric = CLAIMED_EPS if reading is Reading.CLAIMED else CERTIFIED_EPS
    rows = chosen(table, metric=metric, curve=curves)
    draw_curves(ax, rows, setting.curves, reading=reading, is_stepped=True)
    tell_apart(ax, every=10)
    finish(ax, f"privacy loss, {title}, {reading.value}", "iteration", metric, legend="upper left")
