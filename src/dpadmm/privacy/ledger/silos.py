"""Which silo is which, by what it holds: a ledger counts by the silo, never by the place it has in a list.

A silo is recognised by keyed hashes of its columns. They know values and the order of rows; names, the order of the
columns, dense or sparse, text or number types do not count: "39" in a CSV file is the 39 in an array, so that the same
table is the same data to the command line, to Python and to a federation. A part of the recorded columns is enough
(another model may leave some out); a column that was not recorded is other data. Where persons have several rows, which
rows are the same person's has a mark of its own.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpadmm.checks import plural
from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.ledger.column_digests import column_digest, pieces_of, sparse_digest

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
        return {
            f"{name}[{place}]": digest
            for name, values in self.columns.items()
            for place, digest in enumerate(_digests(values))
        }


@dataclass(frozen=True)
class KnownSilo:
    """What a ledger keeps of a silo: the name it is shown by, and keyed marks of its given name and columns."""

    name: str
    label: str
    columns: frozenset[str]

    @classmethod
    def of(
        cls, data: SiloColumns, key: bytes, shown_as: str | None = None, *, tells_copies_apart: bool = False
    ) -> "KnownSilo":
        """Return the marks of a silo's data under the ledger's key."""
        contents = _apart(data.digests) if tells_copies_apart else data.digests
        return cls(
            name=data.name if shown_as is None else shown_as,
            label=_mark(data.name.encode(), key, b"dpadmm silo"),
            columns=frozenset(_mark(content, key, b"dpadmm column") for content in contents.values()),
        )


@dataclass(frozen=True)
class SiloMatch:
    """The data that came, recognised: the recorded name of every silo, and keyed marks of the columns of all silos."""

    names: tuple[str, ...]
    columns: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class KnownData:
    """What a ledger keeps of its data: its silos, and marks of the columns that go through all of them.

    A silo's own marks say which silo it is; the common columns say that the data are the same, also where silos are so
    small that their columns look alike. `tells_copies_apart`: equal columns of a silo have marks of their own, where
    sizes are secret, so that the number of marks does not show a silo without rows.
    """

    silos: tuple[KnownSilo, ...]
    common: frozenset[str]
    tells_copies_apart: bool = False

    @classmethod
    def of(
        cls,
        data: Sequence[SiloColumns],
        key: bytes,
        *,
        are_names_public: bool = True,
        tells_copies_apart: bool = False,
    ) -> "KnownData":
        """Return the marks of the silos; names that are not public are replaced by numbers."""
        _check_names(data)
        shown = [None if are_names_public else f"user {i + 1}" for i in range(len(data))]
        silos = tuple(
            KnownSilo.of(each, key, name, tells_copies_apart=tells_copies_apart)
            for each, name in zip(data, shown, strict=True)
        )
        common = _common(data, key, tells_copies_apart=tells_copies_apart)
        return cls(silos, frozenset(common.values()), tells_copies_apart)

    def match(self, data: Sequence[SiloColumns], key: bytes) -> SiloMatch:
        """Return, for each silo of `data` in order, the name of the recorded silo whose data these are.

        Contents decide. Silos with the same contents are told apart by their names, which must then be the recorded
        ones. `LedgerError` unless every silo is one of the recorded ones and each recorded one is there.
        """
        _check_names(data)
        if len(data) != len(self.silos):
            raise LedgerError(
                f"The ledger was created for {plural(len(self.silos), 'silo')}, but {len(data)} were given. Give all "
                "silos, split as they were then: a person must be counted in the same silo every time."
            )
        marks = [self._marked(each, key) for each in data]
        strange = [place for place, mark in enumerate(marks, start=1) if not self._fitting(mark)]
        if strange:
            raise _other_data(" ".join(self._overlap(place, marks[place - 1]) for place in strange[:3]))
        found = [self._one_of(mark) for mark in marks]
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
        given = self._marked(data, key)
        return any(2 * len(given.columns & silo.columns) >= len(given.columns) for silo in self.silos)

    def _marked(self, data: SiloColumns, key: bytes) -> KnownSilo:
        return KnownSilo.of(data, key, tells_copies_apart=self.tells_copies_apart)

    def _fitting(self, given: KnownSilo) -> list[KnownSilo]:
        return [silo for silo in self.silos if given.columns <= silo.columns]

    def _overlap(self, place: int, given: KnownSilo) -> str:
        """Say how much of a silo is known, for whoever holds the data; by its place, since a name may be a person's."""
        most = max(len(given.columns & silo.columns) for silo in self.silos)
        return f"Of the {len(given.columns)} different columns of silo {place} as given, {most} are known."

    def _one_of(self, given: KnownSilo) -> str:
        fitting = self._fitting(given)
        if len(fitting) > 1:
            fitting = [silo for silo in fitting if silo.label == given.label]
            if not fitting:
                raise LedgerError(
                    "Several silos of the ledger hold exactly the values of a given silo, under other names. Use the "
                    "names that the silos had when the ledger was created, so that the right one is charged."
                )
        return fitting[0].name


def _common(data: Sequence[SiloColumns], key: bytes, *, tells_copies_apart: bool) -> dict[str, str]:
    """Return the marks of the columns that all silos have, by name, each taken through the silos in this order."""
    names = set.intersection(*(set(each.digests) for each in data))
    contents: Mapping[str, bytes] = {name: b"".join(each.digests[name] for each in data) for name in names}
    contents = _apart(contents) if tells_copies_apart else contents
    return {name: _mark(content, key, b"dpadmm common") for name, content in contents.items()}


def _apart(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return contents by name of which no two are equal: copies, in the order of their names, are numbered."""
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
