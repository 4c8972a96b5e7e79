"""From the user's units to rows of norm at most 1 and targets in [-1, 1], by public numbers alone.

A row x of numbers and one-hot categories becomes

    v = (clip(x, low, high) - c) / s          centre c and scale s of every feature; an empty cell becomes its `empty`
    u = v min(1, R/||v||) / R                 R the radius; longer rows are shortened
    e = (sqrt(rho^2 - k^2) u, k)              rho the norm of an encoded row, k the constant feature; e = rho u without

so that `||e|| <= rho` for every conceivable row, whatever c, s and R are. Where coefficients are estimated, rows keep
their length up to 2^60 R instead (`u = v / R`), and longer ones count less, by `w = min(1, rho^2/||e||^2)`
(`Silos.weighs_long_rows`). c, s and R come from bounds and categories alone (`ColumnScale`), or from noisy counts that
were released before (`dpadmm.data.profile`): one row's encoding does not depend on another's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from scipy import sparse

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.data.cells import Cells, Mask
from dpadmm.data.columns import Column, ColumnScale, weights_by_class
from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.silos import MOST_SHIFT, Silos, dense

CONSTANT = 0.3
"""k, the constant feature that stands for the intercept, for rows of norm 1; in proportion for rows of other norms."""

SPARSE_WIDTH, SPARSE_SHARE = 32, 0.25
"""Tables with categories stay sparse from this width on, if a row has at most this share of its features."""

_BLOCK = 2**15  # numbers encoded at a time, in the cache
_TINY = 1e-300  # a row with no larger entry is as good as zero

_HUGE = 1e300

_LONGEST = 2.0**60  # times R, of rows that keep their length: scores of longer ones could overflow

_LEAST_SPREAD = 0.01  # of rows whose columns have one category each

_ROUNDED = 64 * 2.0**-52  # of the squares that a norm is computed from

_MOST_WEIGHT = 1e6  # norm of a model of encoded rows, far beyond what rows of norm 1 need

_EXAMPLE = "Give (low, high), each a number for all features or one number per feature."


@dataclass(frozen=True, kw_only=True)
class RowEncoding:
    """The public map from rows to rows of norm at most `row_norm`.

    Parameters
    ----------
    centre, scale: c and s > 0 of every feature. lower, upper: what features are clipped to; None: they are not.
    empty: what stands for an empty cell, in the feature's own units; an empty category has all of its features there.
    radius: R > 0, in units of the scaled row. row_norm: rho > 0. constant: k in (0, rho), None without an intercept.
    keeps_length: whether rows longer than R stay as long as they are, up to 2^60 R.
    target_centre, target_scale: c and s > 0 by which encoded numbers to predict, y, are trained on as `(y - c)/s`.

    >>> rows = RowEncoding.of_numbers(2, row_norm=5.0, has_intercept=False)
    >>> rows.encode(np.array([[3.0, 4.0], [6.0, 8.0], [0.5, 0.0]])).round(3).tolist()
    [[0.6, 0.8], [0.6, 0.8], [0.1, 0.0]]
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    empty: tuple[float, ...]
    radius: float
    constant: float | None
    lower: tuple[float, ...] | None = None
    upper: tuple[float, ...] | None = None
    row_norm: float = 1.0
    keeps_length: bool = False
    target_centre: float = 0.0
    target_scale: float = 1.0

    dimension: int = field(init=False, repr=False, compare=False)
    share: float = field(init=False, repr=False, compare=False)
    _centre: Floats = field(init=False, repr=False, compare=False)
    _scale: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse what lacks a feature, and bounds whose rows or coefficients 64-bit numbers cannot hold.

        dimension: number of encoded features. share: `sqrt(rho^2 - k^2)`, what the constant leaves to the others.
        """
        is_complete = bool(self.centre) and (self.lower is None) == (self.upper is None)
        for side in (self.scale, self.empty, self.lower, self.upper):
            is_complete = is_complete and (side is None or len(side) == len(self.centre))
        if not is_complete or min(*self.scale, self.radius, self.row_norm, self.target_scale) <= 0:
            raise InputError("An encoding needs a centre, a scale above 0 and an empty value for every feature.")
        centre, scale = np.array(self.centre), np.array(self.scale)
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = _MOST_WEIGHT / self.radius / scale
            is_held = np.isfinite(slopes).all() and np.isfinite(slopes @ np.abs(centre))
        if not is_held:
            raise InputError(
                f"row_norm {self.radius:g} is too small, or the feature_bounds are too close together, for 64-bit "
                "numbers to hold the coefficients. Rescale the features."
            )
        object.__setattr__(self, "dimension", len(centre) + (self.constant is not None))
        object.__setattr__(self, "share", math.sqrt(self.row_norm**2 - (self.constant or 0.0) ** 2))
        object.__setattr__(self, "_centre", centre)
        object.__setattr__(self, "_scale", scale)

    @classmethod
    def of(
        cls, scales: Sequence[ColumnScale], *, clip_radius: float, constant: float | None, row_norm: float = 1.0
    ) -> "RowEncoding":
        """Return the map with the columns' scales and the radius `R = clip_radius sqrt(sum of their spreads)`.

        The spread of a column is the mean square of its encoded part, so that R is `clip_radius` usual rows' norm.
        """
        radius = clip_radius * math.sqrt(max(math.fsum(map(attrgetter("spread"), scales)), _LEAST_SPREAD))
        sides: dict[str, Any] = {}
        for name in ("centre", "scale", "empty", "lower", "upper"):
            sides[name] = tuple(chain.from_iterable(map(attrgetter(name), scales)))
        return cls(radius=radius, row_norm=row_norm, constant=constant, **sides)

    @classmethod
    def of_numbers(
        cls, n_features: int, feature_bounds: Any = None, row_norm: float | None = None, has_intercept: bool = True
    ) -> "RowEncoding":
        """Return the map for numbers whose rows' norm is stated, features scaled to -1..1 by their bounds if given.

        Without a norm either, rows are divided by sqrt(d) and shortened to norm 1.
        """
        centre, half_width, lower, upper = np.zeros(n_features), np.ones(n_features), None, None
        if feature_bounds is not None:
            low, high = box_of(feature_bounds, n_features)
            centre, half_width = low / 2 + high / 2, high / 2 - low / 2
            lower, upper = tuple(low.tolist()), tuple(high.tolist())
        return cls(
            centre=tuple(centre.tolist()),
            scale=tuple(half_width.tolist()),
            empty=tuple(centre.tolist()),
            lower=lower,
            upper=upper,
            radius=math.sqrt(n_features) if row_norm is None else checks.positive("row_norm", row_norm),
            constant=CONSTANT if has_intercept else None,
        )

    def encode(self, table: Matrix) -> Matrix:
        """Return the encoded rows (n, dimension) of a table of numbers; those of a sparse table stay sparse.

        Unless the centre is so far from 0 that products of rows stored apart from it would lose digits.
        """
        if sparse.issparse(table) and not self._is_far:
            return self._finished(*self._sparse_parts(sparse.csr_array(table, dtype=np.float64, copy=True)))
        numbers = np.asarray(dense(table), dtype=np.float64)
        rows, length = np.empty((len(numbers), self.dimension)), max(1, _BLOCK // self.dimension)
        for first in range(0, len(rows), length):
            here = rows[first : first + length]
            scaled = self._clipped(numbers[first : first + length], slice(None)) - self._centre
            scaled /= self._scale
            shape = np.abs(scaled)
            largest = np.maximum(shape.max(axis=1), _TINY)
            shape /= largest[:, None]  # squares of rows divided by their largest entry cannot overflow
            factors = self._factors(largest, np.einsum("ij,ij->i", shape, shape))
            np.multiply(scaled, factors[:, None], out=here[:, : scaled.shape[1]])
            if self.constant is not None:
                here[:, -1] = self.constant
        return rows

    def encode_cells(self, columns: Sequence[Column], cells: Sequence[Cells], blank: Mask) -> Matrix:
        """Return the encoded rows of columns as they were read; blank rows are all zero, their constant as well.

        Categories are stored sparsely, their centre beside them.
        """
        if not any(found.is_category for found in cells):
            return self._encoded_numbers(cells, blank)
        widths = [len(column.feature_names) for column in columns]
        starts = np.concatenate([[0], np.cumsum(widths)])[:-1].tolist()
        indices, values = np.empty((len(blank), len(cells)), dtype=np.intp), np.empty((len(blank), len(cells)))
        shift, squares = np.zeros(len(self.centre)), np.zeros(len(blank))
        for place, (start, width, found) in enumerate(zip(starts, widths, cells, strict=True)):
            indices[:, place] = start + np.maximum(found.codes, 0)
            if found.is_category:
                off = shift[start : start + width] = self._centre[start : start + width]
                values[:, place] = np.where(found.codes < 0, 0.0, 1.0)
                squares += np.where(found.codes < 0, 0.0, 1.0 - 2.0 * off[found.codes] + off @ off)
            else:
                own = np.where(found.missing, self.empty[start], self._clipped(found.values, start))
                values[:, place] = (own - self.centre[start]) / self.scale[start]
                squares += values[:, place] ** 2
        if not any(found.is_category and np.any(found.codes < 0) for found in cells):
            return self._assembled(indices, values, self._factors(1.0, squares, shift), shift, ~blank)
        pointers = np.arange(0, indices.size + 1, len(cells))
        table = sparse.csr_array((values.ravel(), indices.ravel(), pointers), shape=(len(blank), len(self.centre)))
        for start, width, found in zip(starts, widths, cells, strict=True):
            if found.is_category and np.any(found.codes < 0):  # these are at the centre
                features = np.arange(start, start + width)
                table = table + _in_rows(found.codes < 0, features, shift[features], table.shape)
        rows = self._finished(table, self._factors(1.0, squares, shift), shift, ~blank)
        return rows if self.is_sparse(len(cells)) else np.ascontiguousarray(dense(rows))

    def is_sparse(self, n_columns: int) -> bool:
        """Return whether rows of so many columns are stored sparsely."""
        entries = n_columns + (self.constant is not None)
        return self.dimension >= SPARSE_WIDTH and entries <= SPARSE_SHARE * self.dimension

    def _assembled(self, indices: Ints, values: Floats, factors: Floats, shift: Floats, there: Mask) -> Matrix:
        """As `_finished`, to its bits, of rows that all have one value in each column, `values` in rising `indices`."""
        factors, number, width = np.where(there, factors, 0.0), len(there), len(self.centre)
        values = values * factors[:, None]
        if self.constant is not None:
            values = np.hstack([values, np.where(there, self.constant, 0.0)[:, None]])
            indices = np.hstack([indices, np.full((number, 1), width)])
            shift = np.append(shift, 0.0)
        if not self.is_sparse(indices.shape[1] - (self.constant is not None)):
            rows = 0.0 - factors[:, None] * shift
            for place in range(indices.shape[1]):
                rows[np.arange(number), indices[:, place]] += values[:, place]
            return rows
        if np.any(shift):  # the factors stand beside the table, see `CentredRows`
            values = np.hstack([values, factors[:, None]])
            indices = np.hstack([indices, np.full((number, 1), len(shift))])
        pointers = np.arange(0, indices.size + 1, indices.shape[1])
        shape = (number, self.dimension + bool(np.any(shift)))
        table = sparse.csr_array((values.ravel(), indices.ravel(), pointers), shape=shape)
        table.eliminate_zeros()
        return CentredRows.of_stored(table, shift, self.share / self.radius) if np.any(shift) else table

    def _encoded_numbers(self, cells: Sequence[Cells], blank: Mask) -> Floats:
        """Return the encoded rows of columns of numbers, to the bits of `encode_cells`, nothing stored sparsely."""
        columns = np.empty((self.dimension, len(blank)))  # a column at a time is contiguous
        squares = np.zeros(len(blank))
        for place, found in enumerate(cells):
            own = self._clipped(found.values, place)
            if found.missing.any():
                own = np.where(found.missing, self.empty[place], own)
            np.divide(own - self.centre[place], self.scale[place], out=columns[place])
            squares += columns[place] ** 2
        columns[: len(cells)] *= np.where(blank, 0.0, self._factors(1.0, squares))
        if self.constant is not None:
            columns[-1] = np.where(blank, 0.0, self.constant)
        return np.ascontiguousarray(columns.T)

    def decode(self, weights: Floats) -> tuple[Floats, float]:
        """Return (coef, intercept) with `coef x + intercept = weights e` for every row x within the bounds.

        Unless x is shortened: of a longer row the deviation from the centre counts by its direction alone.
        """
        slopes = weights[: len(self.centre)] * (self.share / self.radius) / self._scale
        constant = 0.0 if self.constant is None else self.constant * float(weights[-1])
        return slopes, constant - float(slopes @ self._centre)

    @property
    def reach(self) -> tuple[float, float]:
        """Return r and b with `e = b v / max(r, ||v||)` for every row v; r is far beyond all rows where none is cut."""
        factor = _LONGEST if self.keeps_length else 1.0
        return factor * self.radius, factor * self.share

    @property
    def target_centre_weights(self) -> Floats:
        """Weights of the constant feature alone that predict the centre of numbers for every row."""
        found = np.zeros(self.dimension)
        if self.constant is not None:
            found[-1] = self.target_centre / self.constant
        return found

    def _clipped(self, values: Floats, features: slice | int | Ints) -> Floats:
        if self.lower is None or self.upper is None:
            return values
        return np.clip(values, np.array(self.lower)[features], np.array(self.upper)[features])

    @property
    def _is_far(self) -> bool:
        absent = self._clipped(np.zeros(len(self.centre)), slice(None))
        shift = float(np.linalg.norm((self._centre - absent) / self._scale))
        return self.share / self.radius * shift > MOST_SHIFT * self.row_norm

    def _sparse_parts(self, table: Any) -> tuple[Any, Floats, Floats]:
        """Return S, factors and c' with encoded rows `factors (S - c')`: a cell that is not stored becomes -c'."""
        table.sum_duplicates()  # entries given in parts are clipped as one
        absent = self._clipped(np.zeros(len(self.centre)), slice(None))
        shift = (self._centre - absent) / self._scale
        table.data = (self._clipped(table.data, table.indices) - absent[table.indices]) / self._scale[table.indices]
        largest = np.asarray(abs(table).max(axis=1).toarray()).ravel()
        largest = np.maximum(largest, max(float(np.abs(shift).max()), _TINY))
        shape = sparse.csr_array(sparse.diags_array(1 / largest) @ table)
        squares = np.asarray(shape.multiply(shape).sum(axis=1)).ravel() - 2 * (shape @ shift) / largest
        squares = np.maximum(squares + (math.sqrt(float(shift @ shift)) / largest) ** 2, 0.0)
        return table, self._factors(largest, squares, shift), shift

    def _factors(self, unit: float | Floats, squares: Floats, shift: Floats | None = None) -> Floats:
        """Return what rows of norm `unit sqrt(squares)` are multiplied by: share/R, less for those longer than R.

        Where a centre is taken off whole rows, what rounding can hide of a norm is made up for.
        """
        apart = 0.0 if shift is None or self.keeps_length else float(shift @ shift) / self.radius**2
        safety = 1.0 if apart == 0.0 else 1.0 + _ROUNDED * (1.0 + apart)
        with np.errstate(over="ignore", divide="ignore"):
            fitting = self.reach[0] / unit / np.sqrt(squares)
        return np.asarray(self.share / self.radius * np.minimum(1.0, fitting) / safety)

    def _finished(self, table: Any, factors: Floats, shift: Floats, there: Mask | None = None) -> Matrix:
        """Return `factors (table - shift)` with the constant beside it; rows that are not there are zero."""
        factors = factors if there is None else np.where(there, factors, 0.0)
        rows = sparse.csr_array(sparse.diags_array(factors) @ table)
        rows.eliminate_zeros()
        if self.constant is not None:
            constants = self.constant * (np.ones(len(factors)) if there is None else there.astype(np.float64))
            rows = sparse.csr_array(sparse.hstack([rows, sparse.csr_array(constants[:, None])], format="csr"))
            shift = np.append(shift, 0.0)
        return CentredRows(rows, factors, shift, self.share / self.radius) if np.any(shift) else rows


def target_range(bounds: Any) -> tuple[float, float]:
    """Return the public bounds of a number to predict, checked.

    >>> target_range((0, 10))
    (0.0, 10.0)
    """
    low, high = _pair("target_bounds", bounds, "Give two numbers, (low, high).")
    low, high = checks.finite("the lower target bound", low), checks.finite("the upper target bound", high)
    if not _TINY < high / 2 - low / 2 < _HUGE:
        raise InputError(f"target_bounds must have low < high, {_TINY:g} to {_HUGE:g} apart, got ({low:g}, {high:g}).")
    return low, high


def _in_rows(rows: Mask, features: Ints, values: Floats, shape: tuple[int, int]) -> Any:
    """Return a sparse table with these values in these features of the chosen rows."""
    which = np.flatnonzero(rows)
    places = (np.repeat(which, len(features)), np.tile(features, len(which)))
    return sparse.csr_array((np.tile(values, len(which)), places), shape=shape)


def _pair(name: str, bounds: Any, advice: str) -> tuple[Any, Any]:
    try:
        if isinstance(bounds, str | Mapping) or hasattr(bounds, "columns"):
            raise TypeError  # it would be taken apart into letters or names of columns
        low, high = bounds
    except Exception:  # noqa: BLE001 - whatever an object says when it is unpacked may quote a cell
        raise_alone(InputError(f"{name} must be a pair (low, high), got {safe_repr(bounds)}. {advice}"))
    return low, high


def box_of(bounds: Any, n_features: int) -> tuple[Floats, Floats]:
    """Return the lower and upper bound of every feature."""
    box = []
    for side in _pair("feature_bounds", bounds, _EXAMPLE):
        try:
            values = np.asarray(side, dtype=np.float64)
        except Exception:  # noqa: BLE001 - whatever an object says when it is converted may quote a cell
            raise_alone(InputError(f"feature_bounds must be numbers, got {safe_repr(side)}. {_EXAMPLE}"))
        if values.shape not in ((), (n_features,)) or not np.all(np.isfinite(values)):
            raise InputError(
                f"feature_bounds must be finite and fit {n_features} features, got shape {values.shape}. {_EXAMPLE}"
            )
        box.append(np.broadcast_to(values, (n_features,)).copy())
    low, high = box
    if not np.all(low < high):
        j = int(np.argmin(low < high))
        raise InputError(f"feature_bounds must have low < high, which feature {j} has not. {_EXAMPLE}")
    if not np.all((high / 2 - low / 2 < _HUGE) & (high / 2 - low / 2 > _TINY)):
        raise InputError(f"feature_bounds must be between {_TINY:g} and {_HUGE:g} apart. Rescale the features.")
    return low, high


@dataclass(frozen=True)
class LabelUse:
    """What becomes of a label. rest_of: of numbers of classes, +1 for this one and -1 for the rest.

    class_shares: what rows count by their class.
    """

    rest_of: int | None = None
    class_shares: tuple[float, ...] | None = None

    def of(self, silos: Silos) -> Silos:
        """Return the silos with the labels and weights of a problem; the rows are shared."""
        if self == LabelUse():
            return silos
        labels, shares = silos.labels, self.class_shares
        return replace(
            silos,
            labels=labels if self.rest_of is None else np.where(labels == self.rest_of, 1.0, -1.0),
            row_weights=None if shares is None else weights_by_class(labels, shares),
        )
