"""What rows count where a person may have several of them: together at most one, however many they are.

A person's rows get equal weights, so that all of them together pull as hard as one row at most: whoever replaces a
person with all their rows moves a sum of gradients by at most 2G, and a histogram by one count (`docs/proofs/c1.md`).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Ints

_FINENESS = 2**26
"""Weights are whole multiples of 1/2^26, so that sums of them over up to 2^27 persons are exact."""


@dataclass(frozen=True, eq=False)
class PersonWeights:
    """The weights (n,) of a silo's rows, those of a person at most 1 in sum, and how many persons there are.

    The number of persons is public, that of the rows is not.
    """

    weights: Floats = field(repr=False)
    persons: int

    def __post_init__(self) -> None:
        """Refuse weights that are none, and fewer persons than the weights of the rows make."""
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim != 1 or not np.isfinite(weights).all() or not ((weights > 0) & (weights <= 1)).all():
            raise InputError("Row weights must be one number per row, above 0 and at most 1.")
        if weights.sum() > checks.count("persons", self.persons, least=0):
            raise InputError("The weights of a person's rows must sum to at most 1: there are too few persons.")
        object.__setattr__(self, "weights", weights)


@dataclass(frozen=True, eq=False)
class PersonRows:
    """Which rows of a silo are used, by their places in order, and what they count."""

    kept: Ints = field(repr=False)
    people: PersonWeights

    @classmethod
    def of(cls, persons: NDArray[np.intp], keep: int | None = None) -> "PersonRows":
        """Return each person's first `keep` rows (all, if None); `persons` (n,) numbers whose each row is.

        What is kept of a person depends on that person's own rows alone, and so do their weights: 1/k for k rows,
        rounded down to a multiple of 1/2^26. This assumes that the order of the others' rows does not depend on the
        person: a table sorted by something that one person's rows can change would keep other rows of the others.

        >>> rows = PersonRows.of(np.array([7, 3, 7, 7]), keep=2)
        >>> rows.kept.tolist(), rows.people.weights.tolist(), rows.people.persons
        ([0, 1, 2], [0.5, 1.0, 0.5], 2)
        """
        _, codes = np.unique(persons, return_inverse=True)
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes)
        place = np.empty(len(codes), dtype=np.int64)  # of a row among those of its person
        place[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
        most = len(codes) if keep is None else checks.count("keep", keep)
        kept = np.flatnonzero(place < most)
        weights = (_FINENESS // np.minimum(counts, most)) / _FINENESS
        return cls(kept, PersonWeights(weights[codes[kept]], len(counts)))
