"""Coefficients with confidence intervals, from what was released: post-processing alone, free to do again (C14).

With p the point at which the run has settled, g the mean noisy gradient there and H the noisy curvature, all in sums
over records, s^2 the variance of the noise in g and E that in H, of tau on the diagonal and tau/sqrt(2) beside it:

    centre      p - v,   v = H^-1 g                     one Newton step: takes off the ridge, and stopping early
    covariance  L^-1 [ M + (tau^2/2)(tr(W) I + W) ] L^-1,   M = s^2 I + L,   W = L^-1 (g g' + M) L^-1

`s^2 I` is the noise of the gradients, M - s^2 I the sampling of the records, the rest is what E does to the Newton step
and to H^-1 itself. L is H with its eigenvalues lowered, by 5 tau where one only just passes the rule below, and by
hardly anything from 3 tau above it on: one that only just passes is likely to have been lifted there by noise.
The rule: there are intervals if the least eigenvalue of H is at least `tau sqrt(2 (d + 1))`, about the most that noise
alone would show. Directions that no record has, since the categories of a column always sum to one, are left out.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from dpadmm import checks
from dpadmm.data.columns import Categorical, Column
from dpadmm.data.encoding import RowEncoding
from dpadmm.problems.arrays import Floats
from dpadmm.queries.curvature import CurvatureFacts, unpack

if TYPE_CHECKING:
    import pandas as pd

INTERCEPT = "(intercept)"
_LEAST_RATIO = 1.0
_LIFTED, _FADING, _LOWEST = 5.0, 0.8, 0.25  # chosen by simulation (C14)
_CENTRED = 1e-9
_LARGEST_LOG = 700.0  # beyond, exp overflows


@dataclass(frozen=True, eq=False)
class CoefficientEstimate:
    """Centre and covariance of encoded coefficients. ratio: the least eigenvalue over what noise alone would show."""

    centre: Floats
    covariance: Floats
    ratio: float

    @property
    def has_intervals(self) -> bool:
        """Whether intervals may be units."""
        return self.ratio >= _LEAST_RATIO


def estimate(found: CurvatureFacts, basis: Floats) -> CoefficientEstimate:
    """Return what the releases say about the coefficients; basis (D, d): of the directions that records have."""
    whole, d = len(found.point), basis.shape[1]
    tau, variance, ones = found.matrix_std, found.gradient_std**2, np.eye(d)
    values, vectors = np.linalg.eigh(basis.T @ unpack(np.array(found.matrix), whole) @ basis)
    edge = tau * math.sqrt(2 * (d + 1))
    ratio = math.inf if edge == 0 else float(values[0] / edge)
    values = np.maximum(values, edge / 2)  # counts only where there are no intervals
    low = np.maximum(values - _lift(values - edge, tau), _LOWEST * values)
    inverse, lowered = ((vectors / each) @ vectors.T for each in (values, low))
    gradient = basis.T @ np.array(found.gradient)
    own = variance * ones + (vectors * low) @ vectors.T
    spread = lowered @ (np.outer(gradient, gradient) + own) @ lowered
    middle = own + tau**2 / 2 * (np.trace(spread) * ones + spread)
    covariance = basis @ (lowered @ middle @ lowered) @ basis.T
    centre = np.array(found.point) - basis @ (inverse @ gradient)
    return CoefficientEstimate(centre, covariance, ratio)


def _lift(above: Floats, tau: float) -> Floats:
    """Return by how much eigenvalues are lowered that are so far above the rule."""
    if tau == 0:
        return np.zeros_like(above)
    return np.asarray(_LIFTED * tau * np.exp(-np.maximum(above, 0.0) / (_FADING * tau)))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """How encoded coefficients become those of the table: names, and a row of numbers each; see `contrasts`."""

    names: tuple[str, ...]
    against: tuple[str | None, ...]
    rows: Floats
    basis: Floats


def contrasts(columns: Sequence[Column], encoding: RowEncoding) -> Contrasts:
    """Return the coefficients in the units of the table: per unit of a number, of a category against the first listed.

    The intercept is the score of a row with zeros and first categories. All are linear in the encoded coefficients.
    """
    slopes = encoding.share / encoding.radius / np.array(encoding.scale)
    names: list[str] = []
    against: list[str | None] = []
    rows: list[Floats] = []
    absent: list[Floats] = []
    intercept = np.zeros(encoding.dimension)
    intercept[: len(slopes)] = -slopes * np.array(encoding.centre)
    if encoding.constant is not None:
        intercept[-1] = encoding.constant
    start = 0
    for column in columns:
        places = range(start, start + len(column.feature_names))
        start = places.stop
        units = [slopes[place] * _unit(place, encoding.dimension) for place in places]
        if not isinstance(column, Categorical):
            names += column.feature_names
            against += [None] * len(units)
            rows += units
            continue
        names += column.feature_names[1:]
        against += [str(column.categories[0])] * (len(units) - 1)
        rows += [unit - units[0] for unit in units[1:]]
        intercept = intercept + units[0]
        if abs(math.fsum(encoding.centre[place] for place in places) - 1) < _CENTRED:
            own = np.zeros(encoding.dimension)
            own[places.start : places.stop] = encoding.scale[places.start : places.stop]
            absent.append(own)
    if encoding.constant is not None:
        names.append(INTERCEPT)
        against.append(None)
        rows.append(intercept)
    return Contrasts(tuple(names), tuple(against), np.array(rows), _complement(absent, encoding.dimension))


def _unit(place: int, dimension: int) -> Floats:
    found = np.zeros(dimension)
    found[place] = 1.0
    return found


def _complement(absent: Sequence[Floats], dimension: int) -> Floats:
    """Return an orthonormal basis of all that is orthogonal to these orthogonal vectors."""
    if not absent:
        return np.eye(dimension)
    whole, _ = np.linalg.qr(np.array(absent).T, mode="complete")
    return np.asarray(whole[:, len(absent) :])


@dataclass(frozen=True, kw_only=True)
class CoefficientRow:
    """One coefficient; all numbers but itself None where no interval can be units.

    against: for a category, the one it is compared with.
    """

    name: str
    against: str | None = None
    coef: float
    std_err: float | None = None
    z: float | None = None
    p_value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def odds_ratio(self) -> tuple[float, float, float] | None:
        """By how much one unit more, or being of the category, multiplies the odds, with its interval.

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

    estimand: what the coefficients are of, in words. level: of the intervals. why_not: empty where there are intervals.
    """

    title: str
    facts: tuple[str, ...]
    rows: tuple[CoefficientRow, ...]
    estimand: str
    notes: tuple[str, ...] = ()
    level: float = 0.95
    why_not: str = ""

    @property
    def has_intervals(self) -> bool:
        """Whether intervals are units."""
        return not self.why_not

    @property
    def ends(self) -> tuple[str, str]:
        """What the ends of the intervals are called."""
        return f"[{(1 - self.level) / 2:.3g}", f"{(1 + self.level) / 2:.3g}]"

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain values."""
        return [{**vars(row), "odds_ratio": row.odds_ratio} for row in self.rows]

    def frame(self) -> "pd.DataFrame":
        """Return a DataFrame by name, with the columns of statsmodels; NaN where nothing is units."""
        import pandas as pd  # late: whoever prints needs none

        heads = ["coef", "std err", "z", "P>|z|", *self.ends]
        cells = [[row.coef, row.std_err, row.z, row.p_value, row.low, row.high] for row in self.rows]
        names = pd.Index([row.title for row in self.rows], name="coefficient")
        return pd.DataFrame(cells, index=names, columns=heads, dtype=float)

    def __str__(self) -> str:
        """Return the table as text."""
        return _table_text(self)

    __repr__ = __str__


def interval_rows(found: CoefficientEstimate, units: Contrasts, level: float) -> tuple[CoefficientRow, ...]:
    """Return the coefficients of the table with intervals at this level."""
    width = float(ndtri((1 + checks.open_unit("level", level)) / 2))
    coefs = units.rows @ found.centre
    errors = np.sqrt(np.einsum("ij,jk,ik->i", units.rows, found.covariance, units.rows))
    return tuple(
        CoefficientRow(
            name=name,
            against=other,
            coef=float(coef),
            std_err=float(error),
            z=float(coef / error),
            p_value=float(2 * ndtr(-abs(coef / error))),
            low=float(coef - width * error),
            high=float(coef + width * error),
        )
        for name, other, coef, error in zip(units.names, units.against, coefs, errors, strict=True)
    )


_WIDTH, _CELL, _MOST_NAME = 92, 11, 34


def _table_text(table: CoefficientTable) -> str:
    """Return title, facts, a line for each coefficient, and what they are, laid out as tables of statsmodels are."""
    names = [_cut(row.title) for row in table.rows]
    wide = max(12, *map(len, names))
    heads = ["coef", "std err", "z", "P>|z|", *table.ends] if table.has_intervals else ["coef"]
    rule = "-" * max(_WIDTH, wide + 6 * _CELL)
    lines = [
        table.title.center(len(rule)).rstrip(),
        rule.replace("-", "="),
        *table.facts,
        rule.replace("-", "="),
        " " * wide + "".join(f"{head:>{_CELL}}" for head in heads),
        rule,
        *(
            f"{name:<{wide}}" + "".join(f"{cell:>{_CELL}}" for cell in _cells(row, table.has_intervals))
            for name, row in zip(names, table.rows, strict=True)
        ),
        rule,
    ]
    for text in (f"No intervals: {table.why_not}" if table.why_not else "", table.estimand, *table.notes):
        lines += textwrap.wrap(text, len(rule), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 3]}..."


def _cells(row: CoefficientRow, has_intervals: bool) -> list[str]:
    if not has_intervals or row.std_err is None or row.z is None or row.p_value is None:
        return [_number(row.coef)]
    assert row.low is not None
    assert row.high is not None
    return [
        _number(row.coef),
        _number(row.std_err),
        f"{row.z:.2f}",
        f"{row.p_value:.3f}",
        _number(row.low),
        _number(row.high),
    ]


def _number(value: float) -> str:
    """Return four digits; very small and very large numbers with their power of ten."""
    return "0" if value == 0 else f"{value:.4g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.2e}"
