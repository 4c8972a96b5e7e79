"""Fig. 3: growing penalties eta(t) = 1.01^t, gamma(t) = 0.2 * 1.01^t, at the same privacy loss; mean and range."""

from dataclasses import asdict
from typing import Any

from dpadmm_research.comparison.adult import adult
from dpadmm_research.comparison.compare import CERTIFIED_EPS, LOSS, cost_notes, race, reported
from dpadmm_research.comparison.contenders import RAdmmContender
from dpadmm_research.papers.r_admm.setting import CHOICES, GUESSED, PRINTED, USED, RecycledSetting
from dpadmm_research.reproduction.figure import Figure, Finding, Ground, Order, Part, Verdict
from dpadmm_research.reproduction.style import (
    Spread,
    canvas,
    draw_curve,
    draw_curves,
    finish,
    headline,
    readings_in,
    tell_apart,
)
from dpadmm_research.reproduction.table import Reading, Rows, Table, chosen, mean_at

SETTING = RecycledSetting(agents=5, eta=1.0, gamma=0.2, runs=10)
EPSILON_TOTAL = 17.0
GROWTH = 1.01
CONTENDERS = (
    RAdmmContender(SETTING.eta, SETTING.gamma),
    RAdmmContender(SETTING.eta, SETTING.gamma, GROWTH, label="R-ADMM, growing penalties"),
)
CURVES = [contender.label for contender in CONTENDERS]


def compute(order: Order) -> Table:
    """Both forms at the same budget."""
    data = adult(order)
    rows, compared = Rows(data.label), SETTING.comparison(data, order)
    race(rows, "", data, compared, CONTENDERS, (EPSILON_TOTAL,), order, order.runs_of(SETTING.runs), bare=CONTENDERS[0])
    return rows.table()


def draw(table: Table, data: str) -> Any:
    """Loss per iteration: one panel a reading."""
    readings = readings_in(table)
    picture, axes = canvas(1, len(readings), width=6.4, height=4.6)
    losses = chosen(table, metric=LOSS)
    for ax, reading in zip(axes[0], readings, strict=True):
        notes = cost_notes(table, CURVES, reading=reading)
        draw_curves(ax, losses, CURVES, reading=reading, spread=Spread.RANGE, notes=notes)
        draw_curve(ax, chosen(losses, reading=Reading.NON_PRIVATE), label="non-private", place=None,
                   reading=Reading.NON_PRIVATE)  # fmt: skip
        tell_apart(ax, every=8)
        finish(ax, f"{reading.value} noise", "iteration", LOSS, legend="above")
    headline(
        picture, "R-ADMM, Fig. 3", data=f"{data}, N = 5, eta(t) = 1.01^t, gamma(t) = 0.2 x 1.01^t",
        privacy=f"pure total eps = {EPSILON_TOTAL:g} (delta = 0)",
        shown=f"C = {SETTING.loss_weight:g}, mean and range of the runs",
    )  # fmt: skip
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """Whether growing penalties help."""
    found = []
    for reading in readings_in(table):
        rows = chosen(table, metric=LOSS, reading=reading)
        plain, growing = (mean_at(rows, curve=curve) for curve in CURVES)
        costs = [reported(mean_at(table, metric=CERTIFIED_EPS, reading=reading, curve=curve)) for curve in CURVES]
        found.append(
            Finding(
                f"growing penalties improve the trade-off further ({reading.value} noise)",
                f"loss at the end {growing:.4f} with growing (certified eps {costs[1]}), {plain:.4f} with constant "
                f"penalties (certified eps {costs[0]})",
                Verdict.SAME if growing < plain else Verdict.DIFFERENT,
            )
        )
    return tuple(found)


FIGURE = Figure(
    name="r-admm/fig3",
    title="R-ADMM, Fig. 3: growing penalties",
    reports="At the same privacy loss, penalties that grow by 1.01 an iteration lower the loss (axis 0.38 to 0.44).",
    setting={**asdict(SETTING), "epsilon": EPSILON_TOTAL, "growth": GROWTH},
    choices=(
        "The budget is not readable: pure eps = 17, chosen so that the claimed courses lie on the printed axis.",
        *CHOICES,
    ),
    ground=Ground(
        printed=f"{PRINTED}; eta(t) = 1.01^t, gamma(t) = 0.2 x 1.01^t, the same privacy loss, 10 runs.",
        used=f"{USED}; N = 5, 50 iterations, the printed penalties against eta = 1, gamma = 0.2, pure eps 17, 10 runs.",
        guessed=f"{GUESSED}, N, the number of iterations, and the budget.",
    ),
    parts=(Part("r-admm/fig3", compute, seconds=12.0, needs_adult=True),),
    draw=draw,
    findings=findings,
)
