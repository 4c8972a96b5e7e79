"""Fig. 2: private R-ADMM (gamma = 0.2, eta = 1) against DVP and M-ADMM at two total budgets; mean and range."""

from dataclasses import asdict
from typing import Any

from dpadmm.papers.r_admm.setting import CHOICES, RecycledSetting
from dpadmm.papers.race.adult import adult
from dpadmm.papers.race.contenders import DvpRacer, MAdmmRacer, RAdmmRacer
from dpadmm.papers.race.race import CERTIFIED_EPS, CLAIMED_EPS, LOSS, cost_notes, race, told
from dpadmm.papers.reproduction.figure import Figure, Finding, Order, Part, Verdict
from dpadmm.papers.reproduction.style import Spread, canvas, draw_curve, draw_curves, finish, readings_in
from dpadmm.papers.reproduction.table import Reading, Rows, Table, chosen, mean_at

SETTING = RecycledSetting(agents=5, eta=1.0, gamma=0.2, runs=10)
EPSILONS = (2.0, 5.0)
GROWTH = 1.01
CONTENDERS = (
    RAdmmRacer(SETTING.eta, SETTING.gamma),
    DvpRacer(SETTING.eta),
    MAdmmRacer(SETTING.eta, GROWTH),
)
CURVES = [contender.label for contender in CONTENDERS]


def compute(order: Order) -> Table:
    """All three methods, both budgets and readings in one batch each."""
    data = adult(order)
    rows, arena = Rows(data.label), SETTING.arena(data, order)
    race(rows, "", data, arena, CONTENDERS, EPSILONS, order, order.runs_of(SETTING.runs), bare=CONTENDERS[1])
    return rows.table()


def draw(table: Table, data: str) -> Any:
    """Loss above, accumulated privacy below; one column per budget; claimed dashed, certified solid."""
    picture, axes = canvas(2, 2, width=6.4, height=4.4)
    losses = chosen(table, metric=LOSS)
    for column, epsilon in enumerate(EPSILONS):
        for reading in readings_in(table):
            costs = cost_notes(table, CURVES, reading=reading, epsilon=epsilon)
            notes = {curve: f", {reading.value}{cost}" for curve, cost in costs.items()}
            here = chosen(losses, epsilon=epsilon)
            draw_curves(axes[0, column], here, CURVES, reading=reading, spread=Spread.RANGE, notes=notes)
            metric = CLAIMED_EPS if reading is Reading.CLAIMED else CERTIFIED_EPS
            spent, plain = chosen(table, metric=metric, epsilon=epsilon), dict.fromkeys(CURVES, f", {reading.value}")
            draw_curves(axes[1, column], spent, CURVES, reading=reading, is_stepped=True, notes=plain)
        draw_curve(axes[0, column], chosen(losses, reading=Reading.NON_PRIVATE), label="non-private", place=None,
                   reading=Reading.NON_PRIVATE)  # fmt: skip
        finish(axes[0, column], f"average loss, total eps = {epsilon:g}", "iteration", LOSS, legend="above")
        finish(axes[1, column], f"accumulated privacy loss, total eps = {epsilon:g}", "iteration", "pure eps",
               legend="upper left")  # fmt: skip
    picture.suptitle(f"R-ADMM, Fig. 2: {data}, N = 5, eta = 1, gamma = 0.2; mean and range of the runs", fontsize=11)
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """R-ADMM against the others, and whether the gain is larger at the smaller budget."""
    found = []
    gains: dict[Reading, dict[float, float]] = {reading: {} for reading in readings_in(table)}
    for reading in gains:
        for epsilon in EPSILONS:
            rows = chosen(table, metric=LOSS, reading=reading, epsilon=epsilon)
            if not len(rows):
                continue
            final = {curve: mean_at(rows, curve=curve) for curve in CURVES}
            own = final.pop("R-ADMM")
            spent = mean_at(table, metric=CERTIFIED_EPS, reading=reading, epsilon=epsilon, curve="R-ADMM")
            gains[reading][epsilon] = min(final.values()) - own
            found.append(
                Finding(
                    f"R-ADMM has a lower loss than DVP and M-ADMM (eps = {epsilon:g}, {reading.value} noise)",
                    f"R-ADMM {own:.4f}, " + ", ".join(f"{curve} {value:.4f}" for curve, value in final.items())
                    + f"; certified eps of R-ADMM {told(spent)}",
                    (Verdict.DIFFERENT, Verdict.PARTLY, Verdict.SAME)[sum(own < value for value in final.values())],
                )
            )  # fmt: skip
    for reading, gain in gains.items():
        if len(gain) == len(EPSILONS):
            small, large = (gain[epsilon] for epsilon in EPSILONS)
            found.append(
                Finding(
                    f"the improvement is larger at the smaller total budget ({reading.value} noise)",
                    f"gain over the better of the two: {small:.4f} at eps = {EPSILONS[0]:g}, {large:.4f} at "
                    f"eps = {EPSILONS[1]:g}",
                    Verdict.SAME if small > large else Verdict.DIFFERENT,
                )
            )
    return tuple(found)


FIGURE = Figure(
    name="r-admm/fig2",
    title="R-ADMM, Fig. 2: accuracy and privacy against DVP and M-ADMM",
    reports=(
        "At almost the same total privacy loss private R-ADMM (gamma = 0.2, eta = 1) is more accurate than DVP "
        "and M-ADMM, more so at the smaller of the two budgets; its privacy loss grows on odd iterations only."
    ),
    setting={**asdict(SETTING), "epsilons": EPSILONS, "m_admm_growth": GROWTH},
    choices=("The two budgets are not readable: pure eps 2 and 5. M-ADMM's penalties grow by 1.01.", *CHOICES),
    parts=(Part("r-admm/fig2", compute, seconds=60.0, needs_adult=True),),
    draw=draw,
    findings=findings,
)
