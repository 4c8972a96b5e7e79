"""How the terms of many rows are added up, so that a proved part of the sum at most is lost in rounding (C7).

Rows are added up in *runs* of bounded length, in whatever order a kernel takes; the sums of runs are added up in parts
of bounded length or in pairs. So a term takes part in a bounded number of additions, however many rows there are.
"""

from typing import Any

from dpadmm.problems.arrays import Floats

UNIT = 2.0**-53
"""The unit roundoff of 64-bit floats."""

RUN = 2048
"""Rows of a run of dense rows, and of any run in a compiled kernel (or as many as there are columns, if more)."""

SPARSE_RUN = 4096
"""Rows of a run of sparse rows outside the compiled kernels (or as many as there are columns, if more)."""

PART = 2**20
"""Rows of a part, whose runs a compiled kernel adds up one after the other (or as many as columns, if more)."""

MOST_RIDGE = 1024.0
"""How many times G the gradient of a ridge may be long where a gradient is released; at an optimum it is G at most."""

_MOST_IN_RUNS = 4096
_OTHERS = 128


class PairwiseSum:
    """A sum of arrays that come one by one; of K terms, none takes part in more than log2(K) + 1 additions.

    >>> import numpy as np
    >>> total = PairwiseSum()
    >>> for number in (1.0, 2.0, 3.0):
    ...     total.add(np.array([number]))
    >>> total.value().tolist()
    [6.0]
    """

    def __init__(self) -> None:
        """Nothing has been added yet."""
        self._sums: list[Any] = []  # at place k the sum of 2^k terms, or None

    def add(self, term: Floats | float) -> None:
        """Add one more term."""
        for place, known in enumerate(self._sums):
            if known is None:
                self._sums[place] = term
                return
            self._sums[place], term = None, known + term
        self._sums.append(term)

    def value(self) -> Any:
        """Return the sum; 0.0 of no terms."""
        total: Any = None
        for known in self._sums:
            if known is not None:
                total = known if total is None else known + total
        return 0.0 if total is None else total


def most_additions(rows: float, dimension: int) -> float:
    """Bound the operations, each of relative error u, that a term of a sum over at most so many rows goes through.

    A run and the runs of a part have at most `4096 + d` additions; the rest is for parts in pairs, the product of slope
    and row, weights, the centre of sparse rows and the division by n.

    >>> most_additions(100, 10), most_additions(1e9, 10)
    (228, 4234)
    """
    return min(rows, _MOST_IN_RUNS + dimension) + _OTHERS


def rounding_share(operations: float) -> float:
    """Return `m u / (1 - m u)`: the part of the sum of sizes that m operations on every term can lose, in any order.

    >>> round(rounding_share(4224) * 2**53)
    4224
    """
    return operations * UNIT / (1 - operations * UNIT)
