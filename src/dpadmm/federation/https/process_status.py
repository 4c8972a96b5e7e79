"""What a serving process knows and its other files do not: kept in `status.json`, for whoever asks meanwhile.

It holds as long as the process holds `running.lock`. Whether it can be written decides nothing.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from dpadmm.codec import decode, encode
from dpadmm.errors import InputError
from dpadmm.files import parse_json, read_text, write_atomic

UPDATE_SECONDS = 1.0
"""How often the file is brought up to date."""

Status = TypeVar("Status", "SiloProcess", "CoordinatorProcess")


@dataclass(frozen=True, kw_only=True)
class SiloProcess:
    """A silo's process. Times are ISO 8601, UTC.

    connection: in words, how it stands with the coordinator at this address, and since when. skew_seconds: how far this
    clock is ahead of the coordinator's. answered: when the last answer left.
    """

    pid: int
    started: str
    coordinator: str
    is_connected: bool = False
    connection: str = "not dialled yet"
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
