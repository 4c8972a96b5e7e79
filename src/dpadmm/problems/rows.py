"""What is done with the rows of a table, whichever way they are stored: dense, CSR or centred CSR.

The terms of many rows are added up so that a proved part of the sum at most is lost in rounding (C7). Rows are added up
in *runs* of bounded length, in whatever order a kernel takes; the sums of runs are added up in parts of bounded length
or in pairs. So a term takes part in a bounded number of additions, however many rows there are.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.centred import CentredRows

UNIT = 2.0**-53
"""The unit roundoff of 64-bit floats."""

RUN = 2048
"""Rows of a run of dense rows, and of any run in a compiled kernel (or as many as there are columns, if more)."""

SPARSE_RUN = 4096
"""Rows of a run of sparse rows outside the compiled kernels (or as many as there are columns, if more)."""

PART = 2**20
"""Rows of a part, whose runs a compiled kernel adds up one after the other (or as many as columns, if more)."""

MOST_RIDGE = 1024.0
"""How many times G the gradient of a ridge may be long where a gradient is released; at an optimum it is G at most."""

_MOST_IN_RUNS = 4096
_OTHERS = 128


class PairwiseSum:
    """A sum of arrays that come one by one; of K terms, none takes part in more than log2(K) + 1 additions.

    >>> import numpy as np
    >>> total = PairwiseSum()
    >>> for number in (1.0, 2.0, 3.0):
    ...     total.add(np.array([number]))
    >>> total.value().tolist()
    [6.0]
    """

    def __init__(self) -> None:
        """Nothing has been added yet."""
        self._sums: list[Any] = []  # at place k the sum of 2^k terms, or None

    def add(self, term: Floats | float) -> None:
        """Add one more term."""
        for place, known in enumerate(self._sums):
            if known is None:
                self._sums[place] = term
                return
            self._sums[place], term = None, known + term
        self._sums.append(term)

    def value(self) -> Any:
        """Return the sum; 0.0 of no terms."""
        total: Any = None
        for known in self._sums:
            if known is not None:
                total = known if total is None else known + total
        return 0.0 if total is None else total


def most_additions(rows: float, dimension: int) -> float:
    """Bound the operations, each of relative error u, that a term of a sum over at most so many rows goes through.

    A run and the runs of a part have at most `4096 + d` additions; the rest is for parts in pairs, the product of slope
    and row, weights, the centre of sparse rows and the division by n.

    >>> most_additions(100, 10), most_additions(1e9, 10)
    (228, 4234)
    """
    return min(rows, _MOST_IN_RUNS + dimension) + _OTHERS


def rounding_share(operations: float) -> float:
    """Return `m u / (1 - m u)`: the part of the sum of sizes that m operations on every term can lose, in any order.

    >>> round(rounding_share(4224) * 2**53)
    4224
    """
    return operations * UNIT / (1 - operations * UNIT)


def dense(rows: Matrix) -> Floats:
    """Return the rows as an array."""
    return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Return all parts' rows, one after the other: centred if any part is, else CSR if any part is sparse."""
    centred = [part for part in parts if isinstance(part, CentredRows)]
    if centred:
        return _stacked_centred(parts, centred[0])
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.ascontiguousarray(np.vstack(parts))


def _stacked_centred(parts: Sequence[Matrix], first: CentredRows) -> CentredRows:
    """Stack rows about one centre; rows that are not centred have factor 0."""
    centre = first.centre
    whole = [
        part if isinstance(part, CentredRows) else CentredRows(part, np.zeros(part.shape[0]), centre, first.most_factor)
        for part in parts
    ]
    if not all(np.array_equal(part.centre, centre) for part in whole):
        raise InputError(
            "The parts of a table are centred at different points. Encode all of them with the same centre."
        )
    table = sparse.csr_array(sparse.vstack([part.stored for part in whole], format="csr"))
    return CentredRows.of_stored(table, centre, max(part.most_factor for part in whole))


def scaled_rows(rows: Matrix, weights: Floats) -> Matrix:
    """Return `diag(weights) rows`."""
    if isinstance(rows, np.ndarray):
        return rows * weights[:, None]
    if isinstance(rows, CentredRows):
        return rows.with_stored(scaled_rows(rows.stored, weights))
    return _with_data(rows, rows.data * np.repeat(weights, np.diff(rows.indptr)))


def _with_data(rows: Matrix, data: Floats) -> Matrix:
    """Return CSR rows with other numbers in the same places; the indices are shared."""
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def row_block(rows: Matrix, part: slice) -> Matrix:
    """Return some consecutive rows without copying what they store."""
    if isinstance(rows, np.ndarray):
        return rows[part]
    if isinstance(rows, CentredRows):
        return rows.with_stored(row_block(rows.stored, part))
    places = rows.indptr[part.start : part.stop + 1]
    stored = slice(int(places[0]), int(places[-1]))
    block = sparse.csr_array((part.stop - part.start, rows.shape[1]))
    # Given to the constructor, they would be copied: it takes a view of much larger arrays for waste.
    block.data, block.indices, block.indptr = rows.data[stored], rows.indices[stored], places - places[0]
    return block


def scores(rows: Matrix, points: Floats) -> Floats:
    """Return `rows points` (n, R), points (d, R); a row's numbers depend on that row alone, not on its place.

    A product of matrices adds up the last rows of a table in another order than the others: a row more or less would
    change the others' numbers in their last digits.
    """
    if not isinstance(rows, np.ndarray):
        return np.asarray(rows @ points)
    return np.asarray(np.vecdot(rows[:, None, :], np.ascontiguousarray(points.T)[None]))


def row_sums(rows: Matrix, values: Floats) -> Floats:
    """Return `rows' values` (d, R), values (n, R), added up in runs (C7)."""
    total = PairwiseSum()
    for run in _runs(rows):
        total.add(np.asarray(row_block(rows, run).T @ values[run]))
    return np.asarray(total.value())


def gram_sum(rows: Matrix, weights: Floats) -> Floats:
    """Return `rows' diag(weights) rows` as a dense matrix, added up in runs (C7)."""
    total = PairwiseSum()
    for run in _runs(rows):
        total.add(gram(row_block(rows, run), weights[run]))
    return np.asarray(total.value())


def _runs(rows: Matrix) -> Iterator[slice]:
    """Yield the runs of rows, one without rows where there are none."""
    number, dimension = rows.shape
    length = RUN if isinstance(rows, np.ndarray) else max(SPARSE_RUN, dimension)
    for first in range(0, max(number, 1), length):
        yield slice(first, min(first + length, number))


def gram(rows: Matrix, weights: Floats | None = None) -> Floats:
    """Return `rows' diag(weights) rows` as a dense matrix."""
    if isinstance(rows, CentredRows):
        return rows.folded(rows.folded(gram(rows.stored, weights)).T)
    return dense(rows.T @ (rows if weights is None else scaled_rows(rows, weights)))


def row_squares(rows: Matrix) -> Floats:
    """Return the squared Euclidean norm of every row."""
    if isinstance(rows, np.ndarray):
        return np.einsum("ij,ij->i", rows, rows)
    if isinstance(rows, CentredRows):
        return rows.squares()
    return np.asarray(_with_data(rows, rows.data**2) @ np.ones(rows.shape[1]))


def row_products(rows: Matrix, w: Floats) -> Floats:
    """Return `a_i'w_i` (n, R), each row with the points of its own in w (n, d, R)."""
    if isinstance(rows, np.ndarray):
        return np.einsum("id,idr->ir", rows, w)
    if isinstance(rows, CentredRows):
        return row_products(rows.stored, rows.extended(w))
    columns = range(w.shape[2])
    return np.stack([np.asarray(rows.multiply(w[:, :, r]).sum(axis=1)).ravel() for r in columns], 1)


def as_numbers(name: str, values: Any) -> Floats:
    """Return an array of finite numbers, in C order."""
    try:
        array = np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise_alone(InputError(f"{name} must hold numbers, got something else."))
    if not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers, got NaN or infinite values.")
    return array
