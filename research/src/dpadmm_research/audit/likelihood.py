"""The likelihood ratio of a transcript: the best score an attacker who sees all releases can have.

Given the common history, the releases of a round are independent draws around what each world computed from that
history, so the log ratios add up:

    Gaussian            ( ||y - b||^2 - ||y - a||^2 ) / (2 sigma^2)             a, b: before noise, in P and in Q
    spherical Laplace   rate ( ||y - b|| - ||y - a|| )
    Laplace             ( ||y - b||_1 - ||y - a||_1 ) / scale
    sampled Gaussian    a mixture: the record is in the batch with the sampling rate, or it is not
    objective           rate ( ||b_Q|| - ||b_P|| ) + ln det H_P(x) - ln det H_Q(x)      b: noise that explains x
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from dpadmm.errors import InputError
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    NoisyRelease,
    ObjectiveRelease,
    Release,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import dense
from dpadmm_research.audit.transcripts import Event, Transcript

Penalty = Callable[[int], Floats]
"""Curvature that a method adds to each agent's function in round k: k -> (N,)."""


@dataclass(frozen=True)
class Lens:
    """What the attacker knows beside the transcript: the plan, both worlds, the penalties of the subproblems."""

    plan: NoisePlan
    worlds: tuple[Problem, Problem]
    penalty: Penalty | None = None


@dataclass(frozen=True)
class ReleasePair:
    """One agent's release in both worlds: `sent` (d, R) and what led to it, in P and in Q; `x` is its message."""

    sent: tuple[Floats, Floats]
    clean: tuple[Floats, Floats]
    x: Floats
    agent: int
    round: int


def log_likelihood_ratio(lens: Lens, in_p: Transcript, in_q: Transcript) -> Floats:
    """Return `ln p(transcript | P) - ln p(transcript | Q)` per replica; the two are one recorded run and its replay."""
    total = np.zeros(in_p.estimate.shape[-1])
    for first, second in zip(in_p.events, in_q.events, strict=True):
        for place, release in enumerate(releases_of(lens.plan, first)):
            agent = int(first.agents[place])
            x = in_p.messages[first.round - 1]
            pair = ReleasePair(
                sent=(first.sent[place], second.sent[place]),
                clean=(first.clean[place], second.clean[place]),
                x=x[agent] if 0 <= agent < len(x) else x[0],
                agent=agent,
                round=first.round,
            )
            total += log_ratio(release, pair, lens)
    return total


def releases_of(plan: NoisePlan, event: Event) -> Sequence[NoisyRelease]:
    """Return what is planned for each of the event's agents."""
    planned = plan.of(event.kind, event.round, event.agents)
    return planned if isinstance(planned, Sequence) else [planned] * len(event.agents)


@singledispatch
def log_ratio(release: Release, pair: ReleasePair, lens: Lens) -> Floats:
    """Return the log likelihood ratio (R,) of one release."""
    raise InputError(f"No likelihood is known for {type(release).__name__}; use a matched filter.", setting="release")


@log_ratio.register
def _(release: GaussianRelease, pair: ReleasePair, lens: Lens) -> Floats:
    return gaussian_gap(pair.sent[0], pair.clean, release.noise_std)


@log_ratio.register
def _(release: SphericalLaplaceRelease, pair: ReleasePair, lens: Lens) -> Floats:
    far = [np.linalg.norm(pair.sent[0] - clean, axis=0) for clean in pair.clean]
    return release.rate * (far[1] - far[0])


@log_ratio.register
def _(release: CoordinateLaplaceRelease, pair: ReleasePair, lens: Lens) -> Floats:
    far = [np.abs(pair.sent[0] - clean).sum(axis=0) for clean in pair.clean]
    return (far[1] - far[0]) / release.scale


@log_ratio.register
def _(release: SampledGaussianRelease, pair: ReleasePair, lens: Lens) -> Floats:
    """Both clean values are those with the record in the batch; without it, and with silent others, it is zero."""
    rate = release.sampling.rate
    nothing = np.zeros_like(pair.sent[0])
    logs = []
    for clean in pair.clean:
        gap = gaussian_gap(pair.sent[0], (clean, nothing), release.noise_std)
        with np.errstate(divide="ignore"):
            logs.append(np.logaddexp(np.log1p(-rate), np.log(rate) + gap))
    return logs[0] - logs[1]


@log_ratio.register
def _(release: ObjectiveRelease, pair: ReleasePair, lens: Lens) -> Floats:
    """The density of the minimiser is that of the noise that explains it, times the determinant of the Hessian."""
    noise = [np.linalg.norm(b, axis=0) for b in pair.sent]
    ratio = release.rate * (noise[1] - noise[0])
    if lens.penalty is None:
        raise InputError(
            "Noise inside an objective needs the penalties of the subproblems; name them in the lens.",
            setting="penalty",
        )
    extra = float(lens.penalty(pair.round)[pair.agent])
    logs = [log_determinant(world, pair.agent, pair.x, extra) for world in lens.worlds]
    return ratio + logs[0] - logs[1]


def gaussian_gap(y: Floats, clean: tuple[Floats, Floats], std: float) -> Floats:
    """Return `(||y - b||^2 - ||y - a||^2)/(2 std^2) = (a - b)'(y - (a + b)/2)/std^2`, without cancellation."""
    a, b = clean
    return np.asarray(((a - b) * (y - 0.5 * (a + b))).sum(axis=0) / std**2)


def log_determinant(problem: Problem, agent: int, x: Floats, extra: float) -> Floats:
    """Return `ln det( w_i grad^2 f_i(x) + extra I )` at the columns of x (d, R)."""
    functions = problem.functions
    if not isinstance(functions, EmpiricalRisk):
        raise InputError(
            f"Hessians are known for empirical risks only, got {type(functions).__name__}.", setting="functions"
        )
    part = slice(int(functions.silos.offsets[agent]), int(functions.silos.offsets[agent + 1]))
    rows = dense(functions.silos.features[part])
    bend = functions.loss.curvature(functions.margins(rows @ x, part)) / len(rows)
    hessian = np.einsum("nr,ni,nj->rij", bend, rows, rows)
    weight = float(problem.weights[agent])
    hessian = weight * hessian + (weight * functions.mu + extra) * np.eye(len(x))
    return np.asarray(np.linalg.slogdet(hessian)[1])
