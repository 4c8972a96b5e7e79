"""Shared convex regularisers g: value, proximal map and the constants that theorems ask for.

Points are arrays of shape (..., d, R): any leading axes (agents), d coordinates, R replicas as columns. All
regularisers here are separable, g(x) = sum_j g_j(x_j), and every decision is taken per column.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError

FloatArray = NDArray[np.float64]


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

    def value(self, x: ArrayLike) -> FloatArray:
        """Return g of every column: shape (..., d, R) to (..., R); `inf` outside the domain."""

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return argmin_x g(x) + ||x - v||^2 / (2 step), elementwise.

        `step` is positive: a number, shape (R,) for one per column, or (N, 1, 1) for one per agent.
        """

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return the Euclidean distance of -g from the subdifferential at x, per column.

        Zero if and only if x minimises a convex function with gradient g at x, plus the regulariser. Infinite
        outside the domain, where there are no subgradients.
        """


@dataclass(frozen=True)
class NoRegulariser:
    """g(x) = 0."""

    strong_convexity: ClassVar[float] = 0.0
    smoothness: ClassVar[float] = 0.0
    is_smooth: ClassVar[bool] = True

    def lipschitz(self, d: int) -> float:
        """Return zero."""
        checks.count("d", d)
        return 0.0

    def value(self, x: ArrayLike) -> FloatArray:
        """Return zeros."""
        shape = _points("x", x).shape
        return np.zeros(shape[:-2] + shape[-1:])

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return v."""
        _positive_step(step)
        return _points("v", v).copy()

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return ||g||."""
        _points("x", x)
        return _norm(_points("g", g))


@dataclass(frozen=True)
class ElasticNet:
    """g(x) = l1 ||x||_1 + (l2/2) ||x||^2 with l1, l2 >= 0.

    The proximal map shrinks and scales: sign(v) max(|v| - step l1, 0) / (1 + step l2), with exact zeros.

    >>> ElasticNet(l1=1.0, l2=1.0).prox([[-3.0], [0.5], [2.0]], step=1.0).ravel()
    array([-1. ,  0. ,  0.5])
    """

    l1: float
    l2: float

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

    def value(self, x: ArrayLike) -> FloatArray:
        """Return l1 ||x||_1 + (l2/2) ||x||^2 per column."""
        x = _points("x", x)
        total: FloatArray = self.l1 * np.abs(x).sum(axis=-2) + 0.5 * self.l2 * np.square(x).sum(axis=-2)
        return total

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return the soft-thresholded and scaled v."""
        v, step = _points("v", v), _positive_step(step)
        threshold = step * self.l1
        # v - clip(v) is soft-thresholding without branches, and exactly zero below the threshold.
        return np.asarray((v - np.clip(v, -threshold, threshold)) / (1.0 + step * self.l2))

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return the distance of -g from l1 sign(x) + l2 x, where sign(0) is the interval [-1, 1]."""
        x, g = _points("x", x), _points("g", g)
        smooth = g + self.l2 * x
        at_zero = smooth - np.clip(smooth, -self.l1, self.l1)
        return _norm(np.where(x == 0, at_zero, smooth + self.l1 * np.sign(x)))


@dataclass(frozen=True)
class Ridge:
    """g(x) = (strength/2) ||x||^2 with strength >= 0; the gradient is strength * x.

    >>> Ridge(3.0).prox([[8.0]], step=1.0)
    array([[2.]])
    """

    strength: float
    is_smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a strength that is negative or not finite."""
        object.__setattr__(self, "strength", checks.non_negative("strength", self.strength))

    @property
    def strong_convexity(self) -> float:
        """The strength."""
        return self.strength

    @property
    def smoothness(self) -> float:
        """The strength."""
        return self.strength

    def lipschitz(self, d: int) -> float:
        """Return infinity: the gradient grows with x (zero if the strength is zero)."""
        checks.count("d", d)
        return math.inf if self.strength > 0 else 0.0

    def value(self, x: ArrayLike) -> FloatArray:
        """Return (strength/2) ||x||^2 per column."""
        return np.asarray(0.5 * self.strength * np.square(_points("x", x)).sum(axis=-2))

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return v / (1 + step * strength)."""
        return np.asarray(_points("v", v) / (1.0 + _positive_step(step) * self.strength))

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return ||g + strength * x||."""
        return _norm(_points("g", g) + self.strength * _points("x", x))


@dataclass(frozen=True)
class L1:
    """g(x) = strength ||x||_1 with strength >= 0: the elastic net without its quadratic part.

    >>> L1(1.0).prox([[-3.0], [0.5]], step=2.0).ravel()
    array([-1.,  0.])
    """

    strength: float
    strong_convexity: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Refuse a strength that is negative or not finite."""
        object.__setattr__(self, "strength", checks.non_negative("strength", self.strength))

    @property
    def _net(self) -> ElasticNet:
        return ElasticNet(self.strength, 0.0)

    @property
    def smoothness(self) -> float:
        """Infinite because of the kink at 0, unless the strength is 0."""
        return self._net.smoothness

    @property
    def is_smooth(self) -> bool:
        """Only if the strength is 0."""
        return self._net.is_smooth

    def lipschitz(self, d: int) -> float:
        """Return strength * sqrt(d)."""
        return self._net.lipschitz(d)

    def value(self, x: ArrayLike) -> FloatArray:
        """Return strength ||x||_1 per column."""
        return np.asarray(self.strength * np.abs(_points("x", x)).sum(axis=-2))

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return the soft-thresholded v, sign(v) max(|v| - step * strength, 0)."""
        return self._net.prox(v, step)

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return the distance of -g from strength * sign(x), where sign(0) is the interval [-1, 1]."""
        return self._net.subgradient_residual(x, g)


@dataclass(frozen=True)
class Box:
    """g(x) = 0 if lower <= x <= upper in every coordinate, else infinity; the proximal map is the projection.

    The bounds are numbers for all coordinates or sequences of length d; infinite bounds leave a side open.
    They are kept as a float or a tuple of floats, so that equal boxes compare equal.

    >>> Box(0.0, [1.0, 2.0]).prox([[5.0], [5.0]], step=1.0).ravel()
    array([1., 2.])
    """

    lower: float | Sequence[float] | FloatArray
    upper: float | Sequence[float] | FloatArray

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
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """Both bounds as columns, shape (d, 1) or (1, 1)."""
        lower, upper = (np.asarray(b, dtype=np.float64).reshape(-1, 1) for b in (self.lower, self.upper))
        return lower, upper

    def _fitting(self, name: str, x: ArrayLike) -> FloatArray:
        """Check that the points have as many coordinates as the bounds."""
        x = _points(name, x)
        for bound in self._bounds:
            if bound.size not in (1, x.shape[-2]):
                raise InputError(f"{name} must have {bound.size} coordinates like the bounds, got shape {x.shape}.")
        return x

    def _contains(self, x: FloatArray) -> NDArray[np.bool_]:
        """Whether each column lies in the box; a column with a NaN does not."""
        lower, upper = self._bounds
        return np.asarray(((lower <= x) & (x <= upper)).all(axis=-2))

    def value(self, x: ArrayLike) -> FloatArray:
        """Return 0 for columns in the box and infinity for the others."""
        return np.where(self._contains(self._fitting("x", x)), 0.0, math.inf)

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return the nearest point of the box, whatever the step."""
        _positive_step(step)
        return np.clip(self._fitting("v", v), *self._bounds)

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return the distance of -g from the normal cone of the box at x."""
        x, g = self._fitting("x", x), self._fitting("g", g)
        lower, upper = self._bounds
        # A wall holds back whatever pushes against it: g > 0 at the lower bound, g < 0 at the upper one.
        free = np.where(x > lower, np.maximum(g, 0.0), 0.0) + np.where(x < upper, np.minimum(g, 0.0), 0.0)
        return np.where(self._contains(x), _norm(free), math.inf)


@dataclass(frozen=True)
class NonNegative:
    """g(x) = 0 if x >= 0 in every coordinate, else infinity.

    >>> NonNegative().prox([[-1.0], [2.0]], step=1.0).ravel()
    array([0., 2.])
    """

    strong_convexity: ClassVar[float] = 0.0
    smoothness: ClassVar[float] = math.inf
    is_smooth: ClassVar[bool] = False

    def lipschitz(self, d: int) -> float:
        """Return infinity."""
        return _ORTHANT.lipschitz(d)

    def value(self, x: ArrayLike) -> FloatArray:
        """Return 0 for non-negative columns and infinity for the others."""
        return _ORTHANT.value(x)

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return max(v, 0)."""
        return _ORTHANT.prox(v, step)

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return the distance of -g from the normal cone of the orthant at x."""
        return _ORTHANT.subgradient_residual(x, g)


def _points(name: str, x: ArrayLike) -> FloatArray:
    """Return x as floats if it has the shape (..., d, R)."""
    points = np.asarray(x, dtype=np.float64)
    if points.ndim < 2:
        raise InputError(
            f"{name} must have shape (..., d, R) with replicas as columns, got {points.shape}; "
            "write x[:, None] for a single vector."
        )
    return points


def _positive_step(step: ArrayLike) -> FloatArray:
    """Return the step as floats if all of them are finite and > 0."""
    steps = np.asarray(step, dtype=np.float64)
    if not np.all((steps > 0) & (steps < math.inf)):
        raise InputError(f"step must be finite and greater than 0, got {shown(step)}.")
    return steps


def _bound(name: str, bound: ArrayLike) -> FloatArray:
    """Return a bound as a number or a vector without NaN."""
    values = np.asarray(bound, dtype=np.float64)
    if values.ndim > 1 or values.size == 0 or np.isnan(values).any():
        raise InputError(f"{name} must be a number or a sequence of numbers without NaN, got {shown(bound)}.")
    return values


def _hashable(bound: FloatArray) -> float | tuple[float, ...]:
    """Return a float or a tuple of floats."""
    return tuple(bound.tolist()) if bound.ndim else float(bound)


def _norm(residual: FloatArray) -> FloatArray:
    """Return the Euclidean norm of each column."""
    return np.asarray(np.linalg.norm(residual, axis=-2))


_ORTHANT = Box(0.0, math.inf)
