"""Columns alone: the compiled solve of one agent's subproblem for one replica, and solvers that begin with it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.problems.arrays import Floats
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import LabelKind
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.rows import row_block
from dpadmm.solvers.column_kernel import advance, block_sum, slope_at, solve_column
from dpadmm.solvers.newton import NewtonColumns
from dpadmm.solvers.row_blocks import over_agents, over_blocks, row_bounds
from dpadmm.solvers.solution import AgentSolver, Metric, Solution, Subproblem, require_converged

# Pairs of a solve. Kept for the next one they would save every sixth pass or fewer, and no time where d is large; that
# it depends on its arguments alone is worth more: a resumed run, or a silo that starts again, has the same bits.
_MEMORY = 10
_NONE, _NO_INDICES, _NO_ROWS = np.empty(0), np.empty(0, dtype=np.int32), np.empty((0, 0))


@dataclass(frozen=True)
class LastSolve:
    """Where an agent's last solve ended, and the loss's part of the gradient there, both (d, R) and never changed."""

    point: Floats
    slope: Floats

    @classmethod
    def nothing(cls) -> "LastSolve":
        """Return what equals no start."""
        return cls(np.empty((0, 0)), np.empty((0, 0)))

    def at(self, x: Floats) -> Floats | None:
        """Return the slope if x is the point, to the last bit and in every column; else None."""
        return self.slope if np.array_equal(x, self.point) else None


@dataclass(frozen=True)
class Found:
    """Where a column's solve ended: the point, the loss's part of the gradient, the gradient's norm, the passes."""

    point: Floats
    slope: Floats
    norm: float
    passes: int


class SingleColumns:
    """`min w_i f_i(x) + (sigma/2)||x||^2 + constant'x` for one agent and one column.

    scales: w_i/n_i, by which the sum over an agent's rows is multiplied.
    """

    def __init__(self, risk: EmpiricalRisk, scales: Floats) -> None:
        rows, weights = risk.rows, risk.silos.weights
        stored = rows.stored if isinstance(rows, CentredRows) else rows
        matrix, shifts = (stored, _NO_INDICES, _NO_INDICES, _NONE), risk.shifts
        if risk.silos.is_sparse:
            matrix = (_NO_ROWS, stored.indptr, stored.indices, stored.data)
        elif risk.loss.target is LabelKind.SIGNS:
            shifts = _NONE  # all of them are 0
        centre = rows.centre if isinstance(rows, CentredRows) else _NONE
        self._width = stored.shape[1]
        shared = (*matrix, centre, shifts, _NONE if weights is None else weights)
        self._data = []
        for i in range(risk.n_agents):
            bounds = row_bounds(risk.part(i), risk.dimension, risk.silos.is_sparse)
            self._data.append((*shared, bounds, float(scales[i])))
        self._form = (risk.loss.form.numbers, risk.loss.form.is_logistic)

    def blocks(self, agent: int) -> int:
        """Return how many blocks of rows a pass is made of."""
        return len(self._data[agent][7]) - 1

    def slope(self, agent: int, x: Floats) -> Floats:
        """Return the loss's part of the gradient at x (d,)."""
        slope = np.empty_like(x)
        slope_at(self._data[agent], self._form, x, np.empty(self._width), self._room(agent), slope)
        return slope

    def _room(self, agent: int) -> Floats:
        return np.empty((self.blocks(agent), self._width))

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
    ) -> Found:
        """Solve from `start`, where `known` is the loss's part of the gradient; stop after `most` passes."""
        d, numbers = len(start), np.zeros(6)
        x, slope = start.copy(), np.empty(d) if known is None else known.copy()
        numbers[0] = 0.0 if known is None else 1.0
        vectors = (x, slope, *np.empty((5, d)), np.empty(self._width))
        state = (*vectors, np.empty((_MEMORY, 2, d)), np.empty(_MEMORY), numbers)
        data, sums = self._data[agent], self._room(agent)
        given = (metric.inverse(sigma), (sigma, constant, tolerance))
        if threads == 1 or len(sums) == 1:
            passes = solve_column(data, self._form, *given, most, state, sums)
        else:
            passes = self._solve_on(threads, data, given, most, state, sums)
        return Found(x, slope, float(numbers[1]), passes)

    def _solve_on(self, threads: int, data: Any, given: Any, most: int, state: Any, sums: Floats) -> int:
        """As `solve_column`, to the same bits: every pass on several threads."""
        point, passes = state[7], 0

        def work(first: int, last: int) -> None:
            for block in range(first, last):
                block_sum(data, self._form, block, point, sums[block])

        is_wanted = advance(data, *given, state, sums[:0])
        while is_wanted and passes < most:
            over_blocks(work, len(sums), 1, threads)
            passes += 1
            is_wanted = advance(data, *given, state, sums)
        return passes


# The reference point minimises f_i plus a pull to 0 of this share of its mean curvature bound, roughly.
_REFERENCE_PULL = 2e-3
_REFERENCE_PASSES = 12


@dataclass
class ColumnSolver(AgentSolver[EmpiricalRisk], ABC):
    """Solves agent by agent, each column until its own gradient is within the tolerance; agents on several threads."""

    max_passes: int = 1000

    def _prepare(self) -> None:
        """Find what shapes every agent's steps."""
        checks.count("max_passes", self.max_passes)
        self._scales = self.weights / self.risk.sizes
        self._singles = SingleColumns(self.risk, self._scales)
        self._last = [LastSolve.nothing()] * self.risk.n_agents
        self._blocks = [self._singles.blocks(i) for i in range(self.risk.n_agents)]
        self._make_room()
        over_agents(self._measure, self._blocks, self._useful_threads(1))

    @abstractmethod
    def _make_room(self) -> None:
        """Make room for what `_measure` finds of every agent."""

    @abstractmethod
    def _measure(self, i: int, threads: int) -> None:
        """Find what shapes an agent's steps."""

    def _reference(self, agent: int, metric: Metric, threads: int) -> Floats:
        """Return the curvatures (n,) of the agent's rows, as they count, at roughly the minimiser of w_i f_i.

        They only shape the steps.
        """
        loss, zero, part = self.risk.loss, np.zeros(self.risk.dimension), self.risk.part(agent)
        sigma = float(self.weights[agent]) * (self.risk.mu + _REFERENCE_PULL * loss.curvature_bound)
        limits = (None, self.tolerance, _REFERENCE_PASSES, threads)
        point = self._singles.solve(agent, metric, sigma, zero, zero, *limits).point
        rows = row_block(self.risk.rows, part)
        return self.risk.weighted(loss.curvature(rows @ point - self.risk.shifts[part]), part)

    def _useful_threads(self, replicas: int) -> int:
        """Return how many threads are worth their while for so many replicas."""
        return self.threads

    def solve(self, subproblem: Subproblem) -> Solution:
        """Solve for every agent and replica; agents run on separate threads, those of many rows on all of them."""
        point = np.empty_like(subproblem.start)
        norm = np.empty((len(point), point.shape[2]))
        passes = np.zeros(len(point))
        seats = subproblem.seats()

        def work(row: int, threads: int) -> None:
            passes[row] = self._solve_agent(int(seats[row]), row, subproblem, point[row], norm[row], threads)

        over_agents(work, [self._blocks[seat] for seat in seats], self._useful_threads(point.shape[2]))
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
            row_block(self.risk.rows, part),
            self.risk.shifts[part],
            self.risk.loss,
            float(self._scales[agent]),
            sigma,
            lambda x, push: slope(x) + sigma * x + push,
            None if weights is None else weights[part],
            metric,
        )
