"""Sums modulo 2^64: what silos send where only their sum is seen, in one process and in a federation alike (C12)."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError

Words = NDArray[np.uint64]

MOST_MULTIPLE = 2.0**52
"""How many grids a silo's value may measure: 64-bit floats hold whole numbers up to twice that, without loss."""


class Masks(Protocol):
    """What one silo adds to its words so that they mean nothing by themselves; those of all silos add up to zero."""

    def words(self, slot: str, k: int, size: int) -> Words:
        """Return the masks of a slot and round, `size` words."""
        ...


def to_words(values: NDArray[np.float64], grid: float) -> Words:
    """Return the nearest multiples of the grid as words, in two's complement; refuse what words cannot hold exactly.

    >>> to_words(np.array([0.5, -0.25]), 0.25).astype(np.int64).tolist()
    [2, -1]
    """
    multiples = np.rint(values / grid)
    if not np.all(np.abs(multiples) <= MOST_MULTIPLE):
        raise InputError(
            f"A silo's part of a sum is not finite or exceeds 2^52 grids of {grid:.3g}, so the sum could not be "
            "computed exactly. It was not sent: check that the run has not diverged, or choose a smaller epsilon."
        )
    return multiples.astype(np.int64).view(np.uint64)


def from_words(total: Words, grid: float) -> NDArray[np.float64]:
    """Return the values that a sum of words stands for."""
    return total.view(np.int64).astype(np.float64) * grid


def sum_words(parts: Sequence[Words]) -> Words:
    """Return the sum modulo 2^64."""
    with np.errstate(over="ignore"):
        return np.asarray(np.sum(np.stack(parts), axis=0, dtype=np.uint64))


def masked(words: Words, masks: Masks, slot: str, k: int) -> Words:
    """Return what leaves a silo."""
    return sum_words([words, masks.words(slot, k, words.size)])
