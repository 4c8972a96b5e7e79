"""One method on the scoreboard's rows: its search for settings, and runs with the noise that its budget asks for."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpadmm.core.budget import account_with
from dpadmm.errors import InputError, SolverError
from dpadmm.methods.base import Setting, Topology
from dpadmm.networks import complete
from dpadmm.noise.mechanisms import MechanismSpec
from dpadmm.noise.plan import NoisePlan, calibrate
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.problems.silos import Silos
from dpadmm_research.reproduction.figure import Order
from dpadmm_research.reproduction.table import Reading
from dpadmm_research.reproduction.trials import TOLERANCE, Batch, Trial, run_trials
from dpadmm_research.scoreboard.entries import ScoreboardEntry
from dpadmm_research.scoreboard.rows import DELTA, SILOS, AdultTables
from dpadmm_research.scoreboard.search import search, values_at

TUNING_RUNS = 3
PRICE = 5e-4
"""What twice the rounds, or twice the batch, must gain in training loss to be chosen."""


class Choice(NamedTuple):
    """What a method runs with: one value per knob, the rounds, and which model is released."""

    values: tuple[float, ...]
    rounds: int
    is_tail: bool


class MethodRun:
    """One method on one deal of the data; noise plans are kept."""

    def __init__(self, entry: ScoreboardEntry, board: AdultTables, order: Order) -> None:
        self.entry, self.board, self.order = entry, board, order
        self.silos: Silos = board.train.silos(SILOS)
        self.network = complete(SILOS) if entry.method.about.topology is Topology.GRAPH else None
        self.axes = entry.axes(int(entry.task(self.silos, entry.knobs[0].start).functions.sizes.min()))
        self._plans: dict[tuple[int, float, tuple[float, ...]], NoisePlan | None] = {}
        self._tails: dict[tuple[tuple[float, ...], float], bool] = {}

    def tuned(self, epsilons: Sequence[float]) -> dict[float, Choice]:
        """Return the best settings for each budget, by mean training loss over other noise; at toy size the first."""
        if self.order.is_toy:
            first = values_at(self.axes, (0,) * len(self.axes))
            found = dict.fromkeys(self.losses(first, epsilons), first)
        else:
            found = search(self.axes, epsilons, self.losses, PRICE)
        return {
            epsilon: Choice(values[:-1], int(values[-1]), self._tails[values, epsilon])
            for epsilon, values in found.items()
        }

    def losses(self, values: tuple[float, ...], epsilons: Sequence[float]) -> Mapping[float, float]:
        """Return the training loss at each budget with these values, rounds last, of the better of both models."""
        batch = self.run(values[:-1], int(values[-1]), epsilons, TUNING_RUNS, self.order.seed + 1000)
        if batch is None:  # the noise of one budget may have driven the solver out of range for all
            alone = [[epsilon] for epsilon in epsilons] if len(epsilons) > 1 else []
            return {epsilon: loss for each in alone for epsilon, loss in self.losses(values, each).items()}
        last, tail = (self.board.train.loss(model) for model in (batch.run.estimate, batch.run.tail_average))
        found = {}
        for trial, columns in batch:
            both = float(last[columns].mean()), float(tail[columns].mean())
            self._tails[values, trial.epsilon] = both[1] < both[0]
            found[trial.epsilon] = min(both)
        return found

    def run(
        self, values: tuple[float, ...], rounds: int, epsilons: Sequence[float], runs: int, seed: int
    ) -> Batch | None:
        """Run all budgets that have a plan; None if there are none, or the noise drives the solver out of range."""
        method, problem = self.entry.build(*values), self.entry.task(self.silos, values[0])
        try:
            mechanisms = method.mechanisms(Setting(problem, rounds, TOLERANCE, self.network))
            plans = {epsilon: self.plan(mechanisms, values, rounds, epsilon) for epsilon in epsilons}
            trials = [
                Trial(self.entry.name, Reading.CERTIFIED, e, plan) for e, plan in plans.items() if plan is not None
            ]
            if not trials:
                return None
            return run_trials(method, problem, rounds, trials, runs=runs, seed=seed, network=self.network, every=0)
        except (InputError, SolverError):  # such as a step that is not certified
            return None

    def plan(
        self, mechanisms: Sequence[MechanismSpec], values: tuple[float, ...], rounds: int, epsilon: float
    ) -> NoisePlan | None:
        """Return the noise that keeps (epsilon, DELTA) together with the profile; None where none suffices."""
        key = (rounds, epsilon, self.entry.noise_key(values))
        if key not in self._plans:
            self._plans[key] = self._calibrated(mechanisms, epsilon)
        return self._plans[key]

    def _calibrated(self, mechanisms: Sequence[MechanismSpec], epsilon: float) -> NoisePlan | None:
        own = epsilon if self.entry.is_pure else self._left(epsilon)
        try:
            while own > 0:
                plan = calibrate(mechanisms, PureTarget(own) if self.entry.is_pure else Target(own, DELTA))
                excess = self.cost(plan) - epsilon
                if excess <= 0:
                    return plan
                own -= max(1.01 * excess, 1e-6 * own)  # rounding, or costs that do not add up in squares
        except InputError:  # objective perturbation whose Jacobian alone costs more than the budget
            pass
        return None

    def _left(self, epsilon: float) -> float:
        """Return what the profile leaves of epsilon where costs add up in squares (C0)."""
        m = m_of(epsilon, DELTA)
        return epsilon_of_delta(math.sqrt(m**2 - self.board.profile_m**2), DELTA)

    def cost(self, plan: NoisePlan | None) -> float:
        """Return the certified epsilon at DELTA of a plan and the profile together."""
        return math.inf if plan is None else account_with(plan, self.board.profile).curve.epsilon(DELTA)

    def numbers(self, choice: Choice) -> dict[str, float]:
        """Return everything that was chosen by its name, the rounds among it."""
        names = (knob.name for knob in self.axes)
        return dict(zip(names, (*choice.values, choice.rounds), strict=True))

    def limits(self, choice: Choice) -> dict[str, int]:
        """Return for each number that was chosen whether it is at a limit, see `Knob.limit_at`."""
        chosen = self.numbers(choice)
        return {knob.name: knob.limit_at(chosen[knob.name]) for knob in self.axes}
