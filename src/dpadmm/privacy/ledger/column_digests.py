"""The digest of a column, from pieces of it: a table that is streamed is the same data as the same table in memory.

A column of numbers is hashed as the places of what is not zero, and after them the digits of these values; so it is
read more than once, and nothing of it is kept. Which cells are numbers only the whole column tells.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError

Pieces: TypeAlias = Callable[[], Iterable[NDArray[Any]]]
"""Yields a column piece by piece, from its first row on, as often as it is called."""

_EXACT = 2**53
"""Whole numbers up to this are exact as floats."""

_TRUTH = {"true": 1.0, "false": 0.0}
_HEAD, _REPEATED = 1024, 0.5  # cells by which it is seen that most values of a piece come again


class _Reading(Enum):
    """What the cells of a column are."""

    NUMBERS = "stored as numbers, or text of which each cell is one"
    TRUTHS = "true or false, or nothing"
    TEXTS = "anything else"


def column_digest(pieces: Pieces, rows: int, person: bytes = b"dpadmm column") -> bytes:
    """Return the hash of a column of so many rows, to be kept in memory only."""
    found = hashlib.blake2b(digest_size=32, person=person)
    reading = _Facts.of(pieces()).reading
    if reading is _Reading.TEXTS:
        found.update(b"text")
        for piece in pieces():
            texts = [text.encode() for text in _texts(piece)]
            found.update(b"".join(len(text).to_bytes(8, "little") + text for text in texts))
        return found.digest()
    # Rows and rounded values of what is not zero; so a sparse column is its dense self.
    found.update(b"number" + rows.to_bytes(8, "little"))
    first = 0
    for piece in pieces():
        is_set = _numbers(piece, reading) != 0
        found.update((np.flatnonzero(is_set) + first).astype("<i8").tobytes())
        first += len(piece)
    separator = b""
    for piece in pieces():
        numbers = _numbers(piece, reading)
        digits = number_digits(numbers[numbers != 0])
        if digits:
            found.update(separator + digits)
            separator = b"|"
    return found.digest()


def sparse_digest(rows: int, places: NDArray[Any], values: NDArray[np.float64]) -> bytes:
    """Return the hash of a column with these values in these places, in order, and zeros elsewhere."""
    is_set = values != 0
    kept = places[is_set].astype("<i8").tobytes()
    content = b"number" + rows.to_bytes(8, "little") + kept + number_digits(values[is_set])
    return hashlib.blake2b(content, digest_size=32, person=b"dpadmm column").digest()


def number_digits(values: NDArray[np.float64]) -> bytes:
    """Return the digits of numbers, one after the other.

    Tables are often saved with 15 digits, which come back as the same 15 digits; whole numbers keep all of theirs.

    >>> number_digits(np.array([1.0, 0.1, 2.0**53, np.nan]))
    b'1|0.1|9007199254740992|nan'
    """
    head = values[:_HEAD]
    if len(np.unique(head)) > _REPEATED * len(head):
        return "|".join(_written(values)).encode()
    distinct, places = np.unique(values, return_inverse=True)
    return "|".join(np.array(_written(distinct), dtype=object)[places].tolist()).encode()


def _written(values: NDArray[np.float64]) -> list[str]:
    with np.errstate(invalid="ignore"):
        whole = (np.rint(values) == values).tolist()
    return [f"{value:.17g}" if exact else f"{value:.15g}" for value, exact in zip(values.tolist(), whole, strict=True)]


@dataclass
class _Facts:
    """What the pieces seen so far tell about the column."""

    is_stored: bool = True  # as numbers
    is_whole: bool = True  # and these as whole ones
    is_truth: bool = True
    is_number: bool = True
    is_digits: bool = True
    largest: float = 0.0

    @classmethod
    def of(cls, pieces: Iterable[NDArray[Any]]) -> "_Facts":
        """Look at all pieces."""
        found = cls()
        for piece in pieces:
            if piece.dtype.kind in "biuf":
                found._add_numbers(piece)
            else:
                found.is_stored = False
                found._add_texts(set(_texts(piece)) - {""})
        return found

    def _add_numbers(self, piece: NDArray[Any]) -> None:
        kind = piece.dtype.kind  # beside pieces of text, numbers are what they say, and True is none
        self.is_truth &= kind == "b"
        self.is_number &= kind != "b"
        self.is_whole &= kind in "iu"
        if piece.dtype.kind in "iu" and piece.size:
            self.largest = max(self.largest, float(abs(int(piece.max()))), float(abs(int(piece.min()))))

    def _add_texts(self, texts: set[str]) -> None:
        if not texts:
            return
        is_truth = all(text.lower() in _TRUTH for text in texts)
        self.is_truth &= is_truth
        if is_truth:  # which is no number to anyone else
            self.is_number = False
            return
        self.is_digits &= all(text.lstrip("+-").isdigit() for text in texts)
        try:
            numbers = np.array(sorted(texts), dtype=np.float64)
        except ValueError:
            self.is_number = False
            return
        self.largest = max(self.largest, float(np.nanmax(np.abs(numbers), initial=0.0)))

    @property
    def reading(self) -> _Reading:
        """How the column is to be read."""
        if self.is_stored:
            # Long identifiers: a float would take different ones for equal.
            return _Reading.TEXTS if self.is_whole and self.largest > _EXACT else _Reading.NUMBERS
        if self.is_truth:
            return _Reading.TRUTHS
        is_large = self.largest > _EXACT and self.is_digits
        return _Reading.NUMBERS if self.is_number and not is_large else _Reading.TEXTS


def _numbers(piece: NDArray[Any], reading: _Reading) -> NDArray[np.float64]:
    """Return the numbers that all cells write, NaN where empty."""
    if piece.dtype.kind in "biuf":
        return piece.astype(np.float64)
    texts = _texts(piece)
    if reading is _Reading.TRUTHS:
        return np.array([_TRUTH[text.lower()] if text else np.nan for text in texts], dtype=np.float64)
    return np.array([text or "nan" for text in texts], dtype=np.float64)


def _texts(column: NDArray[Any]) -> list[str]:
    """Return the cells as stripped text, '' where empty."""
    if column.dtype.kind in "Uiu":
        return [str(cell).strip() for cell in column.tolist()]
    if column.dtype.kind == "M":
        dates = np.datetime_as_string(column, unit="auto").tolist()
        return ["" if date == "NaT" else _short(date.replace("T", " ")) for date in dates]
    column = column.astype(object) if column.dtype.kind in "bf" else column
    if column.dtype.kind != "O":
        raise InputError(
            f"A column has values of type {column.dtype}; a ledger takes booleans, numbers, dates and text. Convert "
            "the column to one of these."
        )
    import pandas as pd  # late: only tables of mixed cells need it

    if pd.api.types.infer_dtype(column, skipna=True) == "string":  # equal cells are read once
        places, found = pd.factorize(column)
        return np.array([*(_short(text.strip()) for text in found), ""], dtype=object)[places].tolist()
    pairs = list(zip(column.tolist(), np.asarray(pd.isna(column)), strict=True))
    if not all(gone or isinstance(cell, str | Real | Decimal | np.bool_ | date) for cell, gone in pairs):
        raise InputError("A column holds cells that are not numbers, dates or text. Convert them to one of these.")
    return ["" if gone else _short(str(cell).strip()) for cell, gone in pairs]


def _short(text: str) -> str:
    """Return a moment at midnight as the day that it is."""
    return text.removesuffix(" 00:00:00")


def pieces_of(column: NDArray[Any], rows: int = 65_536) -> Pieces:
    """Return a column in memory, piece by piece."""

    def cut() -> Iterator[NDArray[Any]]:
        yield from (column[first : first + rows] for first in range(0, len(column), rows))

    return cut
