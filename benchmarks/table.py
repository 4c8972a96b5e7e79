"""One row of the benchmark table, and how times and memory are taken."""

import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread


@dataclass(frozen=True)
class Row:
    """A measured figure beside its reference, both taken in this run; ratio > 1 means ours is better.

    target: what the ratio is wanted to reach. most: what the figure itself is wanted to stay below.
    """

    name: str
    value: float
    unit: str
    reference: str
    reference_value: float | None = None
    ratio: float | None = None
    target: float | None = None
    most: float | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the row for JSON."""
        return asdict(self)


def peak_memory() -> float:
    """Return the peak memory of this process, in MB.

    Linux counts that of the process which started it in `ru_maxrss`, so it is read where the kernel keeps its own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (found,) = re.findall(r"VmHWM:\s*(\d+) kB", status.read_text())
        return int(found) * 1024 / 1e6
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 1e6 if sys.platform == "darwin" else used * 1024 / 1e6


@contextmanager
def anonymous_peak() -> Iterator[list[float]]:
    """Look at the memory of this process that no file backs until the end; then the list holds its peak, in MB."""
    seen, is_over = [0.0], Event()

    def look() -> None:
        while not is_over.wait(0.01):
            (found,) = re.findall(r"RssAnon:\s*(\d+) kB", Path("/proc/self/status").read_text())
            seen[0] = max(seen[0], int(found) * 1024 / 1e6)

    watch = Thread(target=look, daemon=True)
    watch.start()
    yield seen
    is_over.set()
    watch.join()


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the best of several timings, after one unmeasured call that compiles and warms up."""
    work()
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best
