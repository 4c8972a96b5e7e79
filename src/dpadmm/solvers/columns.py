"""Solvers that go agent by agent, each column until its own gradient is within the tolerance, and the pass they share.

`MajoriserSolver` batches an agent's columns, up to a few hundred dimensions; `MatrixFreeSolver` needs no d x d matrix.
Both begin with compiled L-BFGS steps of a column alone (`SingleColumns`) and leave what these do not finish to Newton's
method.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from dpadmm import checks
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import AnyLoss
from dpadmm.problems.problem import EmpiricalRisk, SoftmaxRisk, risk_of
from dpadmm.problems.silos import RUN, Silos, row_block, row_bounds, row_sums, scores
from dpadmm.problems.streams import StreamedRisk
from dpadmm.solvers.newton import NewtonColumns
from dpadmm.solvers.solver import (
    AgentSolver,
    Metric,
    Solution,
    Spectrum,
    Subproblem,
    for_each_agent,
    for_each_block,
    require_converged,
    sum_blocks,
)

_NONE = np.empty(0)  # no shifts, or no weights: every row counts one


@cache
def _compiled() -> tuple[ModuleType, ModuleType]:
    """Return the compiled kernels of passes and of whole solves: slow to load, and of no use for few rows."""
    from dpadmm.solvers import column_kernel, kernels

    return kernels, column_kernel


def slope_sum(risk: EmpiricalRisk, agent: int, x: Floats, threads: int = 1) -> Floats:
    """Return the sum over an agent's rows of weight sign slope(sign (a'x - shift)) a, for all columns of x (d, R).

    Sparse rows give a column the same bits in any batch of columns.
    """
    part = risk.part(agent)
    if risk.silos.is_small:
        return stored_sum(risk, part, x)
    bounds = row_bounds(part, risk.dimension, risk.silos.is_sparse)
    return _folded(risk.silos, sum_blocks(lambda here: stored_sum(risk, here, x), bounds, threads))


def stored_sum(risk: EmpiricalRisk, part: slice, x: Floats) -> Floats:
    """Return the sum over one block of rows, as they are stored; over few, which are one block, as it is."""
    rows = risk.silos.features
    if risk.silos.is_small:
        return _small_sum(risk, part, x)
    if isinstance(rows, CentredRows):
        return _sparse_sum(risk, rows.stored, part, np.ascontiguousarray(rows.extend(x)))
    point = np.ascontiguousarray(x)
    if risk.silos.is_sparse:
        return _sparse_sum(risk, rows, part, point)
    return (_column_sum if x.shape[1] == 1 else _dense_sum)(risk, part, point)


def _folded(silos: Silos, total: Floats) -> Floats:
    """Return the sum over rows from that over what they store."""
    return silos.features.fold(total) if isinstance(silos.features, CentredRows) else total


@dataclass(frozen=True, eq=False)
class SlopeSum:
    """Add up the gradients of the losses at points (d, R) over a batch of streamed rows, to the bits of one block."""

    loss: AnyLoss
    point: Floats

    def __call__(self, batch: Silos) -> Floats:
        """Return the sums, of rows as they are stored."""
        risk, everything = risk_of(batch, self.loss), slice(0, len(batch.labels))
        if isinstance(risk, SoftmaxRisk):
            return risk.gradient_sum(everything, self.point)
        return stored_sum(risk, everything, self.point)


def streamed_sums(risk: StreamedRisk, x: Floats) -> list[Floats]:
    """Return what `slope_sum` or `softmax_sum` does of every agent's rows, to the bit, in one pass; x (N, d, R)."""
    totals = risk.totals([SlopeSum(risk.loss, each) for each in x])
    sums = [np.zeros(x.shape[1:]) if isinstance(total, float) else total for total in totals]
    return [_folded(risk.silos.no_rows, total) if len(total) > x.shape[1] else total for total in sums]


def softmax_sum(risk: SoftmaxRisk, agent: int, x: Floats, threads: int = 1) -> Floats:
    """Return the sum of the gradients of an agent's records, (C d, R), for all columns of x (C d, R)."""
    bounds = row_bounds(risk.part(agent), risk.dimension, risk.silos.is_sparse)
    return sum_blocks(lambda here: risk.gradient_sum(here, x), bounds, threads)


def _small_sum(risk: EmpiricalRisk, part: slice, x: Floats) -> Floats:
    """Return the sum over few rows; a column alone has each row's term to the same bits wherever it stands (C7)."""
    rows = row_block(risk.silos.features, part)
    products = scores(rows, x) if x.shape[1] == 1 else np.asarray(rows @ x)
    return row_sums(rows, risk.pulls(products, part))


def _sparse_sum(risk: EmpiricalRisk, stored: Matrix, part: slice, x: Floats) -> Floats:
    form = risk.loss.form
    matrix = (stored.indptr, stored.indices, stored.data, *_labels(risk), part.start, part.stop)
    return np.asarray(_compiled()[0].csr_slope_sum(*matrix, x, form.numbers, form.is_logistic))


def _column_sum(risk: EmpiricalRisk, part: slice, x: Floats) -> Floats:
    form, out = risk.loss.form, np.empty_like(x)
    point = (x[:, 0], form.numbers, form.is_logistic)
    _compiled()[0].dense_sum(risk.silos.features, *_labels(risk), part.start, part.stop, *point, out[:, 0])
    return out


def _dense_sum(risk: EmpiricalRisk, part: slice, x: Floats) -> Floats:
    form, total = risk.loss.form, np.zeros_like(x)
    for start in range(part.start, part.stop, RUN):
        here = slice(start, min(start + RUN, part.stop))
        block = risk.silos.features[here]
        t = risk.margins(block @ x, here)
        _compiled()[0].slopes(t.reshape(-1), form.numbers, form.is_logistic)
        t = risk.weigh(t, here)
        total += block.T @ (risk.signs[here, None] * t if risk.signs.size else t)
    return total


def _labels(risk: EmpiricalRisk) -> tuple[Floats, Floats, Floats]:
    """Return shifts, signs and weights of all rows, as kernels take them."""
    return risk.shifts, risk.signs, _NONE if risk.silos.weights is None else risk.silos.weights


# Pairs of a solve. Kept for the next one they would save every sixth pass or fewer, and no time where d is large; that
# it depends on its arguments alone is worth more: a resumed run, or a silo that starts again, has the same bits.
_MEMORY = 10
_NO_INDICES, _NO_ROWS = np.empty(0, dtype=np.int32), np.empty((0, 0))


class LastSolve(NamedTuple):
    """Where an agent's last solve ended, and the loss's part of the gradient there, both (d, R) and never changed."""

    point: Floats
    slope: Floats


class SolvedColumn(NamedTuple):
    """Where a column's solve ended: the point, the loss's part of the gradient, the gradient's norm, the passes."""

    point: Floats
    slope: Floats
    norm: float
    passes: int


class SingleColumns:
    """`min w_i f_i(x) + (sigma/2)||x||^2 + constant'x` for one agent and one column.

    scales: w_i/n_i, by which the sum over an agent's rows is multiplied. blocks: of rows, of which a pass over an
    agent's is made.
    """

    def __init__(self, risk: EmpiricalRisk, scales: Floats) -> None:
        rows = risk.silos.features
        stored = rows.stored if isinstance(rows, CentredRows) else rows
        matrix = (stored, _NO_INDICES, _NO_INDICES, _NONE)
        if risk.silos.is_sparse:
            matrix = (_NO_ROWS, stored.indptr, stored.indices, stored.data)
        centre = rows.centre if isinstance(rows, CentredRows) else _NONE
        self._width = stored.shape[1]
        shared = (*matrix, centre, *_labels(risk))
        self._data, self.blocks = [], []
        for i in range(risk.n_agents):
            bounds = row_bounds(risk.part(i), risk.dimension, risk.silos.is_sparse)
            self._data.append((*shared, bounds, float(scales[i])))
            self.blocks.append(len(bounds) - 1)
        self._form = (risk.loss.form.numbers, risk.loss.form.is_logistic)

    def slope(self, agent: int, x: Floats) -> Floats:
        """Return the loss's part of the gradient at x (d,)."""
        slope, sums = np.empty_like(x), np.empty((self.blocks[agent], self._width))
        _compiled()[1].slope_at(self._data[agent], self._form, x, np.empty(self._width), sums, slope)
        return slope

    def solve(
        self,
        agent: int,
        metric: Metric,
        sigma: float,
        constant: Floats,
        start: Floats,
        known: Floats | None,
        tolerance: float,
        most: int,
        threads: int = 1,
    ) -> SolvedColumn:
        """Solve from `start`, where `known` is the loss's part of the gradient; stop after `most` passes."""
        d, numbers = len(start), np.zeros(6)
        x, slope = start.copy(), np.empty(d) if known is None else known.copy()
        numbers[0] = 0.0 if known is None else 1.0
        vectors = (x, slope, *np.empty((5, d)), np.empty(self._width))
        state = (*vectors, np.empty((_MEMORY, 2, d)), np.empty(_MEMORY), numbers)
        data, sums = self._data[agent], np.empty((self.blocks[agent], self._width))
        given = (metric.inverse(sigma), (sigma, constant, tolerance))
        if threads == 1 or len(sums) == 1:
            passes = _compiled()[1].solve_column(data, self._form, *given, most, state, sums)
        else:
            passes = self._solve_on(threads, data, given, most, state, sums)
        return SolvedColumn(x, slope, float(numbers[1]), passes)

    def _solve_on(self, threads: int, data: Any, given: Any, most: int, state: Any, sums: Floats) -> int:
        """As `solve_column`, to the same bits: every pass on several threads."""
        point, passes, kernel = state[7], 0, _compiled()[1]

        def work(first: int, last: int) -> None:
            for block in range(first, last):
                kernel.block_sum(data, self._form, block, point, sums[block])

        is_wanted = kernel.advance(data, *given, state, sums[:0])
        while is_wanted and passes < most:
            for_each_block(work, len(sums), 1, threads)
            passes += 1
            is_wanted = kernel.advance(data, *given, state, sums)
        return passes


# The reference point minimises f_i plus a pull to 0 of this share of its mean curvature bound, roughly.
_REFERENCE_PULL = 2e-3
_REFERENCE_PASSES = 12


@dataclass
class ColumnSolver(AgentSolver[EmpiricalRisk], ABC):
    """Solves agent by agent, each column until its own gradient is within the tolerance; agents on several threads."""

    max_passes: int = 1000

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        checks.count("max_passes", self.max_passes)

    def _prepare(self) -> None:
        """Find what shapes every agent's steps."""
        self._scales = self.weights / self.risk.sizes
        self._singles = SingleColumns(self.risk, self._scales)
        self._last: list[LastSolve | None] = [None] * self.risk.n_agents
        self._shapes: list[Any] = [None] * self.risk.n_agents

        def work(agent: int, threads: int) -> None:
            self._shapes[agent] = self._shape(agent, threads)

        for_each_agent(work, self._singles.blocks, self._useful_threads(1))

    @abstractmethod
    def _shape(self, agent: int, threads: int) -> Any:
        """Return what shapes an agent's steps."""

    def _known_slope(self, agent: int, start: Floats) -> Floats | None:
        """Return the loss's part of the gradient if the last solve ended at this very start, in every column."""
        last = self._last[agent]
        return last.slope if last is not None and np.array_equal(start, last.point) else None

    def _reference_pull(self, agent: int) -> float:
        """Return the ridge of the function at whose minimiser, roughly, steps take the curvature from."""
        return float(self.weights[agent]) * (self.risk.mu + _REFERENCE_PULL * self.risk.loss.curvature_bound)

    def _reference(self, agent: int, metric: Metric, threads: int) -> Floats:
        """Return that minimiser (d,)."""
        zero, limits = np.zeros(self.risk.dimension), (None, self.tolerance, _REFERENCE_PASSES, threads)
        return self._singles.solve(agent, metric, self._reference_pull(agent), zero, zero, *limits).point

    def _curvatures(self, agent: int, point: Floats) -> Floats:
        """Return the curvatures (n,) of the agent's rows at a point, as they count; they only shape the steps."""
        part = self.risk.part(agent)
        products = np.asarray(row_block(self.risk.silos.features, part) @ point)
        return self.risk.weigh(self.risk.loss.curvature(self.risk.margins(products, part)), part)

    def _useful_threads(self, replicas: int) -> int:
        """Return how many threads are worth their while for so many replicas."""
        return self.threads

    def _solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica; agents run on separate threads, those of many rows on all of them."""
        point = np.empty_like(subproblem.start)
        norm = np.empty((len(point), point.shape[2]))
        passes = np.zeros(len(point))
        index = subproblem.agent_index()

        def work(row: int, threads: int) -> None:
            passes[row] = self._solve_agent(int(index[row]), row, subproblem, point[row], norm[row], threads)

        for_each_agent(work, np.take(self._singles.blocks, index).tolist(), self._useful_threads(point.shape[2]))
        return require_converged(Solution(point, norm, passes), self.tolerance, subproblem)

    @abstractmethod
    def _solve_agent(self, agent: int, row: int, sub: Subproblem, point: Floats, norm: Floats, threads: int) -> int:
        """Write the agent's points (d, R) and norms (R,); return the passes of the slowest column."""

    def _newton(
        self, agent: int, sigma: float, slope: Callable[[Floats], Floats], metric: Metric | None = None
    ) -> NewtonColumns:
        """Return Newton's method, for the columns that the fast steps leave; slope: the loss's part of the gradient."""
        part, weights = self.risk.part(agent), self.risk.silos.weights
        return NewtonColumns(
            self.risk.folded(part),
            self.risk.shifts[part] if self.risk.shifts.size else np.zeros(part.stop - part.start),
            self.risk.loss,
            float(self._scales[agent]),
            sigma,
            lambda x, push: slope(x) + sigma * x + push,
            None if weights is None else weights[part],
            metric,
        )


# A quasi-Newton step is kept if it shrinks the squared gradient (in the norm of P^-1) at least by this factor.
_ENOUGH = 0.8
_BATCH_MEMORY = 5
_FAST_PASSES = 60
# Hard columns take a few dozen Newton steps; many more mean that the tolerance lies below the rounding.
_NEWTON_STEPS = 200
# Entries that an agent reads in a pass: below, the work is mostly Python's own, and threads only wait for each other.
_WORTH_A_THREAD = 50_000


class MajoriserSolver(ColumnSolver):
    """Solve the subproblems of an empirical risk with a smooth loss: preconditioned L-BFGS, column by column.

    For agent i the subproblem's Hessian lies everywhere below the fixed majoriser
    `P = w_i c1 X'VX/n_i + (w_i mu + s_i) I`, V the rows' weights (1 unless persons have several rows). A step
    `x - P^-1 gradient` therefore always shrinks the gradient in the norm of P^-1: that is the safe step. The fast step
    is L-BFGS started from the inverse Hessian at a reference point (the minimiser of the agent's own function),
    decomposed once. Every decision is taken per column: a fast step that does not shrink the gradient enough is undone
    and replaced by the safe one, and a column stops as soon as its own gradient is below the tolerance. So a silo alone
    and a batch of replicas get the same point. Columns that are not done after `_FAST_PASSES` passes are finished by
    Newton's method. A column alone on many rows is solved by compiled steps (`SingleColumns`), as far as these lead.

    A warm start is where the last solve ended, and there the loss was evaluated last: its part of the gradient is kept
    with the point it belongs to and used again when a start equals that point, number by number. Of several columns
    only those over sparse rows do so, whose pass gives a column the same bits in any batch: what is kept is then
    exactly what would be computed.
    """

    def _useful_threads(self, replicas: int) -> int:
        entries = self.risk.silos.features.shape[0] * self.risk.silos.features.shape[1] * replicas
        return self.threads if entries >= _WORTH_A_THREAD * self.risk.n_agents else 1

    def _shape(self, agent: int, threads: int) -> tuple[Spectrum, Spectrum]:
        """Decompose the agent's majoriser and reference Hessian: the safe step and the fast one."""
        part, scale, weights = self.risk.part(agent), float(self._scales[agent]), self.risk.silos.weights
        rows = row_block(self.risk.silos.features, part)
        counts = None if weights is None else np.sqrt(weights[part])
        safe = Spectrum.of_rows(rows, scale * self.risk.loss.curvature_bound, counts, threads)
        if self.risk.silos.is_small:
            start = np.zeros((self.risk.dimension, 1))
            columns = _Columns(safe, safe, self._reference_pull(agent), start, start)
            self._descend(agent, columns, None, _REFERENCE_PASSES, threads)
            point = columns.point[:, 0]
        else:
            point = self._reference(agent, Metric.of_spectrum(safe), threads)
        return safe, Spectrum.of_rows(rows, scale, np.sqrt(self._curvatures(agent, point)), threads)

    def _slope(self, agent: int, x: Floats, threads: int = 1) -> Floats:
        """Return the loss's part of the gradient, w_i/n_i sum_m v_m slope(a_m'x - shift_m) a_m."""
        total = slope_sum(self.risk, agent, x, threads)
        total *= self._scales[agent]
        return total

    def _solve_agent(self, agent: int, row: int, sub: Subproblem, point: Floats, norm: Floats, threads: int) -> int:
        pull = float(sub.pull[row])
        sigma = pull + float(self.weights[agent]) * self.risk.mu
        constant = sub.lin[row] - pull * sub.centre[row]
        start = np.ascontiguousarray(sub.start[row])
        is_alone = start.shape[1] == 1
        if is_alone and not self.risk.silos.is_small:
            found = self._solve_alone(agent, sigma, constant[:, 0], start, threads)
            if found is not None:
                point[:, 0], norm[0], passes = found
                return passes
        safe, fast = self._shapes[agent]
        columns = _Columns(safe, fast, sigma, constant, start)
        passes = self._descend(agent, columns, self._known_slope(agent, start), _FAST_PASSES, threads)
        steps = self._finish(agent, sigma, constant, columns, min(self.max_passes - passes, _NEWTON_STEPS))
        is_kept = self.risk.silos.is_small if is_alone else self.risk.silos.is_sparse
        if is_kept and steps == 0:  # Newton's points come without their slopes
            self._last[agent] = LastSolve(columns.point, columns.point_slope)
        point[:], norm[:] = columns.point, columns.norm
        return passes + steps

    def _descend(self, agent: int, columns: "_Columns", known: Floats | None, most: int, threads: int) -> int:
        """Move the columns until all have ended, or for `most` passes; return how many these were.

        known: the loss's part of the gradient where they start.
        """
        columns.begin(self._slope(agent, columns.x, threads) if known is None else known)
        passes = 1 if known is None else 0
        while columns.retire(self.tolerance) and passes < min(self.max_passes, most):
            proposal = columns.propose()
            columns.judge(proposal, self._slope(agent, proposal, threads))
            passes += 1
        columns.store()
        return passes

    def _solve_alone(
        self, agent: int, sigma: float, constant: Floats, start: Floats, threads: int
    ) -> tuple[Floats, float, int] | None:
        """Solve for a column that is alone by compiled steps; None where they do not lead there soon."""
        known, metric = self._known_slope(agent, start), Metric.of_spectrum(self._shapes[agent][1])
        kept = None if known is None else known[:, 0]
        limits = (self.tolerance, min(self.max_passes, _FAST_PASSES))
        found = self._singles.solve(agent, metric, sigma, constant, start[:, 0], kept, *limits, threads)
        if not found.norm <= self.tolerance:
            return None
        self._last[agent] = LastSolve(found.point[:, None], found.slope[:, None])
        return found.point, found.norm, found.passes

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
        """Return x - H gradient, H the L-BFGS inverse Hessian, or P^-1 in columns marked for plain steps."""
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
        self.pairs = [*self.pairs[-(_BATCH_MEMORY - 1) :], (s, y, weight)]
        self.x, self.slope, self.gradient, self.merit = proposal, slope, gradient, new
        self.is_plain = ~accepted

    def _merit(self, gradient: Floats) -> Floats:
        """Return the squared gradient norm in the metric of P^-1, which the safe step always shrinks."""
        return np.asarray((gradient * self.safe.solve(gradient, self.sigma)).sum(axis=0))


_MATRIX_FREE_PASSES = 400


class MatrixFreeSolver(ColumnSolver):
    """Solve the subproblems of an empirical risk with any loss in many dimensions, without a d x d matrix.

    Work and memory are linear in what the rows store: every column is solved by compiled L-BFGS steps that start from a
    metric of linear size: the diagonal of the agent's curvature where rows are sparse, its 50 largest directions and
    the mean of the rest where they are dense. Columns that are not done after `_MATRIX_FREE_PASSES` passes are finished
    by Newton's method with conjugate gradients. Nothing is kept from solve to solve but the slope at its end, to the
    bits that would be computed again.
    """

    def _shape(self, agent: int, threads: int) -> Metric:
        part = self.risk.part(agent)
        rows = row_block(self.risk.silos.features, part)
        bends = self.risk.weigh(np.full(rows.shape[0], self.risk.loss.curvature_bound), part)
        point = self._reference(agent, self._metric(rows, bends, agent), threads)
        return self._metric(rows, self._curvatures(agent, point), agent)

    def _metric(self, rows: Matrix, curvature: Floats, agent: int) -> Metric:
        weights = float(self._scales[agent]) * curvature
        return Metric.diagonal(rows, weights) if self.risk.silos.is_sparse else Metric.low_rank(rows, weights)

    def _solve_agent(self, agent: int, row: int, sub: Subproblem, point: Floats, norm: Floats, threads: int) -> int:
        """Write the agent's points (d, R) and norms (R,); return the passes of the slowest column."""
        pull, start = float(sub.pull[row]), sub.start[row]
        sigma = pull + float(self.weights[agent]) * self.risk.mu
        known, slopes, slowest = self._known_slope(agent, start), np.empty_like(start), 0

        def slope(x: Floats) -> Floats:
            return self._singles.slope(agent, x[:, 0])[:, None]

        for r in range(start.shape[1]):
            constant = sub.lin[row, :, r] - pull * sub.centre[row, :, r]
            here = np.ascontiguousarray(start[:, r])
            kept = None if known is None else np.ascontiguousarray(known[:, r])
            limits = (self.tolerance, min(_MATRIX_FREE_PASSES, self.max_passes), threads)
            found = self._singles.solve(agent, self._shapes[agent], sigma, constant, here, kept, *limits)
            x, slopes[:, r], norm[r], passes = found.point, found.slope, found.norm, found.passes
            if not norm[r] <= self.tolerance and np.isfinite(norm[r]):
                newton = self._newton(agent, sigma, slope, self._shapes[agent])
                x, norm[r], steps = newton.solve(
                    x, constant, self.tolerance, min(self.max_passes - passes, _NEWTON_STEPS)
                )
                slopes[:, r], passes = self._singles.slope(agent, x), passes + steps
            point[:, r] = x
            slowest = max(slowest, passes)
        self._last[agent] = LastSolve(point.copy(), slopes)
        return slowest
