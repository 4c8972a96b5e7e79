"""From the user's units to rows of norm at most 1 and targets in [-1, 1], by public numbers alone.

A row x becomes

    v = (clip(x, low, high) - c) / h          c, h the middle and half width of the public bounds (0 and 1 without)
    u = v min(1, R/||v||) / R                 R the public bound on the scaled row's norm; longer rows are shortened
    e = (sqrt(1 - k^2) u, k)                  with an intercept; e = u without

so that `||e|| <= 1` for every conceivable row. Nothing is fitted: one row's encoding does not depend on another's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Floats, Matrix

INTERCEPT_FEATURE = 0.3
"""k, the constant feature that stands for the intercept; the others keep `sqrt(1 - k^2)` of the norm."""

_TINY = 1e-300  # a row with no larger entry is as good as zero

_HUGE = 1e300

_MOST_WEIGHT = 1e6  # norm of a model of encoded rows, far beyond what rows of norm 1 need

_EXAMPLE = "Give (low, high), each a number for all features or one number per feature."


@dataclass(frozen=True, eq=False)
class RowEncoding:
    """The public map from rows of X to rows of norm at most 1.

    Parameters
    ----------
    centre, half_width: (d,), c and h above; h > 0.
    norm_bound: R > 0, in units of the scaled row.
    has_box: whether features are clipped to `centre +- half_width`.
    has_intercept: whether the constant feature k is added.
    is_assumed: whether no bound was given, so that `norm_bound` is a convention and not the user's promise.

    >>> rows = RowEncoding.of(2, row_norm=5.0, has_intercept=False)
    >>> rows.encode(np.array([[3.0, 4.0], [6.0, 8.0], [0.5, 0.0]])).round(3).tolist()
    [[0.6, 0.8], [0.6, 0.8], [0.1, 0.0]]
    """

    centre: Floats
    half_width: Floats
    norm_bound: float
    has_box: bool
    has_intercept: bool
    is_assumed: bool

    @classmethod
    def of(
        cls,
        n_features: int,
        feature_bounds: Any = None,
        row_norm: float | None = None,
        has_intercept: bool = True,
    ) -> "RowEncoding":
        """Return the map for public bounds; without any, rows are divided by sqrt(d) and shortened to norm 1.

        With feature bounds alone, R is `sqrt(d/3)`, the norm of a row spread evenly over its bounds.
        """
        norm_bound, centre, half_width = np.sqrt(n_features), np.zeros(n_features), np.ones(n_features)
        if feature_bounds is not None:
            low, high = _box(feature_bounds, n_features)
            norm_bound, centre, half_width = norm_bound / np.sqrt(3), low / 2 + high / 2, high / 2 - low / 2
        if row_norm is not None:
            norm_bound = checks.positive("row_norm", row_norm)
        _check_scale(float(norm_bound), centre, half_width)
        return cls(
            centre,
            half_width,
            float(norm_bound),
            has_box=feature_bounds is not None,
            has_intercept=has_intercept,
            is_assumed=feature_bounds is None and row_norm is None,
        )

    @property
    def dimension(self) -> int:
        """Number of encoded features."""
        return len(self.centre) + self.has_intercept

    @property
    def share(self) -> float:
        """`sqrt(1 - k^2)`: what the intercept leaves to the features."""
        return float(np.sqrt(1 - INTERCEPT_FEATURE**2)) if self.has_intercept else 1.0

    def encode(self, table: Matrix) -> Matrix:
        """Return the encoded rows (n, dimension), CSR if `table` is and the bounds are symmetric about zero."""
        unit = _scaled(self._shortened(table), self.share / self.norm_bound)
        if not self.has_intercept:
            return unit
        column = np.full((unit.shape[0], 1), INTERCEPT_FEATURE)
        if sparse.issparse(unit):
            return sparse.csr_array(sparse.hstack([unit, sparse.csr_array(column)], format="csr"))
        return np.hstack([unit, column])

    def admit(self, table: Matrix) -> Matrix:
        """Return the rows in their own units, brought within the bounds as they were for training."""
        short = self._shortened(table)
        if sparse.issparse(short):
            return sparse.csr_array(short * self.half_width[None, :])
        return short * self.half_width + self.centre

    def decode(self, weights: Floats) -> tuple[Floats, float]:
        """Return (coef, intercept) with `coef x + intercept = weights e` for every row x within the bounds."""
        slopes = weights[: len(self.centre)] * (self.share / self.norm_bound) / self.half_width
        constant = INTERCEPT_FEATURE * float(weights[-1]) if self.has_intercept else 0.0
        return slopes, constant - float(slopes @ self.centre)

    def _shortened(self, table: Matrix) -> Matrix:
        """Return v, with long rows shortened to R."""
        if sparse.issparse(table) and np.any(self.centre):
            table = table.toarray()
        if sparse.issparse(table):
            scaled = sparse.csr_array(table, dtype=np.float64, copy=True)
            scaled.sum_duplicates()  # entries given in parts are clipped as one
            wide = self.half_width[scaled.indices]
            scaled.data = np.clip(scaled.data, -wide, wide) / wide if self.has_box else scaled.data
        else:
            scaled = np.asarray(table, dtype=np.float64)
            if self.has_box:
                low, high = self.centre - self.half_width, self.centre + self.half_width
                scaled = (np.clip(scaled, low, high) - self.centre) / self.half_width
        return _at_most(scaled, self.norm_bound)

    def describe(self) -> str:
        """Say in words what is done to a row."""
        if self.is_assumed:
            return "rows are divided by the square root of the number of features and shortened to norm 1"
        parts = ["every feature is clipped to its public bounds and scaled to -1..1"] if self.has_box else []
        parts.append(f"rows longer than {self.norm_bound:.6g} are shortened to that norm")
        return ", then ".join(parts)


@dataclass(frozen=True)
class TargetScale:
    """The public map of a real target into [-1, 1]: `t = (clip(y, low, high) - middle) / half_width`.

    >>> TargetScale.of((0.0, 10.0)).encode(np.array([5.0, 12.0])).tolist()
    [0.0, 1.0]
    """

    middle: float
    half_width: float
    is_assumed: bool = False

    @classmethod
    def of(cls, target_bounds: Any) -> "TargetScale":
        """Return the map for public bounds (low, high); without any, for (-1, 1)."""
        if target_bounds is None:
            return cls(0.0, 1.0, is_assumed=True)
        low, high = _pair("target_bounds", target_bounds, "Give two numbers, (low, high).")
        low, high = checks.finite("the lower target bound", low), checks.finite("the upper target bound", high)
        if not _TINY < high / 2 - low / 2 < _HUGE:
            raise InputError(
                f"target_bounds must be two numbers with low < high, got ({low:g}, {high:g}); they must be between "
                f"{_TINY:g} and {_HUGE:g} apart."
            )
        return cls(low / 2 + high / 2, high / 2 - low / 2)

    def encode(self, y: Floats) -> Floats:
        """Return the targets in [-1, 1]; those outside the bounds are clipped."""
        low, high = self.middle - self.half_width, self.middle + self.half_width
        return np.clip((np.clip(y, low, high) - self.middle) / self.half_width, -1.0, 1.0)

    def decode(self, coef: Floats, intercept: float) -> tuple[Floats, float]:
        """Return a model of the scaled target as one of the target itself."""
        return coef * self.half_width, intercept * self.half_width + self.middle


def _check_scale(norm_bound: float, centre: Floats, half_width: Floats) -> None:
    """Refuse bounds whose rows or coefficients 64-bit numbers cannot hold; the run would be paid for by then."""
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = _MOST_WEIGHT / norm_bound / half_width
        is_held = np.isfinite(slopes).all() and np.isfinite(slopes @ np.abs(centre))
    if not is_held:
        raise InputError(
            f"row_norm {norm_bound:g} is too small, or the feature_bounds are too close together, for 64-bit numbers "
            "to hold the coefficients. Rescale the features."
        )


def _pair(name: str, bounds: Any, advice: str) -> tuple[Any, Any]:
    try:
        if isinstance(bounds, str | Mapping) or hasattr(bounds, "columns"):
            raise TypeError  # it would be taken apart into letters or names of columns
        low, high = bounds
    except Exception:  # noqa: BLE001 - whatever an object says when it is unpacked may quote a cell
        raise_alone(InputError(f"{name} must be a pair (low, high), got {shown(bounds)}. {advice}"))
    return low, high


def _box(bounds: Any, n_features: int) -> tuple[Floats, Floats]:
    """Return the lower and upper bound of every feature."""
    low, high = (_vector(side, n_features) for side in _pair("feature_bounds", bounds, _EXAMPLE))
    if not np.all(low < high):
        j = int(np.argmin(low < high))
        raise InputError(f"feature_bounds must have low < high, which feature {j} has not. {_EXAMPLE}")
    if not np.all((high / 2 - low / 2 < _HUGE) & (high / 2 - low / 2 > _TINY)):
        raise InputError(f"feature_bounds must be between {_TINY:g} and {_HUGE:g} apart. Rescale the features.")
    return low, high


def _vector(side: ArrayLike, n_features: int) -> Floats:
    try:
        values = np.asarray(side, dtype=np.float64)
    except Exception:  # noqa: BLE001 - whatever an object says when it is converted may quote a cell
        raise_alone(InputError(f"feature_bounds must be numbers, got {shown(side)}. {_EXAMPLE}"))
    if values.shape not in ((), (n_features,)) or not np.all(np.isfinite(values)):
        raise InputError(
            f"feature_bounds must be finite and fit {n_features} features, got a side of shape {values.shape}. "
            f"{_EXAMPLE}"
        )
    return np.broadcast_to(values, (n_features,)).copy()


def _at_most(rows: Matrix, bound: float) -> Matrix:
    """Return the rows with those longer than `bound` shortened to it; rows of any finite size come through."""
    is_sparse = sparse.issparse(rows)
    largest = np.asarray(abs(rows).max(axis=1).toarray()).ravel() if is_sparse else np.abs(rows).max(axis=1)
    largest = np.maximum(largest, _TINY)
    # Squares of rows scaled by their largest entry cannot overflow.
    shape = _scaled(rows, 1 / largest)
    squares = shape.multiply(shape).sum(axis=1) if is_sparse else np.einsum("ij,ij->i", shape, shape)
    with np.errstate(over="ignore"):
        factor = np.minimum(1.0, bound / largest / np.sqrt(np.asarray(squares).ravel().clip(1.0)))
    return _scaled(rows, factor)


def _scaled(rows: Matrix, factor: float | Floats) -> Matrix:
    """Return rows times a number each."""
    column = np.broadcast_to(np.asarray(factor, dtype=np.float64), (rows.shape[0],))
    if sparse.issparse(rows):
        return sparse.csr_array(rows.multiply(column[:, None]))
    return rows * column[:, None]
