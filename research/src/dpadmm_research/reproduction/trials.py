"""All private curves of one method in one batched run: every trial has its own noise and its own replicas."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpadmm.core.loop import rounds
from dpadmm.core.release import PlannedNoise
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents, Method, OneNoise, check_fit
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import account_for
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem
from dpadmm.solvers.solver import one_blas_thread
from dpadmm.testing import Ending, History, LocalEngine, RecordedRun, Recording, Stopping
from dpadmm_research.reproduction.table import Reading

TOLERANCE = 1e-7
"""Gradient norm of the local solves; the certificates count it."""


@dataclass(frozen=True)
class Trial:
    """One curve: its label, where its noise comes from, its nominal budget, and its plan (None: no noise)."""

    curve: str
    reading: Reading
    epsilon: float
    plan: NoisePlan | None = field(default=None, repr=False)

    @classmethod
    def bare(cls, curve: str = "non-private") -> "Trial":
        """Return the trial without noise."""
        return cls(curve, Reading.NON_PRIVATE, float("inf"))

    def certified_epsilon(self, delta: float) -> float:
        """Return what this noise costs by the certificates, at `delta` (0 for pure noise)."""
        return float("inf") if self.plan is None else self.plan.account().curve.epsilon(delta)

    def certified_curve(self, delta: float, rounds: Sequence[int]) -> list[float]:
        """Return the certified epsilon after each of these rounds."""
        if self.plan is None:
            raise InputError(f"The trial {self.curve!r} has no noise, so no epsilon.", setting="trial")
        return [account_for(r for r in self.plan if r.round <= k).curve.epsilon(delta) for k in rounds]


class TrialNoise(OneNoise):
    """The engine's noise hook for several trials side by side; the same noise seeds serve each trial.

    Trials without a plan, and rounds after the last of a plan, go without noise. `last` holds the values that the last
    round with any noise planned let out.
    """

    def __init__(self, trials: Sequence[Trial], runs: int, seed: int) -> None:
        if not trials:
            raise InputError("At least one trial is needed, got none.")
        sampler = SimulatedSampler(seed)
        self.columns: list[slice] = []
        self._hooks: list[PlannedNoise | None] = []
        self._ends: list[int] = []
        first = 0
        for trial in trials:
            width = 1 if trial.plan is None else runs
            self.columns.append(slice(first, first + width))
            self._hooks.append(None if trial.plan is None else PlannedNoise(trial.plan, sampler, width))
            self._ends.append(0 if trial.plan is None else max(release.round for release in trial.plan))
            first += width
        self.replicas = first
        self.last: dict[int, Floats] = {}

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return `values` (agents, d, R), each trial's columns with its own noise."""
        out = values.copy()
        for columns, hook, end in zip(self.columns, self._hooks, self._ends, strict=True):
            if hook is not None and k <= end:
                out[:, :, columns] = hook.perturb(kind, k, agents, np.ascontiguousarray(values[:, :, columns]))
        if k <= max(self._ends, default=0):
            self.last = {k: out}
        return out


@dataclass(frozen=True)
class Batch:
    """What came of a batched run: `run` over all replicas, and which columns belong to which trial."""

    run: RecordedRun
    trials: tuple[Trial, ...]
    columns: tuple[slice, ...]
    noise: TrialNoise = field(repr=False)

    def __iter__(self) -> Any:
        """Yield (trial, columns)."""
        return iter(zip(self.trials, self.columns, strict=True))

    @property
    def mean_loss(self) -> Floats:
        """The agents' own losses at their own models, averaged over the agents: (recorded rounds, R)."""
        return np.asarray(self.run.history.agent_loss.mean(axis=1))


def run_trials(
    method: Method,
    problem: Problem,
    rounds: int,
    trials: Sequence[Trial],
    *,
    runs: int,
    seed: int,
    network: Network | None = None,
    every: int = 1,
    tolerance: float = TOLERANCE,
) -> Batch:
    """Run all trials of one method at once; `every` is the stride of the history (0: none)."""
    noise = TrialNoise(trials, runs, seed)
    engine = LocalEngine(
        replicas=noise.replicas, tolerance=tolerance, threads=1, recording=Recording(every), progress=False
    )
    run = engine.run(method, problem, Stopping(rounds=rounds), network, noise)
    return Batch(run, tuple(trials), tuple(noise.columns), noise)


def record_run(
    method: Method,
    problem: Problem,
    marks: Sequence[int],
    trials: Sequence[Trial],
    *,
    runs: int,
    seed: int,
    network: Network | None = None,
    tolerance: float = TOLERANCE,
) -> Iterator[tuple[int, Batch]]:
    """As `run_trials`, but stop at every marked round and yield (round, batch so far): for measures of one's own."""
    noise = TrialNoise(trials, runs, seed)
    check_fit(method, problem, network)
    agents, marked = Agents.of(problem, network, tolerance, threads=1), set(marks)
    with one_blas_thread():
        for k, state, inbox in rounds(
            method.with_drawn_batches(), agents, problem, network, noise, max(marks), noise.replicas
        ):
            if k in marked:
                last = method.estimate(state, inbox)
                models = method.models(state, inbox)
                run = RecordedRun(models, last, last, k, Ending.ROUNDS, History(), state, inbox)
                yield k, Batch(run, tuple(trials), tuple(noise.columns), noise)
