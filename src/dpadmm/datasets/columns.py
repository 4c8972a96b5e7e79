"""Columns of a schema: numbers with public bounds, and lists of categories.

Messages name the column, the rule and how many rows break it. They never quote a cell: cells are private, and
messages travel to logs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.datasets.policies import OutOfRange
from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Floats

Category: TypeAlias = str | int
Codes: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class Cells:
    """One encoded column: row r has the value `values[r]` in its feature `codes[r]` (-1: none)."""

    codes: Codes = field(repr=False)
    values: Floats = field(repr=False)
    clipped: NDArray[np.bool_] = field(repr=False)

    def take(self, rows: NDArray[np.bool_]) -> "Cells":
        """Return the marked rows only."""
        return Cells(self.codes[rows], self.values[rows], self.clipped[rows])


class Column(Protocol):
    """One column of the table and the features it becomes."""

    @property
    def name(self) -> str:
        """Name of the column in the table."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the column becomes."""
        ...

    def encode(self, values: pd.Series, out_of_range: OutOfRange) -> Cells:
        """Encode complete cells (no missing value among them)."""
        ...

    def describe(self) -> str:
        """Say in words what the column allows."""
        ...

    def to_record(self) -> dict[str, Any]:
        """Return a JSON record."""
        ...


@dataclass(frozen=True)
class Numeric:
    """A number with public bounds, encoded as `(v - origin) / (upper - lower)`, with origin = lower: in [0, 1].

    The bounds are knowledge about the world (an age lies between 0 and 120), never the extremes of the data:
    the largest value of a private column is somebody's value. A `typical` value, public as well, becomes the origin
    instead: what all rows share then takes no room in the row's norm, and noise disturbs predictions less.

    >>> age = Numeric("age", 0, 100)
    >>> age.encode(pd.Series([25, 50, 130]), OutOfRange.CLIP).values.tolist()
    [0.25, 0.5, 1.0]
    >>> Numeric("age", 0, 100, typical=50).encode(pd.Series([25, 50]), OutOfRange.CLIP).values.tolist()
    [-0.25, 0.0]
    """

    name: str
    lower: float
    upper: float
    typical: float | None = None
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        """Refuse empty or endless ranges."""
        checked_name("A column", self.name)
        lower, upper = checked_bounds(self.name, self.lower, self.upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        if self.typical is not None:
            typical = checks.finite(f"typical of {self.name!r}", self.typical)
            if not lower <= typical <= upper:
                raise InputError(f"{self.name!r}: typical must lie between lower and upper, got {shown(self.typical)}.")
            object.__setattr__(self, "typical", typical)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return (self.name,)

    def encode(self, values: pd.Series, out_of_range: OutOfRange) -> Cells:
        """Scale by the public bounds."""
        inside, clipped = bounded(self.name, values, self.lower, self.upper, out_of_range)
        origin = self.lower if self.typical is None else self.typical
        scaled = (inside - origin) / (self.upper - self.lower)
        return Cells(np.zeros(len(scaled), dtype=np.intp), scaled, clipped)

    def describe(self) -> str:
        """Say the range."""
        usual = "" if self.typical is None else f", typically {self.typical:g}"
        return f"{self.name}: a number from {self.lower:g} to {self.upper:g}{usual}"

    def to_record(self) -> dict[str, Any]:
        """Return a JSON record."""
        record = {"kind": self.kind, "name": self.name, "lower": self.lower, "upper": self.upper}
        return record if self.typical is None else record | {"typical": self.typical}


@dataclass(frozen=True)
class Categorical:
    """One of a public list of categories, encoded one-hot: one feature per category, in the order given.

    Categories are all text or all whole numbers; whole numbers match cells stored as 1 or 1.0.

    >>> Categorical("sex", ("F", "M")).encode(pd.Series(["M", "F", "?"]), OutOfRange.CLIP).codes.tolist()
    [1, 0, -1]
    """

    name: str
    categories: tuple[Category, ...]
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        """Refuse empty, repeated or mixed lists."""
        checked_name("A column", self.name)
        object.__setattr__(self, "categories", checked_categories(self.name, self.categories))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """`column=category`, one per category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, values: pd.Series, out_of_range: OutOfRange) -> Cells:
        """Look every cell up in the list; an unlisted one has code -1."""
        codes = lookup(self.name, values, self.categories)
        return Cells(codes, np.ones(len(codes)), np.zeros(len(codes), dtype=bool))

    def describe(self) -> str:
        """Say the list."""
        return f"{self.name}: one of {', '.join(map(repr, self.categories))}"

    def to_record(self) -> dict[str, Any]:
        """Return a JSON record."""
        return {"kind": self.kind, "name": self.name, "categories": list(self.categories)}


def checked_name(what: str, name: object) -> str:
    """Return `name` if it is non-empty text."""
    if not isinstance(name, str) or not name:
        raise InputError(f"{what} must have a name (non-empty text), got {shown(name)}.")
    return name


def checked_bounds(name: str, lower: float, upper: float) -> tuple[float, float]:
    """Return the bounds as floats if they and their distance are finite and `lower < upper`."""
    low, high = checks.finite(f"lower of {name!r}", lower), checks.finite(f"upper of {name!r}", upper)
    if not low < high:
        raise InputError(f"{name!r}: lower must be less than upper, got lower={shown(lower)}, upper={shown(upper)}.")
    if not math.isfinite(high - low):
        raise InputError(f"{name!r}: upper - lower is too large for a number. Give bounds that are closer together.")
    return low, high


def checked_categories(name: str, categories: Sequence[Any]) -> tuple[Category, ...]:
    """Return the categories as a tuple if they are distinct and all text or all whole numbers."""
    if isinstance(categories, str) or not isinstance(categories, Sequence) or len(categories) == 0:
        raise InputError(f"{name!r}: categories must be a non-empty list, got {shown(categories)}.")
    whole = all(isinstance(c, Integral) and not isinstance(c, bool) for c in categories)
    if not whole and not all(isinstance(c, str) for c in categories):
        found = ", ".join(sorted({type(c).__name__ for c in categories}))
        raise InputError(f"{name!r}: categories must be all text or all whole numbers, got {found}.")
    if len(set(categories)) < len(categories):
        raise InputError(f"{name!r}: categories must be distinct, got {shown(list(categories))}.")
    return tuple(int(c) if whole else str(c) for c in categories)


def lookup(name: str, values: pd.Series, categories: Sequence[Category]) -> Codes:
    """Return the position of every cell in `categories`, -1 where it is not listed."""
    # A pandas bool never equals an int in an index; True/False stand for the codes 1/0 here.
    cells = values.astype(np.int64) if values.dtype.kind == "b" else values
    if cells.dtype.kind not in "iuf":
        cells = cells.astype(object)
    try:
        return np.asarray(pd.Index(list(categories)).get_indexer(pd.Index(cells)), dtype=np.intp)
    except (TypeError, ValueError):
        raise_alone(InputError(f"Column {name!r} must hold text or whole numbers, not lists or objects."))


def floats_of(cells: pd.Series) -> pd.Series:
    """Return cells of any kind as floats, NaN where a cell is no real number (dates are none either).

    >>> floats_of(pd.Series(["1.5", "a", None, [2]], dtype=object)).tolist()
    [1.5, nan, nan, nan]
    """
    if cells.dtype.kind in "mMc":
        return pd.Series(np.nan, index=cells.index)
    try:
        return pd.to_numeric(cells, errors="coerce").astype(float)
    except (TypeError, ValueError, ArithmeticError):  # a list, an object or a number too large among them
        return pd.Series([_float_of(cell) for cell in cells.astype(object)], index=cells.index, dtype=float)


def _float_of(cell: Any) -> float:
    try:
        return float(cell) if isinstance(cell, str | Real) else float("nan")
    except (ValueError, ArithmeticError):
        return float("nan")


def as_numbers(name: str, values: pd.Series) -> Floats:
    """Return the cells as finite floats, or say how many are no numbers."""
    if values.dtype.kind in "mMc":
        raise InputError(f"Column {name!r} holds {values.dtype}; real numbers are needed. Convert it first.")
    converted = np.asarray(floats_of(values).to_numpy(), dtype=np.float64)
    bad = np.isnan(converted)
    if bad.any():
        raise InputError(
            f"Column {name!r} must hold numbers; {bad.sum()} of {len(bad)} cells are something else "
            f"(first in row {np.argmax(bad)} of the rows read). Convert them, or declare the column categorical."
        )
    if np.isinf(converted).any():
        raise InputError(
            f"Column {name!r} holds {np.isinf(converted).sum()} infinite value(s). Drop or repair those rows."
        )
    return converted


def bounded(
    name: str, values: pd.Series, lower: float, upper: float, policy: OutOfRange
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the numbers clipped to [lower, upper] and which were outside; or refuse, as the policy says."""
    raw = as_numbers(name, values)
    outside = (raw < lower) | (raw > upper)
    if policy is OutOfRange.ERROR and outside.any():
        raise InputError(
            f"Column {name!r}: {outside.sum()} of {len(raw)} values lie outside the public bounds "
            f"[{lower:g}, {upper:g}]. Widen the bounds from public knowledge, or clip (OutOfRange.CLIP)."
        )
    return np.clip(raw, lower, upper), outside
