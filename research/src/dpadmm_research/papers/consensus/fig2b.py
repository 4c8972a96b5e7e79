"""Fig. 2(b): relative error against eps, each at its best K, with the DP-DGD curve."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpadmm_research.papers.consensus import draws, expectation
from dpadmm_research.papers.consensus.bench import ERROR, RELEASED, Bench
from dpadmm_research.papers.consensus.dp_dgd_star import (
    GeometricDescent,
    NoiseAt,
    mean_condition,
    twice_the_largest_gradient,
)
from dpadmm_research.papers.consensus.draws import LASSO, TOY, span
from dpadmm_research.papers.consensus.lasso import RUNS_CHOICE
from dpadmm_research.papers.consensus.search import (
    BOUND_PLACES,
    CORRECTED_BOUND,
    EXACT,
    EXACT_RELEASED,
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
    type_text,
)
from dpadmm_research.reproduction.figure import Figure, Finding, Ground, Order, Part, Verdict
from dpadmm_research.reproduction.style import canvas, draw_curve, finish, headline
from dpadmm_research.reproduction.table import Reading, Rows, Table, mean_at

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
RUNS = 10
LARGEST, LARGEST_OF_BOUNDS = 60, 120
# DP-DGD's parameters are not printed: the best of this grid at each eps, as K is for DP-ADMM.
SMALL_STEPS, STEPS = (0.003, 0.01, 0.03, 0.1), (0.3, 0.5, 0.65, 0.8, 0.95)
DESCENTS = tuple(
    GeometricDescent(step, decay=q, noise_decay=(1 + q) / 2)
    for q in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
    for step in (*SMALL_STEPS, *STEPS)
)
CONDITION = "condition number of the mean of the agents' quadratics"
TOY_EPSILONS = (0.05, 0.5)
PRINTED = {0.01: 4, 0.1: 9, 0.5: 15}
CLOSE_SLOPE = 0.1


@dataclass(frozen=True)
class Rival:
    """DP-DGD: where its noise is, and whether that hides any gradient within a bound or only a distance delta."""

    noise_at: NoiseAt
    is_bounded: bool
    place: int

    @property
    def name(self) -> str:
        """The curve's name."""
        return f"{self.noise_at.value} for {'a gradient bound' if self.is_bounded else 'gradients 1 apart'}"

    @property
    def reading(self) -> Reading:
        """The gradient bound is claimed only: no public bound on the gradients of a quadratic exists."""
        return Reading.CLAIMED if self.is_bounded else Reading.CERTIFIED

    def distance(self, bench: Bench) -> float:
        """Return how far apart the gradients of neighbours are."""
        return twice_the_largest_gradient(bench.problem) if self.is_bounded else bench.gradient_distance


BOUNDED, BOUNDED_COORDINATOR = Rival(NoiseAt.AGENTS, True, 2), Rival(NoiseAt.COORDINATOR, True, 3)
CLOSE, CLOSE_COORDINATOR = Rival(NoiseAt.AGENTS, False, 2), Rival(NoiseAt.COORDINATOR, False, 3)
RIVALS = (BOUNDED, BOUNDED_COORDINATOR, CLOSE, CLOSE_COORDINATOR)


def compute(reading: Reading, order: Order) -> Table:
    """Expectations and bounds for every K, simulations at the best K of each eps."""
    rows = Rows(LASSO.data)
    if reading not in order.accounting.readings:
        return rows.table()
    bench: Bench = order.pick(LASSO, TOY).bench()
    counts = range(2, order.pick(LARGEST, 8) + 1)
    expected = expectation.response(bench, max(counts))
    for epsilon in order.pick(EPSILONS, TOY_EPSILONS):
        for k in {*add_expected(rows, "b", bench, expected, reading, epsilon, counts)}:
            bench.measure(rows, "b", k, [bench.trial(reading, epsilon, k)], order.runs_of(RUNS), order.seed, x=k)
        add_bounds(rows, "b", bench, reading, epsilon, range(2, order.pick(LARGEST_OF_BOUNDS, 8) + 1))
    return rows.table()


def compute_descent(order: Order) -> Table:
    """DP-DGD for both places of its noise and both distances; x numbers the settings of the grid."""
    rows = Rows(LASSO.data)
    bench: Bench = order.pick(LASSO, TOY).bench()
    rows.fact(
        panel="b", curve=CONDITION, reading=Reading.THEORY, epsilon=float("inf"), x=0, metric=CONDITION,
        value=mean_condition(bench.problem),
    )  # fmt: skip
    responses = [descent.response(bench.problem, bench.optimum) for descent in DESCENTS]
    for epsilon in order.pick(EPSILONS, TOY_EPSILONS):
        for rival in RIVALS:
            noise = (epsilon, rival.distance(bench), rival.noise_at)
            errors = [response.error(*noise) for response in responses]
            curve: dict[str, Any] = {
                "panel": "b", "curve": rival.name, "reading": rival.reading, "epsilon": epsilon
            }  # fmt: skip
            for number, value in enumerate(errors):
                rows.fact(**curve, x=number, metric=EXACT_RELEASED, value=value)
            best = min(range(len(DESCENTS)), key=errors.__getitem__)
            values = DESCENTS[best].errors(bench.problem, bench.optimum, *noise, order.runs_of(RUNS), order.seed)
            rows.add(**curve, x=best, metric=RELEASED, values=values)
    return rows.table()


def points_of(table: Table, reading: Reading, metric: str, simulated: str, curve: str = METHOD) -> Table:
    """Return for every eps (x) the least expectation (value), its k, the mean of the runs there, the certified eps.

    The last is NaN for DP-DGD.
    """
    best = best_by(table, "epsilon", metric=metric, reading=reading, curve=curve)
    about = best[["epsilon", "k"]].to_numpy()
    best["mean"] = [
        mean_at(table, k, metric=simulated, curve=curve, reading=reading, epsilon=epsilon) for epsilon, k in about
    ]
    is_known = curve == METHOD  # DP-DGD's k numbers a setting, not iterations
    best["cost"] = [cost_at(table, reading, k, epsilon=epsilon) if is_known else np.nan for epsilon, k in about]
    return best.rename(columns={"epsilon": "x"})


def draw(table: Table, data: str) -> Any:
    """The paper's error with claimed noise, what is released with certified noise, and the best K."""
    known = [
        reading for reading in PLACES if len(best_by(table, "epsilon", metric=EXACT, reading=reading))
    ]  # DP-DGD alone may have the other one
    panels = [*known, *([None] if Reading.CLAIMED in known else [])]
    picture, axes = canvas(1, len(panels), width=5.4, height=6.0)
    for ax, reading in zip(axes[0], panels, strict=True):
        if reading is Reading.CLAIMED:
            draw_claimed(ax, table)
        elif reading is Reading.CERTIFIED:
            draw_certified(ax, table)
        else:
            draw_counts(ax, table)
        legend_below(ax, columns=1)
    title = "Consensus DP-ADMM, Fig. 2(b): LASSO, every method at its best setting"
    privacy = "pure eps = 0.01 to 0.5 (delta = 0)"
    headline(picture, title, data=f"\n{data}", privacy=privacy, shown=SHOWN)
    return picture


def draw_claimed(ax: Any, table: Table) -> None:
    """The paper's panel: DP-ADMM's x(K), the bound, and DP-DGD calibrated to a gradient bound."""
    best = points_of(table, Reading.CLAIMED, EXACT, ERROR)
    draw_best(ax, best, label=f"{METHOD}, claimed noise", place=PLACES[Reading.CLAIMED], reading=Reading.CLAIMED)
    _draw_rivals(ax, table, Reading.CLAIMED)
    for curve in (PRINTED_BOUND, CORRECTED_BOUND):
        bound = best_by(table, "epsilon", metric=ERROR, reading=Reading.THEORY, curve=curve)
        points = bound.assign(x=bound["epsilon"])
        draw_curve(ax, points, label=curve, place=BOUND_PLACES[curve], reading=Reading.THEORY)
    finish(ax, "claimed noise: x(K), the paper's measure", "pure eps", ERROR, is_log_y=True, is_log_x=True)


def draw_certified(ax: Any, table: Table) -> None:
    """What may be released, with certified noise: DP-ADMM's last broadcast and DP-DGD's last point."""
    sent = points_of(table, Reading.CERTIFIED, EXACT_RELEASED, RELEASED)
    label = f"{METHOD}, certified noise"
    draw_best(ax, sent, label=label, place=PLACES[Reading.CERTIFIED], reading=Reading.CERTIFIED)
    _draw_rivals(ax, table, Reading.CERTIFIED)
    finish(ax, "certified noise: what is released", "pure eps", RELEASED, is_log_y=True, is_log_x=True)


def _draw_rivals(ax: Any, table: Table, reading: Reading) -> None:
    for rival in RIVALS:
        if rival.reading is reading:
            points = points_of(table, reading, EXACT_RELEASED, RELEASED, rival.name)
            draw_best(ax, points, label=rival.name, place=rival.place, reading=reading)


def draw_counts(ax: Any, table: Table) -> None:
    """The best K with claimed noise, beside the three printed ones."""
    best = best_by(table, "epsilon", metric=EXACT, reading=Reading.CLAIMED)
    points = best.assign(x=best["epsilon"], value=best["k"])
    draw_curve(ax, points, label="least expected error", place=PLACES[Reading.CLAIMED], reading=Reading.CLAIMED,
               is_marked=True)  # fmt: skip
    ax.plot([*PRINTED], [*PRINTED.values()], linestyle="none", marker="*", markersize=13, color="black",
            markerfacecolor="gold", label="printed for the simulation", zorder=5)  # fmt: skip
    for curve in (PRINTED_BOUND, CORRECTED_BOUND):
        bound = best_by(table, "epsilon", metric=ERROR, reading=Reading.THEORY, curve=curve)
        points = bound.assign(x=bound["epsilon"], value=bound["k"])
        draw_curve(ax, points, label=f"least {curve}", place=BOUND_PLACES[curve], reading=Reading.THEORY)
    finish(ax, "claimed noise: the best K", "pure eps", "iterations K", is_log_x=True)


def findings(table: Table) -> tuple[Finding, ...]:
    """Slopes, optimal K for three eps, the comparison with DP-DGD, and what certified noise brings."""
    return (*_slopes_finding(table), *_counts_finding(table), *_descent_findings(table), *_certified_finding(table))


def slopes(best: Table) -> Any:
    """Return the slope of log value against log eps: from the first budget to the last, and of every step between."""
    x, y = np.log(best["epsilon"].to_numpy()), np.log(best["value"].to_numpy())
    return (y[-1] - y[0]) / (x[-1] - x[0]), np.diff(y) / np.diff(x)


def _slopes_finding(table: Table) -> tuple[Finding, ...]:
    """Say whether the error falls with eps, and the bound as steeply."""
    curves = {
        "the error": best_by(table, "epsilon", metric=EXACT, reading=Reading.CLAIMED),
        **{
            curve: best_by(table, "epsilon", metric=ERROR, reading=Reading.THEORY, curve=curve)
            for curve in (PRINTED_BOUND, CORRECTED_BOUND)
        },
    }
    if not all(len(best) > 1 for best in curves.values()):
        return ()
    found = {name: slopes(best) for name, best in curves.items()}
    (error, steps), *bounds = found.values()
    close = [abs(bound - error) <= CLOSE_SLOPE * abs(error) for bound, _ in bounds]
    falls = bool((steps < 0).all())
    return (
        Finding(
            "the error falls with eps, and its slope and that of the bound are close",
            "claimed noise, slope of log against log eps, of x(K) at its best K and of the bounds at theirs: "
            + "; ".join(
                f"{name} {whole:.2f} ({each[0]:.2f} between the smallest eps, {each[-1]:.2f} between the largest)"
                for name, (whole, each) in found.items()
            ),
            Verdict.SAME if falls and all(close) else Verdict.PARTLY if falls else Verdict.DIFFERENT,
            f"apart by less than {CLOSE_SLOPE:.0%} of the error's slope counts as close. The error falls at every eps. "
            "The printed bound is as steep at the larger eps only; as corrected it is far flatter",
        ),
    )


def _counts_finding(table: Table) -> tuple[Finding, ...]:
    best = best_by(table, "epsilon", metric=EXACT, reading=Reading.CLAIMED)
    known = best[best["epsilon"].isin(PRINTED)]
    if not len(known):
        return ()
    distances = [abs(k - PRINTED[epsilon]) for epsilon, k in known[["epsilon", "k"]].to_numpy()]
    over = ", ".join(
        span(table, metric=draws.BEST_K, curve=METHOD, epsilon=epsilon) for epsilon in sorted(known["epsilon"])
    )
    return (
        Finding(
            "the best K is 4, 9, 15 at eps = 0.01, 0.1, 0.5",
            "claimed noise, least expected error: "
            + ", ".join(f"{type_text(row)} at eps = {row['epsilon']:g}" for _, row in known.iterrows())
            + f" (over {draws.number(table)} draws of the data: {over})",
            Verdict.SAME if max(distances) <= draws.NEAR and not known["is_edge"].any() else Verdict.DIFFERENT,
            f"at most {draws.NEAR} apart counts as the same",
        ),
    )


def _least(table: Table, rival: Rival, first: float = 0.0) -> Any:
    """Return DP-DGD's least expected error by eps, of settings with this first step or more."""
    allowed = [number for number, descent in enumerate(DESCENTS) if descent.step >= first]
    rows = table[table["x"].isin(allowed)]
    best = best_by(rows, "epsilon", metric=EXACT_RELEASED, reading=rival.reading, curve=rival.name)
    return best.set_index("epsilon")["value"]


def _ours(table: Table, reading: Reading) -> Any:
    best = best_by(table, "epsilon", metric=EXACT_RELEASED, reading=reading)
    return best.set_index("epsilon")["value"]


def _span(values: Any) -> str:
    return f"{values.min():.3g} to {values.max():.3g}"


def _listed(values: Any) -> str:
    """Return the errors at the budgets for which the paper prints K."""
    return ", ".join(f"{value:.2g}" for value in values[values.index.isin(PRINTED)])


def _descent_findings(table: Table) -> tuple[Finding, ...]:
    """Compare with DP-DGD: what is released, each at its best setting, in both calibrations and places of the noise."""
    found = []
    ours = _ours(table, Reading.CLAIMED)
    if len(ours):
        theirs = {rival: _least(table, rival) for rival in RIVALS}
        wins = {rival: all(values > ours) for rival, values in theirs.items()}
        found.append(
            Finding(
                "DP-ADMM is significantly better than DP-DGD (claimed noise)",
                f"expected error of what is released at eps = {', '.join(f'{e:g}' for e in ours.index if e in PRINTED)}"
                f": DP-ADMM {_listed(ours)}; DP-DGD with noise at every agent, for a gradient bound: "
                f"{_listed(theirs[BOUNDED])} ({_listed(_least(table, BOUNDED, STEPS[0]))} with first steps of "
                f"{STEPS[0]:g} or more), for gradients 1 apart: {_listed(theirs[CLOSE])}; with one noise at the "
                f"coordinator: {_listed(theirs[BOUNDED_COORDINATOR])} and {_listed(theirs[CLOSE_COORDINATOR])}",
                Verdict.SAME if all(wins.values()) else Verdict.PARTLY if wins[BOUNDED] else Verdict.DIFFERENT,
                "DP-DGD as in its own paper (every agent hides any gradient within a bound) is worse at every eps, but "
                "it hides more than DP-ADMM does, and from a coordinator too. For the same neighbours (delta = 1), or "
                "with the same trust (noise at the coordinator), DP-DGD is better: gradient steps see only the mean of "
                f"the agents' quadratics, whose condition number is {mean_at(table, metric=CONDITION):.3g}",
                _DESCENT_GROUND,
            )
        )
    ours = _ours(table, Reading.CERTIFIED)
    if len(ours):
        agents, coordinator = (_least(table, rival) / ours for rival in (CLOSE, CLOSE_COORDINATOR))
        wins_of = [*(agents > 1), *(coordinator > 1)]
        found.append(
            Finding(
                "DP-ADMM is significantly better than DP-DGD (certified noise)",
                f"expected error of what is released, both for delta = 1: DP-DGD with noise at every agent "
                f"{_span(agents)} times that of DP-ADMM; with one noise at the coordinator, as DP-ADMM has it: "
                f"{_span(coordinator)} times",
                Verdict.SAME if all(wins_of) else Verdict.PARTLY if any(wins_of) else Verdict.DIFFERENT,
                "" if any(coordinator > 1) else "one noise at the coordinator is what makes the difference, not ADMM",
                _DESCENT_GROUND,
            )
        )
    return tuple(found)


def _certified_finding(table: Table) -> tuple[Finding, ...]:
    claimed, certified = (
        best_by(table, "epsilon", metric=EXACT, reading=reading) for reading in (Reading.CLAIMED, Reading.CERTIFIED)
    )
    seen = []
    if len(claimed):
        costs = [cost_at(table, Reading.CLAIMED, row["k"], epsilon=row["epsilon"]) for _, row in claimed.iterrows()]
        seen.append(f"the claimed noise at the best K costs {_span(costs / claimed['epsilon'])} of its eps")
    if len(certified):
        pairs = ", ".join(
            f"{row['value']:.2g} at {row['epsilon']:g} ({type_text(row)})" for _, row in certified.iterrows()
        )
        seen.append(f"certified noise: expected error {pairs}")
    if len(claimed) and len(certified):
        seen.append(f"{_span(claimed['value'] / certified['value'])} times less than with claimed noise")
    if not seen:
        return ()
    claim = "(not in the paper) noise by certificate C3 at the same pure eps"
    return (Finding(claim, "; ".join(seen), Verdict.NOT_COMPARABLE),)


_DESCENT_GROUND = Ground(
    f"{draws.GIVEN}, eps = 0.01 to 0.5; DP-DGD adapted to a coordinator, geometric steps, hundreds of iterations.",
    f"all of that; {draws.USED}; 300 steps of DP-DGD, the best of {len(DESCENTS)} settings (first step, decay) at each "
    "eps.",
    "how DP-DGD is adapted, calibrated and tuned: noise at every agent and one noise at the coordinator, for twice the "
    "largest gradient at 0 and for delta = 1, are all tried. Of the data, " + draws.GUESSED,
)

FIGURE = Figure(
    name="consensus/fig2b",
    title="Consensus DP-ADMM, Fig. 2(b): relative error against eps",
    reports=(
        "The error at the best K falls with eps, parallel to the bound; the best K is 4, 9, 15 for eps = 0.01, 0.1, "
        "0.5; DP-DGD is far worse and takes hundreds of iterations."
    ),
    setting={**LASSO.setting, "epsilons": EPSILONS, "runs": RUNS, "data seeds of the draws": draws.SEEDS},
    choices=(
        draws.DATA_CHOICE,
        RUNS_CHOICE,
        f"{SEARCH_CHOICE} K up to {LARGEST} are tried, for the bounds up to {LARGEST_OF_BOUNDS}.",
        "How DP-DGD is adapted to a coordinator is not printed: both noise at every agent (as in the original) and one "
        f"noise at the coordinator are shown, 300 steps, the best of {len(DESCENTS)} settings (first step, decay) at "
        "each eps by its expected error. The smallest first steps (from "
        f"{SMALL_STEPS[0]:g}) hardly move, so its best error is never far above 1.",
        "DP-DGD's own paper calibrates to a bound on the gradients, which quadratics do not have: twice the largest "
        "gradient at 0 stands for it. It is read off the data, so that curve is shown as claimed.",
        "DP-DGD publishes its last point, so it is compared with DP-ADMM's last broadcast, not with x(K), which must "
        "not be published.",
    ),
    parts=(
        *(
            Part(f"consensus/fig2b/{reading.value}", partial(compute, reading), seconds=5.0)
            for reading in (Reading.CLAIMED, Reading.CERTIFIED)
        ),
        Part("consensus/fig2b/dp-dgd", compute_descent, seconds=1.5),
        draws.PART,
    ),
    draw=draw,
    findings=findings,
    ground=Ground(f"{draws.GIVEN}, eps = 0.01 to 0.5.", f"all of that; {draws.USED}.", draws.GUESSED),
)
