"""The batched solver for smooth losses without a closed form: preconditioned L-BFGS, column by column.

For agent i the subproblem's Hessian lies everywhere below the fixed majoriser
`P = w_i c1 X'VX/n_i + (w_i mu + s_i) I`, V the rows' weights (1 unless persons have several rows). A step
`x - P^-1 gradient` therefore always shrinks the gradient in the norm of P^-1: that is the safe step. The fast step is
L-BFGS started from the inverse Hessian at a reference point (the minimiser of the agent's own function), decomposed
once. Every decision is taken per column: a fast step that does not shrink the gradient enough is undone and replaced by
the safe one, and a column stops as soon as its own gradient is below the tolerance. So a silo alone and a batch of
replicas get the same point. Columns that are not done after `_FAST_PASSES` passes are finished by Newton's method. A
column alone on few dense rows begins with it, compiled.

A warm start is where the last solve ended, and there the loss was evaluated last: its part of the gradient is kept
with the point it belongs to and used again when a start equals that point, number by number. Only sparse rows do so,
whose pass gives a column the same bits in any batch: what is kept is then exactly what would be computed.
"""

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.rows import row_block
from dpadmm.solvers.columns import ColumnSolver, LastSolve
from dpadmm.solvers.newton_kernel import newton_steps
from dpadmm.solvers.passes import slope_sum
from dpadmm.solvers.solution import Metric, Spectrum, Subproblem

# A quasi-Newton step is kept if it shrinks the squared gradient (in the norm of P^-1) at least by this factor.
_ENOUGH = 0.8
_MEMORY = 5
_FAST_PASSES = 60
# Hard columns take a few dozen Newton steps; many more mean that the tolerance lies below the rounding.
_NEWTON_STEPS = 200
# Entries that an agent reads in a pass: below, the work is mostly Python's own, and threads only wait for each other.
_WORTH_A_THREAD = 50_000
# Products in a Hessian, n d^2: below, a few compiled Newton steps take less time than one pass in Python.
_SMALL = 50_000
_SMALL_STEPS = 12
_ALL_ONE = np.empty(0)  # no weights: every row counts one


class MajoriserSolver(ColumnSolver):
    """Solve the subproblems of an empirical risk with logistic, Huber or smoothed-hinge loss."""

    def _make_room(self) -> None:
        self._safe = [Spectrum(np.empty((0, 0)), np.empty(0))] * self.risk.n_agents
        self._fast = list(self._safe)

    def _useful_threads(self, replicas: int) -> int:
        entries = self.risk.rows.shape[0] * self.risk.rows.shape[1] * replicas
        return self.threads if entries >= _WORTH_A_THREAD * self.risk.n_agents else 1

    def _measure(self, i: int, threads: int) -> None:
        """Decompose the agent's majoriser and reference Hessian."""
        part, scale, weights = self.risk.part(i), float(self._scales[i]), self.risk.silos.weights
        rows = row_block(self.risk.rows, part)
        counts = None if weights is None else np.sqrt(weights[part])
        self._safe[i] = Spectrum.of_rows(rows, scale * self.risk.loss.curvature_bound, counts, threads)
        curvature = self._reference(i, Metric.of_spectrum(self._safe[i]), threads)
        self._fast[i] = Spectrum.of_rows(rows, scale, np.sqrt(curvature), threads)

    def _slope(self, agent: int, x: Floats, threads: int = 1) -> Floats:
        """Return the loss's part of the gradient, w_i/n_i sum_m v_m slope(a_m'x - shift_m) a_m."""
        total = slope_sum(self.risk, agent, x, threads)
        total *= self._scales[agent]
        return total

    def _solve_agent(self, agent: int, row: int, sub: Subproblem, point: Floats, norm: Floats, threads: int) -> int:
        point[:], norm[:], passes = self._solved(agent, row, sub, threads)
        return passes

    def _solved(self, agent: int, row: int, sub: Subproblem, threads: int) -> tuple[Floats, Floats, int]:
        pull = float(sub.pull[row])
        sigma = pull + float(self.weights[agent]) * self.risk.mu
        constant = sub.lin[row] - pull * sub.centre[row]
        start = np.ascontiguousarray(sub.start[row])
        if start.shape[1] == 1:
            found = self._alone(agent, sigma, constant[:, 0], start, threads)
            if found is not None:
                return found
        columns = _Columns(self._safe[agent], self._fast[agent], sigma, constant, start)
        known = self._last[agent].at(start)
        columns.begin(self._slope(agent, start, threads) if known is None else known)
        passes = 1 if known is None else 0
        while columns.retire(self.tolerance) and passes < min(self.max_passes, _FAST_PASSES):
            proposal = columns.propose()
            columns.judge(proposal, self._slope(agent, proposal, threads))
            passes += 1
        columns.store()
        steps = self._finish(agent, sigma, constant, columns, min(self.max_passes - passes, _NEWTON_STEPS))
        if self.risk.silos.is_sparse and steps == 0 and start.shape[1] > 1:  # Newton's points come without their slopes
            self._last[agent] = LastSolve(columns.point, columns.point_slope)
        return columns.point, columns.norm, passes + steps

    def _is_small(self, agent: int) -> bool:
        return not self.risk.silos.is_sparse and int(self.risk.sizes[agent]) * self.risk.dimension**2 <= _SMALL

    def _alone(
        self, agent: int, sigma: float, constant: Floats, start: Floats, threads: int
    ) -> tuple[Floats, Floats, int] | None:
        """Return the point of a column that is alone, by compiled steps; None where they do not lead there soon."""
        if self._is_small(agent):
            return self._few_newton_steps(agent, sigma, constant, start[:, 0])
        known = self._last[agent].at(start)
        metric = Metric.of_spectrum(self._fast[agent])
        limits = (self.tolerance, min(self.max_passes, _FAST_PASSES), threads)
        kept = None if known is None else known[:, 0]
        found = self._singles.solve(agent, metric, sigma, constant, start[:, 0], kept, *limits)
        if not found.norm <= self.tolerance:
            return None
        point = found.point[:, None]
        self._last[agent] = LastSolve(point.copy(), found.slope[:, None])
        return point, np.array([found.norm]), found.passes

    def _few_newton_steps(
        self, agent: int, sigma: float, constant: Floats, start: Floats
    ) -> tuple[Floats, Floats, int] | None:
        """Return the point by plain Newton steps; None where they do not lead there at once."""
        part, x = self.risk.part(agent), start.copy()
        form, weights = self.risk.loss.form, self.risk.silos.weights
        counted = _ALL_ONE if weights is None else weights[part]
        data = (self.risk.rows[part], self.risk.shifts[part], counted, float(self._scales[agent]), sigma, constant)
        limits = (self.tolerance, min(_SMALL_STEPS, self.max_passes))
        norm, passes = newton_steps(*data, form.numbers, form.is_logistic, *limits, x)
        return (x[:, None], np.array([norm]), passes) if norm <= self.tolerance else None

    def _finish(self, agent: int, sigma: float, constant: Floats, columns: "_Columns", max_steps: int) -> int:
        """Finish the columns that are left by Newton's method; return the steps of the slowest."""
        if len(columns.index) == 0 or max_steps <= 0:
            return 0
        newton = self._newton(agent, sigma, lambda x: self._slope(agent, x))
        slowest = 0
        for r in columns.index:
            x, norm, steps = newton.solve(columns.point[:, r], constant[:, r], self.tolerance, max_steps)
            columns.point[:, r], columns.norm[r] = x, norm
            slowest = max(slowest, steps)
        return slowest


class _Columns:
    """The columns of one agent's solve that are still moving, with their L-BFGS pairs.

    The gradient is slope + sigma x + constant, `slope` being the loss's part.
    """

    def __init__(self, safe: Spectrum, fast: Spectrum, sigma: float, constant: Floats, start: Floats) -> None:
        self.safe, self.fast, self.sigma, self.constant = safe, fast, sigma, constant
        self.x = start
        self.slope = self.gradient = np.empty_like(start)
        self.index = np.arange(start.shape[1])
        self.point, self.point_slope = start.copy(), np.empty_like(start)
        self.norm = np.full(start.shape[1], np.inf)
        # Pairs (s, y, 1/s'y): a weight of 0 marks a column whose pair is not to be used.
        self.pairs: list[tuple[Floats, Floats, Floats]] = []
        self.is_plain = np.zeros(start.shape[1], dtype=bool)
        self.merit: Floats | None = None

    def begin(self, slope: Floats) -> None:
        """Take note of the loss's slope at the start."""
        self.slope, self.gradient = slope, self._gradient(self.x, slope)

    def _gradient(self, x: Floats, slope: Floats) -> Floats:
        total = self.sigma * x
        total += slope
        total += self.constant
        return total

    def store(self) -> None:
        """Write where the columns stand, with the slopes there."""
        self.point[:, self.index], self.point_slope[:, self.index] = self.x, self.slope

    def retire(self, tolerance: float) -> bool:
        """Store and drop the columns that reached the tolerance, and say whether any is left."""
        norms = np.sqrt((self.gradient**2).sum(axis=0))
        self.norm[self.index] = norms
        done = norms <= tolerance
        if done.any():
            self.store()
            keep = ~done
            self.index = self.index[keep]
            self.x, self.slope, self.gradient, self.constant = (
                np.ascontiguousarray(part[:, keep]) for part in (self.x, self.slope, self.gradient, self.constant)
            )
            self.pairs = [(s[:, keep], y[:, keep], weight[keep]) for s, y, weight in self.pairs]
            self.is_plain = self.is_plain[keep]
            self.merit = self.merit[keep] if self.merit is not None else None
        return len(self.index) > 0

    def propose(self) -> Floats:
        """Return x - H gradient, H the L-BFGS inverse Hessian, or P^-1 in columns told to step plainly."""
        q = self.gradient.copy()
        factors = []
        for s, y, weight in reversed(self.pairs):
            factor = weight * (s * q).sum(axis=0)
            q -= factor * y
            factors.append(factor)
        direction = self.fast.solve(q, self.sigma)
        for (s, y, weight), factor in zip(self.pairs, reversed(factors), strict=True):
            direction += (factor - weight * (y * direction).sum(axis=0)) * s
        if self.is_plain.any():
            plain = self.is_plain
            direction[:, plain] = self.safe.solve(self.gradient[:, plain], self.sigma)
        return self.x - direction

    def judge(self, proposal: Floats, slope: Floats) -> None:
        """Move the columns whose step shrank the gradient; the others forget their pairs and step plainly next."""
        gradient = self._gradient(proposal, slope)
        new = self._merit(gradient)
        if self.merit is None:
            self.merit = self._merit(self.gradient)
        accepted = (new <= _ENOUGH * self.merit) | self.is_plain
        s, y = proposal - self.x, gradient - self.gradient
        curvature = (s * y).sum(axis=0)
        usable = accepted & (curvature > 0)
        weight = np.where(usable, 1.0 / np.where(usable, curvature, 1.0), 0.0)
        if not accepted.all():
            self.pairs = [(s0, y0, np.where(accepted, w0, 0.0)) for s0, y0, w0 in self.pairs]
            proposal, slope = np.where(accepted, proposal, self.x), np.where(accepted, slope, self.slope)
            gradient, new = np.where(accepted, gradient, self.gradient), np.where(accepted, new, self.merit)
        self.pairs = [*self.pairs[-(_MEMORY - 1) :], (s, y, weight)]
        self.x, self.slope, self.gradient, self.merit = proposal, slope, gradient, new
        self.is_plain = ~accepted

    def _merit(self, gradient: Floats) -> Floats:
        """Return the squared gradient norm in the metric of P^-1, which the safe step always shrinks."""
        return np.asarray((gradient * self.safe.solve(gradient, self.sigma)).sum(axis=0))
