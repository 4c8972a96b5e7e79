"""Sparse rows minus a multiple of one public vector: dense as numbers, sparse as stored."""

import math
from typing import Any

import numpy as np
from scipy import sparse

from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints

_LITTLE = 0.01
_BLOCK = 1_000_000  # numbers of a dense block


class CentredRows:
    """The rows `e_i = s_i - a_i c`, stored as `B = [S, a]` (CSR, one column more) and `c`; S - a c' is never formed.

    With `P = [I; -c']` the matrix is `B P`, so that

        (S - a c') w  = B (w; -c'w)                     `extend` makes (w; -c'w)
        (S - a c')' u = v[:d] - c v[d],   v = B'u       `fold` makes it of v

    and whatever is written for CSR rows serves here: give it `stored` and an extended point, and fold the sum.

    Parameters
    ----------
    table: S (n, d), sparse. Columns without zeros are better centred within S, with c = 0 there: that costs no memory,
        and large numbers do not cancel.
    factors: a (n,), how much of the centre is taken off each row: what the row as a whole is multiplied by.
    centre: c (d,), public.
    most_factor: a public bound of the factors. How rows are stored in silos follows from it and never from the rows
        themselves: without a bound they are stored dense (C7).

    >>> rows = CentredRows(sparse.csr_array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 2.0]), np.array([0.5, 0.25]))
    >>> rows.toarray().tolist()
    [[0.5, -0.25], [-1.0, 1.5]]
    >>> (rows @ np.array([1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    __array_ufunc__ = None  # NumPy shall refuse these rows, not make an array of one object of them
    ndim = 2

    def __init__(self, table: Any, factors: Floats, centre: Floats, most_factor: float = math.inf) -> None:
        """Put the factors beside the table."""
        table = sparse.csr_array(table, dtype=np.float64)
        factors, centre = np.asarray(factors, dtype=np.float64), np.asarray(centre, dtype=np.float64)
        if (factors.shape, centre.shape) != ((table.shape[0],), (table.shape[1],)):
            raise InputError(
                f"Centred rows of shape {table.shape} need one factor per row and one centre per column, got "
                f"{factors.shape} and {centre.shape}."
            )
        if not np.isfinite(centre).all():
            raise InputError("The centre of rows must be finite; it holds NaN or infinite values.")
        self.stored = sparse.csr_array(sparse.hstack([table, sparse.csr_array(factors[:, None])], format="csr"))
        self.stored.sum_duplicates()
        self.centre, self.most_factor = centre, most_factor

    @classmethod
    def of_stored(cls, stored: Any, centre: Floats, most_factor: float = math.inf) -> "CentredRows":
        """Return the rows of `B = [S, a]`, sorted and without duplicates, about a centre."""
        rows = cls.__new__(cls)
        rows.stored, rows.centre, rows.most_factor = stored, centre, most_factor
        return rows

    def with_stored(self, stored: Any) -> "CentredRows":
        """Return other rows about the same centre."""
        return self.of_stored(stored, self.centre, self.most_factor)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self.stored.shape[0]), len(self.centre)

    @property
    def nnz(self) -> int:
        """How many numbers are stored, the factors among them."""
        return int(self.stored.nnz)

    @property
    def data(self) -> Floats:
        """The numbers that are stored, of which these rows are made."""
        return np.asarray(self.stored.data)

    @property
    def T(self) -> "_TransposedRows":
        """The transpose, for products only."""
        return _TransposedRows(self)

    def __getitem__(self, index: Any) -> "CentredRows":
        """Return some rows: a slice, a mask or an array of their numbers."""
        if not isinstance(index, slice) and (isinstance(index, tuple) or np.ndim(index) != 1):
            raise InputError("Centred rows can be selected by a slice, a mask or an array of row numbers.")
        return self.with_stored(self.stored[index])

    def __matmul__(self, w: Floats) -> Floats:
        """Return the products with w (d,) or (d, R)."""
        points = w if w.ndim == 2 else w[:, None]
        products = np.asarray(self.stored @ self.extend(points))
        return products if w.ndim == 2 else products[:, 0]

    def extend(self, w: Floats) -> Floats:
        """Return (w; -c'w) for w (..., d, R).

        A column's product is summed by itself: it has the same bits whatever columns are beside it.
        """
        terms = np.ascontiguousarray(np.swapaxes(w * self.centre[:, None], -1, -2))
        return np.concatenate([w, -terms.sum(axis=-1)[..., None, :]], axis=-2)

    def fold(self, v: Floats) -> Floats:
        """Return `v[:d] - c v[d]` for v (..., d + 1, R)."""
        return v[..., :-1, :] - self.centre[:, None] * v[..., -1:, :]

    @property
    def longest_shift(self) -> float:
        """The greatest norm that `a_i c` may have: numbers of this size cancel in products with the rows."""
        return float(self.most_factor * np.linalg.norm(self.centre)) if np.any(self.centre) else 0.0

    @property
    def has_larger_factors(self) -> bool:
        """Whether a factor is larger than `most_factor`."""
        return bool((np.abs(self._parts()[0]) > self.most_factor).any())

    def squares(self) -> Floats:
        """Return the squared norm of every row: the stored entries' part and, of the others, `a^2 c_j^2`."""
        factors, table = self._parts()
        owner = np.repeat(np.arange(len(factors)), np.diff(table.indptr))
        near = (table.data - factors[owner] * self.centre[table.indices]) ** 2
        return np.bincount(owner, near, minlength=len(factors)) + factors**2 * self._elsewhere(table, owner)

    def _elsewhere(self, table: Any, owner: Ints) -> Floats:
        """Return the sum of `c_j^2` over the columns in which a row stores nothing."""
        weights = self.centre**2
        total = float(weights.sum())
        left = total - np.bincount(owner, weights[table.indices], minlength=table.shape[0])
        # Where little is left, most of it is rounding: those rows are summed anew, some at a time.
        little, block = np.flatnonzero(left < _LITTLE * total), max(1, _BLOCK // len(weights))
        for first in range(0, len(little), block):
            rows = little[first : first + block]
            some = table[rows]
            empty = np.ones(some.shape)
            empty[np.repeat(np.arange(len(rows)), np.diff(some.indptr)), some.indices] = 0.0
            left[rows] = empty @ weights
        return np.asarray(left, dtype=np.float64)

    def toarray(self) -> Floats:
        """Return the rows as a dense array."""
        factors, table = self._parts()
        return np.asarray(table.toarray() - factors[:, None] * self.centre)

    def _parts(self) -> tuple[Floats, Any]:
        d = len(self.centre)
        return self.stored[:, [d]].toarray()[:, 0], self.stored[:, :d]


class _TransposedRows:
    """The transpose of centred rows."""

    __array_ufunc__ = None

    def __init__(self, rows: CentredRows) -> None:
        self._rows = rows

    @property
    def shape(self) -> tuple[int, int]:
        """(d, n)."""
        return self._rows.shape[::-1]

    def __matmul__(self, u: Floats) -> Floats:
        """Return the products with u (n,) or (n, R)."""
        v = np.asarray(self._rows.stored.T @ u)
        return self._rows.fold(v[:, None])[:, 0] if u.ndim == 1 else self._rows.fold(v)
