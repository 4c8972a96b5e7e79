"""The key of a ledger's marks: which data it belongs to, without telling anyone what the data are.

Marks of data are keyed hashes, blake2b under a random 256-bit key that lives in a file of its own beside the ledger,
readable by its owner only. A plain or salted hash would let whoever reads the ledger test guesses of the data, and
the adversary of differential privacy knows every record but one, so a guess is cheap. Without the key the marks say
nothing. With the key *and* the ledger they confirm a guess: keep the key as well as you keep the data.
"""

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from dpadmm.errors import LedgerError

KEY_BYTES = 32
_NOT_OWNER = stat.S_IRWXG | stat.S_IRWXO


def new_key(path: Path) -> bytes:
    """Create the key file (mode 0600, durable) and return the key; the file must not exist."""
    key = secrets.token_bytes(KEY_BYTES)
    write_new(path, key.hex().encode() + b"\n")
    return key


def write_new(path: Path, content: bytes) -> None:
    """Create `path` for its owner only, write and sync; `LedgerError` if it exists or cannot be written."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise LedgerError(f"{path} cannot be created: {error.strerror}. Choose a new, writable place.") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_key(path: Path) -> bytes:
    """Return the key in `path`; `LedgerError` if it is missing, malformed or readable by others."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text)
    except OSError as error:
        raise LedgerError(
            f"The key file {path} cannot be read: {error.strerror}. Without it the ledger cannot tell whether the "
            "data are still the same, so nothing can be released; restore it from a backup."
        ) from error
    except ValueError as error:
        raise LedgerError(f"The key file {path} is damaged; restore it from a backup.") from error
    if os.name == "posix" and mode & _NOT_OWNER:
        raise LedgerError(
            f"The key file {path} can be read by others (mode {stat.S_IMODE(mode):o}). With it and the ledger "
            f"anyone can test guesses of the data; run chmod 600 on it."
        )
    if len(key) != KEY_BYTES:
        raise LedgerError(f"The key file {path} holds {len(key)} bytes instead of {KEY_BYTES}; restore it.")
    return key


def key_check(key: bytes) -> str:
    """Return a value that tells a wrong key from changed data; it says nothing about either (the key is random)."""
    return hashlib.blake2b(b"key", key=key, digest_size=16, person=b"dpadmm key v1").hexdigest()


def is_same(one: str, other: str) -> bool:
    """Return whether two fingerprints are equal, in constant time."""
    return hmac.compare_digest(one, other)
