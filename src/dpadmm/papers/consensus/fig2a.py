"""Fig. 2(a): relative error against the number of iterations K, at eps = 0.1."""

from dataclasses import asdict
from functools import partial
from typing import Any

from dpadmm.papers.consensus.bench import ERROR, Bench
from dpadmm.papers.consensus.expectation import Response, response
from dpadmm.papers.consensus.lasso import DATA, DATA_CHOICE, RUNS_CHOICE, Lasso
from dpadmm.papers.consensus.search import (
    CORRECTED_BOUND,
    EXACT,
    METHOD,
    PRINTED_BOUND,
    SEARCH_CHOICE,
    add_bounds,
    add_expected,
    best_by,
    certified_findings,
    draw_courses,
    finish_courses,
    words_of,
)
from dpadmm.papers.reproduction.figure import Figure, Finding, Order, Part, Verdict
from dpadmm.papers.reproduction.style import canvas
from dpadmm.papers.reproduction.table import Reading, Rows, Table, mean_at

LASSO = Lasso()
EPSILON_TOTAL = 0.1
RUNS = 20
ITERATIONS = {
    Reading.CLAIMED: tuple(range(2, 26)),
    Reading.CERTIFIED: (*range(2, 25, 2), *range(27, 43, 3)),
}
LARGEST = 50
TOY = Lasso(agents=200)
TOY_ITERATIONS = (2, 6, 12)
NEAR = 3
PRINTED_K, PRINTED_ERROR, PRINTED_BARE, PRINTED_THEORY = 9, 8.9e-3, 4.8e-3, 13


def compute(reading: Reading, order: Order) -> Table:
    """One reading: simulate every K; expectation, bounds and the error without noise for all K beside it."""
    rows = Rows(DATA)
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
    """Error against K, all on one logarithmic axis."""
    picture, axes = canvas(1, 1, width=7.5, height=5.8)
    draw_courses(axes[0, 0], table)
    title = f"Consensus DP-ADMM, Fig. 2(a): LASSO, eps = {EPSILON_TOTAL:g}\n{data}"
    finish_courses(axes[0, 0], title, table)
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """Optimal K and error, theory's K, and what certified noise brings."""
    found = []
    for _, row in best_by(table, "epsilon", metric=EXACT, reading=Reading.CLAIMED).iterrows():
        k, bare = int(row["k"]), mean_at(table, row["k"], metric=ERROR, reading=Reading.NON_PRIVATE)
        simulated = best_by(table, "epsilon", metric=ERROR, reading=Reading.CLAIMED).iloc[0]
        off = max(max(a / b, b / a) for a, b in ((row["value"], PRINTED_ERROR), (bare, PRINTED_BARE)))
        found += [
            Finding(
                f"the error first falls and then rises with K: the best K is {PRINTED_K} (claimed noise)",
                f"least expected error at {words_of(row)}; least mean of the simulated runs at {words_of(simulated)}",
                near(row, PRINTED_K),
                f"up to {NEAR} apart counts as the same: the minimum is flat and the paper's random data are not given",
            ),
            Finding(
                f"the error at the best K is {PRINTED_ERROR:g}, the non-private one at the same K {PRINTED_BARE:g}",
                f"{row['value']:.2g} and {bare:.2g} at K = {k}; mean of the simulated runs "
                f"{mean_at(table, row['k'], metric=ERROR, curve=METHOD, reading=Reading.CLAIMED):.2g}",
                Verdict.SAME if off <= 1.25 else Verdict.PARTLY if off <= 3 else Verdict.DIFFERENT,
                f"the paper's random data are not given; the larger of the two ratios is {off:.2g}",
            ),
        ]
    return (*found, *theory_finding(table, PRINTED_THEORY), *certified_findings(table))


def near(row: Any, printed: int, slack: int = NEAR) -> Verdict:
    """Compare a best K with the printed one; at the edge of the search it is not known."""
    if row["is_edge"]:
        return Verdict.NOT_COMPARABLE
    return Verdict.SAME if abs(row["k"] - printed) <= slack else Verdict.DIFFERENT


def theory_finding(table: Table, printed: int, slack: int = NEAR) -> tuple[Finding, ...]:
    """Compare the K that minimises (22) with the printed one; nothing where it was not computed."""
    ours, corrected = (
        best_by(table, "epsilon", metric=ERROR, reading=Reading.THEORY, curve=curve)
        for curve in (PRINTED_BOUND, CORRECTED_BOUND)
    )
    return tuple(
        Finding(
            f"the bound (22) has its minimum at K = {printed}",
            f"as printed: {words_of(row)}; with the missing factor q - 1: {words_of(right)}, where it says "
            f"{right['value']:.2g}",
            near(row, printed, slack),
            f"up to {slack} apart counts as the same: the data are not given. (22) as printed lacks a factor and is "
            "no bound",
        )
        for (_, row), (_, right) in zip(ours.iterrows(), corrected.iterrows(), strict=True)
    )


FIGURE = Figure(
    name="consensus/fig2a",
    title="Consensus DP-ADMM, Fig. 2(a): relative error against K",
    reports=(
        "At eps = 0.1 the relative error of x(K) first falls and then rises with K: the best K is 9 (error 8.9e-3, "
        "non-private 4.8e-3); the theoretical bound has its minimum at 13 and is loose."
    ),
    setting={
        **asdict(LASSO),
        "epsilon": EPSILON_TOTAL,
        "runs": RUNS,
        "simulated iterations": ITERATIONS[Reading.CLAIMED],
    },
    choices=(DATA_CHOICE, RUNS_CHOICE, f"{SEARCH_CHOICE} K up to {LARGEST} are tried."),
    parts=tuple(
        Part(f"consensus/fig2a/{reading.value}", partial(compute, reading), seconds=10.0)
        for reading in (Reading.CLAIMED, Reading.CERTIFIED)
    ),
    draw=draw,
    findings=findings,
)
