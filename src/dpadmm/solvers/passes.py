"""One fused pass over sparse rows, several times faster than two sparse products, however the rows are stored."""

import numpy as np

from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import SlopeForm
from dpadmm.solvers import kernels

_ALL_ONE = np.empty(0)


def slope_sum(
    rows: Matrix, shifts: Floats, part: slice, x: Floats, form: SlopeForm, weights: Floats | None = None
) -> Floats:
    """Return the sum over the rows of `part` of weight slope(a'x - shift) a, for all columns of x (d, R).

    A column has the same bits in any batch of columns.
    """
    if isinstance(rows, CentredRows):
        return rows.folded(slope_sum(rows.stored, shifts, part, rows.extended(x), form, weights))
    counted = _ALL_ONE if weights is None else weights
    matrix = (rows.indptr, rows.indices, rows.data, shifts, counted, part.start, part.stop)
    return np.asarray(kernels.csr_slope_sum(*matrix, np.ascontiguousarray(x), form.numbers, form.is_logistic))
