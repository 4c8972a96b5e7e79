"""For tests and experiments: runs with recorded histories, without noise or with seeded noise, many replicas at once.

Histories read the private data (losses) and states without noise (residuals): nothing here is for releases but
`run_private`, which records none where the noise is secure.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.core.budget import ReusedProfile
from dpadmm.core.dataset import Dataset
from dpadmm.core.loop import Outcome, Round, progress_bar, rounds
from dpadmm.core.release import PublicRound, open_release
from dpadmm.core.spec import FinalModel, RunSpec, TrainingSpec
from dpadmm.core.train import Problems, TrainingRows, run_training
from dpadmm.errors import InputError
from dpadmm.methods.base import Agents, Method, NoiseHook, Residuals, Setting, Silence, check_fit, spread
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import Schedule
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Sampler
from dpadmm.privacy.accounting import Account, PureTarget, Target
from dpadmm.privacy.ledger import ConfirmedLedger, Receipt
from dpadmm.privacy.protection import ONE_RECORD, Protection
from dpadmm.privacy.releases import Origin
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem
from dpadmm.problems.silos import Silos
from dpadmm.solvers.solver import DEFAULT_TOLERANCE, available_threads, one_blas_thread


class Ending(Enum):
    """Why a run stopped."""

    ROUNDS = "all rounds done"
    RESIDUAL = "residuals below the threshold"


@dataclass(frozen=True)
class Stopping:
    """Stop after `rounds`, or earlier once every replica's primal and dual residual is at most `residual`."""

    rounds: int
    residual: float | None = None

    def __post_init__(self) -> None:
        """Check both limits."""
        checks.count("rounds", self.rounds)
        if self.residual is not None:
            checks.positive("residual", self.residual)

    def is_reached(self, residuals: Residuals) -> bool:
        """Return whether the residuals allow stopping before all rounds are done."""
        if self.residual is None:
            return False
        return bool(residuals.primal.max() <= self.residual and residuals.dual.max() <= self.residual)


@dataclass(frozen=True)
class Recording:
    """Which rounds go into the history: every `every`-th and the last; 0 keeps none."""

    every: int = 1

    def __post_init__(self) -> None:
        """Refuse negative strides."""
        checks.count("every", self.every, least=0)

    def wants(self, k: int, is_last: bool) -> bool:
        """Return whether round k is to be recorded."""
        return self.every > 0 and (is_last or k % self.every == 0)


@dataclass(frozen=True)
class Snapshot:
    """One row of a history: per replica (R,), per agent and replica (N, R)."""

    round: int
    objective: Floats
    consensus_error: Floats
    agent_loss: Floats
    primal: Floats
    dual: Floats


@dataclass
class History:
    """Snapshots in the order of their rounds, with columns as arrays of shape (rounds, R)."""

    snapshots: list[Snapshot] = field(default_factory=list)

    @property
    def rounds(self) -> Ints:
        """The rounds at which snapshots were taken."""
        return np.array([s.round for s in self.snapshots], dtype=np.int64)

    @property
    def objective(self) -> Floats:
        """sum w_i f_i + g at the estimate."""
        return np.array([s.objective for s in self.snapshots])

    @property
    def consensus_error(self) -> Floats:
        """Largest distance of an agent's model from the mean."""
        return np.array([s.consensus_error for s in self.snapshots])

    @property
    def agent_loss(self) -> Floats:
        """f_i at the agent's own model, (rounds, N, R)."""
        return np.array([s.agent_loss for s in self.snapshots])

    @property
    def primal(self) -> Floats:
        """Primal residuals."""
        return np.array([s.primal for s in self.snapshots])

    @property
    def dual(self) -> Floats:
        """Dual residuals."""
        return np.array([s.dual for s in self.snapshots])


def snapshot(k: int, algorithm: Method, problem: Problem, state: Any, inbox: Floats, residuals: Residuals) -> Snapshot:
    """Measure the state after round k."""
    models = algorithm.models(state, inbox)
    return Snapshot(
        round=k,
        objective=problem.objective(algorithm.project_model(problem, algorithm.estimate(state, inbox))),
        consensus_error=spread(models),
        agent_loss=problem.functions.value(models),
        primal=residuals.primal,
        dual=residuals.dual,
    )


@dataclass(frozen=True)
class RecordedRun:
    """A run's models (N, d, R), its estimate (d, R), the mean estimate of its last rounds, and its history."""

    models: Floats = field(repr=False)
    estimate: Floats = field(repr=False)
    tail_average: Floats = field(repr=False)
    rounds: int
    ending: Ending
    history: History = field(repr=False)
    state: Any = field(repr=False)
    inbox: Floats = field(repr=False)

    def model(self, which: FinalModel) -> Floats:
        """Return the models (d, R) that the run ends with."""
        return self.tail_average if which is FinalModel.TAIL_AVERAGE else self.estimate


@dataclass(frozen=True)
class LocalEngine:
    """Runs methods in this process and records what they look like from inside.

    Parameters
    ----------
    replicas: independent noise runs that share every pass over the data, >= 1.
    tolerance: gradient norm to which every local subproblem is solved.
    threads: over agents, and over the rows of agents with many; the default is the number of cores.
    recording: which rounds enter the history.
    progress: show a bar on a terminal.
    is_release: even whether a solve fails must not depend on the records.

    >>> import numpy as np
    >>> from dpadmm.methods.consensus import ConsensusADMM
    >>> from dpadmm.problems.quadratics import QuadraticAgents
    >>> problem = Problem.of(QuadraticAgents(np.ones((3, 1, 1)), np.array([[1.0], [2.0], [6.0]])))
    >>> run = LocalEngine().run(ConsensusADMM(rho=0.3), problem, Stopping(rounds=60))
    >>> run.estimate.round(6).tolist(), run.ending.value
    ([[-3.0]], 'all rounds done')
    """

    replicas: int = 1
    tolerance: float = DEFAULT_TOLERANCE
    threads: int | None = None
    recording: Recording = Recording()
    progress: bool = False
    is_release: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.count("replicas", self.replicas)
        checks.positive("tolerance", self.tolerance)
        if self.threads is not None:
            checks.count("threads", self.threads)

    def run(
        self,
        algorithm: Method,
        problem: Problem,
        stopping: Stopping,
        network: Network | None = None,
        noise: NoiseHook | None = None,
        after: RecordedRun | None = None,
    ) -> RecordedRun:
        """Run until `stopping` says so, from the start or where another run ended.

        Raises `InputError` before anything is computed if the parts do not fit together, `SolverError` if a local
        subproblem misses its tolerance.
        """
        if not isinstance(stopping, Stopping):
            raise InputError(f"stopping must be a Stopping, got {stopping!r}; write Stopping(rounds=...).")
        check_fit(algorithm, problem, network)
        noise = noise if noise is not None else Silence()
        if stopping.residual is not None and not isinstance(noise, Silence):
            raise InputError(
                "A run with noise must stop by rounds: residuals are computed from states without noise, so the "
                "stopping time would reveal something about the data. Leave residual out."
            )
        method = algorithm.with_drawn_batches()
        with one_blas_thread(), progress_bar(type(method).__name__, stopping.rounds, is_wanted=self.progress) as tick:
            threads = self.threads or available_threads()
            agents = Agents.of(problem, network, self.tolerance, threads, is_release=self.is_release)
            reached = None if after is None else Round(after.rounds, after.state, after.inbox)
            done = rounds(method, agents, problem, network, noise, stopping.rounds, self.replicas, reached)
            return self._recorded(method, agents, problem, done, stopping, tick)

    def _recorded(
        self,
        method: Method,
        agents: Agents,
        problem: Problem,
        done: Iterator[Round],
        stopping: Stopping,
        tick: Callable[[], None],
    ) -> RecordedRun:
        history, ending, first = History(), Ending.ROUNDS, method.first_averaged_round(stopping.rounds)
        tail, before = np.zeros((agents.dimension, self.replicas)), None
        for k, state, inbox in done:
            last = method.estimate(state, inbox)
            if before is not None:
                residuals = method.residuals(agents, before, (state, inbox))
                is_done = stopping.is_reached(residuals)
                if self.recording.wants(k, is_done or k == stopping.rounds):
                    history.snapshots.append(snapshot(k, method, problem, state, inbox, residuals))
                tail = tail + last if k >= first else tail
                tick()
                if is_done:
                    ending = Ending.RESIDUAL
                    break
            before = state, inbox
        averaged = k + 1 - first
        return RecordedRun(
            models=method.models(state, inbox),
            estimate=method.project_model(problem, last),
            tail_average=method.project_model(problem, tail / averaged if averaged > 0 else last),
            rounds=k,
            ending=ending,
            history=history,
            state=state,
            inbox=inbox,
        )


@dataclass(frozen=True, eq=False)
class PrivateRun:
    """A run with the plan of its noise and the account of what it cost; see `dpadmm.core.loop.Outcome`."""

    run: RecordedRun = field(repr=False)
    plan: NoisePlan = field(repr=False)
    account: Account
    origin: Origin
    history: tuple[PublicRound, ...] = field(repr=False)
    receipts: tuple[Receipt, ...]
    name: str

    @property
    def is_private_release(self) -> bool:
        """Whether the run's models may leave under its account."""
        return self.origin is Origin.SECURE


def run_private(
    method: Any,
    problem: Problem,
    rounds: int,
    target: Target | PureTarget,
    sampler: Sampler,
    network: Network | None = None,
    schedule: Schedule | None = None,
    engine: LocalEngine | None = None,
    protection: Protection = ONE_RECORD,
    ledger: ConfirmedLedger | None = None,
) -> PrivateRun:
    """Plan the noise for the target, record it in the ledger if there is one, run, and state the cost.

    >>> from dpadmm.methods.p_admm import PADMM
    >>> from dpadmm.data import load_breast_cancer
    >>> from dpadmm.networks import ring
    >>> from dpadmm.noise.sampler import SimulatedSampler
    >>> from dpadmm.problems.losses import Logistic
    >>> from dpadmm.problems.problem import EmpiricalRisk
    >>> problem = Problem.of(EmpiricalRisk(load_breast_cancer().silos(), Logistic(), mu=0.01))
    >>> target = Target(epsilon=1.0, delta=1e-5)
    >>> done = run_private(PADMM(eta=0.01), problem, 10, target, SimulatedSampler(seed=0), ring(4))
    >>> round(done.account.curve.epsilon(1e-5), 6), done.account.theorems
    (1.0, ('C1',))
    """
    engine = engine if engine is not None else LocalEngine()
    spec = RunSpec(method, Setting(problem, rounds, engine.tolerance, network, protection), target, schedule)
    training = TrainingSpec.of(spec)
    plan = training.checked_plan(sampler.is_secure)
    spec.check([problem])
    if sampler.is_secure:
        if engine.replicas != 1:
            raise InputError(f"A release has one replica, got {engine.replicas}. Nothing was spent.")
        engine = replace(engine, recording=Recording(every=0), is_release=True)
    if ledger is not None:
        ledger = ledger.for_run(training.facts.sizes, protection.relation)
    label, n = type(method).__name__, problem.n_agents
    with open_release(plan, sampler, ledger, label=label, n_agents=n) as release:
        noise = release.noise(plan, replicas=engine.replicas)
        run = engine.run(spec.method, problem, Stopping(rounds), network, noise)
    history = tuple(noise.history)
    return PrivateRun(run, plan, plan.account(), release.origin, history, release.receipts, release.run)


def run_plan(
    plan: Any,
    rows: Dataset | Silos | Sequence[Silos],
    sampler: Sampler,
    ledger: ConfirmedLedger | None = None,
    *,
    progress: bool = True,
    run: str | None = None,
    earlier: ReusedProfile | None = None,
) -> Outcome:
    """Run a `Plan` on the rows of silos, or on encoded ones with the labels of each of its models; see `run_training`.

    earlier: the profile that was released before, for a plan that counts on it.
    """
    if (plan.task.profile.earlier_run is None) is not (earlier is None):
        raise InputError(
            "A plan that uses an earlier column profile needs that profile, and other plans must not get one. Pass "
            "`earlier` only with the plan that was made for it."
        )
    source: TrainingRows | Problems
    if isinstance(rows, Dataset):
        source = TrainingRows(rows, plan.spec.facts, {plan.run.name: plan}, earlier)
    else:
        source = Problems([plan.problem(each) for each in ([rows] if isinstance(rows, Silos) else rows)])
    return run_training(plan.spec, source, sampler, ledger, label=plan.method, run=run, progress=progress)


def plan_noise(
    method: Any,
    problem: Problem,
    rounds: int,
    target: Target | PureTarget,
    network: Network | None = None,
    schedule: Schedule | None = None,
    engine: LocalEngine | None = None,
    protection: Protection = ONE_RECORD,
    is_secure: bool = False,
) -> NoisePlan:
    """Return the noise that spends exactly the target; looks at public facts only."""
    tolerance = engine.tolerance if engine is not None else DEFAULT_TOLERANCE
    setting = Setting(problem, rounds, tolerance, network, protection)
    return RunSpec(method, setting, target, schedule).noise_plan(is_secure)
