"""Agents whose private function is a quadratic `f_i(x) = x'B_i x / 2 + c_i'x`."""

from dataclasses import dataclass, field

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.problems.losses import Constants
from dpadmm.problems.silos import as_numbers

# Eigenvalues come out with rounding of this order, relative to the largest one.
_EIGENVALUE_SLACK = 1e-9


@dataclass(frozen=True)
class QuadraticAgents:
    """N quadratics; `curvatures` B is (N, d, d), symmetric, with eigenvalues in [tau, L]; `slopes` c is (N, d).

    `tau` and `L` are public promises (`bounds`); left out, they are computed from the matrices, which is only
    right where the matrices themselves are public (the adjacency of C3 hides linear terms only).

    >>> agents = QuadraticAgents(np.stack([np.eye(2), 2 * np.eye(2)]), np.zeros((2, 2)))
    >>> agents.constants.strong_convexity, agents.constants.smoothness
    (1.0, 2.0)
    """

    curvatures: Floats
    slopes: Floats
    bounds: tuple[float, float] | None = None
    n_agents: int = field(init=False, repr=False, compare=False)
    dimension: int = field(init=False, repr=False, compare=False)
    sizes: Ints = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check shapes, symmetry, finiteness and convexity before anything is computed."""
        curvatures, slopes = as_numbers("curvatures", self.curvatures), as_numbers("slopes", self.slopes)
        if curvatures.ndim != 3 or curvatures.shape[1] != curvatures.shape[2] or 0 in curvatures.shape:
            raise InputError(f"curvatures must have shape (agents, d, d), got {curvatures.shape}.")
        if slopes.shape != curvatures.shape[:2]:
            raise InputError(f"slopes must have shape {curvatures.shape[:2]}, got {slopes.shape}.")
        if not np.allclose(curvatures, curvatures.transpose(0, 2, 1), rtol=1e-9, atol=1e-12):
            raise InputError("Every curvature matrix must be symmetric; use (B + B') / 2.")
        least, most = _eigenvalue_range(curvatures)
        slack = _EIGENVALUE_SLACK * max(most, 1.0)
        if least < -slack:
            raise InputError(f"Curvature matrices must be positive semidefinite; eigenvalues in [{least:g}, {most:g}].")
        low, high = _check_bounds(self.bounds) if self.bounds is not None else (least, most)
        if least < low - slack or most > high + slack:
            raise InputError(
                f"Curvature matrices have eigenvalues in [{least:g}, {most:g}], outside the declared bounds "
                f"[{low:g}, {high:g}]. Declare wider public bounds, or scale the matrices."
            )
        number, dimension = slopes.shape
        vars(self).update(curvatures=curvatures, slopes=slopes, bounds=(max(low, 0.0), high))
        vars(self).update(n_agents=number, dimension=dimension, sizes=np.ones(number, dtype=np.int64))

    @property
    def constants(self) -> Constants:
        """Curvature bounds; a quadratic's gradient has no bound."""
        low, high = self.bounds or (0.0, 0.0)
        return Constants(
            record_gradient=float("inf"),
            record_curvature=high,
            smoothness=high,
            strong_convexity=low,
            assumption=f"every curvature matrix has its eigenvalues in [{low:g}, {high:g}]",
        )

    def value(self, w: Floats) -> Floats:
        """Return x'Bx/2 + c'x."""
        half = 0.5 * (self.curvatures @ w) + self.slopes[:, :, None]
        return np.asarray((half * w).sum(axis=1))

    def gradient(self, w: Floats) -> Floats:
        """Return Bx + c."""
        return self.curvatures @ w + self.slopes[:, :, None]

    def take(self, agents: Ints) -> "QuadraticAgents":
        """Return the functions of `agents` only."""
        return QuadraticAgents(self.curvatures[agents], self.slopes[agents], self.bounds)


def _check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    if len(bounds) != 2:
        raise InputError(f"bounds must be two numbers (tau, L), got {safe_repr(bounds)}.")
    low, high = checks.non_negative("bounds[0]", bounds[0]), checks.non_negative("bounds[1]", bounds[1])
    if low > high:
        raise InputError(f"bounds must be (tau, L) with tau <= L, got {safe_repr(bounds)}.")
    return low, high


def _eigenvalue_range(matrices: Floats) -> tuple[float, float]:
    low, high = float("inf"), -float("inf")
    for block in np.array_split(matrices, max(1, len(matrices) // 65_536)):
        eigenvalues = np.linalg.eigvalsh(block)
        low, high = min(low, float(eigenvalues[:, 0].min())), max(high, float(eigenvalues[:, -1].max()))
    return low, high
