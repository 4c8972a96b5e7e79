"""Columns alone: the compiled solve of one agent's subproblem for one replica at a time."""

from dataclasses import dataclass

import numpy as np

from dpadmm.problems.arrays import Floats
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.solvers.column_kernel import slope_at, solve_column
from dpadmm.solvers.metrics import Metric

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
        matrix = (rows, _NO_INDICES, _NO_INDICES, _NONE)
        if risk.silos.is_sparse:
            matrix = (_NO_ROWS, stored.indptr, stored.indices, stored.data)
        centre = rows.centre if isinstance(rows, CentredRows) else _NONE
        self._rows = (*matrix, centre, risk.shifts, _NONE if weights is None else weights)
        self._parts = [(risk.part(i).start, risk.part(i).stop, float(scales[i])) for i in range(risk.n_agents)]
        self._form = (risk.loss.form.numbers, risk.loss.form.is_logistic)

    def slope(self, agent: int, x: Floats) -> Floats:
        """Return the loss's part of the gradient at x (d,)."""
        return np.asarray(slope_at((*self._rows, *self._parts[agent]), self._form, x))

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
    ) -> Found:
        """Solve from `start`, where `known` is the loss's part of the gradient; stop after `most` passes."""
        x, slope = start.copy(), np.empty_like(start) if known is None else known.copy()
        limits = (tolerance, most, known is not None)
        data = (*self._rows, *self._parts[agent])
        norm, passes = solve_column(data, self._form, metric.inverse(sigma), sigma, constant, *limits, x, slope)
        return Found(x, slope, norm, passes)
