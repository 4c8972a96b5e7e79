"""The files of a ledger: the log itself, the key of its marks (`.key`) and the anchor of its chain (`.head`).

The log is SQLite with a rollback journal, synced at every commit, with an append-only table of entries. No lock is held
between transactions. In write-ahead mode a connection keeps one all the time, which a fork, or reading the file in the
same process, takes away unnoticed: entries were then lost. So that mode is not used. A file is looked at without locks
or side files first, then validated through a read-only connection, and opened for writing only when both are content;
so a foreign or damaged file is left as it was found.

The key: marks of data are keyed hashes, blake2b under a random 256-bit key that lives in a file of its own, readable by
its owner only. A plain or salted hash would let whoever reads the ledger test guesses of the data, and the adversary of
differential privacy knows every record but one, so a guess is cheap. Without the key the marks say nothing. With the
key *and* the ledger they confirm a guess: keep the key as well as you keep the data.
"""

import hashlib
import hmac
import os
import re
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from filelock import lock_descriptor

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger.entries import Entry, Key, key_of

APPLICATION_ID = 0x6470616C  # "dpal"
VERSION = 3
"""Of the file; those of another version are refused."""

_ENTRIES = (
    "CREATE TABLE entries (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    "CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    "CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append-only'); END",
)
_KEYS = (
    "CREATE TABLE keys (run TEXT NOT NULL, round INTEGER NOT NULL, agent INTEGER NOT NULL, slot INTEGER NOT NULL, "
    "seq INTEGER NOT NULL, PRIMARY KEY (run, round, agent, slot)) WITHOUT ROWID",
)
TIMEOUT = 30.0
"""Seconds to wait for another process that holds the ledger."""

KEY_BYTES = 32
_NOT_OWNER = stat.S_IRWXG | stat.S_IRWXO
_ANCHOR = re.compile(rb"(\d{16}) ([0-9a-f]{64})\n")
_ANCHOR_BYTES = 16 + 1 + 64 + 1


def key_path(path: Path) -> Path:
    """Return where the key of the ledger at `path` is."""
    return path.with_name(path.name + ".key")


def anchor_path(path: Path) -> Path:
    """Return where the anchor of the ledger at `path` is."""
    return path.with_name(path.name + ".head")


def identity(path: Path) -> tuple[int, int] | None:
    """Return what distinguishes this file from another at the same path, None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into `LedgerError` that says what happened and what to do."""
    try:
        yield
    except UnicodeDecodeError as error:  # a text of the file, or of SQLite's message that quotes it
        raise LedgerError(f"{path}: {_WHAT_TO_DO[sqlite3.SQLITE_CORRUPT]}") from error
    except sqlite3.Error as error:
        if "closed database" in str(error):
            raise LedgerError(f"This ledger object of {path} is closed. Open it again: Ledger.open(path).") from error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        what = _WHAT_TO_DO.get(code, "The file may be damaged or closed; nothing was recorded.")
        raise LedgerError(f"{path}: {error}. {what}") from error


@contextmanager
def _explained(what: str, advice: str) -> Iterator[None]:
    """Turn an error of the operating system into `LedgerError`: what failed, why, and what to do."""
    try:
        yield
    except OSError as error:
        raise LedgerError(f"{what}: {error.strerror}. {advice}") from error


_WHAT_TO_DO = {
    sqlite3.SQLITE_BUSY: "Another process kept the ledger locked beyond the timeout; nothing was recorded. Try again.",
    sqlite3.SQLITE_FULL: "The disk is full; nothing was recorded, so send nothing. Free some space and try again.",
    sqlite3.SQLITE_IOERR: "The file could not be written or read (disk full, quota or hardware); send nothing. Free "
    "some space and ask again under the same key: that never spends twice.",
    sqlite3.SQLITE_CORRUPT: "The file is damaged or cut short. Restore it from a backup.",
    sqlite3.SQLITE_NOTADB: "This is not a ledger. Give the path of one, or create one under a new name.",
    sqlite3.SQLITE_READONLY: "The ledger or its directory is read-only. Give the process write permission.",
    sqlite3.SQLITE_CANTOPEN: "The ledger and its directory must be readable and writable.",
    sqlite3.SQLITE_AUTH: "Only the ledger itself writes its tables, begins and commits; nothing was recorded.",
    sqlite3.SQLITE_CONSTRAINT: "The entry contradicts an existing one; nothing was recorded.",
}


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open `path` with the URI parameters `mode`; no implicit transactions."""
    uri = f"file:{quote(str(path))}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=TIMEOUT, isolation_level=None)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def create_file(path: Path, entries: Iterable[Entry]) -> None:
    """Write a ledger with its first entries to the new file `path`, complete and synced, with no side files left."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(connect(path, "mode=rw")) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _make_durable(connection, path)
        with transaction(connection):
            for statement in _ENTRIES + _KEYS:
                connection.execute(statement)
            append(connection, entries)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open `path` to read it. A transaction that a crash cut short is undone first, which needs the right to write."""
    connection = connect(path, "mode=ro")
    try:
        _version(connection)
    except BaseException as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        return connect(path, "mode=rw")
    return connection


def _application_id(connection: sqlite3.Connection) -> int:
    with closing(connection):
        return int(connection.execute("PRAGMA application_id").fetchone()[0])


def inspect(path: Path) -> None:
    """Refuse a file that is not a ledger, touching nothing: no lock, no side file, no recovery.

    This goes through SQLite, not `open`: closing a plain descriptor would drop the locks that other ledgers of this
    process hold on the same file.
    """
    if not path.is_file():
        raise LedgerError(f"{path} does not exist or is not a file. Create a ledger, or give the path of one.")
    with clear_errors(path):
        try:
            found = _application_id(connect(path, "mode=ro&immutable=1"))
        except sqlite3.DatabaseError as error:
            # While it is written, or if that was cut short, the file alone is torn: look at it with its journal.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            found = _application_id(connect_for_reading(path))
    if found != APPLICATION_ID:
        raise LedgerError(
            f"{path} is not a ledger (application id {found:#x}, a ledger has {APPLICATION_ID:#x}). "
            "Give the path of one, or create one under a new name."
        )


def validate(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `LedgerError` unless this code can read the file's version and its pages are sound."""
    version = _version(connection)
    if version != VERSION:
        raise LedgerError(
            f"{path} has ledger version {version}, but this version of dpadmm reads version {VERSION} only. Use the "
            "version of dpadmm that wrote it."
        )
    complaints = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
    if complaints != ["ok"]:
        raise LedgerError(f"{path} is damaged ({'; '.join(complaints)}). Restore it from a backup.")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Return a connection that syncs at every commit."""
    if path.stat().st_nlink > 1:
        raise LedgerError(
            f"{path} has several names (hard links), and its journal is found under only one of them. Keep one name, "
            "and make backups by copying."
        )
    connection = connect(path, "mode=rw")
    try:
        _make_durable(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_durable(connection: sqlite3.Connection, path: Path) -> None:
    """Have every commit synced: journal, file, and the directory from which the journal is deleted."""
    (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    if mode != "delete":
        raise LedgerError(f"{path} is open elsewhere in journal mode {mode!r}. Close it there and try again.")
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: through the drive's cache as well
    connection.execute("PRAGMA secure_delete = ON")  # what tables beside the ledger's erase is overwritten


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Commit what the block does if it ends well, else undo all of it."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_SELECT = "SELECT seq, body, digest FROM entries WHERE seq"


def read_entries(connection: sqlite3.Connection, after: int = 0, upto: int = 2**63 - 1) -> Iterator[Entry]:
    """Yield the entries after number `after`, up to number `upto`, in order."""
    rows = connection.execute(f"{_SELECT} > ? AND seq <= ? ORDER BY seq", (after, upto))
    return (Entry(*row) for row in rows)


def read_entry(connection: sqlite3.Connection, seq: int) -> Entry | None:
    """Return entry `seq`, None if there is none."""
    return next(read_entries(connection, seq - 1, seq), None)


def find_keys(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[Entry | None]:
    """Return the entry recorded under each key, None where there is none; a run that is new is looked for once."""
    runs = {key[0] for key in keys}
    known = {run for run in runs if connection.execute("SELECT 1 FROM keys WHERE run = ?", (run,)).fetchone()}
    sql = f"{_SELECT} = (SELECT seq FROM keys WHERE run = ? AND round = ? AND agent = ? AND slot = ?)"
    rows = (connection.execute(sql, key).fetchone() if key[0] in known else None for key in keys)
    return [None if row is None else Entry(*row) for row in rows]


def find_round(connection: sqlite3.Connection, run: str, number: int) -> list[Entry]:
    """Return the entries of all releases of a run in one round."""
    sql = f"{_SELECT} IN (SELECT seq FROM keys WHERE run = ? AND round = ?) ORDER BY seq"
    return [Entry(*row) for row in connection.execute(sql, (run, number))]


def append(connection: sqlite3.Connection, entries: Iterable[Entry]) -> None:
    """Insert entries and the keys of those that are releases; a second entry under the same key is an error."""
    new = list(entries)
    connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", [(each.seq, each.body, each.digest) for each in new])
    keys = [(*key, each.seq) for each in new if (key := key_of(each)) is not None]
    connection.executemany("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", keys)


def execute_beside(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[Any], *, is_reading: bool = False
) -> list[tuple[Any, ...]]:
    """Run one statement on tables beside the ledger's own, which it may read and cannot change."""
    connection.set_authorizer(_may_read if is_reading else _may_write)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.set_authorizer(None)


_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_CHANGING = _READING | {
    *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE),
    *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_REINDEX),
}
_OWN_TABLES = {"entries", "keys"}


def _may_read(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _may_write(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Allow what neither changes the ledger's tables or their schema, nor ends the transaction."""
    if action in _READING:
        return sqlite3.SQLITE_OK
    table = str(second if action == sqlite3.SQLITE_CREATE_INDEX else first).lower()
    return sqlite3.SQLITE_OK if action in _CHANGING and table not in _OWN_TABLES else sqlite3.SQLITE_DENY


def anchor_text(seq: int, digest: str) -> bytes:
    """Return the fixed-width line of the anchor file."""
    return f"{seq:016d} {digest}\n".encode()


@contextmanager
def locked_anchor(path: Path, *, is_writing: bool) -> Iterator[FileIO]:
    """Hold the anchor's lock alone and yield the open file; closing it, or the end of the process, frees the lock.

    SQLite's own locks belong to the process, and closing any other descriptor of the ledger in it drops them: a backup
    in another thread was enough to let two processes write at once. This lock belongs to the open file. It is taken
    before anything is recorded, so an anchor that cannot be written costs nothing.

    On Windows nobody else can read a locked anchor, not even this process under its path: use the file yielded here.
    """
    until = time.monotonic() + TIMEOUT
    while True:
        with _explained(f"The anchor file {path} cannot be opened", "Nothing was recorded; restore the file."):
            # NFS locks files only that are open for writing; elsewhere whoever may only read can lock, too.
            is_writable = is_writing or os.access(path, os.W_OK)
            file = FileIO(path, "r+" if is_writable else "r")
        with file:
            if _is_locked(file, path):
                yield file
                return
        if time.monotonic() > until:
            raise LedgerError(
                f"Another process kept the ledger of {path} locked beyond the timeout; nothing was recorded. Try again."
            )
        time.sleep(0.002)


def _is_locked(file: FileIO, path: Path) -> bool:
    """Lock the file if that is possible now and it is still the one at `path`."""
    advice = "Nothing was recorded; keep the ledger on a file system that supports locks."
    with _explained(f"The anchor file {path} cannot be locked", advice):
        is_free = lock_descriptor(file.fileno(), blocking=False)
        found = os.fstat(file.fileno())
    return is_free and (found.st_dev, found.st_ino) == identity(path)


@contextmanager
def undisturbed(path: Path) -> Iterator[tuple[int, str] | None]:
    """Keep writers away for a while and yield the anchor; without an anchor there is nothing to lock."""
    anchor = anchor_path(path)
    if not anchor.exists():
        yield None
        return
    with locked_anchor(anchor, is_writing=False) as file:
        yield read_anchor(file)


def write_anchor(file: FileIO, seq: int, digest: str) -> None:
    """Overwrite the anchor in place with one small write.

    It is not synced: after a power cut an older anchor may come back, and that is still an ancestor of the head,
    because the ledger itself was synced first.
    """
    advice = "Send nothing; free some space and ask again for the same, which spends nothing more."
    with _explained("The entry was recorded, but its anchor could not be written", advice):
        file.seek(0)
        file.write(anchor_text(seq, digest))


def read_anchor(file: FileIO) -> tuple[int, str]:
    """Return the sequence number and digest in a locked anchor."""
    with _explained(f"The anchor file {file.name} cannot be read", "Restore the file."):
        file.seek(0)
        found = _ANCHOR.fullmatch(file.read(_ANCHOR_BYTES + 1))
    if found is None:
        raise LedgerError(
            f"The anchor file {file.name} is damaged. If you know the ledger's head from a statement, move the file "
            "away and open with expected_head."
        )
    return int(found[1]), found[2].decode()


def new_key(path: Path) -> bytes:
    """Create the key file (mode 0600, durable) and return the key; the file must not exist."""
    key = secrets.token_bytes(KEY_BYTES)
    write_new(path, key.hex().encode() + b"\n")
    return key


def write_new(path: Path, content: bytes) -> None:
    """Create `path` for its owner only, write and sync; `LedgerError` if it exists or cannot be written."""
    with _explained(f"{path} cannot be created", "Choose another, writable location."):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_key(path: Path) -> bytes:
    """Return the key in `path`; `LedgerError` if it is missing, malformed or readable by others."""
    advice = (
        "Without it the ledger cannot check that the data are unchanged, so nothing can be released; restore the key "
        "file from a backup."
    )
    try:
        with _explained(f"The key file {path} cannot be read", advice):
            mode, text = path.stat().st_mode, path.read_text(encoding="ascii")
        key = bytes.fromhex(text.strip())
    except ValueError as error:
        raise LedgerError(f"The key file {path} is damaged; restore it from a backup.") from error
    if os.name == "posix" and mode & _NOT_OWNER:
        raise LedgerError(
            f"The key file {path} can be read by others (mode {stat.S_IMODE(mode):o}). With it and the ledger "
            f"anyone can test guesses of the data; run chmod 600 on it."
        )
    if len(key) != KEY_BYTES:
        raise LedgerError(f"The key file {path} does not hold {KEY_BYTES} bytes; restore it from a backup.")
    return key


def key_check(key: bytes) -> str:
    """Return a value that distinguishes a wrong key from changed data; it reveals neither (the key is random)."""
    return hashlib.blake2b(b"key", key=key, digest_size=16, person=b"dpadmm key v1").hexdigest()


def is_same(one: str, other: str) -> bool:
    """Return whether two fingerprints are equal, in constant time."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))
