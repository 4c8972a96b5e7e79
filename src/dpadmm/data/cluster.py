"""Passes over streamed tables on the workers of a Dask cluster, all of them inside one silo's trust.

The same tasks are called on the same parts as in one process, and what they return is added up in the same order, so a
model has the same bits wherever its sums were made. Tasks are few plain futures, answered in order, and repeated by
Dask if a worker is lost; so is the encoding of the blocks that this worker kept, and of no others. If the scheduler is
lost, the pass is repeated as soon as it is back. What is repeated is a sum; noise is drawn in this process alone, after
the sums are here, so that nothing is drawn or spent twice.

Whatever a task raises is an answer too. Raised to Dask, it would be logged on the worker with its text, and sent with
its traceback; the texts of other packages' errors may quote the cells that they stumble over.
"""

import hashlib
import logging
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar
from urllib.parse import urlsplit

from distributed import CancelledError, Client, Future, KilledWorker
from distributed.client import ClosedClientError

import dpadmm
from dpadmm.checks import option_name, safe_repr
from dpadmm.data.parquet import FileStamp, ParquetTable
from dpadmm.errors import ClusterError, DpadmmError, InputError, raise_alone

SAME_VERSIONS = "Install the same versions of all of them on every machine of the cluster."
SPENT = "If the run had begun, what was reserved for it stays spent."

Item = TypeVar("Item")
Done = TypeVar("Done")

_CONNECT = 10.0  # seconds for a scheduler to answer, and for a first worker to be there
_LOOK = 5.0  # seconds between looks whether there is still somebody at work
_MOST_ALONE = 60.0  # seconds without any worker: a supervisor would have started one again
_MOST_AWAY, _MOST_LOST = 600.0, 5  # seconds to wait for a scheduler that is lost, and how often in a pass
_CHATTY = ("asyncio", "distributed.client", "distributed.comm", "distributed.core", "tornado.application")
_MOST_NAMED = 3  # workers that are named in an error

_DECISIVE = ("numba", "numpy", "pandas", "pyarrow", "scipy")

Versions: TypeAlias = tuple[tuple[str, str], ...]
"""Of dpadmm, of Python, and of the packages that decide what cells say and how sums are rounded."""


@cache
def installed_versions() -> Versions:
    """Return what is installed here.

    The package is named with a digest of its code: two checkouts of one version may clip rows differently, and noise is
    for one of them.
    """
    home, digest = Path(dpadmm.__file__).parent, hashlib.blake2b(digest_size=4)
    for file in sorted(home.rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(home).as_posix()} {len(content)}\n".encode() + content)
    found = [
        ("dpadmm", f"{dpadmm.__version__} (code {digest.hexdigest()})"),
        ("Python", ".".join(platform.python_version_tuple()[:2])),
    ]
    for name in _DECISIVE:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "missing"))
    return tuple(found)


def describe_difference(here: Versions, there: Versions) -> str:
    """Describe what is not the same there, '' if everything is."""
    found = dict(there)
    pairs = [(name, own, found.get(name, "missing")) for name, own in here]
    return ", ".join(f"{name} {other} instead of {own}" for name, own, other in pairs if own != other)


def find_changed_files(files: Sequence[tuple[Path, FileStamp]]) -> list[str]:
    """Describe which of these files are not here, or not the same here."""
    found = []
    for path, stamp in files:
        try:
            if FileStamp.of(path) != stamp:
                found.append(f"has another file at {path} (size, time of change or footer differ)")
        except OSError:
            found.append(f"cannot read {path}")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class ClusterTask:
    """A task to be called on some items, by those who have the same versions of packages.

    Its text does not show what it carries, since Dask logs that of a task that fails: a point of a local solve is not
    noisy.
    """

    task: Callable[[Any], Any]
    items: tuple[Any, ...]
    known: Versions


@dataclass(frozen=True, eq=False, repr=False)
class TaskResult:
    """What a task returned for its items, in their order; or the error that ended it, without where it came from."""

    values: tuple[Any, ...] = ()
    error: DpadmmError | None = None

    def __sizeof__(self) -> int:
        """Return the size of the values, by which Dask decides what may be moved to another worker."""
        return sum(map(sys.getsizeof, self.values))

    def get(self) -> tuple[Any, ...]:
        """Return the values, or raise the error here."""
        if self.error is not None:
            raise self.error
        return self.values


def run_task(work: ClusterTask) -> TaskResult:
    """Call the task on all items; the first that fails ends it."""
    other = describe_difference(work.known, installed_versions())
    if other:
        return TaskResult(error=ClusterError(f"A worker on {platform.node()} has {other}. {SAME_VERSIONS}"))
    try:
        return TaskResult(tuple(work.task(item) for item in work.items))
    except DpadmmError as error:
        return TaskResult(error=type(error)(*error.args))
    except Exception as fault:  # noqa: BLE001 - whatever it is, its text may quote a cell
        place = traceback.extract_tb(fault.__traceback__)[-1]
        return TaskResult(
            error=ClusterError(
                f"A worker on {platform.node()} failed with a {type(fault).__name__} at line {place.lineno} of "
                f"{Path(place.filename).name}. Its message stays there, because it may quote a cell. {SPENT} If it "
                "happens again, try the same without the cluster."
            )
        )


def run_on_kept(kept: TaskResult, work: ClusterTask) -> TaskResult:
    """Call the items' tasks on what this worker made before; an item is the number of what it is for, and a task."""
    if kept.error is not None:
        return kept
    return run_task(replace(work, items=tuple((kept.values[number], task) for number, task in work.items)))


def _call_on(item: tuple[Item, Callable[[Item], Done]]) -> Done:
    made, task = item
    return task(made)


def _make(make: Callable[[], Item]) -> Item:
    return make()


def _ignore(text: str) -> None:
    """Say nothing."""


class _LostError(ClusterError):
    """The scheduler does not answer any more, or has forgotten what it was to do."""


@dataclass(eq=False)
class DaskWorkers:
    """The workers of a cluster that a client is connected to.

    address: of the scheduler, to connect again; None for a client of the user's. warn: takes a warning. kept: by what
    made it, the future of what stays in a worker, and its number there; Dask makes it again where the worker is lost.
    """

    client: Client
    address: str | None = None
    warn: Callable[[str], None] = field(default=_ignore, repr=False)
    kept: dict[Any, tuple[Future, int]] = field(default_factory=dict, repr=False)
    scratch: ClassVar[Path | None] = None

    @property
    def warning(self) -> str | None:
        """What to say about a connection that others may listen to, or speak on."""
        place = urlsplit(self.client.scheduler.address)
        if place.scheme not in ("tcp", "ws") or _is_local(place.hostname or ""):
            return None
        return (
            f"The cluster at {self.client.scheduler.address} is reached without encryption, and whoever reaches it can "
            "read the data and run programs on its machines. Use tls:// addresses, or an own network (docs/cluster.md)."
        )

    def check(self) -> None:
        """Refuse a cluster without workers, and one whose machines have other versions of packages than this one."""
        with self._reword_errors():
            with suppress(TimeoutError):
                self.client.wait_for_workers(1, timeout=_CONNECT)
            found: dict[str, Any] = self.client.run(installed_versions, on_error="return")
            if not found:
                raise InputError(f"The cluster at {self._place} has no workers. Start some: dask worker {self._place}")
            with_scheduler = {"The scheduler": self._ask_scheduler()} | {f"Worker {k}": v for k, v in found.items()}
        others = {who: _describe_other(other) for who, other in with_scheduler.items()}
        _refuse([f"{who} {other}" for who, other in others.items() if other], SAME_VERSIONS)

    def _ask_scheduler(self) -> Any:
        """Return what the scheduler has, which reads tasks before it passes them on; what it raises, if it cannot."""
        try:
            return self.client.run_on_scheduler(installed_versions)
        except (ImportError, AttributeError) as problem:
            return problem

    def check_tables(self, tables: Sequence[ParquetTable]) -> list[ParquetTable]:
        """Return the tables under paths that hold in any folder; refuse files that not every worker sees as they are.

        A worker that comes later looks at its files too, before and after it reads a part.
        """
        known = [
            replace(table, parts=tuple(replace(part, path=part.path.absolute()) for part in table.parts))
            for table in tables
        ]
        files = tuple({part.path: part.stamp for table in known for part in table.parts}.items())
        with self._reword_errors():
            found: dict[str, list[str]] = self.client.run(find_changed_files, files)
        _refuse(
            [f"Worker {worker} {what}" for worker, others in found.items() for what in others],
            "Every worker needs the same files under the same paths: share it, or copy it with its times (cp -p).",
        )
        return known

    def run(self, task: Callable[[Item], Done], items: Sequence[Item]) -> Iterator[Done]:
        """Yield the results in order; tasks of a pass that is given up are cancelled."""

        def send(done: int) -> list[Future]:
            pieces = cut_evenly(items[done:], self._threads)
            return self._sent(run_task, [ClusterTask(task, tuple(each), installed_versions()) for each in pieces])

        yield from self._answers(send, len(items))

    def run_kept(self, makers: Sequence[Callable[[], Item]], tasks: Sequence[Callable[[Item], Done]]) -> Iterator[Done]:
        """Yield `task(make())` in order; what is made stays in the memory of the worker that made it."""
        left, found = list(range(len(makers))), dict[int, Done]()

        def send(_: int) -> list[Future]:
            self._keep([makers[place] for place in left])
            together: dict[Future, list[int]] = {}
            for place in left:
                together.setdefault(self.kept[makers[place]][0], []).append(place)
            left[:] = [place for places in together.values() for place in places]  # as answers come
            items = [tuple((self.kept[makers[i]][1], tasks[i]) for i in places) for places in together.values()]
            work = [ClusterTask(_call_on, each, installed_versions()) for each in items]
            return self._sent(run_on_kept, list(together), work)

        for value in self._answers(send, len(makers)):
            found[left.pop(0)] = value
        yield from (found[place] for place in range(len(makers)))

    def _keep(self, makers: Sequence[Callable[[], Any]]) -> None:
        """Have workers make what is not kept yet, one run of makers for each thread."""
        new = [make for make in makers if make not in self.kept]
        pieces = cut_evenly(new, self._threads)
        made = self._sent(run_task, [ClusterTask(_make, tuple(each), installed_versions()) for each in pieces])
        for piece, future in zip(pieces, made, strict=True):
            self.kept.update({make: (future, number) for number, make in enumerate(piece)})

    def _sent(self, call: Callable[..., TaskResult], *arguments: Sequence[Any]) -> list[Future]:
        with warnings.catch_warnings():
            # Points of many dimensions go to every task, which is what a pass is for.
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            return list(self.client.map(call, *arguments, pure=False)) if arguments[0] else []

    def _answers(self, send: Callable[[int], list[Future]], number: int) -> Iterator[Any]:
        """Yield all answers in order; send: sends the work that is left after so many, again if the scheduler was lost.

        Sums that are made again have the same bits, and noise is drawn after them: nothing is drawn or paid for twice.
        """
        done = lost = 0
        while done < number:
            futures: list[Future] = []
            try:
                with self._reword_errors():
                    futures = send(done)
                for future in futures:
                    with self._reword_errors():
                        answer = self._wait_for(future)
                    for value in answer.get():
                        done += 1
                        yield value
            except _LostError as problem:
                lost += 1
                if lost > _MOST_LOST or not self._connect_again():
                    raise_alone(ClusterError(*problem.args))
            finally:
                for future in futures:  # ends what is under way, and exact sums do not stay in the cluster
                    future.release()

    def _connect_again(self) -> bool:
        """Wait for the scheduler and workers to come back; return whether they did, with the same versions."""
        self.forget()
        until, has_warned = time.monotonic() + _MOST_AWAY, False
        while self.client.status != "closed" or self.address is not None:
            with suppress(InputError, ClusterError):
                if self.client.status == "closed":
                    self.client = _client(str(self.address))
                self.check()
                return True
            if time.monotonic() >= until:
                break
            if not has_warned:
                self.warn(
                    f"The cluster at {self._place} does not answer. Waiting up to {_MOST_AWAY / 60:.0f} minutes for "
                    "it: start its scheduler and workers again, and the run goes on. Nothing is paid for twice."
                )
            has_warned = True
            time.sleep(_LOOK)
        return False

    def forget(self) -> None:
        """Let go of what is kept."""
        for future, _ in self.kept.values():
            future.release()
        self.kept.clear()

    def _wait_for(self, future: Future) -> TaskResult:
        """Wait for an answer as long as there is somebody who could give it."""
        alone_since: float | None = None
        while True:
            try:
                result: TaskResult = future.result(timeout=_LOOK)
                return result
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
    def _threads(self) -> int:
        return max(sum(self.client.nthreads().values()), 1)

    @property
    def _place(self) -> str:
        return str(self.client.scheduler.address)

    @contextmanager
    def _reword_errors(self) -> Iterator[None]:
        """Say what happened to the cluster, without Dask's own texts."""
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
                _LostError(
                    f"The connection to the cluster's scheduler was lost, or its work was cancelled. {SPENT} Look "
                    "whether the scheduler is still there, and start again."
                )
            )


@contextmanager
def connect(cluster: Any, warn: Callable[[str], None] = _ignore) -> Iterator[DaskWorkers]:
    """Yield the workers of a cluster, by the address of its scheduler or by a client of it; the latter stays open.

    warn: takes a warning.
    """
    if isinstance(cluster, Client):
        if cluster.asynchronous or cluster.status != "running":
            raise InputError(f"{option_name('cluster')} must be a Client that is connected and not asynchronous.")
        workers = DaskWorkers(cluster, warn=warn)
        workers.check()
        try:
            yield workers
        finally:
            workers.forget()
        return
    if not isinstance(cluster, str):
        raise InputError(
            f"{option_name('cluster')} must be the address of a Dask scheduler, such as tcp://10.0.0.1:8786, or a "
            f"dask.distributed.Client; got {safe_repr(cluster)}."
        )
    with _silence_dask():
        workers = DaskWorkers(_client(cluster), cluster, warn)
        try:
            workers.check()
            yield workers
        finally:
            workers.client.close()  # it is another one, if the scheduler was lost


class _Caller(Client):  # type: ignore[misc]
    """Dask leaves a client open that fails to connect by anything but an `OSError`, and waits for it at the end."""

    def start(self, **options: Any) -> None:
        """Connect, or close."""
        try:
            super().start(**options)
        except Exception:
            self.close()
            raise


def _client(address: str) -> Client:
    """Connect; keys of a tls:// address are those of Dask's configuration."""
    try:
        return _Caller(address, timeout=_CONNECT, set_as_default=False)
    except Exception as problem:  # what answers may be no Dask: "HTTP" is a length of 3 EiB
        raise InputError(
            f"No Dask scheduler answers at {safe_repr(address)}, given as {option_name('cluster')} "
            f"({type(problem).__name__}). "
            "Start one (`dask scheduler`); give tcp://HOST:PORT, or tls://HOST:PORT with keys in Dask's configuration."
        ) from problem


@contextmanager
def _silence_dask() -> Iterator[None]:
    """Keep Dask from telling of a lost connection of ours in tracebacks; it is reported once, in an error."""
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def cut_evenly(items: Sequence[Item], number: int) -> list[Sequence[Item]]:
    """Cut items into at most so many runs of about the same length.

    >>> cut_evenly("abcde", 2)
    ['ab', 'cde']
    """
    number = min(number, len(items))
    return [items[len(items) * i // number : len(items) * (i + 1) // number] for i in range(number)]


def _is_local(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _describe_other(found: Any) -> str:
    """Describe what a machine has that differs; whatever it raises, it has no such dpadmm."""
    if isinstance(found, Exception):
        return f"cannot load this version of dpadmm ({type(found).__name__})"
    other = describe_difference(installed_versions(), found)
    return f"has {other}" if other else ""


def _refuse(faults: Sequence[str], advice: str) -> None:
    if faults:
        more = f"; and {len(faults) - _MOST_NAMED} more" if len(faults) > _MOST_NAMED else ""
        raise InputError(f"{'; '.join(faults[:_MOST_NAMED])}{more}. {advice}")
