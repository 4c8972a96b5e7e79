"""Flower's own processes: started quietly, on ports of our choice, and never left behind."""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dpadmm.engines.federation.keys import NEEDS_EXTRA
from dpadmm.errors import DpadmmError, InputError

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded here: nothing may be loaded after a fork


class FlowerError(DpadmmError):
    """One of Flower's processes did not do what it should; its log says more."""


def flower_environment(home: Path) -> dict[str, str]:
    """Return the environment for Flower's processes: own home, no telemetry, no look for updates."""
    here = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": here + os.pathsep + os.environ.get("PATH", ""),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def command(name: str) -> str:
    """Return the path of one of Flower's commands; clear error where Flower is not installed."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise InputError(f"The command {name} is not there. {NEEDS_EXTRA}")
    return found


def free_port() -> int:
    """Return a port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(host: str, port: int) -> bool:
    """Say whether something accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=0.5):
            return True
    except OSError:
        return False


def reachable(host: str) -> str:
    """Return the address by which this machine reaches a server that listens on `host`, which may mean all."""
    return {"0.0.0.0": "127.0.0.1", "::": "localhost"}.get(host, host)


@contextlib.contextmanager
def sole(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file; `InputError` if another process holds it. It is free again when this process ends."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise InputError(f"{what} is running already (it holds {path}). End it first.") from problem
        yield


@dataclass
class Process:
    """A child process with its log file; ends with its parent (on Linux) or when `stop` is called."""

    popen: "subprocess.Popen[bytes]"
    log: Path
    _file: IO[bytes]

    @classmethod
    def start(
        cls, arguments: Sequence[str], environment: Mapping[str, str], log: Path, fed: bytes | None = None
    ) -> "Process":
        """Start a process in a group of its own, with output to `log`; `fed` is what it finds on its input."""
        file = log.open("ab")
        popen = subprocess.Popen(
            list(arguments),
            env=dict(environment),
            stdin=subprocess.DEVNULL if fed is None else subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        if popen.stdin is not None and fed is not None:
            with contextlib.suppress(BrokenPipeError), popen.stdin as pipe:  # it may have ended already
                pipe.write(fed)
        return cls(popen, log, file)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.popen.poll() is None

    def tail(self, characters: int = 2000) -> str:
        """Return the end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-characters:]

    def wait_for_port(self, port: int, seconds: float, host: str = "127.0.0.1") -> None:
        """Return when the process listens on a port."""
        end = time.monotonic() + seconds
        while not is_listening(host, port):
            if not self.is_alive or time.monotonic() > end:
                raise FlowerError(f"{Path(str(self.popen.args[0])).name} did not start:\n{self.tail()}")  # type: ignore[index]
            time.sleep(0.1)

    def ask_to_stop(self) -> None:
        """Ask the process to end, without waiting."""
        if self.is_alive:
            self.popen.terminate()

    def stop(self, seconds: float = 5.0) -> None:
        """End the process and everything in its group."""
        group = self.popen.pid
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(group, how)
            except ProcessLookupError:
                break
            try:
                self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        self.popen.wait()
        self._file.close()

    def kill(self) -> None:
        """End it as kill -9 would, with its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()
        self._file.close()


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; a second signal ends the process at once."""
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()
        for how in (signal.SIGTERM, signal.SIGINT):
            signal.signal(how, signal.SIG_DFL)

    for how in (signal.SIGTERM, signal.SIGINT):
        signal.signal(how, end)
    return stop


def _die_with_parent() -> None:
    """Ask the kernel to end this process when the thread that started it ends, however it ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
