"""Threads over blocks of agents; the kernels below release the interpreter lock."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


def available_threads() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep matrix products on one thread: two BLAS threads on small products are many times slower."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


def over_blocks(work: Callable[[int, int], None], number: int, block: int, threads: int) -> None:
    """Call `work(first, last)` for consecutive blocks of 0..number; blocks must not share output."""
    bounds = [(first, min(first + block, number)) for first in range(0, number, block)]
    if threads == 1 or len(bounds) <= 1:
        for first, last in bounds:
            work(first, last)
        return
    with ThreadPoolExecutor(max_workers=min(threads, len(bounds))) as pool:
        for done in [pool.submit(work, first, last) for first, last in bounds]:
            done.result()
