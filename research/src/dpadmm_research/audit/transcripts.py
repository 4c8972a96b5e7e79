"""What was released and what went over the wire: recorded from real runs, and replayed in the other world.

A recorded run keeps every value before and after its noise, and everything the view sees travel. The *replay* runs the
same code on the neighbouring data set, but hands it the recorded noisy values: it answers what that world would have
computed had it produced this very transcript. Two consequences for an attacker who knows both data sets:

* the values before noise, own and replayed, give the likelihood ratio of the transcript round by round;
* whatever travels and is not noisy must agree in both worlds: every function of the releases does. What differs has
  touched the data without noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol, cast

import numpy as np

from dpadmm.core.release import PlannedNoise
from dpadmm.errors import InputError
from dpadmm.methods.base import Method, NoiseHook, OneNoise
from dpadmm.methods.dvp import OBJECTIVE
from dpadmm.networks.graph import Network
from dpadmm.noise.masks import PairwiseMasks, Uint64s, pairwise_masks
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Sampler
from dpadmm.privacy.releases import SummedGaussianRelease
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.problem import Problem
from dpadmm.testing import LocalEngine, Recording, Stopping

_COORDINATOR_ALONE = np.array([COORDINATOR])

TOLERANCE = 1e-10
"""Gradient norm of all local solves in an audit: a sloppy solver looks like a leak."""


class Wire(Enum):
    """What of the traffic a viewer sees."""

    MESSAGES = "what leaves the agents, and the broadcasts"
    BROADCASTS = "the broadcasts; what goes up to the coordinator is protected"


@dataclass(frozen=True)
class Event:
    """One draw of noise: `sent = clean + noise`, (agents, d, R); `silos`: what was added up, where it is a sum."""

    kind: MessageKind
    round: int
    agents: Ints
    clean: Floats
    sent: Floats
    silos: Floats | None = None


@dataclass(frozen=True)
class MaskedMessages:
    """What silos did for one sum under masks: `own` words of each, which it knows itself, and the words that left it.

    masks: of each silo, its secrets.
    """

    own: tuple[Uint64s, ...]
    sent: tuple[Uint64s, ...]
    masks: tuple[PairwiseMasks, ...]


@dataclass(frozen=True)
class Transcript:
    """A batch of runs: the draws in order, messages and broadcasts by round, and the final estimate (d, R).

    masked: of every sum under masks, by message kind and round. plan: of the noise, a public fact.
    """

    events: tuple[Event, ...]
    messages: tuple[Floats, ...]
    broadcasts: tuple[Floats, ...]
    estimate: Floats
    masked: Mapping[tuple[MessageKind, int], MaskedMessages] = field(default_factory=dict, repr=False)
    plan: NoisePlan = field(default=OneNoise.plan, repr=False)

    def traffic(self, wire: Wire) -> tuple[Floats, ...]:
        """Return what travels in sight."""
        return self.broadcasts if wire is Wire.BROADCASTS else self.messages + self.broadcasts


class EventHook(NoiseHook, Protocol):
    """Noise that remembers what it was put on."""

    events: list[Event]


class Stage(Protocol):
    """Where runs take place: everything but the data."""

    def run(self, world: Any, hook: EventHook) -> Transcript:
        """Run on this data with this noise and keep everything."""
        ...


@dataclass(frozen=True)
class RunSetup:
    """Where an algorithm runs: through the engine, on problems."""

    algorithm: Method
    rounds: int
    network: Network | None = None
    replicas: int = 1

    def run(self, world: Problem, hook: EventHook) -> Transcript:
        """Run the algorithm, with messages and broadcasts written down."""
        tap = _Tap(self.algorithm)
        engine = LocalEngine(self.replicas, TOLERANCE, threads=1, recording=Recording(every=0), progress=False)
        run = engine.run(cast(Method, tap), world, Stopping(self.rounds), self.network, hook)
        return Transcript(tuple(hook.events), tuple(tap.messages), tuple(tap.broadcasts), run.estimate)


def record(stage: Stage, world: Any, noise: NoiseHook) -> Transcript:
    """Run on this data with this noise and keep everything."""
    run = replace(stage.run(world, _Recorder(noise)), plan=noise.plan)
    return replace(run, masked=noise.masked) if isinstance(noise, OpenNoise) else run


def replay(stage: Stage, world: Any, recorded: Transcript, own: Any) -> Transcript:
    """Run on `world`, with the noisy values of a transcript that was recorded on `own`.

    Additive noise: what was sent is handed over as it is. Noise inside an objective never travels; the other world is
    given the noise that makes its minimiser the message which did travel.
    """
    return stage.run(world, Prompter(recorded, own, world))


class OpenNoise(PlannedNoise):
    """Planned noise, with real masks where sums are planned under masks, that keeps what silos did for every sum."""

    def __init__(self, plan: NoisePlan, sampler: Sampler, replicas: int = 1) -> None:
        silos = {release.silos for release in plan if isinstance(release, SummedGaussianRelease)}
        self.secrets = tuple(pairwise_masks(silos.pop(), b"audit")) if silos else ()
        super().__init__(plan, sampler, replicas, self.secrets or None)
        self.masked: dict[tuple[MessageKind, int], MaskedMessages] = {}
        self._own: tuple[Uint64s, ...] = ()

    def shares(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> list[Uint64s]:
        """Return the silos' words before their masks."""
        parts = super().shares(kind, k, agents, values)
        self._own = tuple(parts)
        return parts

    def sent(self, kind: MessageKind, k: int, messages: Floats) -> list[Uint64s]:
        """Return what leaves, and keep it beside what it is made of."""
        sent = super().sent(kind, k, messages)
        self.masked[kind, k] = MaskedMessages(self._own, tuple(sent), self.secrets)
        return sent


class _Recorder(OneNoise):
    """Keeps values before and after noise."""

    def __init__(self, noise: NoiseHook) -> None:
        self.noise = noise
        self.plan = noise.plan
        self.events: list[Event] = []

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Draw, and note it."""
        sent = self.noise.perturb(kind, k, agents, values)
        self.events.append(Event(kind, k, agents, values.copy(), sent.copy()))
        return sent

    def total(self, kind: MessageKind, k: int, messages: Floats) -> Floats:
        """Add up, and note it."""
        sent = self.noise.total(kind, k, messages)
        clean = messages.sum(axis=0, keepdims=True)
        self.events.append(Event(kind, k, _COORDINATOR_ALONE, clean, sent.copy(), messages.copy()))
        return sent


@dataclass
class Prompter(OneNoise):
    """Hands out recorded noisy values in place of noise; keeps what this world would have put there."""

    recorded: Transcript
    own: Any
    here: Any
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The plan is that of the recorded run."""
        self.plan = self.recorded.plan

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return what was sent at this point of the recorded run."""
        place = len(self.events)
        script = self.recorded.events[place] if place < len(self.recorded.events) else None
        if script is None or (script.kind, script.round, script.sent.shape) != (kind, k, values.shape):
            raise InputError(
                f"The two worlds draw noise at different points: {kind} in round {k} was not recorded.",
                setting="script",
            )
        sent = script.sent
        if kind == OBJECTIVE:
            sent = sent + gradient_gap(self.own, self.here, self.recorded.messages[k - 1])
        self.events.append(Event(kind, k, agents, values.copy(), sent))
        return sent

    def total(self, kind: MessageKind, k: int, messages: Floats) -> Floats:
        """Return the sum of the recorded run."""
        sent = self.perturb(kind, k, _COORDINATOR_ALONE, messages.sum(axis=0, keepdims=True))
        self.events[-1] = replace(self.events[-1], silos=messages.copy())
        return sent


def gradient_gap(own: Problem, other: Problem, x: Floats) -> Floats:
    """Return `w_i grad f_i - w_i grad f~_i` at the agents' points x (N, d, R)."""
    pair = [problem.weights[:, None, None] * problem.functions.gradient(x) for problem in (own, other)]
    return pair[0] - pair[1]


class _Tap:
    """The algorithm, with messages and broadcasts written down as they pass."""

    def __init__(self, algorithm: Method) -> None:
        self._algorithm = algorithm
        self.messages: list[Floats] = []
        self.broadcasts: list[Floats] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._algorithm, name)

    def with_drawn_batches(self) -> "_Tap":
        self._algorithm = self._algorithm.with_drawn_batches()
        return self

    def local_step(self, k: int, *rest: Any) -> Any:
        state, messages = self._algorithm.local_step(k, *rest)
        self.messages.append(np.array(messages))
        return state, messages

    def exchange(self, k: int, *rest: Any) -> Floats:
        inbox = self._algorithm.exchange(k, *rest)
        self.broadcasts.append(np.array(inbox))
        return inbox


def disagreement(own: Sequence[Floats], replayed: Sequence[Floats], precision: float) -> Floats:
    """Return, per replica, `sum |difference|^2 / (2 precision^2)` between two worlds' traffic.

    Rounding and solver error stay far below `precision`, anything that touched the data without noise far above it.
    """
    total = np.zeros(own[0].shape[-1])
    for mine, theirs in zip(own, replayed, strict=True):
        gap = (mine - theirs) / precision
        total += 0.5 * np.square(gap).sum(axis=(0, 1))
    return total
