"""What a cell means: the one rule for files, data frames and arrays.

A cell is what it says, not how it is stored: 1, 1.0, "1", " 1" and "01" are the same number, True and "true" are 1, a
day is its date. So the same table is encoded alike from CSV, from Parquet and from memory.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

Category: TypeAlias = str | int
Codes: TypeAlias = NDArray[np.intp]
Mask: TypeAlias = NDArray[np.bool_]

EMPTY_TEXTS = frozenset(
    {
        *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NaN", "nan", "-NaN", "-nan"),
        *("None", "NULL", "null", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
"""What stands for an empty cell in text, as pandas reads CSV files; elsewhere a listed category may be called so."""

_TRUTH = {"true": 1.0, "false": 0.0}
_LARGEST_EXACT = 2**53  # beyond it a column with an empty cell cannot hold every whole number
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PLAIN = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
_MANY = 200  # distinct cells from which on loading the compiled reader pays
_HEAD, _MOSTLY = 4096, 0.9  # rows by which it is seen that most cells of a column differ


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
class _Distinct:
    """The cells of a column, equal ones once: row r holds `cells[places[r]]`, nothing where that is -1."""

    cells: Any  # an array: a list of so many texts would cost more than to read them
    places: Codes
    is_text: bool = False

    @classmethod
    def of(cls, column: "pd.Series") -> "_Distinct":
        """Return the cells of one column.

        Equal cells of one type say the same. Where types are mixed, 1 equals True and says something else, so that one
        person's cell would change how another's is read: there every cell stands by itself.
        """
        import pandas as pd  # slow to load, and plans read no cells

        kind = column.dtype
        if isinstance(kind, pd.CategoricalDtype):
            return cls(kind.categories, column.cat.codes.to_numpy(dtype=np.intp))
        is_text = pd.api.types.infer_dtype(column, skipna=True) == "string"
        is_alike = is_text or kind.kind in "biufmM"
        head = column.iloc[:_HEAD]
        if is_alike and not (len(head) == _HEAD and head.nunique() > _MOSTLY * _HEAD):  # else there is little to share
            places, cells = pd.factorize(column)
            return cls(cells, places, is_text)
        return cls(column.array, np.where(column.isna().to_numpy(dtype=bool), -1, np.arange(len(column))), is_text)

    def texts(self, where: Mask | None = None) -> list[str]:
        """Return what each of the cells says, or those that are asked for."""
        return text_of_value((self.cells if where is None else self.cells[where]).astype(object).tolist())

    def numbers(self) -> Floats:
        """Return the number that each of the cells is, NaN where it is none."""
        found, rest = np.full(len(self.cells), np.nan), np.ones(len(self.cells), dtype=bool)
        if self.is_text and len(self.cells) > _MANY:
            rest = _read_plain_numbers(self.cells, found)
        found[rest] = [_number_of(cell) for cell in self.cells[rest].astype(object).tolist()]
        return found

    def by_row(self, found: NDArray[Any], otherwise: Any) -> NDArray[Any]:
        """Return for every row what was found of its cell."""
        return np.append(found, np.array([otherwise], dtype=found.dtype))[self.places]  # -1 is the last

    def rows_with(self, marked: Mask, *, absent: bool = False) -> Mask:
        """Return the rows whose cell is marked, or where there is none."""
        if not marked.any() and not (absent and self.places.min(initial=0) < 0):
            return np.broadcast_to(np.False_, len(self.places))
        return self.by_row(marked, absent)


def _read_plain_numbers(texts: Any, found: Floats) -> Mask:
    """Write those numbers that a compiled reader reads as Python does; return which texts are left to read."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        cells = pa.array(texts, from_pandas=True)
    except (UnicodeEncodeError, pa.ArrowInvalid):  # text that is no Unicode
        return np.ones(len(found), dtype=bool)
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    is_plain = pc.equal(pc.binary_length(pc.ascii_ltrim(cells, characters="-.0123456789")), 0)
    try:
        numbers = cells.filter(is_plain).cast(pa.float64())
    except pa.ArrowInvalid:  # such as 1.2.3
        is_plain = pc.match_substring_regex(cells, _PLAIN)
        numbers = cells.filter(is_plain).cast(pa.float64())
    where = is_plain.fill_null(False).to_numpy(zero_copy_only=False)
    found[where] = numbers.to_numpy()
    return ~where


def numbers_of(cells: "pd.Series") -> Floats:
    """Return cells of any kind as floats, NaN where a cell is no real number (dates are none either).

    >>> import pandas as pd
    >>> numbers_of(pd.Series(["1.5", "a", None, [2], True, "False", "01"], dtype=object)).tolist()
    [1.5, nan, nan, nan, 1.0, 0.0, 1.0]
    """
    if cells.dtype.kind in "biuf":
        return np.asarray(cells.astype(float).to_numpy())
    found = _Distinct.of(cells)
    return found.by_row(found.numbers(), np.nan)


def is_empty(cells: "pd.Series") -> Mask:
    """Return which cells are absent or say so.

    >>> import pandas as pd
    >>> is_empty(pd.Series([None, " NA", "a"])).tolist()
    [True, True, False]
    """
    found = _Distinct.of(cells)
    return found.by_row(_are_empty(found.texts()), True)


def _are_empty(texts: Sequence[str], listed: Collection[str] = ()) -> Mask:
    """Return which texts stand for an empty cell; a listed category does not."""
    empty = EMPTY_TEXTS.difference(listed)
    return np.array([text in empty for text in texts], dtype=bool)


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


def _text_of(cell: Any) -> str:
    """Return what a cell says, whatever the others are: an empty one makes a whole column of 1 one of 1.0."""
    if isinstance(cell, str | bool) or not isinstance(cell, Real | Decimal | complex):
        return str(cell)
    number = _number_of(cell)
    if not math.isfinite(number):
        return str(cell)
    return str(int(number)) if number.is_integer() and abs(number) < _LARGEST_EXACT else repr(number)


def number_cells(cells: "pd.Series", usual: float, lower: float, upper: float) -> Cells:
    """Return the numbers within their bounds; `usual` stands for those that are missing or strange."""
    if isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "biuf":  # stored as numbers, of which none is a text
        numbers = cells.to_numpy().astype(np.float64, copy=False)
        missing, strange = np.isnan(numbers), np.isinf(numbers)
        if missing.any() or strange.any():
            numbers = np.where(missing | strange, usual, numbers)
        values, outside = np.clip(numbers, lower, upper), (numbers < lower) | (numbers > upper)
    else:
        found = _Distinct.of(cells)
        numbers = found.numbers()
        is_empty_text = np.isnan(numbers)  # as is every text that stands for an empty cell
        is_empty_text[is_empty_text] = _are_empty(found.texts(is_empty_text))
        is_strange = ~np.isfinite(numbers) & ~is_empty_text
        numbers = np.where(is_empty_text | is_strange, usual, numbers)
        values = found.by_row(np.clip(numbers, lower, upper), usual)
        missing, strange = found.rows_with(is_empty_text, absent=True), found.rows_with(is_strange)
        outside = found.rows_with((numbers < lower) | (numbers > upper))
    first, none = np.broadcast_to(np.intp(0), len(cells)), np.broadcast_to(np.False_, len(cells))
    return Cells(codes=first, values=values, missing=missing, unlisted=none, outside=outside, strange=strange)


def listed_cells(cells: "pd.Series", categories: Sequence[Category | float]) -> Cells:
    """Return the position of every cell in `categories`, by its text or else by its number."""
    found = _Distinct.of(cells)
    texts = found.texts()
    by_text, by_number = _places(tuple(categories), tuple(map(type, categories)))
    codes = np.array([by_text.get(text, -1) for text in texts], dtype=np.intp)
    if by_number and (codes < 0).any():
        loose = np.array([by_number.get(number, -1) for number in found.numbers().tolist()], dtype=np.intp)
        codes = np.where(codes < 0, loose, codes)
    is_empty_text = _are_empty(texts, by_text)
    codes[is_empty_text] = -1
    none = np.broadcast_to(np.False_, len(cells))
    return Cells(
        codes=found.by_row(codes, -1),
        values=np.broadcast_to(1.0, len(cells)),
        missing=found.rows_with(is_empty_text, absent=True),
        unlisted=found.rows_with((codes < 0) & ~is_empty_text),
        outside=none,
        strange=none,
    )


@lru_cache(maxsize=256)
def _places(
    categories: tuple[Category | float, ...], kinds: tuple[type, ...]
) -> tuple[dict[str, int], dict[float, int]]:
    """Return the places of categories by their texts and, where only one has it, by their number.

    The text 1.0 is what a stored 1.0 is, unless it is listed itself: which of them a cell is may depend on the others.
    kinds: of the categories; 1 and True are equal, and say something else.
    """
    by_text = {text: place for place, text in reversed(list(enumerate(text_of_value(categories))))}
    values = np.array([_number_of(each) for each in categories], dtype=np.float64)
    by_number = {v: place for place, v in enumerate(values.tolist()) if np.isfinite(v) and (values == v).sum() == 1}
    stored = {repr(v): by_text[_text_of(v)] for v in values.tolist() if _text_of(v) in by_text}
    return stored | by_text, by_number


def text_of_value(values: Sequence[Any]) -> list[str]:
    """Return what listed values say, as the text of a cell is read.

    >>> text_of_value([" F", 1.0, "01"])
    ['F', '1', '01']
    """
    return [_text_of(value).strip().removesuffix(" 00:00:00") for value in values]
