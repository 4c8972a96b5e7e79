"""Coefficients with confidence intervals, from what was released: post-processing alone, free to do again (C14).

With p the point at which the run has settled, g the mean noisy gradient there and H the noisy curvature, all in sums
over records, s^2 the variance of the noise in g and E that in H, of tau on the diagonal and tau/sqrt(2) beside it:

    centre      p - v,   v = H^-1 g                     one Newton step: takes off the ridge, and stopping early
    covariance  L^-1 [ M + (tau^2/2)(tr(W) I + W) ] L^-1,   M = s^2 I + L,   W = L^-1 (g g' + M) L^-1

`s^2 I` is the noise of the gradients, M - s^2 I the sampling of the records, the rest is what E does to the Newton step
and to H^-1 itself. Where the products of gradients were released, M - s^2 I follows from them (`_spread_of`). L is H
with its eigenvalues lowered, by 5 tau where one only just passes the rule below, and by hardly anything from 3 tau
above it on: one that only just passes is likely to have been lifted there by noise.
The rule: the least eigenvalue of H must be at least `tau sqrt(2 (d + 1))`, about the most that noise alone would show.
Where it is not, the contrast with the largest part in that direction is removed, held where training stopped, and the
rest is examined again (`estimate`). Directions that no record has, since the categories of a column always sum to one,
are left out.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpadmm import checks
from dpadmm.checks import nearest, safe_repr
from dpadmm.data.cells import Category
from dpadmm.data.columns import Categorical, Column, Label, RealLabel
from dpadmm.data.encoding import RowEncoding
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, unpack
from dpadmm.problems.losses import Huber
from dpadmm.queries.curvature import CurvatureFacts

if TYPE_CHECKING:
    import pandas as pd

INTERCEPT = "(intercept)"
_LIFTED, _FADING, _LOWEST = 5.0, 0.8, 0.25  # chosen by simulation: research/docs/coverage.md
_SHARED = 0.5  # of the largest part in a direction: that is said to be shared
_LINKED = 2.5  # standard deviations of the noise in a dependence on a removed contrast
_HELD = 1.0  # log-odds, or deviations of a number, by which the coefficient of a removed category may be off
_CENTRED = 1e-9
_LARGEST_LOG = 700.0  # beyond, exp overflows


@dataclass(frozen=True, eq=False)
class CoefficientEstimate:
    """Centre and covariance of encoded coefficients, and which contrasts they determine.

    ratio: the least eigenvalue over what noise alone would show, before any contrast is removed. removed: places of
    contrasts that are held where training stopped, each with those of other columns that point in the same direction.
    linked: places of contrasts that depend on removed ones, with these. added: variance of each contrast that comes
    with holding categories of its column. is_determined: whether there is an interval, for each contrast.
    """

    centre: Floats
    covariance: Floats
    ratio: float
    removed: Mapping[int, tuple[int, ...]]
    linked: Mapping[int, tuple[int, ...]]
    added: Floats
    is_determined: NDArray[np.bool_]

    @property
    def has_intervals(self) -> bool:
        """Whether any contrast has an interval; the intercept has none alone."""
        return bool(self.is_determined.any())


def estimate(found: CurvatureFacts, units: "Contrasts") -> CoefficientEstimate:
    """Return what the releases say about the coefficients, as far as the noisy curvature determines them."""
    point, tau = np.array(found.point), found.matrix_std
    matrix = unpack(np.array(found.matrix), len(point))
    basis, removed = _determined(matrix, tau, units)
    d = units.basis.shape[1]
    edge = _edge(tau, d)
    ratio = math.inf if edge == 0 else float(np.linalg.eigvalsh(units.basis.T @ matrix @ units.basis)[0] / edge)
    number = len(units.names)
    if not basis.shape[1]:
        none = np.zeros(number, dtype=bool)
        return CoefficientEstimate(point, np.zeros_like(matrix), ratio, removed, {}, np.zeros(number), none)
    variance, ones = found.gradient_std**2, np.eye(basis.shape[1])
    values, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
    low = np.maximum(values - _lift(values - _edge(tau, len(values)), tau), _LOWEST * values)
    inverse, lowered = ((vectors / each) @ vectors.T for each in (values, low))
    gradient = basis.T @ np.array(found.gradient)
    own = variance * ones + _spread_of(found, basis, low, vectors)
    spread = lowered @ (np.outer(gradient, gradient) + own) @ lowered
    middle = own + tau**2 / 2 * (np.trace(spread) * ones + spread)
    covariance = basis @ (lowered @ middle @ lowered) @ basis.T
    centre = point - basis @ (inverse @ gradient)
    linked = _linked(matrix, tau, units, basis @ inverse @ basis.T, list(removed))
    is_determined = np.array([j not in removed and j not in linked for j in range(number)])
    if not any(is_determined[j] and column is not None for j, column in enumerate(units.columns)):
        is_determined[:] = False  # an intercept alone tells nothing
    return CoefficientEstimate(centre, covariance, ratio, removed, linked, _added(units, list(removed)), is_determined)


def _spread_of(found: CurvatureFacts, basis: Floats, low: Floats, vectors: Floats) -> Floats:
    """Return the covariance of the sum of gradients over records: the curvature, or what their noisy products tell.

    The products are taken as a multiple of the curvature, as they are where residuals vary alike everywhere, and of the
    difference to that the part that stands out from the noise (James and Stein). The multiple is larger by a deviation.
    """
    curvature = (vectors * low) @ vectors.T
    if not found.products:
        return curvature
    k, noise = len(low), found.products_std
    products = basis.T @ unpack(np.array(found.products), len(basis)) @ basis
    share = (max(float(np.trace(products)), 0.0) + noise * math.sqrt(k)) / low.sum()
    difference = products - share * curvature
    squares = float((difference**2).sum())
    kept = 0.0 if squares == 0 else max(0.0, 1 - noise**2 * k * (k + 1) / 2 / squares)
    values, axes = np.linalg.eigh(share * curvature + kept * difference)
    return np.asarray((axes * np.maximum(values, _LOWEST * share * low.min())) @ axes.T)


def _edge(tau: float, d: int) -> float:
    """Return what the eigenvalues of d by d noise alone reach."""
    return tau * math.sqrt(2 * (d + 1))


def _determined(matrix: Floats, tau: float, units: "Contrasts") -> tuple[Floats, dict[int, tuple[int, ...]]]:
    """Remove contrasts until the curvature of what is left stands out; return its basis, of no columns where none is.

    The intercept is never removed, and no more than half of the others: what is left would be another regression. Each
    comes with those of other columns that have at least half as large a part in the direction that did not stand out.
    """
    basis, removed, d = units.basis, dict[int, tuple[int, ...]](), units.basis.shape[1]
    is_left = np.array([column is not None for column in units.columns])
    lengths, most = np.linalg.norm(units.rows, axis=1), is_left.sum() // 2
    while True:
        values, vectors = np.linalg.eigh(basis.T @ matrix @ basis)
        if values[0] >= _edge(tau, len(values)):
            return basis, removed
        if len(removed) == most:
            return basis[:, :0], removed
        parts = np.where(is_left, np.abs(units.rows @ (basis @ vectors[:, 0])) / lengths, -1.0)
        worst = int(np.argmax(parts))
        is_left[worst] = False
        shared = np.flatnonzero(is_left & (parts >= _SHARED * parts[worst])).tolist()
        removed[worst] = tuple(j for j in shared if units.columns[j] != units.columns[worst])
        basis = units.basis @ _complement(units.rows[list(removed)] @ units.basis, d)


def _linked(
    matrix: Floats, tau: float, units: "Contrasts", inverse: Floats, removed: list[int]
) -> dict[int, tuple[int, ...]]:
    """Return which other contrasts would move with which removed ones, by more than the noise of H explains."""
    if not removed:
        return {}
    along = np.linalg.pinv(units.rows[removed])  # (D, removed): one unit of each, in the encoded coefficients
    kept = units.rows @ inverse
    moves = units.rows @ along - kept @ matrix @ along
    noise = tau / math.sqrt(2) * np.outer(np.linalg.norm(kept, axis=1), np.linalg.norm(along, axis=0))
    is_moved = np.abs(moves) > _LINKED * noise
    return {
        j: tuple(removed[r] for r in np.flatnonzero(is_moved[j]))
        for j in range(len(units.names))
        if j not in removed and is_moved[j].any()
    }


def _added(units: "Contrasts", removed: list[int]) -> Floats:
    """Return the variance that comes with holding categories: their records count to the category compared with.

    Held at a wrong value, off by a log-odds of `_HELD`, they move what that category's own records say by their share.
    """
    found = np.zeros(len(units.names))
    for column in {units.columns[r] for r in removed}:
        own = [r for r in removed if units.columns[r] == column]
        parts = units.shares[own] / max(float(units.common[own[0]] + units.shares[own].sum()), _CENTRED)
        is_touched = [each is None or each == column for each in units.columns]
        found[is_touched] += (_HELD * units.unit) ** 2 * float(parts @ parts)
    return found


def _lift(above: Floats, tau: float) -> Floats:
    """Return by how much eigenvalues are lowered that are so far above the rule."""
    if tau == 0:
        return np.zeros_like(above)
    return np.asarray(_LIFTED * tau * np.exp(-np.maximum(above, 0.0) / (_FADING * tau)))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """How encoded coefficients become those of the table: names, and a row of numbers each; see `contrasts`.

    basis: orthonormal, of the directions that records have. columns: number of each contrast's column, None for the
    intercept. shares, common: of the records in a contrast's category and in the one it is compared with, else 0.
    offsets: what is added to each. unit: a deviation of the number to predict, 1 for classes.
    """

    names: tuple[str, ...]
    against: tuple[str | None, ...]
    rows: Floats
    basis: Floats
    columns: tuple[int | None, ...]
    shares: Floats
    common: Floats
    offsets: Floats | float = 0.0
    unit: float = 1.0

    def of(self, weights: Floats) -> Floats:
        """Return the contrasts of encoded coefficients."""
        return self.rows @ weights + self.offsets


def contrasts(
    columns: Sequence[Column],
    encoding: RowEncoding,
    label: Label | None = None,
    reference: Mapping[str, Category] | None = None,
) -> Contrasts:
    """Return the coefficients in the units of the table: per unit of a number, of a category against the commonest.

    The commonest is that of the column profile, which the encoding is centred at; the first listed without one; or
    what `reference` names for a column. The intercept is the score of a row with zeros and these categories. label: a
    number to predict has units of its own.
    """
    reference = _checked_reference(columns, reference or {})
    slopes = encoding.share / encoding.radius / np.array(encoding.scale)
    names: list[str] = []
    against: list[str | None] = []
    rows: list[Floats] = []
    absent: list[Floats] = []
    places: list[int | None] = []
    shares: list[tuple[float, float]] = []
    intercept = np.zeros(encoding.dimension)
    intercept[: len(slopes)] = -slopes * np.array(encoding.centre)
    if encoding.constant is not None:
        intercept[-1] = encoding.constant
    start = 0
    for number, column in enumerate(columns):
        own = range(start, start + len(column.feature_names))
        start = own.stop
        units = [slopes[place] * _unit(place, encoding.dimension) for place in own]
        if not isinstance(column, Categorical):
            names += column.feature_names
            against += [None] * len(units)
            rows += units
            places += [number] * len(units)
            shares += [(0.0, 0.0)] * len(units)
            continue
        centre = np.array(encoding.centre[own.start : own.stop])
        common = column.categories.index(reference[column.name]) if column.name in reference else int(np.argmax(centre))
        frequencies = centre if centre.sum() > 0 else np.full(len(own), 1 / len(own))
        others = [i for i in range(len(own)) if i != common]
        names += [column.feature_names[i] for i in others]
        against += [str(column.categories[common])] * len(others)
        rows += [units[i] - units[common] for i in others]
        places += [number] * len(others)
        shares += [(float(frequencies[i]), float(frequencies[common])) for i in others]
        intercept = intercept + units[common]
        if abs(math.fsum(centre) - 1) < _CENTRED:
            direction = np.zeros(encoding.dimension)
            direction[own.start : own.stop] = encoding.scale[own.start : own.stop]
            absent.append(direction)
    if encoding.constant is not None:
        names.append(INTERCEPT)
        against.append(None)
        rows.append(intercept)
        places.append(None)
        shares.append((0.0, 0.0))
    offsets, half = np.zeros(len(rows)), label.half_width if isinstance(label, RealLabel) else 1.0
    if isinstance(label, RealLabel) and encoding.constant is not None:
        offsets[-1] = label.middle
    return Contrasts(
        names=tuple(names),
        against=tuple(against),
        rows=half * np.array(rows),
        basis=_complement(np.array(absent), encoding.dimension) if absent else np.eye(encoding.dimension),
        columns=tuple(places),
        shares=np.array([share for share, _ in shares]),
        common=np.array([share for _, share in shares]),
        offsets=offsets,
        unit=half * encoding.target_scale,
    )


def label_of_units(label: Label, loss: object) -> Label | None:
    """Return the label if scores are in its units, up to its range: of numbers, not of the logarithms of rates."""
    return label if isinstance(loss, Huber) else None


def _checked_reference(columns: Sequence[Column], reference: Mapping[str, Category]) -> Mapping[str, Category]:
    """Refuse references that are no categories of the columns that they are given for."""
    known = {column.name: column.categories for column in columns if isinstance(column, Categorical)}
    for name, category in reference.items():
        if name not in known:
            raise InputError(
                f"reference names the column {safe_repr(name)}, which has no categories.{nearest(name, known)}"
            )
        if category not in known[name]:
            listed = ", ".join(map(str, known[name]))
            raise InputError(f"reference of {name!r} must be one of {listed}, got {safe_repr(category)}.")
    return reference


def _unit(place: int, dimension: int) -> Floats:
    found = np.zeros(dimension)
    found[place] = 1.0
    return found


def _complement(absent: Floats, dimension: int) -> Floats:
    """Return an orthonormal basis of all that is orthogonal to these independent rows."""
    whole, _ = np.linalg.qr(absent.T, mode="complete")
    return np.asarray(whole[:, len(absent) :]).reshape(dimension, -1)


@dataclass(frozen=True, kw_only=True)
class CoefficientRow:
    """One coefficient; all numbers but itself None where it has no interval.

    against: for a category, the one it is compared with. undetermined: why it has no interval while others do.
    """

    name: str
    against: str | None = None
    coef: float
    std_err: float | None = None
    z: float | None = None
    p_value: float | None = None
    low: float | None = None
    high: float | None = None
    undetermined: str = ""

    @property
    def ratio(self) -> tuple[float, float, float] | None:
        """By how much one unit more, or being of the category, multiplies odds or rates, with its interval.

        None for the intercept, without an interval, and where a number is too large for a float.
        """
        if self.name == INTERCEPT or self.low is None or self.high is None or self.high > _LARGEST_LOG:
            return None
        return math.exp(self.coef), math.exp(self.low), math.exp(self.high)

    @property
    def title(self) -> str:
        """What it is called, a category with what it is compared with."""
        return self.name if self.against is None else f"{self.name} (against {self.against})"


@dataclass(frozen=True, kw_only=True)
class CoefficientTable:
    """Coefficients in the units of the table, with their intervals or the reason why there are none.

    estimand: what the coefficients are of, in words. level: of the intervals. why_not: empty where any has an interval;
    of those that have none, `CoefficientRow.undetermined` says why. adds_to: what one unit more of a column changes.
    ratio: what exp() of a coefficient is a ratio of, "odds" or "rate"; empty where it is none.
    """

    title: str
    facts: tuple[str, ...]
    rows: tuple[CoefficientRow, ...]
    estimand: str
    notes: tuple[str, ...] = ()
    level: float = 0.95
    why_not: str = ""
    adds_to: str = "the log-odds"
    ratio: str = "odds"

    @property
    def has_intervals(self) -> bool:
        """Whether any coefficient has an interval."""
        return not self.why_not

    @property
    def ends(self) -> tuple[str, str]:
        """What the ends of the intervals are called."""
        return f"[{(1 - self.level) / 2:.3g}", f"{(1 + self.level) / 2:.3g}]"

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain values."""
        return [vars(row) | ({f"{self.ratio}_ratio": row.ratio} if self.ratio else {}) for row in self.rows]

    def frame(self) -> "pd.DataFrame":
        """Return a DataFrame by name: the columns of statsmodels, odds or rate ratios with intervals, and why not.

        `z` and `P>|z|` are the Wald test of a coefficient of 0. NaN where there is no interval.
        """
        import pandas as pd  # late: whoever prints needs none

        ratios = (f"{self.ratio} ratio", *(f"{self.ratio} {end}" for end in self.ends)) if self.ratio else ()
        heads = ["coef", "std err", "z", "P>|z|", *self.ends, *ratios]
        cells = [
            [row.coef, row.std_err, row.z, row.p_value, row.low, row.high, *(row.ratio or (None,) * 3)][: len(heads)]
            for row in self.rows
        ]
        names = pd.Index([row.title for row in self.rows], name="coefficient")
        found = pd.DataFrame(cells, index=names, columns=heads, dtype=float)
        return found.assign(undetermined=[row.undetermined for row in self.rows])

    def __str__(self) -> str:
        """Return the table as text."""
        return _table_text(self)

    __repr__ = __str__


def interval_rows(found: CoefficientEstimate, units: Contrasts, level: float) -> tuple[CoefficientRow, ...]:
    """Return the coefficients of the table with intervals at this level, where they are determined."""
    width = float(ndtri((1 + checks.open_unit("level", level)) / 2))
    coefs = units.of(found.centre)
    errors = np.sqrt(np.einsum("ij,jk,ik->i", units.rows, found.covariance, units.rows) + found.added)
    rows = []
    for j, (name, other, coef, error) in enumerate(zip(units.names, units.against, coefs, errors, strict=True)):
        row = CoefficientRow(name=name, against=other, coef=float(coef))
        if found.is_determined[j]:
            row = replace(
                row,
                std_err=float(error),
                z=float(coef / error),
                p_value=float(2 * ndtr(-abs(coef / error))),
                low=float(coef - width * error),
                high=float(coef + width * error),
            )
        else:
            row = replace(row, undetermined=_why_undetermined(j, found, units))
        rows.append(row)
    return tuple(rows)


def _why_undetermined(place: int, found: CoefficientEstimate, units: Contrasts) -> str:
    """Say what stands in the way of an interval of this contrast."""
    if place in found.linked:
        return f"bound up with {_listed(found.linked[place], units)}"
    shared = _listed(found.removed.get(place, ()), units)
    if units.against[place] is not None:
        return f"too few records of {units.names[place]}" + (
            f", or they cannot be told from {shared}" if shared else ""
        )
    return f"cannot be told from {shared} at this noise" if shared else "varies too little for so few records"


def _listed(places: Sequence[int], units: Contrasts) -> str:
    return ", ".join(units.names[place] for place in places)


_WIDTH, _CELL, _MOST_NAME = 92, 11, 48


def _table_text(table: CoefficientTable) -> str:
    """Return title, facts, a line for each coefficient, and what they are, laid out as tables of statsmodels are."""
    names = [_cut(row.title) for row in table.rows]
    wide = max(12, *map(len, names))
    heads = (
        ["coef", "std err", "z", "P>|z|", *table.ends, *([f"{table.ratio} ratio"] if table.ratio else [])]
        if table.has_intervals
        else ["coef"]
    )
    rule = "-" * max(_WIDTH, wide + 7 * _CELL)
    lines = [
        table.title.center(len(rule)).rstrip(),
        rule.replace("-", "="),
        *table.facts,
        rule.replace("-", "="),
        " " * wide + "".join(f"{head:>{_CELL}}" for head in heads),
        rule,
        *(
            (f"{name:<{wide}}" + "".join(f"{cell:>{_CELL}}" for cell in _cells(row, table))).rstrip()
            for name, row in zip(names, table.rows, strict=True)
        ),
        rule,
    ]
    why_not = f"No intervals: {table.why_not}" if table.why_not else ""
    without = [f"{row.name}: {row.undetermined}" for row in table.rows if row.undetermined]
    undetermined = f"Undetermined: {'; '.join(without)}." if without else ""
    for text in (why_not, undetermined, table.estimand, *table.notes):
        lines += textwrap.wrap(text, len(rule), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 3]}..."


def _cells(row: CoefficientRow, table: CoefficientTable) -> list[str]:
    if not table.has_intervals or row.std_err is None or row.z is None or row.p_value is None:
        return [_number(row.coef), *(["undetermined".rjust(_CELL + 3)] if table.has_intervals else [])]
    assert row.low is not None
    assert row.high is not None
    return [
        _number(row.coef),
        _number(row.std_err),
        f"{row.z:.2f}",
        f"{row.p_value:.3f}",
        _number(row.low),
        _number(row.high),
        _number(row.ratio[0]) if table.ratio and row.ratio else "",
    ]


def _number(value: float) -> str:
    """Return four digits; very small and very large numbers with their power of ten."""
    return "0" if value == 0 else f"{value:.4g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.2e}"
