"""The solver for many dimensions: no d x d matrix, work and memory linear in what the rows store.

Every column is solved by compiled L-BFGS steps that start from a metric of linear size: the diagonal of the agent's
curvature where rows are sparse, its 50 largest directions and the mean of the rest where they are dense. Columns that
are not done after `_FAST_PASSES` passes are finished by Newton's method with conjugate gradients. Nothing is kept from
solve to solve but the slope at its end, to the bits that would be computed again.
"""

from dataclasses import dataclass

import numpy as np

from dpadmm import checks
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.rows import row_block
from dpadmm.solvers.columns import LastSolve, SingleColumns
from dpadmm.solvers.metrics import Metric
from dpadmm.solvers.newton import NewtonColumns
from dpadmm.solvers.row_blocks import over_agents
from dpadmm.solvers.solution import Solution, Subproblem, require_converged

_FAST_PASSES = 400
_NEWTON_STEPS = 200
# The reference point minimises f_i plus a pull to 0 of this share of its mean curvature bound, roughly.
_REFERENCE_PULL = 2e-3
_REFERENCE_PASSES = 12


@dataclass
class MatrixFreeSolver:
    """Solve the subproblems of an empirical risk with any loss, dimension by dimension and never by a matrix."""

    risk: EmpiricalRisk
    weights: Floats
    tolerance: float
    threads: int = 1
    max_passes: int = 1000

    def __post_init__(self) -> None:
        """Find every agent's metric, at roughly the minimiser of its own function."""
        checks.positive("tolerance", self.tolerance)
        checks.count("threads", self.threads)
        checks.count("max_passes", self.max_passes)
        self._scales = self.weights / self.risk.sizes
        self._columns = SingleColumns(self.risk, self._scales)
        self._last = [LastSolve.nothing()] * self.risk.n_agents
        nothing = Metric(np.empty((0, 0)), np.empty(0), np.empty(0))
        self._metrics = [nothing] * self.risk.n_agents
        self._blocks = [self._columns.blocks(i) for i in range(self.risk.n_agents)]
        over_agents(self._measure, self._blocks, self.threads)

    def _measure(self, i: int, threads: int) -> None:
        loss, zero, part = self.risk.loss, np.zeros(self.risk.dimension), self.risk.part(i)
        rows = row_block(self.risk.rows, part)
        steepest = self._metric(rows, np.full(rows.shape[0], loss.curvature_bound), i)
        sigma = float(self.weights[i]) * (self.risk.mu + _REFERENCE_PULL * loss.curvature_bound)
        limits = (None, self.tolerance, _REFERENCE_PASSES, threads)
        reference = self._columns.solve(i, steepest, sigma, zero, zero, *limits).point
        curvature = loss.curvature(rows @ reference - self.risk.shifts[part])
        self._metrics[i] = self._metric(rows, curvature, i)

    def _metric(self, rows: Matrix, curvature: Floats, agent: int) -> Metric:
        weights = float(self._scales[agent]) * self.risk.weighted(curvature, self.risk.part(agent))
        return Metric.diagonal(rows, weights) if self.risk.silos.is_sparse else Metric.low_rank(rows, weights)

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica; agents run on separate threads, those of many rows on all of them."""
        point = np.empty_like(subproblem.start)
        norm = np.empty((len(point), point.shape[2]))
        passes = np.zeros(len(point))
        seats = subproblem.seats()

        def work(row: int, threads: int) -> None:
            passes[row] = self._solve_agent(int(seats[row]), row, subproblem, point[row], norm[row], threads)

        over_agents(work, [self._blocks[seat] for seat in seats], self.threads)
        return require_converged(Solution(point, norm, passes), self.tolerance, subproblem)

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
            found = self._columns.solve(agent, self._metrics[agent], sigma, constant, here, kept, *limits)
            x, slopes[:, r], norm[r], passes = found.point, found.slope, found.norm, found.passes
            if not norm[r] <= self.tolerance and np.isfinite(norm[r]):
                x, norm[r], steps = self._finish(agent, sigma, constant, x, self.max_passes - passes)
                slopes[:, r], passes = self._columns.slope(agent, x), passes + steps
            point[:, r] = x
            slowest = max(slowest, passes)
        self._last[agent] = LastSolve(point.copy(), slopes)
        return slowest

    def _finish(self, agent: int, sigma: float, constant: Floats, x: Floats, most: int) -> tuple[Floats, float, int]:
        """Finish a column by Newton's method."""
        part, weights = self.risk.part(agent), self.risk.silos.weights
        newton = NewtonColumns(
            row_block(self.risk.rows, part),
            self.risk.shifts[part],
            self.risk.loss,
            float(self._scales[agent]),
            sigma,
            lambda x, push: self._columns.slope(agent, x[:, 0])[:, None] + sigma * x + push,
            None if weights is None else weights[part],
            self._metrics[agent],
        )
        return newton.solve(x, constant, self.tolerance, min(most, _NEWTON_STEPS))
