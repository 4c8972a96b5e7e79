"""The one loop over rounds, for every method, with all agents and replicas at once.

`rounds` yields after every complete round; whoever consumes it averages, records or stops. `run_rounds` is what
releases and simulations use.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpadmm.core.release import PlannedNoise, PublicRound
from dpadmm.core.spec import FinalModel, RunSpec
from dpadmm.methods.base import Agents, Method, NoiseHook, check_fit, put, take
from dpadmm.networks.graph import Network
from dpadmm.noise.plan import NoisePlan
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.solvers.solver import available_threads, one_blas_thread

if TYPE_CHECKING:
    from rich.console import Console


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
    where kept.
    """

    models: Floats = field(repr=False)
    last: Floats = field(repr=False)
    tail_average: Floats = field(repr=False)
    plan: NoisePlan = field(repr=False)
    history: tuple[PublicRound, ...] = field(default=(), repr=False)
    sums: tuple[Floats, ...] = field(default=(), repr=False)

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
        tail = np.zeros((agents.dimension, replicas))
        for k, state, inbox in rounds(method, agents, problem, setting.network, noise, setting.rounds, replicas):
            last = method.estimate(state, inbox)
            if k >= first:
                tail = tail + last
            if k > 0:
                tick()
    return Run(
        models=method.models(state, inbox),
        last=last,
        tail_average=tail / (setting.rounds + 1 - first),
        plan=noise.plan,
        history=tuple(noise.history),
        sums=tuple(noise.sums),
    )


@contextmanager
def progress_bar(
    title: str, total: int, *, is_wanted: bool = True, console: "Console | None" = None
) -> Iterator[Callable[[], None]]:
    """Yield a function that advances the bar; the bar goes to stderr and vanishes when the work ends."""
    if not is_wanted:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = console if console is not None else Console(stderr=True)
    if not console.is_terminal:  # a disabled bar of some versions of rich prints an empty line
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
