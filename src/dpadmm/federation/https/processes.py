"""Processes of a federation: ended by signals; children that are never left behind; what a serving process knows.

That is kept in `status.json`, for whoever asks meanwhile, and holds as long as the process holds `running.lock`.
Whether it can be written decides nothing.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from dpadmm.codec import decode, encode
from dpadmm.errors import InputError
from dpadmm.files import parse_json, read_text, write_atomic

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded here: nothing may be loaded after a fork


class StopRequested(BaseException):
    """A signal has asked this process to end."""


class StopSignals:
    """SIGTERM and SIGINT: what waits is ended at once, work is ended when it is done; a second signal ends all."""

    def __init__(self) -> None:
        """Take over both signals."""
        self.is_asked = False
        self._is_waiting = False
        for how in (signal.SIGTERM, signal.SIGINT):
            signal.signal(how, self._ask)

    def _ask(self, *_: object) -> None:
        self.is_asked = True
        for how in (signal.SIGTERM, signal.SIGINT):
            signal.signal(how, signal.SIG_DFL)
        if self._is_waiting:
            raise StopRequested

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Within, a signal raises `StopRequested`."""
        if self.is_asked:
            raise StopRequested
        self._is_waiting = True
        try:
            yield
        finally:
            self._is_waiting = False

    def sleep(self, seconds: float) -> None:
        """Wait; `StopRequested` if a signal comes."""
        with self.waiting():
            time.sleep(seconds)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that what it made is cleared away."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt("asked to end; nothing of the rehearsal was kept")

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass
class Process:
    """A child process with its log file; ends with its parent (on Linux) or when `stop` is called."""

    popen: "subprocess.Popen[bytes]"
    log: Path
    _file: IO[bytes]
    _is_asked: bool = False

    @classmethod
    def start(cls, arguments: Sequence[str], log: Path) -> "Process":
        """Start a process in a group of its own, with output to `log`."""
        file = log.open("ab")
        popen = subprocess.Popen(
            list(arguments),
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        return cls(popen, log, file)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def tail(self, characters: int = 2000) -> str:
        """Return the end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-characters:]

    def ask_to_stop(self) -> None:
        """Ask the process to end, without waiting; once, because a second signal would end it in the middle of that."""
        if self.is_alive and not self._is_asked:
            self._is_asked = True
            self.popen.terminate()

    def stop(self, seconds: float = 20.0) -> None:
        """End the process, by force if it does not follow."""
        self.ask_to_stop()
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self._file.close()

    def kill(self) -> None:
        """End it as kill -9 would."""
        self.popen.kill()
        self.popen.wait()
        self._file.close()


def _die_with_parent() -> None:
    """Ask the kernel to end this process when the thread that started it ends, however it ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


UPDATE_SECONDS = 1.0
"""How often the file is brought up to date."""

Status = TypeVar("Status", "SiloProcess", "CoordinatorProcess")


@dataclass(frozen=True, kw_only=True)
class SiloProcess:
    """A silo's process. Times are ISO 8601, UTC.

    connection: its state at this coordinator address, and since when, as text. skew_seconds: how far this
    clock is ahead of the coordinator's. answered: when the last answer left.
    """

    pid: int
    started: str
    coordinator: str
    is_connected: bool = False
    connection: str = "not connected yet"
    since: str
    skew_seconds: int | None = None
    answered: str | None = None


@dataclass(frozen=True, kw_only=True)
class CoordinatorProcess:
    """A coordinator's process and where it listens.

    connected: keys of the silos with a connection. seen: when each has last polled. joined: by the
    digest of the terms, the silos that have joined each run that the process drives.
    """

    pid: int
    started: str
    host: str
    port: int
    connected: tuple[str, ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict)
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_status(path: Path, kind: type[Status]) -> Status | None:
    """Return what the process has written; None if it has written nothing, or is of another version."""
    try:
        found: Status = decode(kind, parse_json(read_text(path)))
    except InputError:
        return None
    return found


@contextlib.contextmanager
def publish_status(path: Path, status: Callable[[], SiloProcess | CoordinatorProcess]) -> Iterator[None]:
    """Keep the file up to date while the block runs, in a thread of its own: written when anything has changed."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)  # of an earlier process
    is_over = threading.Event()
    written: SiloProcess | CoordinatorProcess | None = None

    def update() -> None:
        nonlocal written
        if (current := status()) == written:
            return
        try:
            write_atomic(path, json.dumps(encode(current), indent=1).encode(), 0o600)
            written = current
        except OSError:  # there is no room: nothing outdated shall be read
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def work() -> None:
        while not is_over.is_set():
            update()
            is_over.wait(UPDATE_SECONDS)

    thread = threading.Thread(target=work, name="status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        update()
