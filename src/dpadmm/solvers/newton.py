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
from dpadmm.problems.rows import scaled_rows
from dpadmm.solvers.solution import Spectrum

_HALVINGS = 60
# A shortened step ends where the slope along it is still negative, but has lost nine tenths of its size.
_SLOPE_LEFT = 0.1


@dataclass(frozen=True)
class NewtonColumns:
    """`scale * sum_m v_m loss(a_m'x - shift_m) + (sigma/2)||x||^2 + constant'x` of one agent, with its gradient.

    weights: v, None where all of them are 1.
    """

    rows: Matrix
    shifts: Floats
    loss: Loss
    scale: float
    sigma: float
    gradient: Callable[[Floats, Floats], Floats]
    weights: Floats | None = None

    def solve(self, x: Floats, constant: Floats, tolerance: float, max_steps: int) -> tuple[Floats, float, int]:
        """Return the point (d,), its gradient norm and the number of steps; stop at the tolerance or `max_steps`."""
        gradient = self._gradient_at(x, constant)
        norm = best = float(np.linalg.norm(gradient))
        steps = 0
        while norm > tolerance and steps < max_steps:
            margins = self.rows @ x - self.shifts
            curvature = self._weighted(self.loss.curvature(margins))
            hessian = Spectrum.of_rows(scaled_rows(self.rows, np.sqrt(curvature)), self.scale)
            step = -hessian.solve(gradient[:, None], self.sigma)[:, 0]
            full = self._gradient_at(x + step, constant)
            if np.linalg.norm(full) <= 0.5 * best or full @ step <= 0:
                x, gradient = x + step, full
            else:
                x = x + self._shortened(margins, step, gradient) * step
                gradient = self._gradient_at(x, constant)
            norm = float(np.linalg.norm(gradient))
            best = min(best, norm)
            steps += 1
        return x, norm, steps

    def _gradient_at(self, x: Floats, constant: Floats) -> Floats:
        return self.gradient(np.ascontiguousarray(x[:, None]), constant[:, None])[:, 0]

    def _weighted(self, values: Floats) -> Floats:
        return values if self.weights is None else values * self.weights

    def _slopes(self, margins: Floats) -> Floats:
        return self._weighted(self.loss.slope(margins))

    def _shortened(self, margins: Floats, step: Floats, gradient: Floats) -> float:
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
