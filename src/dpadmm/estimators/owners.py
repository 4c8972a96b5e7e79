"""To whom the rows of a fit belong: the silo that holds each and, where people have several, the person."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.data.persons import Persons
from dpadmm.errors import InputError, raise_alone
from dpadmm.problems.arrays import Ints
from dpadmm.problems.silos import PersonWeights


@contextmanager
def refuse_as(text: str) -> Iterator[None]:
    """Say `text` whatever goes wrong: an object's own complaint, when it is read as an array, may quote a cell."""
    try:
        yield
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - an object may raise anything
        raise_alone(InputError(text))


@dataclass(frozen=True, eq=False)
class RowsBySilo:
    """Which rows belong to which silo: those that are used, in the order of the silos' names.

    people: what they count, where people have several; None where every row counts one.
    """

    rows: tuple[Ints, ...] = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    people: tuple[PersonWeights, ...] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, groups: Any, n_records: int) -> "RowsBySilo":
        """Return the layout that `groups` (n,) names; without groups there is one silo."""
        if groups is None:
            return cls((np.arange(n_records),), ("silo 0",))
        labels = _one_each("groups", "silo", groups, n_records)
        with refuse_as("groups must be all numbers or all text, got a mixture or other objects."):
            names, which = np.unique(labels, return_inverse=True)
            texts = tuple(str(name) for name in names)
        rows = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
        return cls(tuple(rows), texts)


@dataclass(frozen=True, eq=False)
class RowOwners:
    """To whom each row belongs, as the caller of a fit says.

    groups: (n,), the silo of each row; None is one silo. persons: (n,), the person of each row; None where every row
    is a person's only one. keep: how many rows of a person are used in a silo, the first ones; None uses all.
    silos_per_person: in how many silos a person may have rows.
    """

    groups: Any = field(default=None, repr=False)
    persons: Any = field(default=None, repr=False)
    keep: int | None = None
    silos_per_person: int = 1

    def __post_init__(self) -> None:
        """Refuse a number of rows to keep that is none, or nobody's."""
        if self.keep is None:
            return
        checks.count("keep", self.keep)
        if self.persons is None:
            raise InputError(
                "keep limits the rows of a person: say which person each row belongs to, fit(..., persons=...)."
            )

    def layout(self, n_records: int) -> RowsBySilo:
        """Return the layout of so many rows; refuse persons with rows in too many silos."""
        whole = RowsBySilo.of(self.groups, n_records)
        if self.persons is None:
            return whole
        people = self.numbers(whole)
        people.check_silos(self.silos_per_person)
        used = people.rows()
        kept = tuple(rows[own.kept] for rows, own in zip(whole.rows, used, strict=True))
        return replace(whole, rows=kept, people=tuple(own.people for own in used))

    def numbers(self, whole: RowsBySilo) -> Persons:
        """Return the persons of every silo of a layout of all rows, as numbers."""
        labels = _one_each("persons", "person", self.persons, sum(len(part) for part in whole.rows))
        return Persons.of([labels[part] for part in whole.rows], ["persons"] * len(whole.rows), self.keep)


def _one_each(name: str, what: str, given: Any, n_records: int) -> NDArray[Any]:
    """Return one label for each row."""
    with refuse_as(f"{name} must name the {what} of each record, in one list."):
        labels = np.asarray(given)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n_records,):
        raise InputError(f"{name} must name the {what} of each record: one list, as long as X has rows.")
    if labels.dtype.kind not in "biufUSOM":
        raise InputError(f"{name} must be numbers or text, got values of type {labels.dtype}.")
    if np.any(pd.isna(labels)):
        raise InputError(f"{name} contain missing values. Name the {what} of every record.")
    return labels
