"""Shared convex regularisers g: value, proximal map and the constants that theorems ask for.

Points are arrays of shape (..., d, R): any leading axes (agents), d coordinates, R replicas as columns. All
regularisers here but `Quadratic` are separable, g(x) = sum_j g_j(x_j), and every decision is taken per column.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.silos import as_numbers

# Eigenvalues come out with rounding of this order, relative to the largest one.
_EIGENVALUE_SLACK = 1e-12


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
class Box:
    """g(x) = 0 if lower <= x <= upper in every coordinate, else infinity; the proximal map is the projection.

    The bounds are numbers for all coordinates or sequences of length d; infinite bounds leave a side open.
    They are kept as a float or a tuple of floats, so that equal boxes compare equal. `Box(0.0, math.inf)` holds all
    vectors without negative coordinates.

    >>> Box(0.0, [1.0, 2.0]).prox([[5.0], [5.0]], step=1.0).ravel()
    array([1., 2.])
    """

    lower: float | Sequence[float] | Floats
    upper: float | Sequence[float] | Floats

    strong_convexity: ClassVar[float] = 0.0
    smoothness: ClassVar[float] = math.inf
    is_smooth: ClassVar[bool] = False

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

    def lipschitz(self, d: int) -> float:
        """Return infinity."""
        checks.count("d", d)
        return math.inf

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
        raise InputError(f"step must be finite and greater than 0, got {shown(step)}.")
    return steps


def _bound(name: str, bound: ArrayLike) -> Floats:
    """Return a bound as a number or a vector without NaN."""
    values = np.asarray(bound, dtype=np.float64)
    if values.ndim > 1 or values.size == 0 or np.isnan(values).any():
        raise InputError(f"{name} must be a number or a sequence of numbers without NaN, got {shown(bound)}.")
    return values


def _hashable(bound: Floats) -> float | tuple[float, ...]:
    """Return a float or a tuple of floats."""
    return tuple(bound.tolist()) if bound.ndim else float(bound)


def _norm(residual: Floats) -> Floats:
    """Return the Euclidean norm of each column."""
    return np.asarray(np.linalg.norm(residual, axis=-2))


def _times(matrix: Floats, x: Floats) -> Floats:
    """Return matrix @ x, summed in the same order for every column, so that a column alone gives the same bits."""
    total = matrix[:, :1] * x[..., :1, :]
    for j in range(1, matrix.shape[1]):
        total = total + matrix[:, j : j + 1] * x[..., j : j + 1, :]
    return total
