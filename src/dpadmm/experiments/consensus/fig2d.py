"""Fig. 2(d): the harder problem: higher dimension, larger condition number."""

from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm.experiments.consensus.bench import EPSILON, ERROR, Bench
from dpadmm.experiments.consensus.fig2a import CORRECTED_BOUND, PRINTED_BOUND, add_bounds, best, draw_simulated
from dpadmm.experiments.consensus.lasso import DATA, DATA_CHOICE, RUNS_CHOICE, Lasso
from dpadmm.experiments.figure import Figure, Finding, Order, Part, Verdict
from dpadmm.experiments.style import canvas, draw_curve, finish
from dpadmm.experiments.table import Reading, Rows, Table, chosen, mean_at
from dpadmm.experiments.trials import Trial

LASSO = Lasso(smoothness=10.0, dimension=20, rho=30.0)
EPSILON_TOTAL = 1.0
RUNS = 10
ITERATIONS = {
    Reading.CLAIMED: (*range(4, 41, 4), 50, 60, 65, 70, 80),
    Reading.CERTIFIED: (*range(10, 81, 10), 100, 120, 140),
}
TOY, TOY_ITERATIONS = Lasso(agents=60, smoothness=10.0, dimension=6, rho=30.0), (3, 8)


def compute(reading: Reading, order: Order) -> Table:
    """One reading: simulate every K, with the non-private run beside it."""
    rows = Rows(DATA)
    bench: Bench = order.pick(LASSO, TOY).bench()
    if reading not in order.accounting.readings:
        return rows.table()
    for k in order.pick(ITERATIONS[reading], TOY_ITERATIONS):
        trial = bench.trial(reading, EPSILON_TOTAL, k)
        trials = [trial, Trial.bare()] if reading is order.accounting.readings[-1] else [trial]
        bench.measure(rows, "d", k, trials, order.runs_of(RUNS), order.seed, x=k)
        add_bounds(rows, bench, reading, EPSILON_TOTAL, k, trial)
    return rows.table()


def draw(table: Table, data: str) -> Any:
    """Error against K."""
    picture, axes = canvas(1, 1, width=7.5, height=5.0)
    ax, errors = axes[0, 0], chosen(table, metric=ERROR)
    draw_simulated(ax, table)
    for place, curve in enumerate(dict.fromkeys(chosen(errors, reading=Reading.THEORY)["curve"])):
        draw_curve(ax, chosen(errors, curve=curve), label=curve, place=2 + place, reading=Reading.THEORY)
    title = f"Consensus DP-ADMM, Fig. 2(d): harder LASSO, L = 10, p = 20, rho = 30, eps = {EPSILON_TOTAL:g}"
    finish(ax, f"{title}\n{data}", "iterations K", ERROR, is_log_y=True)
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """Where the minimum lies, and theory's."""
    k, error = best(table, Reading.CLAIMED)
    printed, _ = best(table, Reading.THEORY, PRINTED_BOUND)
    corrected, _ = best(table, Reading.THEORY, CORRECTED_BOUND)
    k_certified, error_certified = best(table, Reading.CERTIFIED)
    spent = mean_at(table, k, metric=EPSILON, reading=Reading.CLAIMED)
    return (
        Finding(
            "a finite best K still exists: 65 in simulation, 70 in theory",
            f"claimed noise: best K = {k} (error {error:.2g}); bound (22) printed: K = {printed}, corrected: "
            f"{corrected}",
            Verdict.SAME if abs(k - 65) <= 10 else Verdict.PARTLY,
            "a finite optimum exists, but with our random data (linear terms up to 60 in 20 dimensions, a start "
            "far from "
            "x* in units of the noise) it comes earlier",
        ),
        Finding(
            "(not in the paper) noise by certificate C3 at the same pure eps",
            f"best K = {k_certified}, error {error_certified:.2g}: {error / error_certified:.3g} times less; the "
            f"claimed "
            f"noise at K = {k} really costs eps {spent:.2g}",
            Verdict.NOT_COMPARABLE,
            "Lemma 3's sensitivity is about 300 times too large here",
        ),
    )


FIGURE = Figure(
    name="consensus/fig2d",
    title="Consensus DP-ADMM, Fig. 2(d): the harder problem",
    reports="With L = 10, p = 20, rho = 30, eps = 1 the best K is 65 in simulation and 70 for the bound.",
    setting={**asdict(LASSO), "epsilon": EPSILON_TOTAL, "runs": RUNS, "iterations": ITERATIONS[Reading.CLAIMED]},
    choices=(DATA_CHOICE, RUNS_CHOICE),
    parts=tuple(
        Part(f"consensus/fig2d/{reading.value}", partial(compute, reading), seconds=60.0)
        for reading in (Reading.CLAIMED, Reading.CERTIFIED)
    ),
    draw=draw,
    findings=findings,
)
