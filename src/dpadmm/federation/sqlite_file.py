"""Files that survive kill -9 and power cuts: SQLite with write-ahead log, full sync and one writer; small texts."""

import errno
import io
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from dpadmm.codec import decode, encode
from dpadmm.errors import InputError, ResumeError
from dpadmm.federation.errors import printable
from dpadmm.files import parse_toml, read_arrays, read_text, write_atomic
from dpadmm.problems.arrays import Floats

Record = TypeVar("Record")

VERSION = 4
"""Of these files; those of another version are refused."""

_BUSY_SECONDS = 60.0
_PASSING_ERRNO = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EAGAIN)
_PASSING = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY)


def create(path: Path, application: int, schema: str) -> None:
    """Make a new file with these tables; an existing one is refused.

    It appears under its name when it is complete.
    """
    if path.exists():
        raise InputError(f"{path} already exists and is never overwritten. Choose another location.")
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    connection = sqlite3.connect(draft)
    connection.executescript(f"PRAGMA application_id = {application}; PRAGMA user_version = {VERSION}; {schema}")
    connection.close()
    draft.chmod(0o600)
    draft.rename(path)


def connect(path: Path, application: int, tables: str = "", *, any_thread: bool = False) -> sqlite3.Connection:
    """Open a file made by `create` with these tables; anything else is refused by name.

    any_thread: it is used in another thread than this one, in one at a time.
    """
    settings = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
    return _opened(path, application, tables, "mode=rw", *settings, any_thread=any_thread)


def connect_for_reading(path: Path, application: int, tables: str = "") -> sqlite3.Connection:
    """Open a file made by `create` to look at it: nothing is written, not even beside it, and nobody is kept waiting.

    While it is written, or where that was cut short, the index of its log (`-shm`) is there, and is read as it is;
    else the file is at rest.
    """
    log, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    is_at_rest = not index.exists()
    if is_at_rest and log.exists() and log.stat().st_size:
        raise ResumeError(
            f"{path} was not closed properly, and the index of its log is missing. Start the process that serves "
            "it: that repairs it."
        )
    return _opened(path, application, tables, "immutable=1" if is_at_rest else "mode=ro&readonly_shm=1")


def _opened(
    path: Path, application: int, tables: str, how: str, *settings: str, any_thread: bool = False
) -> sqlite3.Connection:
    if not path.is_file():
        raise ResumeError(f"There is no file {path}. Has the directory been initialised?")
    place = f"file:{quote(str(path.absolute()))}?{how}"
    connection = sqlite3.connect(
        place, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=not any_thread
    )
    connection.text_factory = _text
    try:
        (found,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if (found, version) != (application, VERSION):
            raise ResumeError(f"{path} is not a file of this kind, or was written by a different version of dpadmm.")
        if not _is_sound(connection, tables):
            raise ResumeError("it is damaged; restore it from a backup")
        for setting in settings:
            connection.execute(setting)
    except UnicodeDecodeError as problem:  # SQLite's own message quotes the damage
        connection.close()
        raise ResumeError(f"{path} cannot be used: it is damaged; restore it from a backup.") from problem
    except (sqlite3.Error, OSError, ResumeError) as problem:
        connection.close()
        raise ResumeError(f"{path} cannot be used: {str(problem).rstrip('.')}.") from problem
    return connection


def _is_sound(connection: sqlite3.Connection, tables: str) -> bool:
    """Return whether pages are whole, all tables are there with their columns, and cells are of the declared types."""
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        return False
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(tables)
        needed = _columns(model)
    found = _columns(connection)
    return all(
        found.get(table) == columns and _has_types(connection, table, columns) for table, columns in needed.items()
    )


def _columns(connection: sqlite3.Connection) -> dict[str, list[tuple[str, str]]]:
    """Return names and declared types of the columns of all tables."""
    found: dict[str, list[tuple[str, str]]] = {}
    query = (
        "SELECT m.name, c.name, c.type FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'"
    )
    for table, column, kind in connection.execute(query):
        found.setdefault(table, []).append((column, kind))
    return found


def _has_types(connection: sqlite3.Connection, table: str, columns: list[tuple[str, str]]) -> bool:
    wrong = " OR ".join(f"typeof({column}) NOT IN ('{kind.lower()}', 'null')" for column, kind in columns)
    return connection.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone() is None


def _text(content: bytes) -> str:
    """Return text of a file; what is not UTF-8 is damage, which whoever compares or parses the text finds."""
    return content.decode(errors="replace")


@contextmanager
def exclusive(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the file alone; everything inside becomes durable together when the block ends, or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK")
        raise


def stamp(path: Path) -> tuple[int, ...]:
    """Return what shows that a file has not changed; nothing where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def now(precision: str = "seconds") -> str:
    """Return the time as files of silos and coordinators write it."""
    return datetime.now(UTC).isoformat(timespec=precision)


def toml(plain: Mapping[str, Any]) -> str:
    """Return plain values as TOML: tables and lists of tables follow what is at the top; None is left out."""
    known = {name: value for name, value in plain.items() if value is not None}
    sections = {name: value for name, value in known.items() if isinstance(value, dict)}
    lists = {name: value for name, value in known.items() if isinstance(value, list) and value}
    tables = {name: value for name, value in lists.items() if isinstance(value[0], dict)}
    parts = [_lines({name: value for name, value in known.items() if name not in sections | tables})]
    parts += [f"[{name}]\n{_lines(value)}" for name, value in sections.items()]
    parts += [f"[[{name}]]\n{_lines(each)}" for name, value in tables.items() for each in value]
    return "\n".join(parts)


def _lines(plain: Mapping[str, Any]) -> str:
    # TOML knows JSON's values but not its way to escape signs beyond 16 bits.
    reported = {name: json.dumps(value, ensure_ascii=False) for name, value in plain.items() if value is not None}
    return "".join(f"{name} = {value}\n" for name, value in reported.items())


def save_toml(path: Path, record: Any, mode: int = 0o666) -> None:
    """Write a record as TOML; the file is there whole, as it was or as it is now."""
    write_atomic(path, toml(encode(record)).encode(), mode)


def load_toml(path: Path, kind: type[Record], what: str) -> Record:
    """Read a record that `save_toml` wrote; anything odd is refused by the file's name. what: what it ought to be."""
    try:
        return decode(kind, parse_toml(read_text(path)), "it")
    except InputError as problem:
        raise InputError(printable(f"{path} is not {what}: {str(problem).rstrip('.')}.")) from problem


def is_machines(problem: BaseException) -> bool:
    """Return whether a failure is the machine's, which may pass: a full disk, a quota, a file that another holds."""
    cause = problem.__cause__ or problem
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _PASSING
    return isinstance(cause, OSError) and cause.errno in _PASSING_ERRNO


def pack(arrays: Sequence[Floats]) -> bytes:
    """Return arrays as bytes, bit for bit."""
    buffer = io.BytesIO()
    named: dict[str, Any] = {f"{place:03d}": array for place, array in enumerate(arrays)}
    np.savez(buffer, **named)
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[Floats, ...]:
    """Return the arrays that `pack` packed."""
    file = read_arrays(content, most=len(content))
    return tuple(file[name] for name in sorted(file))
