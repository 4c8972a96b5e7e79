"""The last releases of a run with intervals: the curvature of the loss where the run has converged (C14).

Gradients show where the optimum is, the curvature how sharply it is known. It is taken at the mean of the points at
which the last rounds asked for gradients, and released with noise of its own, as one more sum over all silos. Where the
curvature does not tell how much gradients differ between records, as it does for classes and independent rows, the sum
of their products `g g'` at that point is released as well.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpadmm.core.spec import ReleaseFacts, RunSpec, plan_sum
from dpadmm.errors import InputError
from dpadmm.methods.base import Setting, with_rounding, with_rounding_of_sum
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan, vector_on_grid
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.local import LocalFunction
from dpadmm.privacy.certificates.sums import curvature_sum, score_products
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.releases import seen_noise
from dpadmm.problems.arrays import Floats, pack, packed_size, unpack
from dpadmm.problems.losses import Huber
from dpadmm.problems.problem import CountRisk, EmpiricalRisk, Problem
from dpadmm.problems.streams import StreamedRisk

CURVATURE, PRODUCTS = MessageKind("curvature"), MessageKind("score products")
"""Where the matrices get their noise."""


@dataclass(frozen=True, eq=False)
class ReleasedCurvature:
    """What intervals are made of; all of it released with noise, in the scale of sums over records.

    point: p, mean of the points at which the last rounds asked for gradients (of numbers, all rounds). gradient: g,
    mean of the noisy sums of gradients that they got, the ridge taken off; matrix: the noisy curvature. gradient_std:
    of the noise in every number of g. matrix_std: tau, of the noise on the diagonal; beside it there is `tau/sqrt(2)`.
    scatter: of the points about p, the variance of every record's score times its curvature, summed over the records.
    """

    point: Floats
    gradient: Floats
    matrix: Floats
    gradient_std: float
    matrix_std: float
    scatter: float = 0.0


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
        points, _ = self._visited(released, self._averaged)
        return curvature_messages(problem, points.mean(axis=0)[:, None])[:, :, 0]

    def read(self, noisy: Floats, noise_std: float, released: Mapping[str, Any]) -> Any:
        """Return the curvature with the mean gradient of the last rounds, in the scale of sums over records."""
        setting, n = self.run.setting, sum(self.run.facts.sizes)
        points, answers = self._visited(released, self._first)
        point, gradient = points.mean(axis=0), answers.mean(axis=0)
        matrix = n * unpack(noisy, setting.problem.dimension)
        (run,) = released[self.run.name]
        noise = max(seen_noise(each) for each in run.plan)
        ridge = setting.problem.functions.constants.strong_convexity
        return ReleasedCurvature(
            point=point,
            gradient=n * (gradient - ridge * point),
            matrix=matrix,
            gradient_std=n * noise / math.sqrt(setting.rounds + 1 - self._first),
            matrix_std=n * noise_std,
            scatter=float(np.einsum("ki,ij,kj->", points - point, matrix, points - point)) / len(points),
        )

    @property
    def _averaged(self) -> int:
        """The round from which on the run has settled: matrices are taken at the mean of the points from there on."""
        return self.run.method.first_averaged_round(self.run.setting.rounds)

    @property
    def _first(self) -> int:
        """The first round of which gradients are averaged: all, where they are as good as linear in the point."""
        loss = getattr(self.run.setting.problem.functions, "linear_loss", None)
        return 1 if isinstance(loss, Huber) else self._averaged

    def _visited(self, released: Mapping[str, Any], first: int) -> tuple[Floats, Floats]:
        """Return the points (K, d) at which gradients were asked for from a round on, and the noisy answers (K, d).

        The points follow from the noisy sums, so the descent is followed here; nothing else is read.
        """
        method, setting = self.run.method, self.run.setting
        assert isinstance(method, NoisyGradients)
        (run,) = released[self.run.name]
        penalty, points = setting.problem.regulariser, []
        inbox = method.origin(penalty, setting.problem.dimension, 1)
        for noisy in run.sums:
            points.append(inbox[1, :, 0])
            inbox = method.descend(penalty, inbox, noisy)
        return np.array(points[first - 1 :]), np.array([noisy[0, :, 0] for noisy in run.sums[first - 1 :]])


@dataclass(frozen=True)
class ScoreProducts(Curvature):
    """The noisy sum of the products `g g'` of all records' gradients, of persons all rows' together, at that point."""

    name: ClassVar[str] = "score products"
    kind: ClassVar[MessageKind] = PRODUCTS

    def noise_plan(self, facts: ReleaseFacts, is_secure: bool) -> NoisePlan:
        """Return its one release, as the curvature's."""
        shared = replace(facts, is_pooled=True)
        planned = plan_products(self.run.setting, self.target, shared, self.round, is_secure)
        return planned.with_declared(self.run.declared)

    def values(self, source: Any, released: Mapping[str, Any]) -> Floats:
        """Return every silo's packed sum where the run has settled, (silos, d(d + 1)/2)."""
        (problem,) = source.problems(self.run, released)
        return product_messages(problem, self._visited(released, self._averaged)[0].mean(axis=0))

    def read(self, noisy: Floats, noise_std: float, released: Mapping[str, Any]) -> Any:
        """Return the matrix and the noise on its diagonal, in the scale of sums over records."""
        n = sum(self.run.facts.sizes)
        return n * unpack(noisy, self.run.setting.problem.dimension), n * noise_std


def plan_curvature(setting: Setting, target: Target, facts: ReleaseFacts, k: int, is_secure: bool) -> NoisePlan:
    """Return the release of a curvature in round k, from public facts alone."""
    size = setting.problem.functions.constants.record_curvature
    certify = partial(curvature_sum, record_curvature=size)
    return _plan_matrix(setting, target, CURVATURE, certify, size, facts, k, is_secure)


def plan_products(setting: Setting, target: Target, facts: ReleaseFacts, k: int, is_secure: bool) -> NoisePlan:
    """Return the release of the products of gradients in round k, from public facts alone."""
    gradient = setting.problem.functions.constants.record_gradient
    certify = partial(score_products, record_gradient=gradient)
    return _plan_matrix(setting, target, PRODUCTS, certify, gradient**2, facts, k, is_secure)


def _plan_matrix(
    setting: Setting,
    target: Target,
    kind: MessageKind,
    certify: Callable[[Sequence[LocalFunction]], Certificate],
    size: float,
    facts: ReleaseFacts,
    k: int,
    is_secure: bool,
) -> NoisePlan:
    """Return the release of a sum of matrices, one a record, of Frobenius norm at most `size`."""
    d = setting.problem.dimension
    silos = [with_rounding(setting.local(i), dimension=d, size=size, order=2) for i in range(setting.problem.n_agents)]

    certified = certify(with_rounding_of_sum(silos, size=size))
    on_grid = partial(vector_on_grid, dimension=packed_size(d), shares=facts.shares)
    return plan_sum(kind, k, target, facts, lambda n_records: certified, on_grid, is_secure=is_secure)


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


def product_messages(problem: Problem, point: Floats) -> Floats:
    """Return every silo's part of the sum of products of gradients at a public point (d,), (silos, d(d + 1)/2)."""
    risk = problem.functions
    if not isinstance(risk, EmpiricalRisk):
        raise InputError("Products of gradients are released of rows in memory, for losses of one score (C14).")
    silos = range(problem.n_agents)
    return np.stack([problem.weights[i] * pack(risk.score_products(i, point)) for i in silos])


@dataclass(frozen=True, kw_only=True)
class CurvatureFacts:
    """What `ReleasedCurvature` holds, as a model's file keeps it, and what the curvature alone costs.

    matrix: as `pack` lays it out. products, products_std: the noisy sum of the products of gradients, packed, and the
    noise on its diagonal, where it was released.
    """

    point: tuple[float, ...]
    gradient: tuple[float, ...]
    matrix: tuple[float, ...]
    gradient_std: float
    matrix_std: float
    epsilon: float
    products: tuple[float, ...] = ()
    products_std: float = 0.0

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other."""
        d = len(self.point)
        stds, sizes = (self.gradient_std, self.matrix_std, self.products_std), (0, packed_size(d))
        if len(self.gradient) != d or len(self.matrix) != sizes[1] or len(self.products) not in sizes or min(stds) < 0:
            raise InputError("The curvature does not fit its point: the model is damaged.")

    @classmethod
    def of(
        cls,
        released: ReleasedCurvature,
        epsilon: float,
        products: tuple[Floats, float] | None = None,
        *,
        target: tuple[Floats | float, float] = (0.0, 1.0),
    ) -> "CurvatureFacts":
        """Return the facts of a release that costs this much by itself.

        products: what `ScoreProducts` has released. target: the coefficients of the centre of a number to predict, and
        its scale; facts are about coefficients of the number as labels are encoded.
        """
        centre, scale = target
        matrix, noise = (np.zeros((0, 0)), 0.0) if products is None else products
        return cls(
            point=tuple((centre + scale * released.point).tolist()),
            gradient=tuple((scale * released.gradient).tolist()),
            matrix=tuple(pack(released.matrix).tolist()),
            gradient_std=scale * released.gradient_std,
            matrix_std=released.matrix_std,
            epsilon=epsilon,
            products=tuple((scale**2 * pack(matrix)).tolist()),
            products_std=scale**2 * noise,
        )

    def without_scatter(self, scatter: float, constant: float) -> "CurvatureFacts":
        """Return the facts with the gradient at the mean point, where curvature grows like a rate (C20).

        A mean of gradients at scattered points lies above the gradient at their mean, by half of `z k' v^2` summed over
        records, v the deviation of a record's score. With k' = k that is `constant scatter/2` along the constant
        feature; along the others, which are centred, it is taken for 0.
        """
        *others, last = self.gradient
        return replace(self, gradient=(*others, last - constant * scatter / 2))
