"""Blocks of an agent's rows: what a pass computes apart, and what threads share where one agent has many rows.

Where blocks begin follows from public numbers alone, and their sums are added up in order: neither the number of
threads nor what the rows store shows in a single bit of a result.
"""

from collections.abc import Callable, Sequence

import numpy as np

from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.rows import PART, PairwiseSum, gram, row_block, scaled_rows
from dpadmm.solvers.threads import over_blocks

# What takes most of a millisecond to read: less is not worth a thread. How many entries sparse rows have is not public.
_DENSE_NUMBERS, _SPARSE_ROWS = 2_000_000, 50_000
_MOST = 16


def row_bounds(part: slice, dimension: int, is_sparse: bool) -> Ints:
    """Return where the blocks of a part's rows begin, and where the last one ends.

    No block has more rows than a part of a sum may have (C7).

    >>> row_bounds(slice(0, 1_000_000), 20, is_sparse=False).tolist()[:3]
    [0, 100000, 200000]
    >>> row_bounds(slice(30, 99_000), 20, is_sparse=True).tolist()
    [30, 99000]
    """
    n = part.stop - part.start
    number = n // max(_SPARSE_ROWS, dimension) if is_sparse else n * dimension // _DENSE_NUMBERS
    number = max(min(number, _MOST), -(-n // max(PART, dimension)), 1)
    return part.start + np.arange(number + 1, dtype=np.int64) * n // number


def summed(one: Callable[[slice], Floats], bounds: Ints, threads: int) -> Floats:
    """Return the sum of `one` over all blocks, in an order that they alone decide."""
    if len(bounds) == 2:
        return one(slice(int(bounds[0]), int(bounds[1])))
    sums: list[Floats] = [np.empty(0)] * (len(bounds) - 1)

    def work(first: int, last: int) -> None:
        for block in range(first, last):
            sums[block] = one(slice(int(bounds[block]), int(bounds[block + 1])))

    over_blocks(work, len(sums), 1, threads)
    total = PairwiseSum()
    for each in sums:
        total.add(each)
    return np.asarray(total.value())


def block_gram(rows: Matrix, roots: Floats | None, threads: int) -> Floats:
    """Return `rows' diag(roots)^2 rows` as a dense matrix; roots None: all are 1."""

    def one(part: slice) -> Floats:
        block = row_block(rows, part)
        return gram(block if roots is None else scaled_rows(block, roots[part]))

    bounds = row_bounds(slice(0, rows.shape[0]), rows.shape[1], not isinstance(rows, np.ndarray))
    return summed(one, bounds, threads)


def over_agents(work: Callable[[int, int], None], blocks: Sequence[int], threads: int) -> None:
    """Call `work(row, threads)` for every agent; blocks: how many blocks of rows each of them has.

    Agents of several blocks come one after the other, and may use all threads; the others have one thread each.
    """
    for row, number in enumerate(blocks):
        if number > 1:
            work(row, threads)
    small = [row for row, number in enumerate(blocks) if number == 1]

    def alone(first: int, last: int) -> None:
        for row in small[first:last]:
            work(row, 1)

    over_blocks(alone, len(small), 1, threads)
