"""Processes of a federation: ended by signals, and children that are never left behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
