"""Who does the work of a pass: threads of this process, or, with the same protocol, a cluster."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from dpadmm.data.parquet import ParquetTable

Item = TypeVar("Item")
Done = TypeVar("Done")

_MOST_THREADS = 2  # each holds a batch of its own in several forms: more would be faster, and take more memory


class Workers(Protocol):
    """Calls a task on items, wherever that may be; tasks, items and results are small and picklable."""

    def checked(self, tables: "Sequence[ParquetTable]") -> "Sequence[ParquetTable]":
        """Return the tables as tasks find them; refuse, before anything is spent, files that not all workers see."""
        ...

    def results(self, task: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
        """Yield `task(item)` of all items in their order. A failing task ends the pass with its own exception."""
        ...


@dataclass(frozen=True)
class ThreadWorkers:
    """Threads of this process; most of a pass is compiled code that runs beside other threads."""

    threads: int = min(_MOST_THREADS, os.cpu_count() or 1)

    def checked(self, tables: "Sequence[ParquetTable]") -> "Sequence[ParquetTable]":
        """Return the tables as they are: threads see the files that this process sees."""
        return tables

    def results(self, task: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
        """Yield the results in order; at most `threads` items are under way when a pass is given up."""
        if self.threads == 1 or len(items) <= 1:
            yield from map(task, items)
            return
        pending = deque(_pool(self.threads).submit(task, item) for item in items)
        try:
            while pending:
                yield pending.popleft().result()
        finally:
            for each in pending:
                each.cancel()
            wait(pending)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return threads that stay: each keeps memory to allocate from, and new ones in every pass would add to it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="dpadmm pass")


if hasattr(os, "register_at_fork"):  # threads do not live on in a forked process, which would wait for them
    os.register_at_fork(after_in_child=_pool.cache_clear)
