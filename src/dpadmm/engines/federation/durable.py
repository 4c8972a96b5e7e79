"""SQLite files that survive kill -9 and power cuts: write-ahead log, full sync, one writer at a time."""

import io
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.errors import InputError, ResumeError
from dpadmm.problems.arrays import Floats

_BUSY_SECONDS = 60.0


def create(path: Path, application: int, schema: str) -> None:
    """Make a new file with these tables; an existing one is refused."""
    if path.exists():
        raise InputError(f"{path} is there already and is never overwritten. Choose another place.")
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    connection = sqlite3.connect(draft)
    connection.executescript(f"PRAGMA application_id = {application}; PRAGMA user_version = 1; {schema}")
    connection.close()
    draft.chmod(0o600)
    draft.rename(path)


def connect(path: Path, application: int) -> sqlite3.Connection:
    """Open a file made by `create`; anything else is refused by name."""
    if not path.is_file():
        raise ResumeError(f"There is no file {path}. Was it initialised?")
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        (found,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if found != application or version != 1:
            raise ResumeError(f"{path} is not a file of this kind, or of another version of dpadmm.")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except (sqlite3.Error, ResumeError) as problem:
        connection.close()
        raise ResumeError(f"{path} cannot be used: {problem}.") from problem
    return connection


@contextmanager
def exclusive(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the file alone; everything inside becomes durable together when the block ends, or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def write(path: Path, text: str) -> None:
    """Replace a small file; after a crash it is the old one or the new one, whole."""
    draft = path.with_name(path.name + ".new")
    descriptor = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read(path: Path) -> str:
    """Return the text of a small file, empty if it is not there."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def pack(arrays: Sequence[Floats]) -> bytes:
    """Return arrays as bytes, bit for bit."""
    buffer = io.BytesIO()
    named: dict[str, Any] = {f"{place:03d}": array for place, array in enumerate(arrays)}
    np.savez(buffer, **named)
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[Floats, ...]:
    """Return the arrays that `pack` packed."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return tuple(file[name] for name in sorted(file.files))
