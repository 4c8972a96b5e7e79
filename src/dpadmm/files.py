"""Files: those that somebody else may have written, read within limits; and files that are written whole or not at all.

The texts are JSON and TOML, the others archives of arrays. Whatever is wrong becomes an `InputError` with a clause that
quotes no value of the file, such as "it is not UTF-8 text". The caller adds which file it is, and what to do.
"""

import io
import json
import math
import os
import threading
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpadmm.checks import safe_repr
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_BYTES = 2**28
"""Of a file, and of all that it unpacks to: whatever is larger is none of this package's."""

MOST_LEVELS = 64
MOST_DIGITS = 308
"""Of a whole number, so that it is a finite number as a float as well."""

_DAMAGED_ARCHIVE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, OverflowError, MemoryError),
    *(RuntimeError, SyntaxError, Warning, tokenize.TokenError, zlib.error, zipfile.BadZipFile),
)
_LARGEST, _MANY_DIGITS = 10**MOST_DIGITS, f"it has a whole number of more than {MOST_DIGITS} digits"
_LEVELS = f"it is nested more than {MOST_LEVELS} levels deep"


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return what a file holds."""
    try:
        with path.open("rb") as file:
            chunks, left = [], most + 1
            while left and (chunk := file.read(min(left, 2**20))):  # one read would set so much memory aside
                chunks.append(chunk)
                left -= len(chunk)
    except (OSError, ValueError) as problem:  # ValueError: a path with a null character
        why = problem.strerror if isinstance(problem, OSError) else None
        raise InputError(why or "its name is not that of a file") from problem
    if not left:
        raise InputError(f"it has more than {most:,} bytes")
    return b"".join(chunks)


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file in UTF-8."""
    return _decoded(read_bytes(path, most))


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text: no key twice in an object, no number that is not finite.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1e999}')
    Traceback (most recent call last):
    dpadmm.errors.InputError: it has a number that is too large
    """
    try:
        value = _JSON.decode(text if isinstance(text, str) else _decoded(text))
    except json.JSONDecodeError as problem:
        raise InputError(f"it is not valid JSON: {problem}") from problem
    except RecursionError as problem:
        raise InputError(_LEVELS) from problem
    _check_values(value)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; no number that is not finite.

    >>> parse_toml("a = [1, 2.5]")
    {'a': [1, 2.5]}
    """
    try:
        values = tomllib.loads(text, parse_float=_float)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"it is not valid TOML: {problem}") from problem
    except InputError:
        raise
    except ValueError as problem:  # of thousands of digits, or a day that no month has
        raise InputError("it is not valid TOML: a number or a date is out of range") from problem
    except RecursionError as problem:
        raise InputError(_LEVELS) from problem
    _check_values(values)
    return values


def read_arrays(
    content: bytes, names: Iterable[str] | None = None, most: int = MOST_BYTES
) -> "dict[str, NDArray[Any]]":
    """Return the arrays of an `.npz` archive by name, all of them or those that must be there; never a pickle.

    most: bytes that it may unpack to. An archive that `np.savez` wrote is not compressed: its own length is enough.
    """
    import numpy as np  # late: whoever reads texts alone does not need it

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > most:
                raise InputError(f"it unpacks to more than {most:,} bytes")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            found = {name: file[name] for name in (file.files if names is None else names)}
    except InputError:
        raise
    except _DAMAGED_ARCHIVE as problem:
        raise InputError("it is not an archive of the expected arrays") from problem
    if not all(isinstance(array, np.ndarray) for array in found.values()):  # of a member that is no array
        raise InputError("it is not an archive of the expected arrays")
    return found


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError("it is not UTF-8 text") from problem


def _float(digits: str) -> float:
    number = float(digits)
    if math.isnan(number) or digits.lstrip("+-") == "inf":
        raise InputError("it has a number that is not finite")
    if math.isinf(number):
        raise InputError("it has a number that is too large")
    return number


def _int(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise InputError(_MANY_DIGITS)
    return int(digits)


def _constant(name: str) -> Any:
    raise InputError(f"it has the number {name}, which is not finite")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"it has the key {safe_repr(twice)} twice in one object")
    return made


_JSON = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=_constant, object_pairs_hook=_object)


def _check_values(value: Any) -> None:
    """Refuse too many levels of lists and objects, and whole numbers of too many digits."""
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        inner = [part for part in level if isinstance(part, dict | list)]
        if not inner:
            return
        level = [part for each in inner for part in (each.values() if isinstance(each, dict) else each)]
        if any(isinstance(part, int) and abs(part) >= _LARGEST for part in level):
            raise InputError(_MANY_DIGITS)
    raise InputError(_LEVELS)


def write_atomic(path: Path, content: bytes, mode: int = 0o666, *, may_replace: bool = True) -> None:
    """Write a file, durably and all or nothing; mode: its permissions, less those that the umask takes away.

    `FileExistsError` where there is one that may not be replaced.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    try:
        draft.unlink(missing_ok=True)  # of a process that had this number and was killed
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if may_replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # fails if there is one, and never shows half of one
        sync_directory(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def sync_directory(directory: Path) -> None:
    """Make what was created or renamed in it durable."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows, where a directory cannot be opened
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
