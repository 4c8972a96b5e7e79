"""Passes by plain futures on a Dask cluster: few tasks, answered in order, and repeated by Dask if a worker is lost.

What is repeated is a sum over rows that are read again; noise is drawn in this process alone, after the sums are here,
so that nothing is drawn or spent twice.
"""

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import urlsplit

from distributed import CancelledError, Client, Future, KilledWorker
from distributed.client import ClosedClientError

from dpadmm.checks import setting, shown
from dpadmm.data.cluster.errands import SAME_VERSIONS, SPENT, Errand, differing, perform, unlike, versions
from dpadmm.data.parquet import ParquetTable
from dpadmm.errors import ClusterError, InputError, raise_alone

Item = TypeVar("Item")
Done = TypeVar("Done")

_CONNECT = 10.0  # seconds for a scheduler to answer, and for a first worker to be there
_LOOK = 5.0  # seconds between looks whether there is still somebody at work
_MOST_ALONE = 60.0  # seconds without any worker: a supervisor would have started one again
_CHATTY = ("asyncio", "distributed.client", "distributed.comm", "distributed.core", "tornado.application")
_MOST_TOLD = 3  # workers that are named in an error


@dataclass(frozen=True, eq=False)
class DaskWorkers:
    """The workers of a cluster that a client is connected to."""

    client: Client

    @property
    def warning(self) -> str | None:
        """What to say about a connection that others may listen to, or speak on."""
        place = urlsplit(self.client.scheduler.address)
        if place.scheme not in ("tcp", "ws") or _is_here(place.hostname or ""):
            return None
        return (
            f"The cluster at {self.client.scheduler.address} is reached without encryption, and whoever reaches it can "
            "read the data and run programs on its machines. Use tls:// addresses, or a network of its own "
            "(docs/cluster.md)."
        )

    def check(self) -> None:
        """Refuse a cluster without workers, and one whose machines have other versions than this one."""
        with self._told():
            with suppress(TimeoutError):
                self.client.wait_for_workers(1, timeout=_CONNECT)
            found: dict[str, Any] = self.client.run(versions, on_error="return")
            if not found:
                raise InputError(
                    f"The cluster at {self._place} has no workers. Start some: dask worker {self._place} on every "
                    "machine that reads the files."
                )
            with_scheduler = {"The scheduler": self._of_scheduler()} | {f"Worker {k}": v for k, v in found.items()}
        _refuse([f"{who} {_unlike(other)}" for who, other in with_scheduler.items() if _unlike(other)], SAME_VERSIONS)

    def _of_scheduler(self) -> Any:
        """Return what the scheduler has, which reads tasks before it passes them on; what it raises, if it cannot."""
        try:
            return self.client.run_on_scheduler(versions)
        except (ImportError, AttributeError) as problem:
            return problem

    def checked(self, tables: Sequence[ParquetTable]) -> list[ParquetTable]:
        """Return the tables under paths that hold in any folder; refuse files that not every worker sees as they are.

        A worker that comes later looks at its files too, before and after it reads a part.
        """
        known = [
            replace(table, parts=tuple(replace(part, path=part.path.absolute()) for part in table.parts))
            for table in tables
        ]
        files = tuple({part.path: part.stamp for table in known for part in table.parts}.items())
        with self._told():
            found: dict[str, list[str]] = self.client.run(unlike, files)
        _refuse(
            [f"Worker {worker} {what}" for worker, others in found.items() for what in others],
            "Every worker needs the same files under the same paths: share the folder, or copy it with its times "
            "(cp -p, rsync -t).",
        )
        return known

    def results(self, task: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
        """Yield the results in order; tasks of a pass that is given up are cancelled."""
        if not items:
            return
        futures: list[Future] = []
        try:
            with self._told():
                threads = sum(self.client.nthreads().values())
                errands = [Errand(task, tuple(piece), versions()) for piece in pieces(items, max(threads, 1))]
                futures = self._submitted(errands)
            for future in futures:
                with self._told():
                    answer = self._answer(future)
                yield from answer.get()
        finally:
            for future in futures:  # ends what is under way, and exact sums do not stay in the cluster
                future.release()

    def _submitted(self, errands: Sequence[Errand]) -> list[Future]:
        with warnings.catch_warnings():
            # Points of many dimensions go to every task, which is what a pass is for.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return list(self.client.map(perform, errands, pure=False))

    def _answer(self, future: Future) -> Any:
        """Wait for an answer as long as there is somebody who could give it."""
        alone_since: float | None = None
        while True:
            try:
                return future.result(timeout=_LOOK)
            except TimeoutError:
                if self.client.nthreads():
                    alone_since = None
                    continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since >= _MOST_ALONE:
                raise ClusterError(
                    f"The cluster at {self._place} has lost all of its workers. {SPENT} Start workers, and then again."
                )

    @property
    def _place(self) -> str:
        return str(self.client.scheduler.address)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say what happened to the cluster in words of ours."""
        try:
            if self.client.status == "closed":
                raise ClosedClientError
            yield
        except KilledWorker:
            raise_alone(
                ClusterError(
                    f"The same part of the work has ended several workers of the cluster at {self._place}, one after "
                    f"the other, probably for want of memory. {SPENT} Give workers more memory, or fewer threads each."
                )
            )
        except (CancelledError, ClosedClientError, OSError):  # a TimeoutError is an OSError
            raise_alone(
                ClusterError(
                    f"The connection to the cluster's scheduler was lost, or its work was cancelled. {SPENT} Look "
                    "whether the scheduler is still there, and start again."
                )
            )


@contextmanager
def connected(cluster: Any) -> Iterator[DaskWorkers]:
    """Yield the workers of a cluster, by the address of its scheduler or by a client of it; the latter stays open."""
    if isinstance(cluster, Client):
        if cluster.asynchronous or cluster.status != "running":
            raise InputError(f"{setting('cluster')} must be a Client that is connected and not asynchronous.")
        workers = DaskWorkers(cluster)
        workers.check()
        yield workers
        return
    if not isinstance(cluster, str):
        raise InputError(
            f"{setting('cluster')} must be the address of a Dask scheduler, such as tcp://10.0.0.1:8786, or a "
            f"dask.distributed.Client; got {shown(cluster)}."
        )
    with _quietly(), _client(cluster) as client:
        workers = DaskWorkers(client)
        workers.check()
        yield workers


class _Caller(Client):  # type: ignore[misc]
    """Dask leaves a client open that fails to connect by anything but an `OSError`, and waits for it at the end."""

    def start(self, **words: Any) -> None:
        """Connect, or close."""
        try:
            super().start(**words)
        except Exception:
            self.close()
            raise


def _client(address: str) -> Client:
    """Connect; keys of a tls:// address are those of Dask's configuration."""
    try:
        return _Caller(address, timeout=_CONNECT, set_as_default=False)
    except Exception as problem:  # what answers may be no Dask: "HTTP" is a length of 3 EiB
        raise InputError(
            f"No Dask scheduler answers at {shown(address)}, given as {setting('cluster')} ({type(problem).__name__}). "
            "Write it as tcp://HOST:PORT, or tls://HOST:PORT with keys in Dask's configuration, and start it with "
            "`dask scheduler`."
        ) from problem


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep Dask from telling of a lost connection of ours in tracebacks; it is told once, in an error."""
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def pieces(items: Sequence[Item], number: int) -> list[Sequence[Item]]:
    """Cut items into at most so many runs of about the same length.

    >>> pieces("abcde", 2)
    ['ab', 'cde']
    """
    number = min(number, len(items))
    bounds = [len(items) * i // number for i in range(number + 1)]
    return [items[first:last] for first, last in pairwise(bounds)]


def _is_here(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _unlike(found: Any) -> str:
    """Return in words what a machine has that differs; whatever it raises, it has no such dpadmm."""
    if isinstance(found, Exception):
        return f"cannot load this version of dpadmm ({type(found).__name__})"
    other = differing(versions(), found)
    return f"has {other}" if other else ""


def _refuse(faults: Sequence[str], advice: str) -> None:
    if faults:
        more = f"; and {len(faults) - _MOST_TOLD} more" if len(faults) > _MOST_TOLD else ""
        raise InputError(f"{'; '.join(faults[:_MOST_TOLD])}{more}. {advice}")
