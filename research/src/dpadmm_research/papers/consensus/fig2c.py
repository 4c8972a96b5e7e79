"""Fig. 2(c): relative error against the number of agents, at eps = 0.1 and the best K."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpadmm_research.papers.consensus import draws
from dpadmm_research.papers.consensus.bench import ERROR
from dpadmm_research.papers.consensus.draws import LASSO
from dpadmm_research.papers.consensus.expectation import response
from dpadmm_research.papers.consensus.lasso import RUNS_CHOICE
from dpadmm_research.papers.consensus.search import (
    BOUND_PLACES,
    CORRECTED_BOUND,
    EXACT,
    METHOD,
    PLACES,
    PRINTED_BOUND,
    SEARCH_CHOICE,
    SHOWN,
    add_bounds,
    add_expected,
    best_by,
    cost_at,
    draw_best,
    legend_below,
    theory_curves,
    type_text,
)
from dpadmm_research.reproduction.figure import Figure, Finding, Ground, Order, Part, Verdict
from dpadmm_research.reproduction.style import canvas, draw_curve, finish, headline, readings_in
from dpadmm_research.reproduction.table import Reading, Rows, Table, mean_at

AGENTS = (1_000, 3_000, 10_000, 30_000, 100_000)
EPSILON_TOTAL = 0.1
RUNS = 10
LARGEST, LARGEST_OF_BOUNDS = 45, 160
TOY_AGENTS = (50, 400)


def compute(agents: int, order: Order) -> Table:
    """One number of agents: expectations and bounds for every K, simulations at the best K of each reading."""
    rows, panel = Rows(LASSO.data), f"n = {agents}"
    bench = replace(LASSO, agents=agents).bench()
    counts = range(2, order.pick(LARGEST, 8) + 1)
    expected = response(bench, max(counts))
    for reading in order.accounting.readings:
        k = add_expected(rows, panel, bench, expected, reading, EPSILON_TOTAL, counts)[0]
        add_bounds(rows, panel, bench, reading, EPSILON_TOTAL, range(2, order.pick(LARGEST_OF_BOUNDS, 8) + 1))
        trials = [bench.trial(reading, EPSILON_TOTAL, k)]
        bench.measure(rows, panel, k, trials, order.runs_of(RUNS), order.seed, x=k)
    return rows.table()


def compute_toy(number: int, order: Order) -> Table:
    """One number of agents by its place in the list of this size."""
    sizes = order.pick(AGENTS, TOY_AGENTS)
    return compute(sizes[number], order) if number < len(sizes) else Rows(LASSO.data).table()


def best_by_agents(table: Table, curve: str, reading: Reading) -> Table:
    """Return (x = agents, value = least expectation or bound over K, k, mean of the runs there, certified eps)."""
    metric = ERROR if reading is Reading.THEORY else EXACT
    best = best_by(table, "panel", metric=metric, reading=reading, curve=curve)
    best["x"] = [float(panel.removeprefix("n = ")) for panel in best["panel"]]
    if reading is not Reading.THEORY:
        about = list(zip(best["panel"], best["k"], strict=True))
        best["mean"] = [mean_at(table, k, metric=ERROR, curve=curve, reading=reading, panel=n) for n, k in about]
        best["cost"] = [cost_at(table, reading, k, panel=n) for n, k in about]
    return best.sort_values("x")


def draw(table: Table, data: str) -> Any:
    """Error against the number of agents, log-log, claimed and certified noise side by side."""
    readings = readings_in(table)
    picture, axes = canvas(1, len(readings), width=6.4, height=6.0)
    for ax, reading in zip(axes[0], readings, strict=True):
        best = best_by_agents(table, METHOD, reading)
        draw_best(ax, best, label=f"{METHOD}, {reading.value} noise", place=PLACES[reading], reading=reading)
        for curve in theory_curves(table, reading):
            bound = best_by_agents(table, curve, Reading.THEORY)
            draw_curve(ax, bound, label=curve, place=BOUND_PLACES[curve], reading=Reading.THEORY)
        finish(ax, f"{reading.value} noise, best K", "agents n", ERROR, is_log_y=True, is_log_x=True)
        legend_below(ax, columns=1)
    privacy = f"pure eps = {EPSILON_TOTAL:g} (delta = 0)"
    headline(picture, "Consensus DP-ADMM, Fig. 2(c): LASSO", data=f"\n{data}", privacy=privacy, shown=SHOWN)
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """How fast the error falls with n, for both readings, and whether the bounds do."""
    found = []
    for reading in readings_in(table):
        best = best_by_agents(table, METHOD, reading)
        if len(best) < 2:
            continue
        slope = np.polyfit(np.log(best["x"]), np.log(best["value"]), 1)[0]
        pairs = ", ".join(f"{row['value']:.2g} at n = {row['x']:g} ({type_text(row)})" for _, row in best.iterrows())
        found.append(
            Finding(
                f"the relative error decreases with n ({reading.value} noise)",
                f"{pairs}; about n^{slope:.2f}; certified eps {_span(best['cost'])}",
                Verdict.SAME if _falls(best["value"]) else Verdict.DIFFERENT,
            )
        )
    return (*found, *_bounds_finding(table))


def _bounds_finding(table: Table) -> tuple[Finding, ...]:
    """Say whether the bounds fall with n, as printed and corrected."""
    printed, corrected = (best_by_agents(table, curve, Reading.THEORY) for curve in (PRINTED_BOUND, CORRECTED_BOUND))
    if len(printed) < 2:
        return ()
    seen = [
        f"{name} {best['value'].iloc[0]:.2g} at n = {best['x'].iloc[0]:g} and {best['value'].iloc[-1]:.2g} at n = "
        f"{best['x'].iloc[-1]:g} ({type_text(best.iloc[-1])})"
        for name, best in (("as printed", printed), ("corrected", corrected))
    ]
    falls = (_falls(printed["value"]), _falls(corrected["value"]))
    verdict = Verdict.SAME if all(falls) else Verdict.PARTLY if any(falls) else Verdict.DIFFERENT
    return (Finding("so does the bound (22), at its best K", "; ".join(seen), verdict),)


def _falls(values: Any) -> bool:
    return bool((np.diff(values) < 0).all())


def _span(values: Any) -> str:
    low, high = f"{values.min():.2g}", f"{values.max():.2g}"
    return low if low == high else f"{low} to {high}"


FIGURE = Figure(
    name="consensus/fig2c",
    title="Consensus DP-ADMM, Fig. 2(c): relative error against the number of agents",
    reports="At eps = 0.1 and the best K the relative error decreases with n from 10^3 to 10^5; so does the bound.",
    setting={**LASSO.setting, "agents": AGENTS, "epsilon": EPSILON_TOTAL, "runs": RUNS},
    choices=(
        draws.DATA_CHOICE,
        RUNS_CHOICE,
        f"{SEARCH_CHOICE} K up to {LARGEST} are tried, for the bounds up to {LARGEST_OF_BOUNDS}.",
    ),
    parts=tuple(
        Part(f"consensus/fig2c/n{number}", partial(compute_toy, number), seconds=2.0 + agents / 2400.0)
        for number, agents in enumerate(AGENTS)
    ),
    draw=draw,
    findings=findings,
    ground=Ground(
        f"{draws.GIVEN.replace('n = 10,000', 'n = 10^3 to 10^5')}, eps = 0.1.",
        f"all of that, five values of n; {draws.USED}.",
        draws.GUESSED,
    ),
)
