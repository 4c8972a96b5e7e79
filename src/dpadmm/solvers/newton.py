"""Newton's method for the columns that quasi-Newton steps do not finish: flat or kinked losses with a small penalty.

One column at a time, with the generalised Hessian at the current point. It cannot cycle: a step is taken either because
the gradient fell below half of its smallest norm so far, which happens finitely often above the tolerance, or because
it ends where the function still falls along the step, and then the function has dropped by at least
`0.49 m^2 / (L ||p||^2)`, m being the slope at the start of the step p.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.losses import Loss
from dpadmm.problems.silos import scale_rows
from dpadmm.solvers.solver import Metric, Spectrum

_HALVINGS = 60
# A shortened step ends where the slope along it is still negative, but has lost nine tenths of its size.
_SLOPE_LEFT = 0.1
# Conjugate gradients stop at this share of the right-hand side, and in any case after so many products.
_CLOSE = 1e-4
_PRODUCTS = 500


@dataclass(frozen=True)
class NewtonColumns:
    """`scale * sum_m v_m loss(a_m'x - shift_m) + (sigma/2)||x||^2 + constant'x` of one agent, with its gradient.

    weights: v, None where all of them are 1. metric: None where the Hessian may be decomposed; else steps are found by
    conjugate gradients that start from it. Steps that are not exact still point downhill: all of the above holds.
    """

    rows: Matrix
    shifts: Floats
    loss: Loss
    scale: float
    sigma: float
    gradient: Callable[[Floats, Floats], Floats]
    weights: Floats | None = None
    metric: Metric | None = None

    def solve(self, x: Floats, constant: Floats, tolerance: float, max_steps: int) -> tuple[Floats, float, int]:
        """Return the point (d,), its gradient norm and the number of steps; stop at the tolerance or `max_steps`."""
        gradient = self._gradient_at(x, constant)
        norm = best = float(np.linalg.norm(gradient))
        steps = 0
        while norm > tolerance and steps < max_steps:
            margins = self.rows @ x - self.shifts
            curvature = self._weigh(self.loss.curvature(margins))
            step = self._step(curvature, gradient)
            full = self._gradient_at(x + step, constant)
            if np.linalg.norm(full) <= 0.5 * best or full @ step <= 0:
                x, gradient = x + step, full
            else:
                x = x + self._shorten(margins, step, gradient) * step
                gradient = self._gradient_at(x, constant)
            norm = float(np.linalg.norm(gradient))
            best = min(best, norm)
            steps += 1
        return x, norm, steps

    def _step(self, curvature: Floats, gradient: Floats) -> Floats:
        """Return minus the inverse Hessian times the gradient, or nearly so."""
        if self.metric is None:
            hessian = Spectrum.of_rows(scale_rows(self.rows, np.sqrt(curvature)), self.scale)
            return -hessian.solve(gradient[:, None], self.sigma)[:, 0]
        vectors, gains, spread = self.metric.inverse(self.sigma)
        bends, enough = self.scale * curvature, _CLOSE * float(np.linalg.norm(gradient))
        step, _ = conjugate_gradients(
            lambda v: np.asarray(self.rows.T @ (bends * (self.rows @ v))) + self.sigma * v,
            gradient,
            enough,
            _PRODUCTS,
            lambda v: vectors @ (gains * (vectors.T @ v)) + spread * v,
        )
        return -step

    def _gradient_at(self, x: Floats, constant: Floats) -> Floats:
        return self.gradient(np.ascontiguousarray(x[:, None]), constant[:, None])[:, 0]

    def _weigh(self, values: Floats) -> Floats:
        return values if self.weights is None else values * self.weights

    def _slopes(self, margins: Floats) -> Floats:
        return self._weigh(self.loss.slope(margins))

    def _shorten(self, margins: Floats, step: Floats, gradient: Floats) -> float:
        """Return a share of the step at which the slope along it is small and not positive, by bisection."""
        along = self.rows @ step
        start = float(gradient @ step)
        before, bend = float(self._slopes(margins) @ along), self.sigma * float(step @ step)
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            change = float(self._slopes(margins + middle * along) @ along) - before
            slope = start + self.scale * change + middle * bend
            if slope > 0:
                high = middle
            else:
                low = middle
                if slope >= _SLOPE_LEFT * start:
                    break
        return low


def conjugate_gradients(
    times: Callable[[Floats], Floats],
    right: Floats,
    enough: float,
    most: int,
    precondition: Callable[[Floats], Floats] = lambda v: v,
) -> tuple[Floats, int]:
    """Return x with `||times(x) - right|| <= enough`, or after `most` products; and their number.

    `x @ right > 0` however early it stops. Both maps are positive.
    """
    x, residual = np.zeros_like(right), right
    direction = precondition(residual)
    size = float(residual @ direction)
    products = 0
    while products < most:
        products += 1
        image = times(direction)
        length = size / float(direction @ image)
        x, residual = x + length * direction, residual - length * image
        if np.linalg.norm(residual) <= enough:
            break
        z = precondition(residual)
        before, size = size, float(residual @ z)
        direction = z + (size / before) * direction
    return x, products
