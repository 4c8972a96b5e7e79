"""Which silo is which, by what it holds: a ledger counts by the silo, never by the place it has in a list.

A silo is recognised by keyed hashes of its columns. They know values and the order of rows; names, the order of the
columns, dense or sparse, text or number types do not count: "39" in a CSV file is the 39 in an array, so that the same
table is the same data to the command line, to Python and to a federation. A part of the recorded columns is enough
(another model may leave some out); a column that was not recorded is other data. Where persons have several rows, which
rows are the same person's has a mark of its own.

A column is hashed from pieces of it: a table that is streamed is the same data as the same table in memory. A column of
numbers is hashed as the places of what is not zero, and after them the digits of these values; so it is read more than
once, and nothing of it is kept. Only the whole column shows which cells are numbers.

A version of the data is an entry of the log, with marks of the new table. From then on the ledger knows that table
alone, and what was spent on all versions counts together: the same people may be in each of them. Marks of each version
have a key of their own, so that the log does not show which columns have changed between two of them.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from functools import cached_property
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.checks import plural
from dpadmm.errors import InputError, LedgerError

_MARK_BYTES = 8


@dataclass(frozen=True, eq=False, repr=False)
class SiloColumns:
    """The private table of one silo: a public name, and named vectors or matrices with the same number of rows.

    persons: (n,) a number for each row, the same for the rows of one person; None where every row is one of its own.
    hashed: hashes of the columns, filled when first asked for; see `sharing`.

    >>> SiloColumns("north", {"age": [39, 50], "sex": ["F", "M"]})
    SiloColumns('north', 2 arrays)
    """

    name: str
    columns: Mapping[str, Any]
    persons: NDArray[np.intp] | None = None
    hashed: dict[str, bytes] = field(default_factory=dict, init=False)  # never that of a silo with other columns

    def __post_init__(self) -> None:
        """Refuse a silo without columns, or with columns of different lengths."""
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise InputError(
                f"The data of a silo must be a non-empty mapping of names to arrays, got {type(self.columns).__name__}."
            )
        lengths = {_rows(values) for values in self.columns.values()}
        lengths |= set() if self.persons is None else {_rows(self.persons)}
        if len(lengths) > 1:
            raise InputError(f"All columns of a silo must have the same number of rows, got {sorted(lengths)}.")

    @classmethod
    def of_frame(cls, name: str, frame: Any, persons: NDArray[np.intp] | None = None) -> "SiloColumns":
        """Return a data frame as a silo: every column, used or not."""
        return cls(name, {str(column): frame[column].to_numpy() for column in frame.columns}, persons)

    def sharing(self, hashed: dict[str, bytes]) -> Self:
        """Return the silo, which from now on fills and uses these hashes; they must be of the very same columns."""
        object.__setattr__(self, "hashed", hashed)
        return self

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return _rows(next(iter(self.columns.values())))

    @property
    def size(self) -> int:
        """How many records there are, or persons where rows are assigned to them."""
        return self.rows if self.persons is None else len(np.unique(self.persons))

    def __repr__(self) -> str:
        """Show no cell."""
        return f"SiloColumns({self.name!r}, {len(self.columns)} arrays)"

    @cached_property
    def digests(self) -> Mapping[str, bytes]:
        """Hashes of all columns by name, to be kept in memory only: whoever has one can test guesses of the data."""
        if not self.hashed:
            self.hashed.update(self._hash_columns())
        found = dict(self.hashed)
        if self.persons is not None:
            first_rows = _by_first_row(self.persons)
            found["persons"] = column_digest(pieces_of(first_rows), len(first_rows), b"dpadmm persons")
        return found

    def _hash_columns(self) -> Mapping[str, bytes]:
        found = {name: enumerate(_digests(values)) for name, values in self.columns.items()}
        return {f"{name}[{place}]": digest for name, digests in found.items() for place, digest in digests}


@dataclass(frozen=True)
class SiloFingerprint:
    """What a ledger keeps of a silo: the name it is shown by, and keyed marks of its given name and columns."""

    name: str
    label: str
    columns: frozenset[str]

    @classmethod
    def of(cls, data: SiloColumns, key: bytes, *, tells_copies_apart: bool = False) -> "SiloFingerprint":
        """Return the marks of a silo's data under the ledger's key."""
        contents = _apart(data.digests, tells_copies_apart)
        return cls(
            name=data.name,
            label=_mark(data.name.encode(), key, b"dpadmm silo"),
            columns=frozenset(_mark(content, key, b"dpadmm column") for content in contents.values()),
        )


@dataclass(frozen=True)
class SiloMatch:
    """The data that came, recognised: the recorded name of every silo, and keyed marks of the columns of all silos."""

    names: tuple[str, ...]
    columns: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class DatasetFingerprint:
    """What a ledger keeps of its data: its silos, and marks of the columns that go through all of them.

    A silo's own marks say which silo it is; the common columns say that the data are the same, also where silos are so
    small that their columns look alike. `tells_copies_apart`: equal columns of a silo have marks of their own, where
    sizes are secret, so that the number of marks does not show a silo without rows.
    """

    silos: tuple[SiloFingerprint, ...]
    common: frozenset[str]
    tells_copies_apart: bool = False

    @classmethod
    def of(
        cls, data: Sequence[SiloColumns], key: bytes, *, are_names_public: bool = True, tells_copies_apart: bool = False
    ) -> "DatasetFingerprint":
        """Return the marks of the silos; names that are not public are replaced by numbers."""
        _check_names(data)
        silos = [SiloFingerprint.of(each, key, tells_copies_apart=tells_copies_apart) for each in data]
        if not are_names_public:
            silos = [replace(each, name=f"user {number}") for number, each in enumerate(silos, start=1)]
        common = _common(data, key, tells_copies_apart=tells_copies_apart)
        return cls(tuple(silos), frozenset(common.values()), tells_copies_apart)

    def match(self, data: Sequence[SiloColumns], key: bytes) -> SiloMatch:
        """Return, for each silo of `data` in order, the name of the recorded silo whose data these are.

        Contents decide. Silos with the same contents are distinguished by their names, which must then be the recorded
        ones. `LedgerError` unless every silo is one of the recorded ones and each recorded one is there.
        """
        _check_names(data)
        if len(data) != len(self.silos):
            raise LedgerError(
                f"The ledger was created for {plural(len(self.silos), 'silo')}, but {len(data)} were given. Give all "
                "silos, split as they were then: a person must be counted in the same silo every time."
            )
        marks = [self.mark(each, key) for each in data]
        fitting = [[silo for silo in self.silos if mark.columns <= silo.columns] for mark in marks]
        strange = [place for place, silos in enumerate(fitting) if not silos]
        if strange:
            raise _other_data(" ".join(self._overlap(place + 1, marks[place]) for place in strange[:3]))
        found = [_one_of(silos, mark.label) for silos, mark in zip(fitting, marks, strict=True)]
        by_name = dict(zip(found, data, strict=True))
        if len(by_name) < len(self.silos):
            raise _other_data("Two of the given silos are the same.")
        ordered = [by_name[silo.name] for silo in self.silos]
        common = _common(ordered, key, tells_copies_apart=self.tells_copies_apart)
        if not common or not self.common.issuperset(common.values()):
            raise _other_data("Each silo's columns are known, but not in this combination.")
        return SiloMatch(tuple(found), common)

    def is_like(self, data: SiloColumns, key: bytes) -> bool:
        """Return whether half of the columns or more are those of one of the recorded silos."""
        given = self.mark(data, key)
        return any(2 * len(given.columns & silo.columns) >= len(given.columns) for silo in self.silos)

    def mark(self, data: SiloColumns, key: bytes) -> SiloFingerprint:
        """Return the marks of a silo's data, as they are made here."""
        return SiloFingerprint.of(data, key, tells_copies_apart=self.tells_copies_apart)

    def _overlap(self, place: int, given: SiloFingerprint) -> str:
        """Say how much of a silo is known, for whoever holds the data; by its place, since a name may be a person's."""
        most = max(len(given.columns & silo.columns) for silo in self.silos)
        return f"Of the {len(given.columns)} different columns of silo {place} as given, {most} are known."


def _one_of(fitting: Sequence[SiloFingerprint], label: str) -> str:
    """Return the name of the only silo that fits, or of that with this label."""
    found = fitting if len(fitting) == 1 else [silo for silo in fitting if silo.label == label]
    if not found:
        raise LedgerError(
            "Several silos of the ledger hold exactly the values of a given silo, under other names. Use the names "
            "that the silos had when the ledger was created, so that the right one is charged."
        )
    return found[0].name


def _common(data: Sequence[SiloColumns], key: bytes, *, tells_copies_apart: bool) -> dict[str, str]:
    """Return the marks of the columns that all silos have, by name, each taken through the silos in this order."""
    names = set.intersection(*(set(each.digests) for each in data))
    contents = _apart({name: b"".join(each.digests[name] for each in data) for name in names}, tells_copies_apart)
    return {name: _mark(content, key, b"dpadmm common") for name, content in contents.items()}


def _apart(contents: Mapping[str, bytes], is_wanted: bool) -> Mapping[str, bytes]:
    """Return contents by name of which no two are equal: copies, in the order of their names, are numbered."""
    if not is_wanted:
        return contents
    seen: Counter[bytes] = Counter()
    found = {}
    for name in sorted(contents):
        content = contents[name]
        found[name] = content + b" copy %d" % seen[content] if seen[content] else content
        seen[content] += 1
    return found


def _check_names(data: Sequence[SiloColumns]) -> None:
    """Refuse no silo at all, and silos that share a name."""
    if not data or not all(isinstance(each, SiloColumns) for each in data):
        raise InputError("The data of a ledger are one SiloColumns per silo, at least one; see ledger_data.")
    if max(Counter(each.name for each in data).values()) > 1:
        raise InputError("Two silos have the same name. Give them different names, and keep the names for later runs.")


def _other_data(what: str) -> LedgerError:
    return LedgerError(
        f"The ledger belongs to other data. {what} Nothing may be released. Use the original values and the original "
        "order of rows, held by the same silos: a subset of the rows (as in cross-validation), imputed or encoded "
        "columns and new columns count as other data; columns may be left out. If the table itself has changed, make "
        "it the next version of a ledger of one silo (`dpadmm silo new-data`, or Ledger.add_version), or create a "
        "ledger for the new data, and count in its budget what has already been spent on people who are in both."
    )


def _mark(content: bytes, key: bytes, person: bytes) -> str:
    return hashlib.blake2b(content, key=key, digest_size=_MARK_BYTES, person=person).hexdigest()


def _by_first_row(persons: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return persons by the place of their first row: whose rows are together counts, not how persons are called."""
    _, first, whose = np.unique(persons, return_index=True, return_inverse=True)
    return np.asarray(first[whose], dtype=np.intp)


def _rows(values: Any) -> int:
    shape = values.shape if sparse.issparse(values) else np.shape(values)
    if len(shape) not in (1, 2):
        raise InputError(f"The columns of a silo must be vectors, or matrices of several, got shape {shape}.")
    return int(shape[0])


def _digests(values: Any) -> Iterator[bytes]:
    """Yield the digest of every column of a vector or a matrix."""
    if sparse.issparse(values):
        table = sparse.csc_array(values, dtype=np.float64, copy=True)
        table.sum_duplicates()
        for j in range(table.shape[1]):
            part = slice(table.indptr[j], table.indptr[j + 1])
            yield sparse_digest(table.shape[0], table.indices[part], table.data[part])
        return
    array = np.asarray(values)
    for column in array[:, None].T if array.ndim == 1 else array.T:
        yield column_digest(pieces_of(column), len(column))


@dataclass(frozen=True)
class NewVersion:
    """What the log keeps of a version after the first: its number, and what is known of its table."""

    version: int
    data: DatasetFingerprint


@dataclass(frozen=True)
class DataVersion:
    """One version of the data: its number from 1, the entry that began it, when, and what is known of its tables."""

    number: int
    entry: int
    since: str
    data: DatasetFingerprint = field(repr=False)

    @property
    def when(self) -> str:
        """When it began, for people."""
        return f"{self.since[:19]} UTC"

    def key(self, key: bytes) -> bytes:
        """Return the key of this version's marks; the first version's is the ledger's own."""
        if self.number == 1:
            return key
        content = b"version %d" % self.number
        return hashlib.blake2b(content, key=key, digest_size=32, person=b"dpadmm version").digest()

    def next(self, data: Sequence[SiloColumns], key: bytes) -> "NewVersion":
        """Return what the log keeps of the next version; its one silo keeps the name under which spending is counted.

        `LedgerError` where silos are distinguished: a person's records may be with another silo than before, whose
        spending does not count there.
        """
        if len(self.data.silos) != 1 or len(data) != 1:
            raise LedgerError(
                f"Only a ledger of one silo can move to new data: this one has {plural(len(self.data.silos), 'silo')}, "
                f"and {len(data)} were given. With separate silos, a person may be in a different silo in the new "
                "version, where earlier spending would not be counted. Keep one ledger for each silo, or create a new "
                "one and count in its budget what has already been spent on people who are in both."
            )
        after = replace(self, number=self.number + 1)
        known = DatasetFingerprint.of(data, after.key(key), tells_copies_apart=self.data.tells_copies_apart)
        silos = (replace(known.silos[0], name=self.data.silos[0].name),)
        return NewVersion(after.number, replace(known, silos=silos))

    def is_of(self, data: Sequence[SiloColumns], key: bytes) -> bool:
        """Return whether these tables, of a single silo, have this version's columns: all of them, and no others."""
        found = [self.data.mark(each, self.key(key)).columns for each in data]
        return found == [silo.columns for silo in self.data.silos]

    def is_match(self, data: Sequence[SiloColumns], key: bytes) -> bool:
        """Return whether the data are those of this version, or a part of their columns."""
        try:
            self.data.match(data, self.key(key))
        except LedgerError:
            return False
        return True


def match_newest(versions: Sequence[DataVersion], data: Sequence[SiloColumns], key: bytes) -> SiloMatch:
    """Return which silos came; `LedgerError` if the data are not the newest version, saying so if they are another."""
    *earlier, newest = versions
    try:
        return newest.data.match(data, newest.key(key))
    except LedgerError:
        found = next((version for version in reversed(earlier) if version.is_match(data, key)), None)
        if found is None:
            raise
    raise LedgerError(
        f"These data are version {found.number}, not the newest version: the ledger has used version {newest.number} "
        f"since {newest.when}. Nothing may be released from an earlier one. Use the newest table; to use this one from "
        "now on, make it the next version (`dpadmm silo new-data`, or Ledger.add_version)."
    )


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
    """What the pieces seen so far show about the column."""

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
            f"A column has values of type {column.dtype}. Convert them to booleans, numbers, dates or text."
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
