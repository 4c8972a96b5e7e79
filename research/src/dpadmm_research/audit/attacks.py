"""How a viewer turns a transcript into one number: the likelihood ratio if tractable, else a matched filter."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import Method
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import Draw, Releases, Sampler, Values
from dpadmm.privacy.releases import SampledGaussianRelease
from dpadmm.problems.arrays import Floats
from dpadmm_research.audit.likelihood import Lens, Penalty, log_likelihood_ratio
from dpadmm_research.audit.transcripts import Event, RunSetup, Stage, Transcript, Wire, disagreement, replay

Worlds = tuple[Any, Any]
"""Neighbouring data, P and Q, as the stage takes them: problems, or rows before they are encoded."""

_PRECISION = 1e-6  # of traffic that is a function of releases; solvers and rounding stay below 1e-9
_CERTAIN = 1e6


@dataclass(frozen=True)
class Evidence:
    """Recorded runs of both worlds, replica by replica with common noise, and what the attacker knows."""

    stage: Stage
    worlds: Worlds
    plan: NoisePlan
    sampler: Sampler
    runs: tuple[Transcript, Transcript]


class Scores(NamedTuple):
    """Scores of P's and Q's runs, pairwise, and the threshold fixed in advance, if there is a natural one."""

    p: Floats
    q: Floats
    threshold: float | None


class Attack(Protocol):
    """A viewer's way to tell the worlds apart; `title` names it in reports."""

    title: ClassVar[str]

    def scores(self, evidence: Evidence) -> Scores:
        """Return one score per run; high speaks for P."""
        ...


@dataclass(frozen=True)
class LikelihoodRatio:
    """Scores by the exact likelihood ratio of all releases, and by traffic that no noise explains.

    wire: what the viewer sees travel. penalty: of the subproblems, for noise inside objectives. revealed: for releases
    on random batches, the same method with every record in every batch, and the factor `n_i/l` between the two.

    Traffic that differs between the worlds by more than 1e-6 counts as noise-free: problems must be scaled to about 1,
    and solved to 1e-10.
    """

    title: ClassVar[str] = "likelihood ratio"

    wire: Wire = Wire.MESSAGES
    penalty: Penalty | None = None
    revealed: tuple[Method, float] | None = None

    def scores(self, evidence: Evidence) -> Scores:
        """Positive speaks for P: the threshold is 0."""
        lens = Lens(evidence.plan, evidence.worlds, self.penalty)
        both = [self._ratio(evidence, lens, own) for own in (0, 1)]
        return Scores(both[0], both[1], 0.0)

    def _ratio(self, evidence: Evidence, lens: Lens, own: int) -> Floats:
        run, (here, there) = evidence.runs[own], self._as_seen_from(evidence, own)
        in_p, in_q = (here, there) if own == 0 else (there, here)
        sign = 1.0 if own == 0 else -1.0
        return log_likelihood_ratio(lens, in_p, in_q) + sign * leaked(run, there, self.wire)

    def _as_seen_from(self, evidence: Evidence, own: int) -> tuple[Transcript, Transcript]:
        """Return what the run's own world, and then the other one, put behind its noisy values."""
        run, home, away = evidence.runs[own], evidence.worlds[own], evidence.worlds[1 - own]
        if self.revealed is None:
            return run, replay(evidence.stage, away, run, home)
        algorithm, factor = self.revealed
        if not isinstance(evidence.stage, RunSetup):
            raise InputError("Only methods have batches that can be revealed; score other releases as they are.")
        stage = replace(evidence.stage, algorithm=algorithm)
        here, there = (_enlarged(replay(stage, world, run, home), evidence.plan, factor) for world in (home, away))
        return here, there


def leaked(run: Transcript, elsewhere: Transcript, wire: Wire) -> Floats:
    """Return per run by how much its traffic, and the model at its end, give its world away, whatever the noise.

    Below certainty by far unless something bare went over the wire; then it decides.
    """
    here, there = ((*each.traffic(wire), each.estimate[None]) for each in (run, elsewhere))
    return np.minimum(disagreement(here, there, _PRECISION), _CERTAIN)


def _enlarged(transcript: Transcript, plan: NoisePlan, factor: float) -> Transcript:
    """Return the transcript with the values of sampled releases scaled from full batches to those of the method."""

    def one(event: Event) -> Event:
        planned = plan.of(event.kind, event.round, event.agents)
        first = planned[0] if isinstance(planned, list) else planned
        is_sampled = isinstance(first, SampledGaussianRelease)
        return replace(event, clean=factor * event.clean) if is_sampled else event

    return replace(transcript, events=tuple(one(event) for event in transcript.events))


Features = Callable[[Transcript], Floats]
"""What a viewer sees, as numbers (features, R)."""


@dataclass(frozen=True)
class MatchedFilter:
    """Scores by the linear function of what is seen that separates the worlds best, learnt on half of the runs.

    For Gaussian views with a common covariance this is the likelihood ratio; otherwise it is a fair attempt.
    """

    title: ClassVar[str] = "matched filter"

    features: Features

    def scores(self, evidence: Evidence) -> Scores:
        """Learn on the first half, score the second; no threshold is natural."""
        seen = [self.features(run) for run in evidence.runs]
        half = seen[0].shape[1] // 2
        train, test = [part[:, :half] for part in seen], [part[:, half:] for part in seen]
        gap = train[0].mean(axis=1) - train[1].mean(axis=1)
        noise = np.concatenate([part - part.mean(axis=1, keepdims=True) for part in train], axis=1)
        # Each feature in units of its own size: a feature without noise then weighs most, as it should.
        size = np.sqrt((noise**2).mean(axis=1)) + 1e-9 * np.abs(gap) + 1e-300
        noise, unit_gap = noise / size[:, None], gap / size
        spread = noise @ noise.T / noise.shape[1] + 1e-9 * np.eye(len(gap))
        weight = np.linalg.solve(spread, unit_gap) / size
        return Scores(weight @ test[0], weight @ test[1], None)


def final_model(run: Transcript) -> Floats:
    """The last estimate: what the public gets."""
    return run.estimate


def all_broadcasts(run: Transcript) -> Floats:
    """The first row of every broadcast: the models a coordinator publishes."""
    return np.concatenate([inbox[0] for inbox in run.broadcasts])


def all_messages(run: Transcript) -> Floats:
    """Agent 0's messages, and the broadcasts between them."""
    return np.concatenate([*(message[0] for message in run.messages), *(inbox[0] for inbox in run.broadcasts)])


@dataclass(frozen=True)
class Visits:
    """What one peer of a walking token sees: the token each time it arrives. rounds: after which it does."""

    rounds: tuple[int, ...]

    def __call__(self, run: Transcript) -> Floats:
        """The token, arrival by arrival."""
        return np.concatenate([run.broadcasts[k - 1][-1] for k in self.rounds])


@dataclass(frozen=True)
class Afresh:
    """Draws every replica by itself from a fresh sampler, as if each were a run of its own program.

    Secure samplers refuse replicas; this is how many runs of them are attacked at once.
    """

    make: Callable[[], Sampler]

    @property
    def is_secure(self) -> bool:
        """Whether what the samplers draw is a release."""
        return self.make().is_secure

    def perturb(self, values: Values, releases: Releases, draw: Draw, *, out: Values | None = None) -> Values:
        """Return the values, each replica with the noise that a run of its own would have."""
        alone = Draw(draw.kind, draw.round, draw.agents)
        drawn = [
            self.make().perturb(np.ascontiguousarray(values[:, :, [r]]), releases, alone)
            for r in range(values.shape[2])
        ]
        joined = np.concatenate(drawn, axis=2)
        if out is not None:
            np.copyto(out, joined)
            joined = out
        return joined


@dataclass(frozen=True)
class RehearsedNoise:
    """The attacker draws the same noise beforehand and looks for it in the transcript.

    Against entropy of the operating system that is worth nothing; against a sampler whose noise can be repeated it is
    worth everything.
    """

    title: ClassVar[str] = "rehearsed noise"

    def scores(self, evidence: Evidence) -> Scores:
        """Compare the noise that each world would imply with the rehearsed one."""
        both = [self._score(evidence, own) for own in (0, 1)]
        return Scores(both[0], both[1], 0.0)

    def _score(self, evidence: Evidence, own: int) -> Floats:
        run = evidence.runs[own]
        other = replay(evidence.stage, evidence.worlds[1 - own], run, evidence.worlds[own])
        in_p, in_q = (run, other) if own == 0 else (other, run)
        total = np.zeros(run.estimate.shape[-1])
        for first, second in zip(in_p.events, in_q.events, strict=True):
            planned = evidence.plan.of(first.kind, first.round, first.agents)
            draw = Draw(first.kind, first.round, first.agents, first.sent.shape[2])
            noise = evidence.sampler.perturb(np.zeros_like(first.sent), planned, draw)
            far = [np.square(event.sent - event.clean - noise).sum(axis=(0, 1)) for event in (first, second)]
            total += far[1] - far[0]
        return total
