"""Shared convex regularisers g: value, proximal map and the constants that theorems ask for.

Points are arrays of shape (..., d, R): any leading axes (agents), d coordinates, R replicas as columns. Every decision
is taken per column. Those in `SEPARABLE` are sums over coordinates, g(x) = sum_j g_j(x_j).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.checks import refuse, safe_repr
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.silos import as_numbers

# Eigenvalues come out with rounding of this order, relative to the largest one.
_EIGENVALUE_SLACK = 1e-12
# Relative to the total, what rounding and the mean of many models may leave of a sum.
_SIMPLEX_SLACK = 1e-9
_SHORT_STEP = 2.0**-40


class Regulariser(Protocol):
    """A closed proper convex function g on R^d, free of data.

    `strong_convexity` is the largest m for which g - (m/2)||x||^2 is convex, `smoothness` the Lipschitz
    constant of its gradient (infinite if g has a kink or a wall).
    """

    @property
    def strong_convexity(self) -> float:
        """Modulus of strong convexity in the Euclidean norm, >= 0."""

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient, `inf` if g is not differentiable everywhere."""

    @property
    def is_smooth(self) -> bool:
        """Whether the gradient exists everywhere and is Lipschitz."""

    def lipschitz(self, d: int) -> float:
        """Return the Euclidean Lipschitz constant of g on R^d, `inf` if there is none."""

    def value(self, x: ArrayLike) -> Floats:
        """Return g of every column: shape (..., d, R) to (..., R); `inf` outside the domain."""

    def prox(self, v: ArrayLike, step: ArrayLike) -> Floats:
        """Return argmin_x g(x) + ||x - v||^2 / (2 step), elementwise.

        `step` is positive: a number, shape (R,) for one per column, or (N, 1, 1) for one per agent.
        """

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> Floats:
        """Return the Euclidean distance of -g from the subdifferential at x, per column.

        Zero if and only if x minimises a convex function with gradient g at x, plus the regulariser. Infinite
        outside the domain, where there are no subgradients.
        """


class _NonSmooth:
    """What a regulariser without curvature, with kinks or walls everywhere, declares."""

    strong_convexity: ClassVar[float] = 0.0
    smoothness: ClassVar[float] = math.inf
    is_smooth: ClassVar[bool] = False

    def lipschitz(self, d: int) -> float:
        """Return infinity."""
        checks.count("d", d)
        return math.inf


@dataclass(frozen=True)
class ElasticNet:
    """g(x) = l1 ||x||_1 + (l2/2) ||x||^2 with l1, l2 >= 0: the lasso penalty, the ridge, both, or none.

    The proximal map shrinks and scales: sign(v) max(|v| - step l1, 0) / (1 + step l2), with exact zeros.

    >>> ElasticNet(l1=1.0, l2=1.0).prox([[-3.0], [0.5], [2.0]], step=1.0).ravel()
    array([-1. ,  0. ,  0.5])
    """

    l1: float = 0.0
    l2: float = 0.0

    def __post_init__(self) -> None:
        """Refuse weights that are negative or not finite."""
        object.__setattr__(self, "l1", checks.non_negative("l1", self.l1))
        object.__setattr__(self, "l2", checks.non_negative("l2", self.l2))

    @property
    def strong_convexity(self) -> float:
        """The weight l2."""
        return self.l2

    @property
    def smoothness(self) -> float:
        """Infinite because of the kink at 0, unless l1 = 0."""
        return math.inf if self.l1 > 0 else self.l2

    @property
    def is_smooth(self) -> bool:
        """Only if l1 = 0."""
        return self.l1 == 0

    def lipschitz(self, d: int) -> float:
        """Return l1 sqrt(d) if l2 = 0, else infinity."""
        d = checks.count("d", d)
        return math.inf if self.l2 > 0 else self.l1 * math.sqrt(d)

    def value(self, x: ArrayLike) -> Floats:
        """Return l1 ||x||_1 + (l2/2) ||x||^2 per column."""
        x = _points("x", x)
        total: Floats = self.l1 * np.abs(x).sum(axis=-2) + 0.5 * self.l2 * np.square(x).sum(axis=-2)
        return total

    def prox(self, v: ArrayLike, step: ArrayLike) -> Floats:
        """Return the soft-thresholded and scaled v."""
        v, step = _points("v", v), _positive_step(step)
        threshold = step * self.l1
        # v - clip(v) is soft-thresholding without branches, and exactly zero below the threshold.
        return np.asarray((v - np.clip(v, -threshold, threshold)) / (1.0 + step * self.l2))

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> Floats:
        """Return the distance of -g from l1 sign(x) + l2 x, where sign(0) is the interval [-1, 1]."""
        x, g = _points("x", x), _points("g", g)
        smooth = g + self.l2 * x
        at_zero = smooth - np.clip(smooth, -self.l1, self.l1)
        return _norm(np.where(x == 0, at_zero, smooth + self.l1 * np.sign(x)))


@dataclass(frozen=True)
class Box(_NonSmooth):
    """g(x) = 0 if lower <= x <= upper in every coordinate, else infinity; the proximal map is the projection.

    The bounds are numbers for all coordinates or one for each (any sequence, kept as a tuple, so that equal boxes
    compare equal); infinite bounds leave a side open. `Box(0.0, math.inf)` holds all vectors without negative
    coordinates.

    >>> Box(0.0, (1.0, 2.0)).prox([[5.0], [5.0]], step=1.0).ravel()
    array([1., 2.])
    """

    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse empty boxes and bounds that are not numbers."""
        lower, upper = _bound("lower", self.lower), _bound("upper", self.upper)
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise InputError(f"lower and upper must have the same length, got {lower.size} and {upper.size}.")
        empty = (lower > upper) | (lower == math.inf) | (upper == -math.inf)
        if np.any(empty):
            j = int(np.argmax(empty))
            low, high = (np.broadcast_to(b, empty.shape).flat[j] for b in (lower, upper))
            raise InputError(
                f"lower must not exceed upper, and the box must hold a finite point; got [{low}, {high}] "
                f"at coordinate {j}."
            )
        object.__setattr__(self, "lower", _hashable(lower))
        object.__setattr__(self, "upper", _hashable(upper))

    @cached_property
    def _bounds(self) -> tuple[Floats, Floats, int | None]:
        """Both bounds as columns, shape (d, 1) or (1, 1), and d if points must have so many coordinates."""
        lower, upper = (np.asarray(b, dtype=np.float64).reshape(-1, 1) for b in (self.lower, self.upper))
        d = max(lower.size, upper.size)
        return lower, upper, d if d > 1 else None

    def value(self, x: ArrayLike) -> Floats:
        """Return 0 for columns in the box and infinity for the others, those with a NaN among them."""
        lower, upper, d = self._bounds
        x = _points("x", x, d)
        return np.where(((lower <= x) & (x <= upper)).all(axis=-2), 0.0, math.inf)

    def prox(self, v: ArrayLike, step: ArrayLike) -> Floats:
        """Return the nearest point of the box, whatever the step."""
        _positive_step(step)
        lower, upper, d = self._bounds
        return np.clip(_points("v", v, d), lower, upper)

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> Floats:
        """Return the distance of -g from the normal cone of the box at x."""
        lower, upper, d = self._bounds
        x, g = _points("x", x, d), _points("g", g, d)
        # A wall holds back whatever pushes against it: g > 0 at the lower bound, g < 0 at the upper one.
        free = np.where(x > lower, np.maximum(g, 0.0), 0.0) + np.where(x < upper, np.minimum(g, 0.0), 0.0)
        return self.value(x) + _norm(free)


SEPARABLE = (ElasticNet, Box)
"""The regularisers that are sums over coordinates, so that the prox of one coordinate does not need the others."""


@dataclass(frozen=True)
class Quadratic:
    """g(x) = x'H x / 2 + h'x with H symmetric positive semidefinite (d, d) and h (d,), as in linear-quadratic control.

    The proximal map solves `(I + step H) p = v - step h`. H is decomposed once, `H = Q diag(e) Q'`, which serves every
    step; unlike the other regularisers this one is not separable. Both are kept as tuples of floats, so that equal
    quadratics compare equal.

    >>> Quadratic([[2.0, 1.0], [1.0, 2.0]], [0.0, 1.0]).prox([[4.0], [5.0]], step=1.0).ravel().round(12)
    array([1., 1.])
    """

    hessian: Sequence[Sequence[float]] | Floats
    slope: Sequence[float] | Floats

    is_smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check shapes, symmetry and convexity."""
        hessian, slope = as_numbers("hessian", self.hessian), as_numbers("slope", self.slope)
        if slope.ndim != 1 or slope.size == 0 or hessian.shape != (slope.size, slope.size):
            raise InputError(
                f"A quadratic needs a hessian (d, d) and a slope (d,), got shapes {hessian.shape} and {slope.shape}."
            )
        if not np.allclose(hessian, hessian.T, rtol=1e-9, atol=1e-12):
            raise InputError("The hessian of a quadratic regulariser must be symmetric; use (H + H') / 2.")
        hessian = (hessian + hessian.T) / 2
        eigenvalues = np.linalg.eigvalsh(hessian)
        if eigenvalues[0] < -_EIGENVALUE_SLACK * max(1.0, float(eigenvalues[-1])):
            raise InputError(
                "The hessian of a quadratic regulariser must be positive semidefinite; it has the eigenvalue "
                f"{eigenvalues[0]:g}."
            )
        object.__setattr__(self, "hessian", tuple(tuple(row) for row in hessian.tolist()))
        object.__setattr__(self, "slope", tuple(slope.tolist()))

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """H, h as a column, the eigenvalues as a column, the eigenvectors."""
        hessian = np.array(self.hessian)
        eigenvalues, vectors = np.linalg.eigh(hessian)
        return hessian, np.array(self.slope)[:, None], np.maximum(eigenvalues, 0.0)[:, None], vectors

    @property
    def strong_convexity(self) -> float:
        """The smallest eigenvalue of H."""
        return float(self._parts[2][0, 0])

    @property
    def smoothness(self) -> float:
        """The largest eigenvalue of H."""
        return float(self._parts[2][-1, 0])

    def lipschitz(self, d: int) -> float:
        """Return infinity, or ||h|| where H = 0."""
        checks.count("d", d)
        return math.inf if self.smoothness > 0 else float(np.linalg.norm(self._parts[1]))

    def value(self, x: ArrayLike) -> Floats:
        """Return x'H x / 2 + h'x per column."""
        x = _points("x", x, len(self.slope))
        hessian, slope, _, _ = self._parts
        return np.asarray((x * (0.5 * _times(hessian, x) + slope)).sum(axis=-2))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Floats:
        """Return (I + step H)^-1 (v - step h)."""
        v, step = _points("v", v, len(self.slope)), _positive_step(step)
        _, slope, eigenvalues, vectors = self._parts
        return _times(vectors, _times(vectors.T, v - step * slope) / (1.0 + step * eigenvalues))

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> Floats:
        """Return ||g + H x + h||."""
        x, g = _points("x", x, len(self.slope)), _points("g", g, len(self.slope))
        hessian, slope, _, _ = self._parts
        return _norm(g + _times(hessian, x) + slope)


@dataclass(frozen=True)
class GroupLasso(_NonSmooth):
    """g(x) = weight sum_k sqrt(d_k) ||x_k||, x_k the d_k coordinates of group k: a group is zero as a whole or nowhere.

    groups: the number of each coordinate's group, such as (0, 0, 1) for the two columns of one category and a number.

    >>> GroupLasso(1.0, [0, 0, 1]).prox([[3.0], [4.0], [0.5]], step=1.0).ravel().round(4).tolist()
    [2.1515, 2.8686, 0.0]
    """

    weight: float
    groups: Sequence[int]

    def __post_init__(self) -> None:
        """Refuse weights that are not positive, and groups that are not numbers."""
        object.__setattr__(self, "weight", checks.positive("weight", self.weight))
        groups = np.asarray(self.groups)
        if groups.ndim != 1 or groups.size == 0 or groups.dtype.kind not in "iu":
            raise InputError(f"groups must be the number of each coordinate's group, got {safe_repr(self.groups)}.")
        object.__setattr__(self, "groups", tuple(groups.tolist()))

    @cached_property
    def _thresholds(self) -> tuple[NDArray[np.intp], Floats]:
        """The group of each coordinate, counted from 0, and the weights of the groups as a column."""
        _, group, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
        return group, self.weight * np.sqrt(sizes)[:, None]

    def _norms(self, x: Floats) -> Floats:
        """Return the norms of the groups, summed in the same order for every column."""
        group, weights = self._thresholds
        squares = np.zeros((*x.shape[:-2], len(weights), x.shape[-1]))
        for j, k in enumerate(group):
            squares[..., k, :] += x[..., j, :] ** 2
        return np.sqrt(squares)

    def _shrink(self, v: Floats, thresholds: Floats) -> Floats:
        """Return v, each group shortened by its threshold, to zeros where it is no longer."""
        norms = self._norms(v)
        kept = np.maximum(norms - thresholds, 0.0) / np.where(norms == 0, 1.0, norms)
        return np.asarray(kept[..., self._thresholds[0], :] * v)

    def lipschitz(self, d: int) -> float:
        """Return weight sqrt(d)."""
        return self.weight * math.sqrt(checks.count("d", d))

    def value(self, x: ArrayLike) -> Floats:
        """Return the weighted norms of the groups, added up per column."""
        norms = self._norms(_points("x", x, len(self.groups)))
        return np.asarray((self._thresholds[1] * norms).sum(axis=-2))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Floats:
        """Return v with each group shortened by step weight sqrt(d_k)."""
        v, step = _points("v", v, len(self.groups)), _positive_step(step)
        return self._shrink(v, step * self._thresholds[1])

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> Floats:
        """Return the distance of -g from the subdifferential: of a group that is zero a ball, of others one vector."""
        x, g = _points("x", x, len(self.groups)), _points("g", g, len(self.groups))
        (group, weights), norms = self._thresholds, self._norms(x)
        pull = (weights / np.where(norms == 0, 1.0, norms))[..., group, :] * x
        return _norm(np.where((norms == 0)[..., group, :], self._shrink(g, weights), g + pull))


@dataclass(frozen=True)
class Simplex(_NonSmooth):
    """g(x) = 0 if x >= 0 and sum_j x_j = total, else infinity: shares, mixtures, allocations.

    The proximal map is the projection. A point lies in the set if its sum and signs are right to 1e-9 of the total.

    >>> Simplex().prox([[0.9], [0.5], [-1.0]], step=1.0).ravel().round(12).tolist()
    [0.7, 0.3, 0.0]
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        """Refuse totals that are not positive numbers."""
        object.__setattr__(self, "total", checks.positive("total", self.total))

    def value(self, x: ArrayLike) -> Floats:
        """Return 0 for columns in the simplex and infinity for the others."""
        x, slack = _points("x", x), _SIMPLEX_SLACK * self.total
        is_inside = (x >= -slack).all(axis=-2) & (np.abs(x.sum(axis=-2) - self.total) <= slack)
        return np.where(is_inside, 0.0, math.inf)

    def prox(self, v: ArrayLike, step: ArrayLike) -> Floats:
        """Return the nearest point of the simplex, whatever the step: max(v - t, 0), t set by the sum."""
        _positive_step(step)
        v = _points("v", v)
        # What lies more than the total below the largest entry becomes 0 anyway; clipped, it costs no digits.
        below = np.maximum(v - v.max(axis=-2, keepdims=True), -self.total)
        sums = np.cumsum(-np.sort(-below, axis=-2), axis=-2) - self.total
        return np.maximum(below - (sums / _counts(v)).max(axis=-2, keepdims=True), 0.0)

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> Floats:
        """Return the distance of -g from the normal cone: equal at positive coordinates, at most that at zeros."""
        x, g = _points("x", x), _points("g", g)
        is_free = x > 0
        order = np.argsort(np.where(is_free, -math.inf, g), axis=-2)
        means = np.cumsum(-np.take_along_axis(g, order, axis=-2), axis=-2) / _counts(g)
        counted = _counts(g) >= is_free.sum(axis=-2, keepdims=True)
        left = -g - np.where(counted, means, -math.inf).max(axis=-2, keepdims=True)
        return self.value(x) + _norm(np.where(is_free, left, np.maximum(left, 0.0)))


def move_into_domain(regulariser: Regulariser, x: Floats) -> Floats:
    """Return points (..., d, R), those outside the domain of g moved to the nearest point in it, others as they are.

    The proximal map with a step towards 0 is the projection on the domain; of a set it is that for every step.
    """
    is_outside = regulariser.value(x) == math.inf
    if not is_outside.any():
        return x
    return np.where(is_outside[..., None, :], regulariser.prox(x, _SHORT_STEP), x)


def check_regulariser(name: str, given: object) -> None:
    """Refuse what is no regulariser: an object with the members of `Regulariser`."""
    wanted = ("strong_convexity", "smoothness", "is_smooth", "lipschitz", "value", "prox", "subgradient_residual")
    if isinstance(given, type) or not all(hasattr(given, each) for each in wanted):
        refuse(name, "be a regulariser, such as ElasticNet(l2=0.1) of dpadmm.problems.regularisers", given)


def _points(name: str, x: ArrayLike, d: int | None = None) -> Floats:
    """Return x as floats if it has the shape (..., d, R); d None: with any number of coordinates."""
    points = np.asarray(x, dtype=np.float64)
    if points.ndim < 2:
        raise InputError(
            f"{name} must have shape (..., d, R) with replicas as columns, got {points.shape}; "
            "write x[:, None] for a single vector."
        )
    if d is not None and points.shape[-2] != d:
        raise InputError(f"{name} must have {d} coordinates like the regulariser, got shape {points.shape}.")
    return points


def _positive_step(step: ArrayLike) -> Floats:
    """Return the step as floats if all of them are finite and > 0."""
    steps = np.asarray(step, dtype=np.float64)
    if not np.all((steps > 0) & (steps < math.inf)):
        raise InputError(f"step must be finite and greater than 0, got {safe_repr(step)}.")
    return steps


def _bound(name: str, bound: ArrayLike) -> Floats:
    """Return a bound as a number or a vector without NaN."""
    try:
        values = np.asarray(bound, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.array(np.nan)
    if values.ndim > 1 or values.size == 0 or np.isnan(values).any():
        raise InputError(f"{name} must be a number or a sequence of numbers without NaN, got {safe_repr(bound)}.")
    return values


def _hashable(bound: Floats) -> float | tuple[float, ...]:
    """Return a float or a tuple of floats."""
    return tuple(bound.tolist()) if bound.ndim else float(bound)


def _norm(residual: Floats) -> Floats:
    """Return the Euclidean norm of each column."""
    return np.asarray(np.linalg.norm(residual, axis=-2))


def _counts(x: Floats) -> Floats:
    """Return 1, ..., d as a column."""
    return np.arange(1.0, x.shape[-2] + 1)[:, None]


def _times(matrix: Floats, x: Floats) -> Floats:
    """Return matrix @ x, summed in the same order for every column, so that a column alone gives the same bits."""
    total = matrix[:, :1] * x[..., :1, :]
    for j in range(1, matrix.shape[1]):
        total = total + matrix[:, j : j + 1] * x[..., j : j + 1, :]
    return total


AnyRegulariser: TypeAlias = ElasticNet | Box | GroupLasso | Simplex | Quadratic
"""The regularisers of this package, as records are declared."""

REGULARISERS: Mapping[str, AnyRegulariser] = {
    "none": ElasticNet(),
    "non-negative": Box(0.0, math.inf),
    "simplex": Simplex(),
}
"""The regularisers that a name alone describes; the others take numbers."""
