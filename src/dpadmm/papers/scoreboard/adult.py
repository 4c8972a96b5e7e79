"""The scoreboard on Adult: training loss, test loss and test error of every method at equal certified epsilon."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpadmm.algorithms.method import Setting, Topology
from dpadmm.errors import InputError, SolverError
from dpadmm.networks import complete
from dpadmm.noise.plan import NoisePlan, calibrated
from dpadmm.papers.race.adult import AdultData, adult
from dpadmm.papers.reproduction.figure import Figure, Finding, Order, Part, Verdict
from dpadmm.papers.reproduction.style import COLOURS, MARKERS, canvas, finish, headline
from dpadmm.papers.reproduction.table import Reading, Rows, Table, chosen, mean_at, means
from dpadmm.papers.reproduction.trials import TOLERANCE, Batch, Trial, run_trials
from dpadmm.papers.scoreboard.entries import ENTRIES, MOST_PASSES, RIDGE, Knob, ScoreboardEntry, Sight
from dpadmm.papers.scoreboard.standings import TIE, competitors, duels_in_words, standings
from dpadmm.privacy.calibration import PureTarget, Target
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos

EPSILONS = (0.1, 0.5, 1.0, 5.0, 10.0)
DELTA = 1e-5
SILOS = 5
RUNS, TUNING_RUNS = 10, 3
SECONDS_OF = {
    "p-admm": 60.0, "p-admm-recycled": 37.0, "dp-dgd": 54.0, "linearised-admm": 28.0, "ps-admm": 100.0, "dp-gd": 20.0,
    "dp-sgd": 64.0, "output-perturbation": 2.0, "consensus": 100.0, "r-admm": 12.0, "dvp": 22.0, "m-admm": 20.0,
    "dp-gd (records pooled)": 22.0, "dp-sgd (records pooled)": 85.0, "fp-federated": 34.0, "fp-coordinator": 40.0,
    "consensus-gaussian": 38.0, "noisy-gradients": 30.0,
}  # fmt: skip
"""Rough processor time of each method's part."""
TRAIN, TEST, ERROR, CERTIFIED_EPS = "training loss", "test loss", "test error", "certified eps"
ROUND_COUNT, IS_TAIL, SECONDS = "rounds", "tail average", "processor seconds a run"
BARE = "non-private"
EDGE = "edge: "
"""Before the name of a knob: 1 where the chosen value is the first or last that was tried."""


class Choice(NamedTuple):
    """A point of the grid: one value per knob, the rounds, and which model is released."""

    values: tuple[float, ...]
    rounds: int
    is_tail: bool


class Tried(NamedTuple):
    """A point with its mean training loss."""

    loss: float
    choice: Choice


class Bout:
    """One method on one deal of the data; noise plans are kept."""

    def __init__(self, entry: ScoreboardEntry, train: AdultData, order: Order) -> None:
        self.entry, self.train, self.order = entry, train, order
        self.silos: Silos = train.silos(SILOS)
        self.network = complete(SILOS) if entry.method.about.topology is Topology.GRAPH else None
        self._plans: dict[tuple[int, float, tuple[float, ...]], NoisePlan | None] = {}

    def points(self) -> Iterator[tuple[tuple[float, ...], int]]:
        """Yield what is tried: values of the knobs, and rounds."""
        if self.order.is_toy:
            yield self.entry.toy_values, self.entry.rounds[0]
            return
        for values in self.entry.grid():
            yield from ((values, rounds) for rounds in self.rounds(values))

    def rounds(self, values: tuple[float, ...]) -> tuple[int, ...]:
        """Return the numbers of rounds that are tried with these values."""
        problem = self.entry.task(self.silos, values[0])
        return self.entry.rounds_for(values, int(problem.functions.sizes.min()))

    def plan(
        self, method: Any, problem: Problem, values: tuple[float, ...], rounds: int, epsilon: float
    ) -> NoisePlan | None:
        """Return the noise for (epsilon, DELTA), or for pure epsilon; None where no noise suffices."""
        key = (rounds, epsilon, self.entry.noise_key(values))
        if key not in self._plans:
            target = PureTarget(epsilon) if self.entry.is_pure else Target(epsilon, DELTA)
            promises = method.promises(Setting(problem, rounds, TOLERANCE, self.network))
            try:
                self._plans[key] = calibrated(promises, target)
            except InputError:  # objective perturbation whose Jacobian alone costs more than the budget
                self._plans[key] = None
        return self._plans[key]

    def run(
        self, values: tuple[float, ...], rounds: int, epsilons: Sequence[float], runs: int, seed: int
    ) -> Batch | None:
        """Run all budgets that have a plan; None if there are none, or the noise drives the solver out of range."""
        method, problem = self.entry.build(*values), self.entry.task(self.silos, values[0])
        plans = {epsilon: self.plan(method, problem, values, rounds, epsilon) for epsilon in epsilons}
        trials = [Trial(self.entry.name, Reading.CERTIFIED, e, plan) for e, plan in plans.items() if plan is not None]
        if not trials:
            return None
        try:
            return run_trials(method, problem, rounds, trials, runs=runs, seed=seed, network=self.network, every=0)
        except SolverError:
            return None

    def tuned(self, epsilons: Sequence[float]) -> dict[float, Tried]:
        """Return the best point of the grid for each budget, by mean training loss over other noise."""
        best: dict[float, Tried] = {}
        for values, rounds in self.points():
            batch = self.run(values, rounds, epsilons, TUNING_RUNS, self.order.seed + 1000)
            if batch is None:
                continue
            losses = {
                is_tail: self.train.loss(model)
                for is_tail, model in ((False, batch.run.estimate), (True, batch.run.tail_average))
            }
            for trial, columns in batch:
                for is_tail, loss in losses.items():
                    tried = Tried(float(loss[columns].mean()), Choice(values, rounds, is_tail))
                    if np.isfinite(tried.loss) and tried < best.get(trial.epsilon, tried._replace(loss=np.inf)):
                        best[trial.epsilon] = tried
        return best

    def edges(self, choice: Choice) -> dict[str, bool]:
        """Return, per knob and for the rounds, whether the choice is at the edge of what was tried."""
        found = {knob.name: knob.is_edge(value) for knob, value in zip(self.entry.knobs, choice.values, strict=True)}
        return found | {ROUND_COUNT: Knob(ROUND_COUNT, self.rounds(choice.values)).is_edge(choice.rounds)}


def compute(number: int, order: Order) -> Table:
    """One method: choose from the grid for each budget, then run with fresh noise."""
    train, test = adult(order).split()
    bout = Bout(ENTRIES[number], train, order)
    rows = Rows(train.label)
    for epsilon, (_, choice) in bout.tuned(order.pick(EPSILONS, EPSILONS[3:4])).items():
        begin = time.process_time()
        batch = bout.run(choice.values, choice.rounds, [epsilon], order.runs_of(RUNS), order.seed)
        seconds = (time.process_time() - begin) / order.runs_of(RUNS)
        if batch is None:
            continue
        model = batch.run.tail_average if choice.is_tail else batch.run.estimate
        facts: dict[str, Any] = {
            "panel": bout.entry.sight.name, "curve": bout.entry.name, "reading": Reading.CERTIFIED, "epsilon": epsilon,
            "x": epsilon,
        }  # fmt: skip
        for metric, values in ((TRAIN, train.loss(model)), (TEST, test.loss(model)), (ERROR, test.error(model))):
            rows.add(**facts, metric=metric, values=values)
        cost = batch.trials[0].certified_epsilon(0.0 if bout.entry.is_pure else DELTA)
        single = {CERTIFIED_EPS: cost, ROUND_COUNT: choice.rounds, IS_TAIL: choice.is_tail, SECONDS: seconds}
        single |= {knob.name: value for knob, value in zip(bout.entry.knobs, choice.values, strict=True)}
        single |= {EDGE + name: is_edge for name, is_edge in bout.edges(choice).items()}
        for metric, value in single.items():
            rows.fact(**facts, metric=metric, value=float(value))
    return rows.table()


def compute_reference(order: Order) -> Table:
    """The non-private optimum (scikit-learn), and the model 0."""
    from sklearn.linear_model import LogisticRegression

    train, test = adult(order).split()
    fit = LogisticRegression(C=1 / (train.data.n_rows * RIDGE), fit_intercept=False, max_iter=1000)
    optimum = fit.fit(train.data.features, train.data.labels).coef_.T
    rows = Rows(train.label)
    for curve, model in ((BARE, optimum), ("the model 0", np.zeros_like(optimum))):
        for epsilon in order.pick(EPSILONS, EPSILONS[3:4]):
            for metric, values in ((TRAIN, train.loss(model)), (TEST, test.loss(model)), (ERROR, test.error(model))):
                rows.fact(
                    panel="", curve=curve, reading=Reading.NON_PRIVATE, epsilon=float("inf"), x=epsilon, metric=metric,
                    value=float(values[0]),
                )  # fmt: skip
    return rows.table()


# Every method has a colour and a marker of its own; with a trusted coordinator it keeps those it has without.
PALETTE = (*COLOURS, "#1B2A6B", "#66A61E", "#B2182B", "#00A6A6", "#E7298A", "#4D4D00")
SIGNS = (*MARKERS, ">", "h", "d", "p", "H", "8")
TRUSTING = {"fp-coordinator": "fp-federated", "dp-gd (records pooled)": "dp-gd", "dp-sgd (records pooled)": "dp-sgd"}
PLACES = {name: place for place, name in enumerate(e.name for e in ENTRIES if e.name not in TRUSTING)}
GROUPS = (
    (
        "ADMM, Gaussian noise",
        Sight.MESSAGES,
        ("p-admm", "p-admm-recycled", "linearised-admm", "ps-admm", "fp-federated"),
    ),
    ("objective and output perturbation", Sight.MESSAGES, ("dvp", "m-admm", "r-admm", "output-perturbation")),
    ("gradient methods", Sight.MESSAGES, ("dp-dgd", "dp-gd", "dp-sgd")),
    ("ADMM", Sight.RELEASE, ("consensus", "consensus-gaussian", "fp-coordinator")),
    ("gradient methods", Sight.RELEASE, ("noisy-gradients", "dp-gd (records pooled)", "dp-sgd (records pooled)")),
)
"""Who shares a panel: title, view, methods."""
TRUST = {Sight.MESSAGES: "trusting nobody", Sight.RELEASE: "trusting the coordinator"}
LEAST_EXCESS, MOST_EXCESS = 2e-4, 0.5


def draw(table: Table, data: str) -> Any:
    """Training loss above the non-private one against eps: a panel per group of methods, and the best of each."""
    picture, axes = canvas(2, 3, width=5.0, height=4.4)
    bare = mean_at(table, metric=TRAIN, curve=BARE)
    losses = chosen(table, metric=TRAIN, reading=Reading.CERTIFIED)
    for place, (title, sight, names) in enumerate(GROUPS):
        ax, last = axes.flat[place], axes.flat[-1]
        letter = "ABCDE"[place]
        for order, name in enumerate(names):
            own = PLACES[TRUSTING.get(name, name)]
            _draw_excess(ax, means(chosen(losses, curve=name)) - bare, own, name, order)
        lowest = chosen(losses, curve=list(names)).groupby(["x", "curve"])["value"].mean().groupby("x").min() - bare
        _draw_excess(last, lowest, place, f"lowest of {letter}", place)
        _finish(ax, f"{letter}. {title}, {TRUST[sight]}")
    _finish(axes.flat[-1], "the lowest of each panel")
    headline(
        picture, "Scoreboard", data=f"{data}, {SILOS} silos", privacy=f"certified eps, delta = {DELTA:g} or 0 (pure)",
        shown=f"mean of the runs minus the non-private {bare:.4f}; {LEAST_EXCESS:g}: that or less",
    )  # fmt: skip
    return picture


def _draw_excess(ax: Any, excess: Any, place: int, label: str, order: int) -> None:
    """Draw one curve; earlier ones are wider, so that they show under a later one that lies on them."""
    shown = excess.clip(lower=LEAST_EXCESS)  # a loss may also be below the non-private: see the choices
    ax.plot(
        shown.index, shown, color=PALETTE[place], marker=SIGNS[place], label=label, markersize=10 - 1.3 * order,
        linewidth=3.2 - 0.5 * order,
    )  # fmt: skip


def _finish(ax: Any, title: str) -> None:
    ax.set_xlim(0.8 * EPSILONS[0], 1.25 * EPSILONS[-1])
    ax.set_ylim(0.85 * LEAST_EXCESS, MOST_EXCESS)
    finish(ax, title, "certified eps", "training loss above the non-private", is_log_x=True, is_log_y=True,
           legend="lower left")  # fmt: skip


def findings(table: Table) -> tuple[Finding, ...]:
    """The best method for each view and budget, and how ADMM fares against gradient methods."""
    found = []
    bare = mean_at(table, metric=TRAIN, curve=BARE)
    for sight in Sight:
        firsts = [(e, standings(table, sight, TRAIN, e)) for e in sorted(set(competitors(table, sight)["epsilon"]))]
        words = [f"eps {epsilon:g}: {here[0].name} {here[0].mean:.4f}" for epsilon, here in firsts]
        lowest = "; ".join(words) + f"; non-private {bare:.4f}"
        found += [
            Finding(f"(ours) lowest training loss, {sight.value}", lowest, Verdict.NOT_COMPARABLE),
            Finding(
                f"(ours) ADMM against gradient methods, {sight.value}", duels_in_words(table, sight, TRAIN),
                Verdict.NOT_COMPARABLE,
            ),
        ]  # fmt: skip
    return tuple(found)


def _grids() -> str:
    """Return which methods tried what."""
    methods: dict[str, list[str]] = {}
    for entry in ENTRIES:
        methods.setdefault(entry.grid_in_words, []).append(entry.name)
    return ". ".join(f"{', '.join(names)}: {grid}" for grid, names in methods.items())


FIGURE = Figure(
    name="scoreboard/adult",
    title="Scoreboard: Adult at equal certified epsilon",
    reports="Not in any paper: every method with noise by the certificates, at the same budget and unit.",
    setting={
        "epsilons": EPSILONS, "delta": DELTA, "silos": SILOS, "runs": RUNS, "tuning_runs": TUNING_RUNS,
        "ridge": RIDGE, "most_passes_of_sampled_methods": MOST_PASSES,
    },
    choices=(
        "Each method may choose for each budget among all combinations of its grid, and between last iterate and tail "
        f"average, all by the same criterion: mean training loss over {TUNING_RUNS} noise runs. It is then run {RUNS} "
        "times with other noise. The choice looks at the data without noise and is not paid for: it shows what a "
        "method can reach. With so few runs a choice may also be unlucky.",
        f"Grids. {_grids()}.",
        f"dp-sgd tries no point with more than {MOST_PASSES} passes over a silo's records. Gradient methods have more "
        "rounds than most ADMMs because theirs are cheap; the other numbers of a method (inner steps, growth of "
        "penalties, rho of linearised-admm) are fixed.",
        "Methods that are certified for an eavesdropper compete in the public view too: what is released is made of "
        "the messages. \"Records pooled\" takes a coordinator who is trusted with the records; one who adds the same "
        "noise to the sum of the silos' bare gradients would get as far.",
        f"Constant noise over the rounds for all; 70 % of Adult dealt at random to {SILOS} equal silos; unit: record.",
        "DVP, M-ADMM, R-ADMM and consensus with Laplace noise are pure: stronger than (eps, 1e-5). The first three are "
        "certified up to solver error, Laplace noise and sampled batches up to floating point.",
        "fp-centralised is left out: its certificate (C5) and its iterates are those of fp-federated.",
        f"The non-private model minimises the loss plus a ridge of {RIDGE:g}, as the methods do with noise. The ridge "
        "is no part of the training loss that is shown, so a private model can come out a little below it.",
        f"Ties between ADMM and gradient methods: differences below {TIE:g} standard errors.",
    ),
    parts=(
        *(
            Part(f"scoreboard/adult/{number}", partial(compute, number), seconds=SECONDS_OF[entry.name],
                 needs_adult=True)
            for number, entry in enumerate(ENTRIES)
        ),
        Part("scoreboard/adult/reference", compute_reference, seconds=3.0, needs_adult=True),
    ),
    draw=draw,
    findings=findings,
)  # fmt: skip
