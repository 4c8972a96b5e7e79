"""The scoreboard on the consensus LASSO and on control: one agent's function is hidden from who hears broadcasts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dpadmm.errors import SolverError
from dpadmm.methods.base import Setting
from dpadmm.methods.consensus_dp import ConsensusDPADMM, FunctionsDiffer, LinearTermsDiffer
from dpadmm.noise.mechanisms import CaoOptimal
from dpadmm.noise.plan import NoisePlan, calibrate
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm_research.papers.consensus import fig3
from dpadmm_research.papers.consensus.bench import TOLERANCE, Bench
from dpadmm_research.papers.consensus.control import sample
from dpadmm_research.papers.consensus.lasso import Lasso
from dpadmm_research.papers.consensus.planner import plan_consensus
from dpadmm_research.reproduction.figure import Figure, Finding, Order, Part, Verdict
from dpadmm_research.reproduction.style import canvas, draw_curve, finish, headline
from dpadmm_research.reproduction.table import Reading, Rows, Table, chosen
from dpadmm_research.reproduction.trials import Trial, run_trials
from dpadmm_research.scoreboard.search import Knob, search

EPSILONS = (0.1, 0.5, 1.0, 5.0, 10.0)
DELTA = 1e-5
ERROR, CERTIFIED_EPS, ROUND_COUNT, PENALTY = "relative error of the release", "certified eps", "rounds", "rho"
SECONDS, IS_LIMIT = "processor seconds a run", "limit: rounds"
MOST_ROUNDS = 4096
GAIN = 0.02
"""Part of the error that twice the rounds must save to be chosen."""

PAPER = "the paper's noise"
CERTIFIED = "certified noise, same rho"
LINEAR = "certified for linear terms only, same rho"
PLANNED = "certified, rho and rounds planned"
GAUSSIAN = "certified, planned, Gaussian"


@dataclass(frozen=True)
class Board:
    """One problem: the bench at full and toy size, first rounds, noise runs, and where the fixed rho comes from.

    run_with: how many of the agents are run, with the noise that hides one of all; None for all of them.
    """

    name: str
    title: str
    full: Callable[[], Bench] = field(repr=False)  # the repr names a part on disk: no addresses in it
    toy: Callable[[], Bench] = field(repr=False)
    rounds: int
    runs: int
    origin_of_rho: str
    run_with: int | None = None

    @property
    def knob(self) -> Knob:
        """The rounds, doubled and halved from where they begin."""
        limits = ("one round", f"no more than {MOST_ROUNDS} rounds are tried")
        return Knob("rounds", self.rounds, (0,), 1, MOST_ROUNDS, limits, is_work=True)


def fixed(bench: Bench, curve: str, epsilon: float, rounds: int) -> tuple[ConsensusDPADMM, NoisePlan]:
    """Return method and noise at the paper's penalty for this many private broadcasts."""
    if curve in (PAPER, CERTIFIED):
        reading = Reading.CLAIMED if curve == PAPER else Reading.CERTIFIED
        return bench.method, bench.plan(reading, epsilon, rounds + 1)
    method = ConsensusDPADMM(bench.star.rho, LinearTermsDiffer(bench.gradient_distance))
    mechanisms = method.mechanisms(Setting(bench.problem, rounds, TOLERANCE))
    return method, calibrate(mechanisms, PureTarget(epsilon), CaoOptimal(bench.beta))


def planned(bench: Bench, curve: str, epsilon: float) -> tuple[ConsensusDPADMM, NoisePlan, int]:
    """Return method, noise and rounds of the library's planner, from public constants and rough sizes of x*."""
    target = PureTarget(epsilon) if curve == PLANNED else Target(epsilon, DELTA)
    slope = bench.problem.functions.gradient(bench.optimum[None, :, None])[:, :, 0]
    plan = plan_consensus(
        Setting(bench.problem, 1, TOLERANCE), FunctionsDiffer(bench.gradient_distance), target, radius=bench.radius,
        gradient_radius=float(np.sqrt(np.square(slope).sum(axis=1).mean())),
    )  # fmt: skip
    mechanisms = plan.method.mechanisms(Setting(bench.problem, plan.rounds, TOLERANCE))
    return plan.method, calibrate(mechanisms, target, plan.schedule), plan.rounds


@dataclass(frozen=True)
class Show:
    """One curve of a board at the size that was ordered: what runs with so many rounds are like."""

    board: Board
    curve: str
    order: Order
    bench: Bench = field(repr=False)
    stage: Bench = field(repr=False)
    seen: dict[tuple[float, float], dict[str, Any]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, board: Board, curve: str, order: Order) -> "Show":
        """Build the bench, and the stage with the agents that are run."""
        bench = order.pick(board.full, board.toy)()
        stage = bench if board.run_with is None or order.is_toy else sample(bench, board.run_with)
        return cls(board, curve, order, bench, stage)

    def searched(self, epsilons: Sequence[float]) -> dict[float, dict[str, Any]]:
        """Return what the best number of rounds gives at each budget."""
        if self.order.is_toy:
            self.errors((6.0,), epsilons)
            return {epsilon: self.seen[6.0, epsilon] for epsilon in epsilons}
        found = search([self.board.knob], epsilons, self.errors, GAIN)
        return {epsilon: self.seen[rounds, epsilon] for epsilon, (rounds,) in found.items()}

    def planned(self, epsilons: Sequence[float]) -> dict[float, dict[str, Any]]:
        """Return what the planner's rho and rounds give at each budget."""
        found = {}
        for epsilon in epsilons:
            method, plan, rounds = planned(self.bench, self.curve, epsilon)
            self._run(method, rounds, [(epsilon, plan)])
            found[epsilon] = self.seen[rounds, epsilon] | {IS_LIMIT: 0}
        return found

    def errors(self, values: tuple[float, ...], epsilons: Sequence[float]) -> dict[float, float]:
        """Return the logarithm of the mean error with so many rounds; nothing where noise beats the solver."""
        rounds = int(values[0])
        pairs = [(epsilon, fixed(self.bench, self.curve, epsilon, rounds)) for epsilon in epsilons]
        try:
            self._run(pairs[0][1][0], rounds, [(epsilon, plan) for epsilon, (_, plan) in pairs])
        except SolverError:
            alone = [[epsilon] for epsilon in epsilons] if len(epsilons) > 1 else []
            return {epsilon: error for each in alone for epsilon, error in self.errors(values, each).items()}
        return {epsilon: float(np.log(self.seen[rounds, epsilon][ERROR].mean())) for epsilon in epsilons}

    def _run(self, method: ConsensusDPADMM, rounds: int, plans: list[tuple[float, NoisePlan]]) -> None:
        """Run all budgets as one batch, and keep what came of each."""
        runs = self.order.runs_of(self.board.runs)
        begin = time.process_time()
        trials = [Trial(self.curve, Reading.CERTIFIED, epsilon, plan) for epsilon, plan in plans]
        batch = run_trials(
            method, self.stage.problem, rounds, trials, runs=runs, seed=self.order.seed, every=0, tolerance=TOLERANCE
        )
        seconds = (time.process_time() - begin) / (runs * len(trials))
        errors = np.square(batch.run.estimate - self.stage.optimum[:, None]).sum(axis=0) / self.stage.radius**2
        for trial, columns in batch:
            self.seen[rounds, trial.epsilon] = {
                ERROR: errors[columns], ROUND_COUNT: rounds, PENALTY: method.rho, SECONDS: seconds,
                CERTIFIED_EPS: trial.certified_epsilon(DELTA if self.curve == GAUSSIAN else 0.0),
                IS_LIMIT: self.board.knob.limit_at(rounds),
            }  # fmt: skip


def compute(board: Board, curve: str, order: Order) -> Table:
    """One curve: the best number of rounds for each budget, or the planner's."""
    show, epsilons = Show.of(board, curve, order), order.pick(EPSILONS, EPSILONS[:2])
    rows = Rows(board.title)
    for epsilon, found in (show.planned if curve in (PLANNED, GAUSSIAN) else show.searched)(epsilons).items():
        facts: dict[str, Any] = {
            "panel": board.name, "curve": curve, "epsilon": epsilon, "x": epsilon,
            "reading": Reading.CLAIMED if curve == PAPER else Reading.CERTIFIED,
        }  # fmt: skip
        rows.add(**facts, metric=ERROR, values=found.pop(ERROR))
        for metric, value in found.items():
            rows.fact(**facts, metric=metric, value=float(value))
    return rows.table()


CURVES = (PAPER, CERTIFIED, LINEAR, PLANNED, GAUSSIAN)


def draw(board: Board, table: Table, data: str) -> Any:
    """Error of the release against eps: the noise that the paper claims eps for, and noise certified for it."""
    picture, axes = canvas(1, 2, width=6.0, height=5.0)
    for ax, reading in zip(axes[0], (Reading.CLAIMED, Reading.CERTIFIED), strict=True):
        for place, curve in enumerate(CURVES):
            rows = chosen(table, metric=ERROR, curve=curve, reading=reading)
            draw_curve(ax, rows, label=curve, place=place, reading=reading, is_marked=True)
        texts = "claimed by the paper" if reading is Reading.CLAIMED else "certified"
        finish(ax, f"eps {texts}", f"eps, {texts}", ERROR, is_log_y=True, is_log_x=True)
    privacy = f"eps = {EPSILONS[0]:g} to {EPSILONS[-1]:g}, pure (delta = 0); Gaussian: delta = {DELTA:g}"
    headline(picture, "Scoreboard", data=data, privacy=privacy, shown="mean of the runs")
    return picture


def findings(table: Table) -> tuple[Finding, ...]:
    """What certificates and planning bring."""
    means = chosen(table, metric=ERROR).groupby(["epsilon", "curve"])["value"].mean().unstack()
    texts = [
        f"eps {epsilon:g}: {row[PAPER]:.2g} by the paper, {row[CERTIFIED]:.2g} certified, {row[PLANNED]:.2g} planned"
        for epsilon, row in means.iterrows()
    ]
    return (Finding("(ours) relative error of what is released", "; ".join(texts), Verdict.NOT_COMPARABLE),)


def _board(board: Board, cost: float) -> Figure:
    return Figure(
        name=f"scoreboard/{board.name}",
        title=f"Scoreboard: {board.title}",
        reports="Not in any paper: consensus DP-ADMM with the paper's noise at its claimed eps, and with noise that is "
        "certified for the same number.",
        setting={"epsilons": EPSILONS, "delta": DELTA, "rounds": board.rounds, "runs": board.runs},
        choices=(
            f'The budget in the head of the table is what "{PAPER}" claims, and what the others are certified for: '
            f'the former costs the certified eps in its column. "{LINEAR}" hides less: two neighbours may differ in '
            "the linear term of one agent's function, not in its curvature. Gaussian noise is for "
            f"(eps, {DELTA:g}), all else is pure.",
            board.origin_of_rho,
            f"At that rho the best number of rounds is shown: doubled and halved from {board.rounds} until neither "
            f"gains (twice the rounds must save {GAIN:.0%} of the error), by the error itself over the same noise runs "
            "that are shown; the planner chooses rho and rounds from public constants and the true sizes of x* and of "
            "the gradients there.",
            "The error is that of the last broadcast, which may be released.",
            "Only consensus DP-ADMM has a certificate for functions without a gradient bound, so no other is here.",
        ),
        parts=tuple(
            Part(f"scoreboard/{board.name}/{number}", partial(compute, board, curve), seconds=cost)
            for number, curve in enumerate(CURVES)
        ),
        draw=partial(draw, board),
        findings=findings,
    )


def _lasso() -> Bench:
    return Lasso().bench()


def _toy_lasso() -> Bench:
    return Lasso(agents=200).bench()


def _control() -> Bench:
    return fig3.CONTROL.bench()


def _toy_control() -> Bench:
    return fig3.TOY.bench()


LASSO_FIGURE = _board(
    Board(
        "lasso",
        "consensus LASSO, n = 10^4, p = 5",
        _lasso,
        _toy_lasso,
        16,
        10,
        "rho = 5 is the paper's; the data are those of its Fig. 2(a) as reproduced here.",
    ),
    15.0,
)
CONTROL_FIGURE = _board(
    Board(
        "control",
        "linear-quadratic control, n = 10^4, m = 20",
        _control,
        _toy_control,
        512,
        5,
        "The paper prints no rho: 1.5 times the least that its Assumption 3 allows. ||x_0|| = 100 and the draw of A "
        "are those of its Fig. 3 as reproduced here; 400 of the agents are run, with the noise that hides one of "
        "10^4.",
        run_with=fig3.SAMPLE,
    ),
    60.0,
)
