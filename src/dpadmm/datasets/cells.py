"""What a cell means: the one rule for files, data frames and arrays.

A cell is what it says, not how it is stored: 1, 1.0, "1", " 1" and "01" are the same number, True and "true" are 1, a
day is its date. So the same table is encoded alike from CSV, from Parquet and from memory.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.datasets.columns import Column
    from dpadmm.datasets.encoding import RowEncoding
    from dpadmm.datasets.profile import ProfileForm
    from dpadmm.problems.arrays import Matrix

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
    `strange`: no finite number where one is needed, which no policy covers. Numbers are in their own units.
    """

    codes: Codes = field(repr=False)
    values: Floats = field(repr=False)
    missing: Mask = field(repr=False)
    unlisted: Mask = field(repr=False)
    outside: Mask = field(repr=False)
    strange: Mask = field(repr=False)
    is_category: bool = False


@dataclass(frozen=True)
class Screened:
    """Encoded rows (n, d), their labels (empty without), which rows were blanked, and notes for the data's holder."""

    features: "Matrix" = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ScreenedCells:
    """The columns as they were read, the labels (empty without), which rows are to be blanked, and notes."""

    columns: "tuple[Column, ...]"
    cells: Sequence[Cells] = field(repr=False)
    labels: Floats = field(repr=False)
    blank: Mask = field(repr=False)
    notes: tuple[str, ...]

    @property
    def number(self) -> int:
        """How many rows there are."""
        return len(self.blank)

    def counts(self, form: "ProfileForm", row_weights: Floats | None = None) -> Floats:
        """Return the rows' counts, see `ProfileForm.counts`."""
        return form.counts(self.cells, self.blank, row_weights)

    def rows(self, encoding: "RowEncoding") -> "Matrix":
        """Return the encoded rows."""
        return encoding.encode_cells(self.columns, self.cells, self.blank)

    def encoded(self, encoding: "RowEncoding") -> Screened:
        """Return the encoded rows with all that is known about them."""
        return Screened(self.rows(encoding), self.labels, self.blank, self.notes)


def numbers_of(cells: "pd.Series") -> Floats:
    """Return cells of any kind as floats, NaN where a cell is no real number (dates are none either).

    >>> import pandas as pd
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
    if isinstance(cell, complex) and cell.imag == 0:  # one complex cell makes a whole column of 1 one of 1+0j
        cell = cell.real
    try:
        return float(cell) if isinstance(cell, Real | Decimal | np.bool_) else math.nan
    except (ValueError, ArithmeticError):  # a number too large for a float
        return math.nan


def _texts(cells: "pd.Series") -> list[str]:
    """Return the cells as they are written, without the spaces around them; midnight is the day alone."""
    return [_text_of(cell).strip().removesuffix(" 00:00:00") for cell in cells.astype(object).tolist()]


def _text_of(cell: Any) -> str:
    """Return what a cell says, whatever the others are: an empty one makes a whole column of 1 one of 1.0."""
    if isinstance(cell, str | bool) or not isinstance(cell, Real | Decimal | complex):
        return str(cell)
    number = _number_of(cell)
    if not math.isfinite(number):
        return str(cell)
    return str(int(number)) if number.is_integer() and abs(number) < _LARGEST_EXACT else repr(number)


def _empty(cells: "pd.Series", listed: frozenset[str] = frozenset()) -> Mask:
    absent = cells.isna().to_numpy(dtype=bool)
    if cells.dtype.kind in "biufmMc":
        return absent
    words = EMPTY_WORDS - listed
    return absent | np.array([text in words for text in _texts(cells)], dtype=bool)


def number_cells(cells: "pd.Series", usual: float, lower: float, upper: float) -> Cells:
    """Return the numbers within their bounds; `usual` stands for those that are missing or strange."""
    missing, numbers = _empty(cells), numbers_of(cells)
    strange = ~np.isfinite(numbers) & ~missing
    numbers = np.where(missing | strange, usual, numbers)
    none = np.zeros(len(numbers), dtype=bool)
    outside = (numbers < lower) | (numbers > upper)
    return Cells(np.zeros(len(numbers), dtype=np.intp), np.clip(numbers, lower, upper), missing, none, outside, strange)


def listed_cells(cells: "pd.Series", categories: Sequence[Category | float]) -> Cells:
    """Return the position of every cell in `categories`, by its text or else by its number."""
    import pandas as pd  # slow to load, and plans read no cells

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
