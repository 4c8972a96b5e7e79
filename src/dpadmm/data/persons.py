"""Whose each row is: identifiers in a column of the silos' tables, as numbers; no identifier is kept or shown.

Two spellings are two persons, but 7, 7.0 and " 7 " are one, in Python, CSV and Parquet alike: a column of whole numbers
is often written as 7.0 once it has had an empty cell, and who is taken for two persons is protected as neither.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm.checks import option_name, plural
from dpadmm.data.cells import is_empty
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Ints
from dpadmm.problems.silos import PersonRows

_WHOLE = re.compile(r"([+-]?\d+)\.0*", re.ASCII)
_EXACT = 2**53
"""Whole numbers below this are exact as floats; of two larger ones that are neighbours, both may be the same float."""


@dataclass(frozen=True, eq=False)
class Persons:
    """The persons of all silos: for every silo a number for each of its rows, the same for the same person anywhere.

    keep: how many rows of a person are used in a silo, the first ones of the table; None uses all of them. Certificates
    assume that the order of the others' rows does not depend on a person.

    >>> people = Persons.of([["a", "b", "a"], ["b"]], ["north.csv", "south.csv"])
    >>> [each.tolist() for each in people.numbers], people.most_silos
    ([[0, 1, 0], [1]], 2)
    """

    numbers: tuple[Ints, ...] = field(repr=False)
    keep: int | None = None

    @classmethod
    def of(cls, columns: Sequence[Any], places: Sequence[str], keep: int | None = None) -> "Persons":
        """Return the persons that the silos' columns of identifiers name; `places` name the tables in messages."""
        texts = [_identifiers(column, place) for column, place in zip(columns, places, strict=True)]
        whole, _ = pd.factorize(np.concatenate(texts))
        ends = np.cumsum([len(part) for part in texts])[:-1]
        return cls(tuple(part.astype(np.int64) for part in np.split(whole, ends)), keep)

    @property
    def most_silos(self) -> int:
        """The largest number of silos in which a person has rows."""
        present = [np.unique(part) for part in self.numbers]
        return int(np.bincount(np.concatenate(present)).max(initial=1))

    def check_silos(self, silos_per_person: int) -> None:
        """Refuse persons with rows in more silos than are counted."""
        if self.most_silos > silos_per_person:
            raise InputError(
                f"One person has rows in {self.most_silos} silos, but at most {plural(silos_per_person, 'silo')} "
                f"per person was stated. Use {option_name('silos_per_person', self.most_silos)}, so that what all "
                "silos release about a person is added up. If the same identifier means different people in "
                "different silos, rename it. Nothing was spent."
            )

    def rows(self) -> list[PersonRows]:
        """Return, for every silo, which rows are used and what they count."""
        return [PersonRows.of(part, self.keep) for part in self.numbers]


def _identifiers(column: Any, place: str) -> NDArray[Any]:
    """Return identifiers as text; refuse empty ones by their row, counted from 1."""
    cells = column if isinstance(column, pd.Series) else pd.Series(list(column), dtype=object)
    texts = cells.map(_text, na_action="ignore").astype(object)
    empty = np.flatnonzero(is_empty(cells))
    if len(empty):
        whole = pd.api.types.is_integer_dtype(cells.index.dtype)
        row = int(cells.index[empty[0]] if whole else empty[0]) + 1
        raise InputError(
            f"{place}, row {row}: the person is missing in {plural(len(empty), 'row')}. Fill in these cells, or "
            "drop these rows. (Rows are counted from 1, without the header.)"
        )
    if any(isinstance(cell, float | np.floating) and abs(float(cell)) >= _EXACT for cell in cells):
        raise InputError(
            f"{place}: the identifiers of persons are decimal numbers too large to be exact, so the same person "
            "may have another number elsewhere. Store identifiers as whole numbers or as text."
        )
    return texts.to_numpy()


def _text(cell: Any) -> str:
    """Return an identifier as text; whole numbers look the same whatever type they have, text included."""
    is_whole = isinstance(cell, float | np.floating) and float(cell).is_integer()
    text = str(int(cell)) if is_whole else str(cell).strip()
    found = _WHOLE.fullmatch(text)
    return found[1] if found else text
