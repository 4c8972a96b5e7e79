"""Work shared among threads: blocks of an agent's rows, which a pass computes apart; and matrix products on one.

Where blocks begin follows from public numbers alone, and their sums are added up in order: neither the number of
threads nor what the rows store shows in a single bit of a result.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache

import numpy as np  # brings a BLAS library, which `_blas` looks for
import scipy.special  # noqa: F401 - brings another one
from threadpoolctl import ThreadpoolController

from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.rows import PART, PairwiseSum, gram, row_block, scaled_rows

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


def available_threads() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on one thread: two BLAS threads on small products are many times slower."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    """Return the loaded BLAS libraries, NumPy's and SciPy's own: both are imported above, and looking is slow."""
    return ThreadpoolController()


def over_blocks(work: Callable[[int, int], None], number: int, block: int, threads: int) -> None:
    """Call `work(first, last)` for consecutive blocks of 0..number; blocks must not share output.

    `work` itself must not call this with more than one thread: it would wait for threads that wait for it.
    """
    bounds = [(first, min(first + block, number)) for first in range(0, number, block)]
    if threads == 1 or len(bounds) <= 1:
        for first, last in bounds:
            work(first, last)
        return
    tasks = [_pool(threads).submit(work, first, last) for first, last in bounds]
    wait(tasks)  # also where one fails: the others still write
    for done in tasks:
        done.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that are kept: to start them takes as long as a small pass."""
    return ThreadPoolExecutor(max_workers=threads, thread_name_prefix="dpadmm")


if hasattr(os, "register_at_fork"):  # threads do not live on in a forked process
    os.register_at_fork(after_in_child=_pool.cache_clear)
