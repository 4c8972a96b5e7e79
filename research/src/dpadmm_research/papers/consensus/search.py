"""The best number of iterations: by expectation, not by the luck of the runs, and what is shown of it.

Expected errors and bounds cost next to nothing for any K, so both are searched densely; noise is drawn only at the K
so chosen. The mean of those runs is then free of the bias of a minimum over noisy means.
"""

from collections.abc import Sequence
from typing import Any

from dpadmm_research.claims.bounds import Version
from dpadmm_research.papers.consensus.bench import EPSILON, ERROR, Bench
from dpadmm_research.papers.consensus.expectation import Response
from dpadmm_research.reproduction.figure import Finding, Verdict
from dpadmm_research.reproduction.style import COLOURS, MARKERS, draw_curve, finish, plain_ticks
from dpadmm_research.reproduction.table import Reading, Rows, Table, chosen, mean_at, means

EXACT, EXACT_RELEASED = "exact expectation", "exact expectation of the release"
PRINTED_BOUND, CORRECTED_BOUND, SQUARED_BOUND = "bound (22), printed", "bound (22), corrected", "bound in squares"
SEARCH_CHOICE = (
    "The best K is the one with the least expected error, computed without drawing noise (exact as long as no "
    "coordinate changes its sign)."
)
METHOD = "DP-ADMM"
SHOWN = "lines: exact expectation, marks: mean of the runs"

# Colours.
PLACES = {Reading.CLAIMED: 0, Reading.CERTIFIED: 1}
BOUND_PLACES = {
    PRINTED_BOUND: 4,
    CORRECTED_BOUND: 5,
    f"{SQUARED_BOUND}, {Reading.CLAIMED.value} noise": 6,
    f"{SQUARED_BOUND}, {Reading.CERTIFIED.value} noise": 7,
}


def add_expected(
    rows: Rows, panel: str, bench: Bench, expected: Response, reading: Reading, epsilon: float, counts: Sequence[int],
    metrics: tuple[str, str] = (EXACT, EXACT_RELEASED),
) -> tuple[int, int]:  # fmt: skip
    """Add the expected errors of x(K) and of the release for all these K, and what their noise costs.

    Return the K with the least expected error of x(K), and that of the release.
    """
    errors, released = {}, {}
    for k in counts:
        rates = bench.rates(reading, epsilon, k)
        errors[k], released[k] = expected.error(rates), expected.released(rates)
        values = (errors[k], released[k], bench.cost(reading, epsilon, k))
        for metric, value in zip((*metrics, EPSILON), values, strict=True):
            rows.fact(panel=panel, curve=METHOD, reading=reading, epsilon=epsilon, x=k, metric=metric, value=value)
    return min(errors, key=errors.__getitem__), min(released, key=released.__getitem__)


def add_bounds(rows: Rows, panel: str, bench: Bench, reading: Reading, epsilon: float, counts: Sequence[int]) -> None:
    """Add the theoretical bounds: (22) in both versions for claimed noise, in squares for either."""
    for k in counts:
        bounds = {f"{SQUARED_BOUND}, {reading.value} noise": bench.squared_bound(bench.rates(reading, epsilon, k))}
        if reading is Reading.CLAIMED:
            bounds[PRINTED_BOUND] = bench.printed_bound(epsilon, k, Version.PRINTED)
            bounds[CORRECTED_BOUND] = bench.printed_bound(epsilon, k, Version.CORRECTED)
        for curve, value in bounds.items():
            rows.fact(
                panel=panel, curve=curve, reading=Reading.THEORY, epsilon=epsilon, x=k, metric=ERROR,
                value=float(value),
            )  # fmt: skip


def best_by(table: Table, key: str, *, metric: str, reading: Reading, curve: str = METHOD) -> Table:
    """Return the least mean over the runs for each value of the column `key`, in its order: (key, k, value, is_edge).

    is_edge: no larger K was tried.
    """
    rows = chosen(table, metric=metric, curve=curve, reading=reading)
    mean = rows.groupby([key, "x"])["value"].mean().reset_index()
    best = (mean.loc[mean.groupby(key)["value"].idxmin()] if len(mean) else mean).rename(columns={"x": "k"})
    largest = mean.groupby(key)["x"].max()
    best["is_edge"] = best["k"].to_numpy() == largest.reindex(best[key]).to_numpy()
    return best.reset_index(drop=True)


def type_text(row: Any) -> str:
    """Return the best K in words, with a warning where a larger one might be better."""
    return f"K = {int(row['k'])}{', the largest tried' if row['is_edge'] else ''}"


def cost_at(table: Table, reading: Reading, k: float, **wanted: Any) -> float:
    """Return the certified epsilon of the noise of K iterations."""
    return mean_at(table, k, metric=EPSILON, curve=METHOD, reading=reading, **wanted)


def theory_curves(table: Table, reading: Reading | None = None) -> tuple[str, ...]:
    """Return the names of the bounds that the table has, always in the same order; of one noise only, if told."""
    squared = {each: f"{SQUARED_BOUND}, {each.value} noise" for each in (Reading.CLAIMED, Reading.CERTIFIED)}
    of_claimed = (PRINTED_BOUND, CORRECTED_BOUND, squared[Reading.CLAIMED])
    of_certified = (squared[Reading.CERTIFIED],)
    wanted = {Reading.CLAIMED: of_claimed, Reading.CERTIFIED: of_certified}
    known = set(table["curve"])
    return tuple(curve for curve in (wanted[reading] if reading else of_claimed + of_certified) if curve in known)


def draw_curves(ax: Any, table: Table, reading: Reading) -> None:
    """Draw errors against K for one noise: expected (line) and simulated (marks), without noise, and the bounds."""
    errors = chosen(table, metric=ERROR)
    expected, runs = (chosen(table, metric=metric, curve=METHOD, reading=reading) for metric in (EXACT, ERROR))
    label = f"{METHOD}, {reading.value} noise"
    if reading is Reading.CLAIMED:
        k = best_by(table, "panel", metric=EXACT, reading=reading)["k"].iloc[0]
        label += f" (certified eps {cost_at(table, reading, k):.2g} at the best K = {k:g})"
    draw_curve(ax, expected, label=label, place=PLACES[reading], reading=reading)
    _marks(ax, *zip(*means(runs).items(), strict=True))
    draw_curve(ax, chosen(errors, reading=Reading.NON_PRIVATE), label="non-private", place=None,
               reading=Reading.NON_PRIVATE)  # fmt: skip
    for curve in theory_curves(errors, reading):
        draw_curve(ax, chosen(errors, curve=curve), label=curve, place=BOUND_PLACES[curve], reading=Reading.THEORY)


def finish_curves(ax: Any, table: Table, reading: Reading, largest: float) -> None:
    """Finish a plot of errors up to this K: from below the least private error to above 1, where nothing is learnt."""
    finish(ax, f"{reading.value} noise", "iterations K", ERROR)
    private = chosen(table, metric=EXACT, curve=METHOD, reading=reading)
    ax.set_ylim(private["value"].min() / 10, 8.0)
    ax.set_xlim(0, largest)
    ax.set_yscale("log")
    plain_ticks(ax.yaxis)
    legend_below(ax, columns=1)


def mark_printed(ax: Any, x: float, y: float, texts: str) -> None:
    """Put a star where the paper's number lies, with its words."""
    ax.plot([x], [y], linestyle="none", marker="*", markersize=13, color="black", markerfacecolor="gold", zorder=5)
    ax.annotate(texts, (x, y), xytext=(10, -22), textcoords="offset points", fontsize=9,
                bbox={"boxstyle": "round", "facecolor": "white", "alpha": 0.8, "linewidth": 0})  # fmt: skip


def draw_best(ax: Any, points: Table, *, label: str, place: int, reading: Reading) -> None:
    """Draw (x, value) as a line and (x, mean) of the runs as marks on it; claimed noise tells its certified eps."""
    if reading is Reading.CLAIMED and points["cost"].notna().all():
        low, high = f"{points['cost'].min():.2g}", f"{points['cost'].max():.2g}"
        label += f" (certified eps {low if low == high else f'{low} to {high}'})"
    draw_curve(ax, points, label=label, place=place, reading=reading)
    _marks(ax, points["x"], points["mean"])


def _marks(ax: Any, x: Any, y: Any) -> None:
    """Put the means of the runs on the line that was drawn last."""
    line = ax.lines[-1]
    marker = MARKERS[COLOURS.index(line.get_color()) % len(MARKERS)]
    ax.plot(x, y, linestyle="none", color=line.get_color(), marker=marker, markersize=5)


def certified_findings(table: Table) -> tuple[Finding, ...]:
    """What the claimed noise really costs, and what certified noise brings, at one budget."""
    found, before = [], None
    for _, row in best_by(table, "epsilon", metric=EXACT, reading=Reading.CLAIMED).iterrows():
        before, cost = row["value"], cost_at(table, Reading.CLAIMED, row["k"])
        found.append(
            Finding(
                "(not in the paper) what the claimed noise costs by certificate C3",
                f"eps {cost:.2g} at {type_text(row)} instead of {row['epsilon']:g}",
                Verdict.NOT_COMPARABLE,
                f"Lemma 3's sensitivity is about {row['epsilon'] / cost:.0f} times the certified one",
            )
        )
    for _, row in best_by(table, "epsilon", metric=EXACT, reading=Reading.CERTIFIED).iterrows():
        ratio = "" if before is None else f", {before / row['value']:.3g} times less than with claimed noise"
        found.append(
            Finding(
                "(not in the paper) noise by certificate C3 at the same pure eps",
                f"best {type_text(row)}: expected error {row['value']:.2g}{ratio}",
                Verdict.NOT_COMPARABLE,
            )
        )
    return tuple(found)


def legend_below(ax: Any, columns: int = 2) -> None:
    """Put the legend under the axes, where it hides nothing."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=8, ncols=columns)
