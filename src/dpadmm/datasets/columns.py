"""Columns and labels of a schema, and what a cell means: the one rule for files, data frames and arrays.

A cell is what it says, not how it is stored: 1, 1.0, "1", " 1" and "01" are the same number, True and "true" are 1, a
day is its date. So the same table is encoded alike from CSV, from Parquet and from memory. Nothing here refuses a cell:
awkward ones are marked, row by row, and `tables.encode_table` decides by the user's policies.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats

Category: TypeAlias = str | int
Codes: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]

EMPTY_WORDS = frozenset(
    {
        *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NaN", "nan", "-NaN", "-nan"),
        *("None", "NULL", "null", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
"""What stands for an empty cell in text, as pandas reads CSV files; elsewhere a listed category may be called so."""

_TRUTH = {"true": 1.0, "false": 0.0}
_LARGEST_EXACT = 2**53  # beyond it a column with an empty cell cannot hold every whole number
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class Cells:
    """One column, read: row r has the value `values[r]` in its feature `codes[r]` (-1: none); and the awkward cells.

    `missing`: empty. `unlisted`: no listed category. `outside`: beyond the bounds, and moved to the nearest one.
    `strange`: no finite number where one is needed, which no policy covers. A missing number has its typical value.
    """

    codes: Codes = field(repr=False)
    values: Floats = field(repr=False)
    missing: Mask = field(repr=False)
    unlisted: Mask = field(repr=False)
    outside: Mask = field(repr=False)
    strange: Mask = field(repr=False)


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

    @property
    def allowed(self) -> str:
        """What a cell may be, in a few words."""
        ...

    def read(self, cells: pd.Series) -> Cells:
        """Encode cells of any kind."""
        ...

    def describe(self) -> str:
        """Say in words what the column allows."""
        ...


class Label(Protocol):
    """The column to predict and the number it becomes."""

    @property
    def name(self) -> str:
        """Name of the column in the table."""
        ...

    @property
    def allowed(self) -> str:
        """What a cell may be, in a few words."""
        ...

    @property
    def classes(self) -> tuple[Category | float, ...]:
        """What is predicted for -1 and for +1, in words; nothing for a number."""
        ...

    @property
    def is_real(self) -> bool:
        """Whether the label is a number to predict, not one of two classes."""
        ...

    def read(self, cells: pd.Series) -> Cells:
        """Encode cells of any kind; the labels are the values."""
        ...

    def describe(self) -> str:
        """Say in words what the label allows."""
        ...


@dataclass(frozen=True)
class Numeric:
    """A number with public bounds, encoded as `(v - origin) / (upper - lower)`, with origin = lower: in [0, 1].

    The bounds are knowledge about the world (an age lies between 0 and 120), never the extremes of the data:
    the largest value of a private column is somebody's value. A `typical` value, public as well, becomes the origin
    instead: what all rows share then takes no room in the row's norm, and noise disturbs predictions less.

    >>> Numeric("age", 0, 100).read(pd.Series([25, "50", 130])).values.tolist()
    [0.25, 0.5, 1.0]
    >>> Numeric("age", 0, 100, typical=50).read(pd.Series([25, None])).values.tolist()
    [-0.25, 0.0]
    """

    name: str
    lower: float
    upper: float
    typical: float | None = None
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        """Refuse empty or endless ranges."""
        _check_name("A column", self.name)
        _check_bounds(self)
        if self.typical is not None:
            typical = checks.finite(f"typical of {self.name!r}", self.typical)
            if not self.lower <= typical <= self.upper:
                raise InputError(f"{self.name!r}: typical must lie between lower and upper, got {shown(self.typical)}.")
            object.__setattr__(self, "typical", typical)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One feature, named as the column."""
        return (self.name,)

    @property
    def allowed(self) -> str:
        """The range."""
        return f"{self.lower:g} to {self.upper:g}"

    def read(self, cells: pd.Series) -> Cells:
        """Scale by the public bounds; an empty cell has the typical value, or the middle of the bounds."""
        usual = 0.5 * (self.lower + self.upper) if self.typical is None else self.typical
        origin = self.lower if self.typical is None else self.typical
        found = number_cells(cells, usual, self.lower, self.upper)
        return replace(found, values=(found.values - origin) / (self.upper - self.lower))

    def describe(self) -> str:
        """Say the range."""
        usual = "" if self.typical is None else f", typically {self.typical:g}"
        return f"{self.name}: a number from {self.allowed}{usual}"


@dataclass(frozen=True)
class Categorical:
    """One of a public list of categories, encoded one-hot: one feature per category, in the order given.

    Categories are all text or all whole numbers. A cell is a category if it is the same text or, where no other
    category is that number too, the same number.

    >>> Categorical("sex", ("F", "M")).read(pd.Series(["M", " F", "?"])).codes.tolist()
    [1, 0, -1]
    >>> Categorical("ward", ("01", "02")).read(pd.Series(["02", 1, 2.0, 3])).codes.tolist()
    [1, 0, 1, -1]
    """

    name: str
    categories: tuple[Category, ...]
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        """Refuse empty, repeated or mixed lists."""
        _check_name("A column", self.name)
        object.__setattr__(self, "categories", _checked_categories(self.name, self.categories))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """`column=category`, one per category."""
        return tuple(f"{self.name}={category}" for category in self.categories)

    @property
    def allowed(self) -> str:
        """The list."""
        return ", ".join(map(repr, self.categories))

    def read(self, cells: pd.Series) -> Cells:
        """Look every cell up in the list; an empty or unlisted one has code -1."""
        return listed_cells(cells, self.categories)

    def describe(self) -> str:
        """Say the list."""
        return f"{self.name}: one of {self.allowed}"


@dataclass(frozen=True)
class BinaryLabel:
    """Two classes by listed values: +1 for a value in `positive`, -1 for one in `negative`.

    >>> label = BinaryLabel("income", positive=(">50K",), negative=("<=50K",))
    >>> label.read(pd.Series([">50K", "<=50K"])).values.tolist(), label.classes
    ([1.0, -1.0], ('<=50K', '>50K'))
    """

    name: str
    positive: tuple[Category, ...]
    negative: tuple[Category, ...]
    kind: ClassVar[str] = "binary"
    is_real: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse empty or overlapping classes."""
        _check_name("A label", self.name)
        positive = _checked_categories(f"{self.name} (positive)", self.positive)
        negative = _checked_categories(f"{self.name} (negative)", self.negative)
        _checked_categories(f"{self.name} (positive and negative)", positive + negative)
        object.__setattr__(self, "positive", positive)
        object.__setattr__(self, "negative", negative)

    @property
    def classes(self) -> tuple[Category, ...]:
        """The first value of each class."""
        return self.negative[0], self.positive[0]

    @property
    def allowed(self) -> str:
        """The two lists together."""
        return ", ".join(map(repr, self.positive + self.negative))

    def read(self, cells: pd.Series) -> Cells:
        """Return -1 or +1 per row."""
        found = listed_cells(cells, self.positive + self.negative)
        return replace(found, values=np.where(found.codes < len(self.positive), 1.0, -1.0))

    def describe(self) -> str:
        """Say the two lists."""
        return f"{self.name}: +1 for {list(self.positive)!r}, -1 for {list(self.negative)!r}"


@dataclass(frozen=True)
class ThresholdLabel:
    """Two classes by a public threshold: +1 above it, -1 at or below.

    >>> ThresholdLabel("income", 50_000).read(pd.Series([50_000, "50001"])).values.tolist()
    [-1.0, 1.0]
    """

    name: str
    threshold: float
    kind: ClassVar[str] = "threshold"
    is_real: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse thresholds that are no numbers."""
        _check_name("A label", self.name)
        object.__setattr__(self, "threshold", checks.finite(f"threshold of {self.name!r}", self.threshold))

    @property
    def classes(self) -> tuple[Category, ...]:
        """On which side of the threshold."""
        return f"at most {self.threshold:g}", f"above {self.threshold:g}"

    @property
    def allowed(self) -> str:
        """Any number."""
        return "a number"

    def read(self, cells: pd.Series) -> Cells:
        """Return -1 or +1 per row."""
        found = number_cells(cells, self.threshold, -np.inf, np.inf)
        return replace(found, values=np.where(found.values > self.threshold, 1.0, -1.0))

    def describe(self) -> str:
        """Say the threshold."""
        return f"{self.name}: +1 above {self.threshold:g}, otherwise -1"


@dataclass(frozen=True)
class RealLabel:
    """A bounded target for regression, mapped from [lower, upper] onto [-1, 1]; `decode` maps back.

    >>> label = RealLabel("price", 0, 200)
    >>> encoded = label.read(pd.Series([50.0, 999.0]))
    >>> encoded.values.tolist(), encoded.outside.tolist(), label.decode(encoded.values).tolist()
    ([-0.5, 1.0], [False, True], [50.0, 200.0])
    """

    name: str
    lower: float
    upper: float
    kind: ClassVar[str] = "real"
    is_real: ClassVar[bool] = True
    classes: ClassVar[tuple[Category, ...]] = ()

    def __post_init__(self) -> None:
        """Refuse empty or endless ranges."""
        _check_name("A label", self.name)
        _check_bounds(self)

    @property
    def allowed(self) -> str:
        """The range."""
        return f"{self.lower:g} to {self.upper:g}"

    def read(self, cells: pd.Series) -> Cells:
        """Return numbers in [-1, 1]."""
        found = number_cells(cells, self.lower, self.lower, self.upper)
        return replace(found, values=2.0 * (found.values - self.lower) / (self.upper - self.lower) - 1.0)

    def decode(self, scores: Floats) -> Floats:
        """Map predictions, clipped to [-1, 1], back to the units of the table."""
        return self.lower + (np.clip(scores, -1.0, 1.0) + 1.0) * (self.upper - self.lower) / 2.0

    def describe(self) -> str:
        """Say the range."""
        return f"{self.name}: a number from {self.allowed}, mapped onto [-1, 1]"


def record_of(part: Column | Label) -> dict[str, Any]:
    """Return a column or a label as a JSON record."""
    values = {each.name: getattr(part, each.name) for each in fields(part)}  # type: ignore[arg-type]
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {"kind": part.kind} | {name: value for name, value in plain.items() if value is not None}  # type: ignore[union-attr]


def numbers_of(cells: pd.Series) -> Floats:
    """Return cells of any kind as floats, NaN where a cell is no real number (dates are none either).

    >>> numbers_of(pd.Series(["1.5", "a", None, [2], True, "False", "01"], dtype=object)).tolist()
    [1.5, nan, nan, nan, 1.0, 0.0, 1.0]
    """
    if cells.dtype.kind in "biuf":
        return np.asarray(cells.astype(float).to_numpy())
    # Cell by cell: pandas reads a column as a whole, and one person's cell would change how another's is read.
    return np.array([_number_of(cell) for cell in cells.astype(object)], dtype=float)


def _number_of(cell: Any) -> float:
    if isinstance(cell, str):
        text = cell.strip()
        return float(text) if _NUMBER.fullmatch(text) else _TRUTH.get(text.lower(), math.nan)
    try:
        return float(cell) if isinstance(cell, Real | Decimal | np.bool_) else math.nan
    except (ValueError, ArithmeticError):  # a number too large for a float
        return math.nan


def _texts(cells: pd.Series) -> list[str]:
    """Return the cells as they are written, without the spaces around them; midnight is the day alone."""
    return [_text_of(cell).strip().removesuffix(" 00:00:00") for cell in cells.astype(object).tolist()]


def _text_of(cell: Any) -> str:
    """Return what a cell says, whatever the others are: an empty one makes a whole column of 1 one of 1.0."""
    if isinstance(cell, str | bool) or not isinstance(cell, Real | Decimal):
        return str(cell)
    number = _number_of(cell)
    if not math.isfinite(number):
        return str(cell)
    return str(int(number)) if number.is_integer() and abs(number) < _LARGEST_EXACT else repr(number)


def _empty(cells: pd.Series, listed: frozenset[str] = frozenset()) -> Mask:
    absent = cells.isna().to_numpy(dtype=bool)
    if cells.dtype.kind in "biufmMc":
        return absent
    words = EMPTY_WORDS - listed
    return absent | np.array([text in words for text in _texts(cells)], dtype=bool)


def number_cells(cells: pd.Series, usual: float, lower: float, upper: float) -> Cells:
    """Return the numbers within their bounds; `usual` stands for those that are missing or strange."""
    missing, numbers = _empty(cells), numbers_of(cells)
    strange = ~np.isfinite(numbers) & ~missing
    numbers = np.where(missing | strange, usual, numbers)
    none = np.zeros(len(numbers), dtype=bool)
    outside = (numbers < lower) | (numbers > upper)
    return Cells(np.zeros(len(numbers), dtype=np.intp), np.clip(numbers, lower, upper), missing, none, outside, strange)


def listed_cells(cells: pd.Series, categories: Sequence[Category | float]) -> Cells:
    """Return the position of every cell in `categories`, by its text or else by its number."""
    listed = pd.Series(categories, dtype=object)
    by_text = {text: place for place, text in reversed(list(enumerate(_texts(listed))))}
    values = numbers_of(listed)
    by_number = {v: place for place, v in enumerate(values) if np.isfinite(v) and (values == v).sum() == 1}
    missing = _empty(cells, frozenset(by_text))
    codes = np.array([by_text.get(text, -1) for text in _texts(cells)], dtype=np.intp)
    if by_number and (codes < 0).any():
        loose = np.array([by_number.get(number, -1) for number in numbers_of(cells).tolist()], dtype=np.intp)
        codes = np.where(codes < 0, loose, codes)
    codes[missing] = -1
    none = np.zeros(len(codes), dtype=bool)
    return Cells(codes, np.ones(len(codes)), missing, (codes < 0) & ~missing, none, none)


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InputError(f"{what} must have a name (non-empty text), got {shown(name)}.")


def _check_bounds(part: Numeric | RealLabel) -> None:
    """Make the bounds floats if they and their distance are finite and `lower < upper`."""
    name, lower, upper = part.name, part.lower, part.upper
    low, high = checks.finite(f"lower of {name!r}", lower), checks.finite(f"upper of {name!r}", upper)
    if not low < high:
        raise InputError(f"{name!r}: lower must be less than upper, got lower={shown(lower)}, upper={shown(upper)}.")
    if not math.isfinite(high - low):
        raise InputError(f"{name!r}: upper - lower is too large for a number. Give bounds that are closer together.")
    object.__setattr__(part, "lower", low)
    object.__setattr__(part, "upper", high)


def _checked_categories(name: str, categories: Sequence[Any]) -> tuple[Category, ...]:
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
