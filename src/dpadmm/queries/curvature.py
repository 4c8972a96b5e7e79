"""The last release of a run with intervals: the curvature of the loss where the run has converged (C14).

Gradients show where the optimum is, the curvature how sharply it is known. It is taken at the mean of the points at
which the last rounds asked for gradients, and released with noise of its own, as one more sum over all silos.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpadmm.core.spec import ReleaseFacts, RunSpec, plan_sum
from dpadmm.errors import InputError
from dpadmm.methods.base import Setting, with_rounding_of_sum
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sums import curvature_sum, masked_sum
from dpadmm.privacy.protection import Certificate, secure_grid
from dpadmm.privacy.releases import seen_noise
from dpadmm.problems.arrays import Floats, pack, packed_size, unpack
from dpadmm.problems.problem import CountRisk, EmpiricalRisk, Problem
from dpadmm.problems.streams import StreamedRisk

CURVATURE = MessageKind("curvature")
"""Where the matrix gets its noise."""


@dataclass(frozen=True, eq=False)
class ReleasedCurvature:
    """What intervals are made of; all of it released with noise, in the scale of sums over records.

    point: p, mean of the points at which the last rounds asked for gradients. gradient: g, mean of the noisy sums of
    gradients that they got, the ridge taken off; matrix: the noisy curvature at p. gradient_std: of the noise in every
    number of g. matrix_std: tau, of the noise on the diagonal; beside it there is `tau/sqrt(2)`.
    """

    point: Floats
    gradient: Floats
    matrix: Floats
    gradient_std: float
    matrix_std: float


@dataclass(frozen=True)
class Curvature:
    """The noisy sum of all records' curvature, after the last round of `run`. target: what it alone may spend."""

    run: RunSpec
    target: Target

    name: ClassVar[str] = "curvature"
    kind: ClassVar[MessageKind] = CURVATURE

    def __post_init__(self) -> None:
        """Intervals need gradients (C14)."""
        if self.run.n_models != 1 or not isinstance(self.run.method, NoisyGradients):
            raise InputError("The curvature is released after noisy-gradients, for one model of two classes (C14).")

    @property
    def reads(self) -> tuple[RunSpec, ...]:
        """Its run."""
        return (self.run,)

    @property
    def round(self) -> int:
        """The one after the last."""
        return self.run.setting.rounds + 1

    def noise_plan(self, facts: ReleaseFacts, is_secure: bool) -> NoisePlan:
        """Return its one release: with one noise on the sum, the silos' shares of one, or that of the only silo."""
        planned = plan_curvature(self.run.setting, self.target, replace(facts, is_pooled=True), self.round, is_secure)
        return planned.with_declared(self.run.declared)

    def values(self, source: Any, released: Mapping[str, Any]) -> Floats:
        """Return every silo's packed curvature where the run has settled, (silos, d(d + 1)/2)."""
        (problem,) = source.problems(self.run, released)
        point, _ = self._last_means(released)
        return curvature_messages(problem, point[:, None])[:, :, 0]

    def read(self, noisy: Floats, noise_std: float, released: Mapping[str, Any]) -> ReleasedCurvature:
        """Return the curvature with the mean gradient of the last rounds, in the scale of sums over records."""
        setting, n = self.run.setting, sum(self.run.facts.sizes)
        point, gradient = self._last_means(released)
        (run,) = released[self.run.name]
        noise = max(seen_noise(each) for each in run.plan)
        ridge = setting.problem.functions.constants.strong_convexity
        return ReleasedCurvature(
            point=point,
            gradient=n * (gradient - ridge * point),
            matrix=n * unpack(noisy, setting.problem.dimension),
            gradient_std=n * noise / math.sqrt(self._number),
            matrix_std=n * noise_std,
        )

    @property
    def _number(self) -> int:
        """How many of the last rounds are averaged."""
        rounds = self.run.setting.rounds
        return rounds + 1 - self.run.method.first_averaged_round(rounds)

    def _last_means(self, released: Mapping[str, Any]) -> tuple[Floats, Floats]:
        """Return the means of the points at which the last rounds asked for gradients, and of the noisy answers.

        The points follow from the noisy sums, so the descent is followed here; nothing else is read.
        """
        method, setting = self.run.method, self.run.setting
        assert isinstance(method, NoisyGradients)
        (run,) = released[self.run.name]
        penalty, first = setting.problem.regulariser, method.first_averaged_round(setting.rounds)
        inbox = method.origin(penalty, setting.problem.dimension, 1)
        point, gradient = np.zeros(setting.problem.dimension), np.zeros(setting.problem.dimension)
        for k, noisy in enumerate(run.sums, 1):
            if k >= first:
                point += inbox[1, :, 0] / self._number
                gradient += noisy[0, :, 0] / self._number
            inbox = method.descend(penalty, inbox, noisy)
        return point, gradient


def plan_curvature(setting: Setting, target: Target, facts: ReleaseFacts, k: int, is_secure: bool) -> NoisePlan:
    """Return the release of a curvature in round k, from public facts alone."""
    size, d = setting.problem.functions.constants.record_curvature, setting.problem.dimension
    silos = [setting.local_curvature(i) for i in range(setting.problem.n_agents)]

    def certify(_: int) -> Certificate:
        return curvature_sum(with_rounding_of_sum(silos, size=size), record_curvature=size)

    def on_grid(certificate: Certificate, grid: float) -> Certificate:
        if facts.shares is None:
            return secure_grid(certificate, grid=grid, dimension=packed_size(d))
        return masked_sum(certificate, shares=facts.shares, grid=grid, dimension=packed_size(d))

    return plan_sum(CURVATURE, k, target, facts, certify, on_grid, is_secure=is_secure)


def curvature_messages(problem: Problem, points: Floats) -> Floats:
    """Return every silo's part of the sum at public points (d, R), packed, (silos, d(d + 1)/2, R); no ridge in it."""
    risk = problem.functions
    if not isinstance(risk, EmpiricalRisk | CountRisk | StreamedRisk):
        raise InputError("The curvature is released for losses of one score a record (C14).")
    bare = replace(risk, mu=0.0)
    silos = range(problem.n_agents)
    return np.stack(
        [np.stack([problem.weights[i] * pack(bare.hessian(i, point)) for point in points.T], axis=1) for i in silos]
    )


@dataclass(frozen=True, kw_only=True)
class CurvatureFacts:
    """What `ReleasedCurvature` holds, as a model's file keeps it, and what the curvature alone costs.

    matrix: as `pack` lays it out.
    """

    point: tuple[float, ...]
    gradient: tuple[float, ...]
    matrix: tuple[float, ...]
    gradient_std: float
    matrix_std: float
    epsilon: float

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other."""
        d = len(self.point)
        if len(self.gradient) != d or len(self.matrix) != packed_size(d) or min(self.gradient_std, self.matrix_std) < 0:
            raise InputError("The curvature does not fit its point: the model is damaged.")

    @classmethod
    def of(cls, released: ReleasedCurvature, epsilon: float) -> "CurvatureFacts":
        """Return the facts of a release that costs this much by itself."""
        return cls(
            point=tuple(released.point.tolist()),
            gradient=tuple(released.gradient.tolist()),
            matrix=tuple(pack(released.matrix).tolist()),
            gradient_std=released.gradient_std,
            matrix_std=released.matrix_std,
            epsilon=epsilon,
        )
