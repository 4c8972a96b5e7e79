"""One fused pass over an agent's rows, several times faster than two products, however the rows are stored."""

import numpy as np

from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import LabelKind
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.rows import RUN
from dpadmm.problems.softmax import SoftmaxRisk
from dpadmm.solvers.dense_kernel import dense_sum
from dpadmm.solvers.kernels import csr_slope_sum
from dpadmm.solvers.row_blocks import row_bounds, summed
from dpadmm.solvers.slopes import slopes_in_place

_NONE = np.empty(0)


def slope_sum(risk: EmpiricalRisk, agent: int, x: Floats, threads: int = 1) -> Floats:
    """Return the sum over an agent's rows of weight slope(a'x - shift) a, for all columns of x (d, R).

    Sparse rows give a column the same bits in any batch of columns.
    """
    rows, part = risk.rows, risk.part(agent)
    bounds = row_bounds(part, risk.dimension, risk.silos.is_sparse)
    if isinstance(rows, CentredRows):
        point = np.ascontiguousarray(rows.extended(x))
        return rows.folded(summed(lambda here: _sparse_sum(risk, rows.stored, here, point), bounds, threads))
    point = np.ascontiguousarray(x)
    if risk.silos.is_sparse:
        return summed(lambda here: _sparse_sum(risk, rows, here, point), bounds, threads)
    one = _column_sum if x.shape[1] == 1 else _dense_sum
    return summed(lambda here: one(risk, here, point), bounds, threads)


def softmax_sum(risk: SoftmaxRisk, agent: int, x: Floats, threads: int = 1) -> Floats:
    """Return the sum of the gradients of an agent's records, (C d, R), for all columns of x (C d, R)."""
    bounds = row_bounds(risk.part(agent), risk.dimension, risk.silos.is_sparse)
    return summed(lambda here: risk.gradient_sum(here, x), bounds, threads)


def _sparse_sum(risk: EmpiricalRisk, stored: Matrix, part: slice, x: Floats) -> Floats:
    form = risk.loss.form
    matrix = (stored.indptr, stored.indices, stored.data, risk.shifts, _counted(risk), part.start, part.stop)
    return np.asarray(csr_slope_sum(*matrix, x, form.numbers, form.is_logistic))


def _column_sum(risk: EmpiricalRisk, part: slice, x: Floats) -> Floats:
    form, out = risk.loss.form, np.empty_like(x)
    shifts = _NONE if risk.loss.target is LabelKind.SIGNS else risk.shifts  # all of them are 0
    point = (x[:, 0], form.numbers, form.is_logistic)
    dense_sum(risk.rows, shifts, _counted(risk), part.start, part.stop, *point, out[:, 0])
    return out


def _dense_sum(risk: EmpiricalRisk, part: slice, x: Floats) -> Floats:
    form, total = risk.loss.form, np.zeros_like(x)
    for start in range(part.start, part.stop, RUN):
        here = slice(start, min(start + RUN, part.stop))
        block = risk.rows[here]
        t = block @ x
        slopes_in_place(t, risk.shifts[here], form.numbers, form.is_logistic)
        total += block.T @ risk.weighted(t, here)
    return total


def _counted(risk: EmpiricalRisk) -> Floats:
    return _NONE if risk.silos.weights is None else risk.silos.weights
