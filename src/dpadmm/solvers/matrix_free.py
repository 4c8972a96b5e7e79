"""The solver for many dimensions: no d x d matrix, work and memory linear in what the rows store.

Every column is solved by compiled L-BFGS steps that start from a metric of linear size: the diagonal of the agent's
curvature where rows are sparse, its 50 largest directions and the mean of the rest where they are dense. Columns that
are not done after `_FAST_PASSES` passes are finished by Newton's method with conjugate gradients. Nothing is kept from
solve to solve but the slope at its end, to the bits that would be computed again.
"""

import numpy as np

from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.rows import row_block
from dpadmm.solvers.columns import ColumnSolver, LastSolve
from dpadmm.solvers.solution import Metric, Subproblem

_FAST_PASSES = 400
_NEWTON_STEPS = 200


class MatrixFreeSolver(ColumnSolver):
    """Solve the subproblems of an empirical risk with any loss, dimension by dimension and never by a matrix."""

    def _make_room(self) -> None:
        self._metrics = [Metric(np.empty((0, 0)), np.empty(0), np.empty(0))] * self.risk.n_agents

    def _measure(self, i: int, threads: int) -> None:
        part = self.risk.part(i)
        rows = row_block(self.risk.rows, part)
        bends = self.risk.weighted(np.full(rows.shape[0], self.risk.loss.curvature_bound), part)
        self._metrics[i] = self._metric(rows, self._reference(i, self._metric(rows, bends, i), threads), i)

    def _metric(self, rows: Matrix, curvature: Floats, agent: int) -> Metric:
        weights = float(self._scales[agent]) * curvature
        return Metric.diagonal(rows, weights) if self.risk.silos.is_sparse else Metric.low_rank(rows, weights)

    def _solve_agent(self, agent: int, row: int, sub: Subproblem, point: Floats, norm: Floats, threads: int) -> int:
        """Write the agent's points (d, R) and norms (R,); return the passes of the slowest column."""
        pull, start = float(sub.pull[row]), sub.start[row]
        sigma = pull + float(self.weights[agent]) * self.risk.mu
        known, slopes, slowest = self._last[agent].at(start), np.empty_like(start), 0
        for r in range(start.shape[1]):
            constant = sub.lin[row, :, r] - pull * sub.centre[row, :, r]
            here = np.ascontiguousarray(start[:, r])
            kept = None if known is None else np.ascontiguousarray(known[:, r])
            limits = (self.tolerance, min(_FAST_PASSES, self.max_passes), threads)
            found = self._singles.solve(agent, self._metrics[agent], sigma, constant, here, kept, *limits)
            x, slopes[:, r], norm[r], passes = found.point, found.slope, found.norm, found.passes
            if not norm[r] <= self.tolerance and np.isfinite(norm[r]):
                x, norm[r], steps = self._finish(agent, sigma, constant, x, self.max_passes - passes)
                slopes[:, r], passes = self._singles.slope(agent, x), passes + steps
            point[:, r] = x
            slowest = max(slowest, passes)
        self._last[agent] = LastSolve(point.copy(), slopes)
        return slowest

    def _finish(self, agent: int, sigma: float, constant: Floats, x: Floats, most: int) -> tuple[Floats, float, int]:
        """Finish a column by Newton's method."""
        newton = self._newton(
            agent, sigma, lambda x: self._singles.slope(agent, x[:, 0])[:, None], self._metrics[agent]
        )
        return newton.solve(x, constant, self.tolerance, min(most, _NEWTON_STEPS))
