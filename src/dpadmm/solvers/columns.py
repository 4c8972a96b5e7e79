"""Columns alone: the compiled solve of one agent's subproblem for one replica at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import LabelKind
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.solvers.column_kernel import advance, block_sum, slope_at, solve_column
from dpadmm.solvers.metrics import Metric
from dpadmm.solvers.row_blocks import row_bounds
from dpadmm.solvers.threads import over_blocks

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
