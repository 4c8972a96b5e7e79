"""Fed the same made-up messages, two neighbouring data sets stay as near to each other as the certificate says.

Likelihood attacks look at what runs visit; a certificate speaks of every transcript. So the noise is replaced by a
script that drags the models far out, turns round, and strays, many scripts at once, and every value before noise is
compared between the worlds. Memory without noise (a dual or a block that keeps what should have been forgotten) shows
when the difference of the gradients changes its sign on the way, which `neighbours.crossing` sees to. No chance is
involved.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import OneNoise, check_fit
from dpadmm.methods.dvp import OBJECTIVE
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Norm, Unit
from dpadmm.privacy.releases import NoisyRelease, SampledGaussianRelease
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.losses import Huber
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm_research.audit.attacks import LikelihoodRatio
from dpadmm_research.audit.findings import Check, CheckOutcome
from dpadmm_research.audit.likelihood import log_determinant, releases_of
from dpadmm_research.audit.neighbours import changed_agent, crossing
from dpadmm_research.audit.subjects import MethodSubject, Subject
from dpadmm_research.audit.transcripts import Event, Transcript, gradient_gap

SCRIPTS = (120, 1)
"""Many at once; and one alone, as releases are, which solvers may treat otherwise."""

LEAST_ROUNDS = 8
"""Memory needs a few rounds to fill, and to show."""

_SLACK = 1e-5  # of a bound: solver error and rounding
_REACH = (-1.0, 2.0)  # decimal powers of how far scripts drag
_USUAL = Target(epsilon=1.0, delta=1e-5)
_COORDINATOR_ALONE = np.array([COORDINATOR])


@dataclass
class Script(OneNoise):
    """Sends made-up values, the same in both worlds, and keeps what should have been sent; one script a replica."""

    replicas: int
    seed: int
    events: list[Event] = field(default_factory=list)

    def perturb(self, kind: MessageKind, k: int, agents: Ints, values: Floats) -> Floats:
        """Return the script's values of this round, the same for all agents but for a small stir."""
        sent = self._path(k, values.shape[1]) + 0.01 * self._draw(len(self.events), values.shape)
        self.events.append(Event(kind, k, agents, values.copy(), sent))
        return sent

    def total(self, kind: MessageKind, k: int, messages: Floats) -> Floats:
        """Return the script's sum."""
        return self.perturb(kind, k, _COORDINATOR_ALONE, messages.sum(axis=0, keepdims=True))

    def _draw(self, number: int, shape: tuple[int, ...]) -> Floats:
        return np.random.default_rng([self.seed, number]).standard_normal(shape)

    def _path(self, k: int, dimension: int) -> Floats:
        """Return where the scripts are in round k: back and forth, at a corner, or astray."""
        rng, shape = np.random.default_rng([self.seed, 2**32]), (dimension, self.replicas)
        reach, period = 10 ** rng.uniform(*_REACH, self.replicas), rng.integers(1, 6, self.replicas)
        first, second = (_directions(rng.standard_normal(shape)) for _ in range(2))
        # The axes come first: pairs are built along them.
        axes = np.hstack([np.eye(dimension), -np.eye(dimension)])[:, : self.replicas]
        first[:, : axes.shape[1]] = axes
        has_turned = ((k - 1) // period) % 2 == 1
        back_and_forth = np.where(has_turned, -first, first)
        corner = np.where(has_turned, second, first)
        astray = self._draw(2**33 + k, shape)
        kind = np.arange(self.replicas) % 3
        kind[: 2 * dimension] = 0
        return np.asarray(reach * np.select([kind == 0, kind == 1], [back_and_forth, corner], astray))


def _directions(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=0))


def check_sensitivity(subject: Subject, target: Target, seed: int = 0) -> CheckOutcome:
    """Return how far the worlds' values come apart, over their bounds, on the subject's pair and on a crossing one."""
    worst, where = 0.0, ""
    for scripted in _scripted(subject):
        plan = scripted.plan(target)
        for ratio, place in chain.from_iterable(_ratios(scripted, plan, seed, scripts) for scripts in SCRIPTS):
            if ratio > worst:
                worst, where = ratio, place
    return CheckOutcome(Check.SENSITIVITY, subject.method, subject.pair, worst, where, worst > 1 + _SLACK)


def _rounds(subject: MethodSubject) -> int:
    """Return how many rounds are scripted: enough to remember, where the method can be run longer than its pair."""
    longer = replace(subject, rounds=max(subject.rounds, LEAST_ROUNDS))
    with suppress(InputError):  # one-shot methods, and schedules drawn for so many rounds
        subject.algorithm.mechanisms(longer.setting)
        return longer.rounds
    return subject.rounds


def _scripted(subject: Subject) -> Iterator[Subject]:
    """Yield what is scripted: the subject, longer where it can be, and the same method on a crossing pair."""
    if not isinstance(subject, MethodSubject):
        yield subject
        return
    longer = replace(subject, rounds=_rounds(subject))
    yield longer
    like = subject.worlds[0]
    is_huber = isinstance(like.functions, EmpiricalRisk) and isinstance(like.functions.loss, Huber)
    if is_huber and like.dimension == 1 and subject.protection.relation.has_public_sizes:
        is_user = Unit.USER in {release.certificate.protection.unit for release in subject.plan(_USUAL)}
        at = changed_agent(subject.worlds)
        pair = crossing(like, int(like.functions.sizes[at]) if is_user else 1, at)
        with suppress(InputError):  # some are made for one dimension
            check_fit(subject.algorithm, pair[0], subject.network)
            yield replace(longer, worlds=pair)


def _ratios(subject: Subject, plan: NoisePlan, seed: int, scripts: int) -> Iterator[tuple[float, str]]:
    """Yield, release by release, the largest distance over the bound."""
    stage = subject.stage(plan, scripts)
    runs = [stage.run(world, Script(scripts, seed)) for world in subject.worlds]
    for first, second in zip(runs[0].events, runs[1].events, strict=True):
        gaps = first.clean - second.clean
        if first.kind == OBJECTIVE:
            gaps = _explained(subject, runs[0], first)
        for agent, release, gap in zip(first.agents, releases_of(plan, first), gaps, strict=True):
            far = _distance(release, gap).max()
            bound = release.certificate.bound * (2.0 if isinstance(release, SampledGaussianRelease) else 1.0)
            where = f"{first.kind.name}, round {first.round}, agent {int(agent)}"
            yield float(far / bound), where
            if first.kind == OBJECTIVE:
                yield _bent(subject, runs[0], release, first.round, int(agent)), f"{where}, determinants"


def _explained(subject: Subject, run: Transcript, event: Event) -> Floats:
    """Noise inside an objective: by how much the noises differ that explain the same minimiser."""
    gaps = gradient_gap(*subject.worlds, run.messages[event.round - 1])
    return np.asarray(gaps[event.agents])


def _bent(subject: Subject, run: Transcript, release: NoisyRelease, k: int, agent: int) -> float:
    """Noise inside an objective: how far the determinants of the Hessians come apart, over what is counted (C2)."""
    penalty = next(attack.penalty for attack in subject.views.values() if isinstance(attack, LikelihoodRatio))
    if penalty is None:
        raise InputError("Noise inside an objective needs the penalties of the subproblems; name them in the attack.")
    extra, counted = float(penalty(k)[agent]), release.certificate.log_jacobian
    logs = [log_determinant(world, agent, run.messages[k - 1][agent], extra) for world in subject.worlds]
    apart = float(np.abs(logs[0] - logs[1]).max())
    return apart / counted if counted > 0 else (0.0 if apart < _SLACK else np.inf)


def _distance(release: NoisyRelease, gap: Floats) -> Floats:
    if release.certificate.norm is Norm.L1:
        return np.asarray(np.abs(gap).sum(axis=0))
    return np.asarray(np.linalg.norm(gap, axis=0))
