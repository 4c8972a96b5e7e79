"""Another identity key for a silo or a coordinator, so that one is in use at every moment; and whose state this is.

The next key is made beside the one in use, which stays until the last step, a rename. A silo's state file says which
key it belongs to: a state from before the change under the new key, or the other way round, is recognised. The other
silos could not tell, because they know a silo by its key.
"""

import os
import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from dpadmm.errors import ResumeError
from dpadmm.federation.keys import SigningKey, fingerprint
from dpadmm.files import sync_directory

_KEY = re.compile("[0-9a-f]{64}")


def next_place(path: Path) -> Path:
    """Return where the next key is kept until it is used."""
    return path.with_name(path.name + ".next")


def next_key(path: Path) -> SigningKey:
    """Return the key that comes after the one in `path`; one that an interrupted change has left is taken."""
    place = next_place(path)
    key = SigningKey.load(place) if place.exists() else SigningKey.create(place)
    sync_directory(place.parent)  # before anything says that it is the one
    return key


def put_into_use(path: Path, *, is_old_kept: bool) -> Path | None:
    """Let the next key take the place of the one in `path`; return where that is kept now, None if it is destroyed."""
    aside = path.with_name(f"{path.stem}-{datetime.now(UTC):%Y-%m-%d}-{_short(path)}{path.suffix}")
    for copy in path.parent.glob(f"{path.stem}-*-{_short(path)}{path.suffix}"):  # of a change that was interrupted
        copy.unlink()
    with path.open("r+b") as old:
        if is_old_kept:
            os.link(path, aside)
        sync_directory(path.parent)
        os.replace(next_place(path), path)
        sync_directory(path.parent)
        if not is_old_kept:  # it has no name any more
            old.write(bytes(os.fstat(old.fileno()).st_size))
            old.flush()
            os.fsync(old.fileno())
    return aside if is_old_kept else None


def _short(path: Path) -> str:
    return fingerprint(SigningKey.load(path).public)[:8]


def known_key(connection: sqlite3.Connection) -> str:
    """Return the key that a state file belongs to."""
    row = connection.execute("SELECT key FROM identity").fetchone()
    if row is None or not _KEY.fullmatch(str(row[0])):
        raise ResumeError("What the state file keeps of its key is damaged. Restore it from a backup.")
    return str(row[0])


def set_key(connection: sqlite3.Connection, public: str) -> None:
    """Let a state file belong to this key; who calls holds the file."""
    connection.execute("DELETE FROM identity")
    connection.execute("INSERT INTO identity VALUES (?)", (public,))


def check_key(connection: sqlite3.Connection, state: Path, path: Path, key: SigningKey) -> None:
    """Refuse a key that the state file does not belong to."""
    known = known_key(connection)
    if known != key.public:
        place = next_place(path)
        if place.exists() and SigningKey.load(place).public == known:
            raise ResumeError(
                f"The change of the key in {path.parent} was interrupted. Run the command again to finish it: `dpadmm "
                f"silo rotate-key {path.parent}`."
            )
        raise ResumeError(
            f"{state} belongs to the key {fingerprint(known)}, but {path} is {fingerprint(key.public)}: one of them is "
            "an older copy. Restore the newest copy of all of them."
        )
