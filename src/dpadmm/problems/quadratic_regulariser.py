"""A general quadratic as shared regulariser: the controller's cost of linear-quadratic control is one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.problems.regularisers import FloatArray, _norm, _points, _positive_step

# Eigenvalues come out with rounding of this order, relative to the largest one.
_EIGENVALUE_SLACK = 1e-12


@dataclass(frozen=True)
class Quadratic:
    """g(x) = x'H x / 2 + h'x with H symmetric positive semidefinite (d, d) and h (d,).

    The proximal map solves `(I + step H) p = v - step h`. H is decomposed once, `H = Q diag(e) Q'`, which serves every
    step; unlike the other regularisers this one is not separable. Both are kept as tuples of floats, so that equal
    quadratics compare equal.

    >>> Quadratic([[2.0, 1.0], [1.0, 2.0]], [0.0, 1.0]).prox([[4.0], [5.0]], step=1.0).ravel().round(12)
    array([1., 1.])
    """

    hessian: Sequence[Sequence[float]] | FloatArray
    slope: Sequence[float] | FloatArray

    is_smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check shapes, symmetry and convexity."""
        hessian, slope = _numbers("hessian", self.hessian), _numbers("slope", self.slope)
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
    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
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

    def value(self, x: ArrayLike) -> FloatArray:
        """Return x'H x / 2 + h'x per column."""
        x = self._fitting("x", x)
        hessian, slope, _, _ = self._parts
        return np.asarray((x * (0.5 * _times(hessian, x) + slope)).sum(axis=-2))

    def prox(self, v: ArrayLike, step: ArrayLike) -> FloatArray:
        """Return (I + step H)^-1 (v - step h)."""
        v, step = self._fitting("v", v), _positive_step(step)
        _, slope, eigenvalues, vectors = self._parts
        return _times(vectors, _times(vectors.T, v - step * slope) / (1.0 + step * eigenvalues))

    def subgradient_residual(self, x: ArrayLike, g: ArrayLike) -> FloatArray:
        """Return ||g + H x + h||."""
        x, g = self._fitting("x", x), self._fitting("g", g)
        hessian, slope, _, _ = self._parts
        return _norm(g + _times(hessian, x) + slope)

    def _fitting(self, name: str, x: ArrayLike) -> FloatArray:
        """Check that the points have as many coordinates as the slope."""
        x = _points(name, x)
        if x.shape[-2] != len(self.slope):
            raise InputError(f"{name} must have {len(self.slope)} coordinates like the slope, got shape {x.shape}.")
        return x


def _times(matrix: FloatArray, x: FloatArray) -> FloatArray:
    """Return matrix @ x, summed in the same order for every column, so that a column alone gives the same bits."""
    total = matrix[:, :1] * x[..., :1, :]
    for j in range(1, matrix.shape[1]):
        total = total + matrix[:, j : j + 1] * x[..., j : j + 1, :]
    return total


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} must be an array of numbers, got something else ({problem}).") from problem
    if not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers only.")
    return array
