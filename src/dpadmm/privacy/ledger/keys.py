"""Which data a ledger belongs to, without telling anyone what the data are.

The fingerprint is a keyed hash, blake2b under a random 256-bit key that lives in a file of its own beside the ledger,
readable by its owner only. A plain or salted hash would let whoever reads the ledger test guesses of the data, and
the adversary of differential privacy knows every record but one, so a guess is cheap. Without the key the fingerprint
says nothing. With the key *and* the ledger it confirms a guess: keep the key as well as you keep the data.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm.errors import InputError, LedgerError

KEY_BYTES = 32
_NOT_OWNER = stat.S_IRWXG | stat.S_IRWXO
_INT64_MAX = 2**63 - 1


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


def fingerprint(data: Mapping[str, ArrayLike], key: bytes) -> str:
    """Return the keyed hash of named arrays.

    The names, shapes and values count, and the order of the rows; the order of the names, the memory layout, the byte
    order and the width of the number type do not: 1 stored in 32 or in 64 bits is the same 1. Numbers, booleans and
    text are allowed, missing floats (NaN) too.

    >>> key = bytes(32)
    >>> a = fingerprint({"y": [1, 0], "x": [[0.5], [2.0]]}, key)
    >>> a == fingerprint({"x": np.array([[0.5], [2.0]], dtype=np.float32), "y": np.array([1, 0], np.int8)}, key)
    True
    >>> a == fingerprint({"x": [[2.0], [0.5]], "y": [1, 0]}, key)
    False
    """
    if not isinstance(data, Mapping) or not data:
        raise InputError(f"data must be a non-empty mapping of names to arrays, got {type(data).__name__}.")
    digest = hashlib.blake2b(key=key, digest_size=32, person=b"dpadmm data v1")
    for name in sorted(data):
        array = np.asarray(data[name])
        tag, content = _canonical_bytes(name, array)
        encoded = name.encode()
        shape = b"".join(_length(size) for size in array.shape)
        # Every part has its length in front or a fixed width, so no two different data sets give the same bytes.
        digest.update(_length(len(encoded)) + encoded + tag + _length(array.ndim) + shape)
        digest.update(content)
    return digest.hexdigest()


def is_same(one: str, other: str) -> bool:
    """Return whether two fingerprints are equal, in constant time."""
    return hmac.compare_digest(one, other)


def _length(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _floats(array: NDArray[Any]) -> NDArray[Any]:
    values = np.array(array, dtype="<f8", order="C") + 0.0  # -0.0 becomes 0.0
    return np.where(np.isnan(values), np.nan, values)  # one NaN, whatever its payload


def _unsigned(array: NDArray[Any]) -> NDArray[Any]:
    small = array.size == 0 or int(array.max()) <= _INT64_MAX
    return np.asarray(array, dtype="<i8" if small else "<u8", order="C")


_NUMBERS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "b": lambda array: np.asarray(array, dtype="?", order="C"),
    "i": lambda array: np.asarray(array, dtype="<i8", order="C"),
    "u": _unsigned,
    "f": _floats,
}


def _canonical_bytes(name: str, array: NDArray[Any]) -> tuple[bytes, Any]:
    """Return a three-byte tag of the kind of values, and the values as bytes."""
    convert = _NUMBERS.get(array.dtype.kind)
    if convert is not None and array.dtype.itemsize <= 8:
        values = convert(array)
        return values.dtype.str.encode().ljust(3), np.ascontiguousarray(values).tobytes()
    texts: list[Any] = array.ravel().tolist() if array.dtype.kind in "UO" else [None]
    if not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"data[{name!r}] has values of type {array.dtype}; a fingerprint takes booleans, whole numbers, floats of "
            "up to 64 bits and text. Convert the rest (sparse to dense, dates to numbers or text)."
        )
    encoded = [text.encode() for text in texts]
    return b"txt", b"".join(_length(len(text)) + text for text in encoded)
