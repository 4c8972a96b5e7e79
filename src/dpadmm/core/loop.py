"""The one loop over rounds, for every method, with all agents and replicas at once.

`rounds` yields after every complete round; whoever consumes it averages, records or stops. `run_rounds` is what
releases and simulations use.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpadmm.core.budget import ReusedProfile, account_with
from dpadmm.core.release import PlannedNoise, PublicRound
from dpadmm.core.spec import FinalModel, RunSpec, TrainingSpec
from dpadmm.methods.base import Agents, Method, NoiseHook, check_fit, put, take
from dpadmm.networks.graph import Network
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Account
from dpadmm.privacy.ledger import Receipt
from dpadmm.privacy.releases import Origin
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.solvers.solver import available_threads, one_blas_thread

if TYPE_CHECKING:
    from rich.console import Console

    from dpadmm.data.encoding import RowEncoding
    from dpadmm.data.profile import ReleasedProfile


class Round(NamedTuple):
    """A complete round: its number, all agents' state, and what they receive next."""

    k: int
    state: Any
    inbox: Floats


@dataclass(frozen=True, eq=False)
class Run:
    """What a run of K rounds ends with.

    models: of the agents, (N, d, R). last: the model (d, R) that stands for the run; tail_average: the mean of those
    of the last rounds, far less noisy. plan: of its noise. history: what the noisy messages show. sums: the noisy sums,
    where kept. kept: (N, d', R) what every agent keeps for itself, which nothing protects; None of most methods.
    """

    models: Floats = field(repr=False)
    last: Floats = field(repr=False)
    tail_average: Floats = field(repr=False)
    plan: NoisePlan = field(repr=False)
    history: tuple[PublicRound, ...] = field(default=(), repr=False)
    sums: tuple[Floats, ...] = field(default=(), repr=False)
    kept: Floats | None = field(default=None, repr=False)

    def model(self, which: FinalModel) -> Floats:
        """Return the models (d, R) that the run ends with."""
        return self.tail_average if which is FinalModel.TAIL_AVERAGE else self.last


def rounds(
    method: Method,
    agents: Agents,
    problem: Problem,
    network: Network | None,
    noise: NoiseHook,
    number: int,
    replicas: int = 1,
    after: Round | None = None,
) -> Iterator[Round]:
    """Yield every complete round of `number`; round 0 is the start, which depends on no data.

    after: the round to go on from, with all that the rest of a run depends on.
    """
    first, state, inbox = after if after is not None else (0, *method.start(agents, replicas))
    yield Round(first, state, inbox)
    for k in range(first + 1, number + 1):
        who = method.participants(k)
        here = agents.take(who)
        mine, messages = method.local_step(k, here, take(state, who), inbox, noise)  # touches the data
        inbox = method.exchange(k, problem, network, inbox, messages, noise)  # network or coordinator
        state = put(state, who, method.update(k, here, mine, inbox))  # no data
        yield Round(k, state, inbox)


def run_rounds(
    spec: RunSpec,
    problem: Problem,
    noise: PlannedNoise,
    *,
    replicas: int = 1,
    threads: int | None = None,
    is_release: bool = False,
    progress: bool = False,
) -> Run:
    """Run a method on a problem with this noise.

    threads: over agents, and over the rows of agents with many; all cores if left out. The result does not depend on
    it. is_release: even whether a solve fails must not depend on the records.
    """
    setting, method = spec.setting, spec.method.with_drawn_batches()
    check_fit(method, problem, setting.network)
    first = method.first_averaged_round(setting.rounds)
    with one_blas_thread(), progress_bar(type(method).__name__, setting.rounds, is_wanted=progress) as tick:
        agents = Agents.of(
            problem, setting.network, setting.tolerance, threads or available_threads(), is_release=is_release
        )
        tail = np.zeros((1, replicas))  # of the estimates' own shape
        for k, state, inbox in rounds(method, agents, problem, setting.network, noise, setting.rounds, replicas):
            last = method.estimate(state, inbox)
            if k >= first:
                tail = tail + last
            if k > 0:
                tick()
    return Run(
        models=method.models(state, inbox),
        last=method.project_model(problem, last),
        tail_average=method.project_model(problem, tail / (setting.rounds + 1 - first)),
        plan=noise.plan,
        history=tuple(noise.history),
        sums=tuple(noise.sums),
        kept=method.kept(state, setting.rounds),
    )


def simulate(run: RunSpec, problem: Problem, runs: int, seed: int, noise: NoisePlan | None = None) -> Floats:
    """Return the models (d, runs) of independent runs with seeded noise: an experiment, not a private release.

    `noise` replaces the run's own.
    """
    planned = noise if noise is not None else run.noise_plan(is_secure=False)
    hook = PlannedNoise(planned, SimulatedSampler(seed), runs)
    done = run_rounds(run, problem, hook, replicas=runs, threads=1)
    hook.check_drawn()
    return done.model(run.output)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a training released, and how it was paid for.

    released: by step, the result of a sum, or the runs of a method, one for each model. plan: every release of all
    steps. origin: where the noise came from; only with secure noise may anything leave, for what `account` says.
    receipts: of the ledger. name: of the run in it. profile: the column profile that rows were encoded by, this run's
    or an `earlier` one's. encoding: of the rows; None where they came encoded.
    """

    spec: TrainingSpec
    released: Mapping[str, Any] = field(repr=False)
    plan: NoisePlan = field(repr=False)
    origin: Origin
    receipts: tuple[Receipt, ...]
    name: str
    profile: "ReleasedProfile | None" = field(default=None, repr=False)
    encoding: "RowEncoding | None" = field(default=None, repr=False)
    earlier: ReusedProfile | None = field(default=None, repr=False)

    @property
    def is_private_release(self) -> bool:
        """Whether what was released may leave."""
        return self.origin is Origin.SECURE

    @property
    def kept(self) -> RunSpec:
        """The run whose models are kept: the one that noisy scores have chosen, or the only one."""
        scores = self.released.get("scores")
        return self.spec.runs[0 if scores is None else scores.chosen]

    def runs(self, step: RunSpec | None = None) -> Sequence[Run]:
        """Return the runs of one step, or of the one that is kept: one for each model."""
        found: Sequence[Run] = self.released[(step or self.kept).name]
        return found

    @property
    def models(self) -> Floats:
        """The models that are kept, (n_models, d)."""
        return np.array([each.model(self.kept.output)[:, 0] for each in self.runs()])

    @property
    def model(self) -> Floats:
        """The only model (d,), or the first."""
        return np.asarray(self.models[0])

    @property
    def account(self) -> Account:
        """What everything cost, with the profile that the models rest on, whoever paid for it."""
        return self.plan.account() if self.earlier is None else account_with(self.plan, self.earlier.release)

    def cost(self, name: str, delta: float) -> float:
        """Return the epsilon of one sum by itself, whoever paid for it."""
        if name == "profile" and self.earlier is not None:
            return self.earlier.epsilon(delta)
        (step,) = (each for each in self.spec.sums if each.name == name)
        return self.spec.part(step, self.is_private_release).account().curve.epsilon(delta)


@contextmanager
def progress_bar(
    title: str, total: int, *, is_wanted: bool = True, console: "Console | None" = None
) -> Iterator[Callable[[], None]]:
    """Yield a function that advances the bar; the bar goes to stderr and vanishes when the work ends."""
    if is_wanted:
        from rich.console import Console
        from rich.progress import Progress

        console = console or Console(stderr=True)
    if not is_wanted or console is None or not console.is_terminal:  # a disabled bar prints an empty line
        yield lambda: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
