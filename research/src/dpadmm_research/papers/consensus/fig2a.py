"""Fig. 2(a): relative error against the number of iterations K, at eps = 0.1."""

from functools import partial
from typing import Any

from dpadmm_research.papers.consensus import draws
from dpadmm_research.papers.consensus.bench import ERROR, Bench
from dpadmm_research.papers.consensus.draws import LASSO, TOY, near, span
from dpadmm_research.papers.consensus.expectation import Response, response
from dpadmm_research.papers.consensus.lasso import RUNS_CHOICE
from dpadmm_research.papers.consensus.search import (
    CORRECTED_BOUND,
    EXACT,
    METHOD,
    PRINTED_BOUND,
    SEARCH_CHOICE,
    SHOWN,
    add_bounds,
    add_expected,
    best_by,
    certified_findings,
    draw_curves,
    finish_curves,
    mark_printed,
    type_text,
)
from dpadmm_research.reproduction.figure import Figure, Finding, Ground, Order, Part, Verdict
from dpadmm_research.reproduction.style import canvas, headline, readings_in
from dpadmm_research.reproduction.table import Reading, Rows, Table, mean_at

EPSILON_TOTAL = 0.1
RUNS = 20
ITERATIONS = {
    Reading.CLAIMED: (*range(2, 17), 18, 20, 22, 25, 28),
    Reading.CERTIFIED: (2, 6, 10, 14, 18, 22, 26, 30, 36, 42),
}
DRAWN = {Reading.CLAIMED: 30, Reading.CERTIFIED: 50}
LARGEST = 50
TOY_ITERATIONS = (2, 6, 12)
PRINTED_K, PRINTED_ERROR, PRINTED_THEORY = 9, 8.9e-3, 13
PRINTED_BARE, LATE, PRINTED_LATE = 4.8e-3, 30, 2e-9


def compute(reading: Reading, order: Order) -> Table:
    """One reading: simulate every K; expectation, bounds and the error without noise for all K beside it."""
    rows = Rows(LASSO.data)
    if reading not in order.accounting.readings:
        return rows.table()
    bench: Bench = order.pick(LASSO, TOY).bench()
    counts = order.pick(tuple(range(2, LARGEST + 1)), TOY_ITERATIONS)
    expected = response(bench, max(counts))
    add_expected(rows, "a", bench, expected, reading, EPSILON_TOTAL, counts)
    add_bounds(rows, "a", bench, reading, EPSILON_TOTAL, counts)
    if reading is order.accounting.readings[0]:
        add_bare(rows, "a", expected, counts)
    for k in order.pick(ITERATIONS[reading], TOY_ITERATIONS):
        trials = [bench.trial(reading, EPSILON_TOTAL, k)]
        bench.measure(rows, "a", k, trials, order.runs_of(RUNS), order.seed, x=k)
    return rows.table()


def add_bare(rows: Rows, panel: str, expected: Response, counts: tuple[int, ...]) -> None:
    """Add the error of the run without noise."""
    for k in counts:
        rows.add(
            panel=panel, curve="non-private", reading=Reading.NON_PRIVATE, epsilon=float("inf"), x=k, metric=ERROR,
            values=expected.bare[k - 1],
        )  # fmt: skip


def draw(table: Table, data: str) -> Any:
    """Error against K, claimed and certified noise side by side."""
    readings = readings_in(table)
    picture, axes = canvas(1, len(readings), width=6.8, height=6.2)
    for ax, reading in zip(axes[0], readings, strict=True):
        draw_curves(ax, table, reading)
        finish_curves(ax, table, reading, DRAWN[reading])
        if reading is Reading.CLAIMED:
            mark_printed(ax, PRINTED_K, PRINTED_ERROR, f"paper: {PRINTED_ERROR:g} at K = {PRINTED_K}")
    privacy = f"pure eps = {EPSILON_TOTAL:g} (delta = 0)"
    headline(picture, "Consensus DP-ADMM, Fig. 2(a): LASSO", data=f"\n{data}", privacy=privacy, shown=SHOWN)
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """Optimal K and error, theory's K, and what certified noise brings."""
    found: list[Finding] = []
    for _, row in best_by(table, "epsilon", metric=EXACT, reading=Reading.CLAIMED).iterrows():
        found += [*_claimed_findings(table, row), *_bare_findings(table)]
    return (*found, *theory_finding(table), *certified_findings(table))


def _claimed_findings(table: Table, row: Any) -> tuple[Finding, ...]:
    """Answer where the error with claimed noise has its minimum, and how large it is."""
    simulated = best_by(table, "epsilon", metric=ERROR, reading=Reading.CLAIMED).iloc[0]
    runs = mean_at(table, row["k"], metric=ERROR, curve=METHOD, reading=Reading.CLAIMED)
    drawn: dict[str, Any] = {"curve": METHOD, "epsilon": EPSILON_TOTAL}
    ratio = max(row["value"] / PRINTED_ERROR, PRINTED_ERROR / row["value"])
    return (
        Finding(
            f"the error first falls and then rises with K: the best K is {PRINTED_K} (claimed noise)",
            f"least expected error at {type_text(row)} (over {draws.number(table)} draws of the data: "
            f"{span(table, metric=draws.BEST_K, **drawn)}); least mean of the simulated runs at {type_text(simulated)}",
            near(row, PRINTED_K),
            f"at most {draws.NEAR} apart counts as the same",
        ),
        Finding(
            f"the error at the best K is {PRINTED_ERROR:g}",
            f"{row['value']:.3g} expected (over the draws: {span(table, metric=draws.LEAST, **drawn)}); mean of the "
            f"simulated runs {runs:.2g}",
            Verdict.SAME if ratio <= 1.1 else Verdict.PARTLY if ratio <= 3 else Verdict.DIFFERENT,
            "at most 10 % apart counts as the same",
        ),
    )


def _bare_findings(table: Table) -> tuple[Finding, ...]:
    """Answer the two numbers without noise: the first one is that of one iteration earlier."""
    at = {k: span(table, 2, metric=draws.BARE, x=k) for k in (PRINTED_K - 1, PRINTED_K, LATE)}
    before, there, late = (
        mean_at(table, k, metric=draws.BARE, panel="data seed 0") for k in (PRINTED_K - 1, PRINTED_K, LATE)
    )
    if not late > 0:  # nothing of the kind at toy size
        return ()
    is_shifted = f"{before:.1e}" == f"{PRINTED_BARE:.1e}"
    return (
        Finding(
            f"without noise the error at K = {PRINTED_K} is {PRINTED_BARE:g}",
            f"{at[PRINTED_K]} at K = {PRINTED_K}, {at[PRINTED_K - 1]} at K = {PRINTED_K - 1}, over the draws",
            Verdict.SAME
            if f"{there:.1e}" == f"{PRINTED_BARE:.1e}"
            else Verdict.PARTLY
            if is_shifted
            else Verdict.DIFFERENT,
            f"the printed number is that of K = {PRINTED_K - 1}: the paper seems to read its curve one iteration off"
            if is_shifted
            else "",
        ),
        Finding(
            f"without noise the error after {LATE} iterations is {PRINTED_LATE:g}",
            f"{late:.2g} (over the draws: {at[LATE]})",
            Verdict.SAME if f"{late:.0e}" == f"{PRINTED_LATE:.0e}" else Verdict.DIFFERENT,
            "the same if it rounds to the one digit printed",
        ),
    )


def theory_finding(table: Table) -> tuple[Finding, ...]:
    """Compare the K that minimises (22) with the printed one; nothing where it was not computed."""
    ours, corrected = (
        best_by(table, "epsilon", metric=ERROR, reading=Reading.THEORY, curve=curve)
        for curve in (PRINTED_BOUND, CORRECTED_BOUND)
    )
    over = span(table, metric=draws.BEST_K, curve=PRINTED_BOUND, epsilon=EPSILON_TOTAL)
    return tuple(
        Finding(
            f"the bound (22) has its minimum at K = {PRINTED_THEORY}",
            f"as printed: {type_text(row)} (over the draws: {over}); with the missing factor q - 1: "
            f"{type_text(right)}, "
            f"where it says {right['value']:.2g}",
            near(row, PRINTED_THEORY),
            f"at most {draws.NEAR} apart counts as the same. (22) as printed lacks a factor and is not a bound",
        )
        for (_, row), (_, right) in zip(ours.iterrows(), corrected.iterrows(), strict=True)
    )


FIGURE = Figure(
    name="consensus/fig2a",
    title="Consensus DP-ADMM, Fig. 2(a): relative error against K",
    reports=(
        "At eps = 0.1 the relative error of x(K) first falls and then rises with K: the best K is 9 (error 8.9e-3, "
        "non-private 4.8e-3, and 2e-9 after 30 iterations); the theoretical bound has its minimum at 13 and is loose."
    ),
    setting={
        **LASSO.setting,
        "epsilon": EPSILON_TOTAL,
        "runs": RUNS,
        "simulated iterations": ITERATIONS[Reading.CLAIMED],
        "data seeds of the draws": draws.SEEDS,
    },
    choices=(draws.DATA_CHOICE, RUNS_CHOICE, f"{SEARCH_CHOICE} K up to {LARGEST} are tried."),
    parts=(
        *(
            Part(f"consensus/fig2a/{reading.value}", partial(compute, reading), seconds=7.0)
            for reading in (Reading.CLAIMED, Reading.CERTIFIED)
        ),
        draws.PART,
    ),
    draw=draw,
    findings=findings,
    ground=Ground(f"{draws.GIVEN}, eps = 0.1.", f"all of that; {draws.USED}.", draws.GUESSED),
)
