"""What a serving process knows and its other files do not: kept in `status.json`, for whoever asks meanwhile.

It holds as long as the process holds `running.lock`. Whether it can be written decides nothing.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpadmm.errors import InputError
from dpadmm.files import parse_json, read_text, write_atomic

TELL_SECONDS = 1.0
"""How often it is looked whether anything has changed."""


@dataclass(frozen=True, kw_only=True)
class SiloNotice:
    """A silo's process. Times are ISO 8601, UTC.

    line: in words, how it stands with the coordinator at this address, and since when. skew_seconds: how far this clock
    is ahead of the coordinator's. answered: when the last answer left.
    """

    pid: int
    started: str
    coordinator: str
    is_connected: bool
    line: str
    since: str
    skew_seconds: int | None
    answered: str | None

    @classmethod
    def read(cls, path: Path) -> "SiloNotice | None":
        """Read what the process tells; None if it tells nothing, or is of another version."""
        try:
            return cls(**_plain(path))
        except TypeError:
            return None


@dataclass(frozen=True, kw_only=True)
class SiloPresence:
    """Whether the silo with this key has a connection, and when it has last asked for letters."""

    key: str
    is_connected: bool
    seen: str | None


@dataclass(frozen=True)
class DrivenRun:
    """A run that the process drives, by the name of its file: who has joined since it began to, and who has not."""

    file: str
    joined: tuple[str, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CoordinatorNotice:
    """A coordinator's process, where it listens, who is there, and what it drives."""

    pid: int
    started: str
    host: str
    port: int
    silos: tuple[SiloPresence, ...] = ()
    runs: tuple[DrivenRun, ...] = ()

    @classmethod
    def read(cls, path: Path) -> "CoordinatorNotice | None":
        """Read what the process tells; None if it tells nothing, or is of another version."""
        try:
            plain = _plain(path)
            silos = tuple(SiloPresence(**each) for each in plain.pop("silos"))
            runs = tuple(DrivenRun(**(each | {who: tuple(each[who]) for who in _WHO})) for each in plain.pop("runs"))
            return cls(**plain, silos=silos, runs=runs)
        except (TypeError, KeyError):
            return None

    def driven(self, file: str) -> DrivenRun | None:
        """Return what is told of a run, by the name of its file; None where it is not driven."""
        return next((run for run in self.runs if run.file == file), None)


_WHO = ("joined", "absent")


@contextlib.contextmanager
def telling(path: Path, tell: Callable[[], SiloNotice | CoordinatorNotice]) -> Iterator[None]:
    """Keep the file up to date while the block runs, in a thread of its own: written when anything has changed."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)  # what an earlier process told
    is_over, told = threading.Event(), None

    def look() -> None:
        nonlocal told
        notice = tell()
        if notice != told and _write(path, notice):
            told = notice

    def work() -> None:
        while not is_over.is_set():
            look()
            is_over.wait(TELL_SECONDS)

    thread = threading.Thread(target=work, name="status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        look()


def _write(path: Path, notice: SiloNotice | CoordinatorNotice) -> bool:
    """Replace the file as a whole; where there is no room take it away, so that nothing outdated is read."""
    try:
        write_atomic(path, json.dumps(asdict(notice), indent=1).encode(), 0o600)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return False
    return True


def _plain(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(read_text(path))
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}
