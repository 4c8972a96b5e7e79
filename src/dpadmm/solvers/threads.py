"""Threads: how many there are, work shared among them, and matrix products that keep to one."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache

import numpy  # noqa: F401 - brings a BLAS library, which `_blas` looks for
import scipy.special  # noqa: F401 - brings another one
from threadpoolctl import ThreadpoolController


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
