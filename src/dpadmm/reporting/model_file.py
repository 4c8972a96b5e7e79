"""Saved models: one JSON or NPZ file, checked by a digest; never a pickle, so loading one runs no code."""

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.errors import InputError
from dpadmm.reporting.codec import decode, encode
from dpadmm.reporting.facts import SavedModel
from dpadmm.reporting.places import check_no_ledger

FORMAT = "dpadmm-model"
VERSION = 1
SUFFIXES = (".json", ".npz")
MOST_BYTES = 2**28  # a model is small; anything larger is something else
ROOM_BYTES = 2**20
"""Room tried before a run is paid for; more than models of the sizes seen in tests take."""


def to_bytes(model: SavedModel, suffix: str) -> bytes:
    """Return the file's content for `.json` or `.npz`."""
    document = encode(model)
    if suffix == ".json":
        return _signed(document)
    coefficients = np.array(model.coefficients, dtype=np.float64)
    rest = _signed(document | {"coefficients": []}, coefficients)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, document=np.frombuffer(rest, dtype=np.uint8), coefficients=coefficients)
    return buffer.getvalue()


def _signed(document: dict[str, Any], coefficients: Any = None) -> bytes:
    model = json.dumps(document, ensure_ascii=False, allow_nan=False)
    whole = {
        "format": FORMAT,
        "version": VERSION,
        "digest": _digest(document, coefficients),
        "model": json.loads(model),
    }
    return _utf8(json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1))


def _digest(document: Any, coefficients: Any = None) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    tail = b"" if coefficients is None else np.ascontiguousarray(coefficients, dtype="<f8").tobytes()
    return hashlib.sha256(_utf8(text) + tail).hexdigest()


def _utf8(text: str) -> bytes:
    """Return JSON text as bytes; what UTF-8 cannot hold becomes JSON's own escape, so a paid model is never lost."""
    return text.encode(errors="backslashreplace")


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a saved model; `InputError` for anything else, and nothing in the file is ever executed."""
    place = checked_suffix(Path(path))
    try:
        if place.stat().st_size > MOST_BYTES:
            raise InputError(f"{place} is larger than any model of this package. Give the file that `fit` wrote.")
        content = place.read_bytes()
    except OSError as error:
        raise InputError(f"{place} cannot be read: {error.strerror}. Give the file that `fit` wrote.") from error
    if content[:1] == b"\x80" or content[:2] in (b"cp", b"(d", b"(l"):
        raise InputError(f"{place} looks like a pickle, which can run code when opened. Only files of `fit` are read.")
    return _READERS[place.suffix](place, content)


def _from_json(place: Path, content: bytes) -> SavedModel:
    return _checked(place, content, None)


def _from_npz(place: Path, content: bytes) -> SavedModel:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            document, coefficients = archive["document"], archive["coefficients"]
            return _checked(place, document.tobytes(), np.asarray(coefficients, dtype=np.float64))
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(f"{place} is not a model of this package, or it is damaged: {error}.") from error


_READERS: dict[str, Callable[[Path, bytes], SavedModel]] = {".json": _from_json, ".npz": _from_npz}


def _checked(place: Path, content: bytes, coefficients: Any) -> SavedModel:
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not a model of this package, or it is damaged: no valid JSON in it.") from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise InputError(f"{place} is not a model of this package. Give the file that `fit` wrote.")
    if whole.get("version") != VERSION:
        raise InputError(f"{place} has model version {whole.get('version')!r}; this package reads version {VERSION}.")
    if not isinstance(whole.get("model"), dict) or whole.get("digest") != _digest(whole["model"], coefficients):
        raise InputError(f"{place} is damaged or was edited: its digest does not fit. Restore it from a copy.")
    document = whole["model"]
    if coefficients is not None:
        document = document | {"coefficients": coefficients.ravel().tolist()}
    model: SavedModel = decode(SavedModel, document, str(place))
    if len(model.coefficients) != model.schema.dimension:
        raise InputError(f"{place} has {len(model.coefficients)} coefficients for {model.schema.dimension} features.")
    return model


def checked_suffix(path: Path) -> Path:
    """Return the path if its ending says which format it is."""
    if path.suffix not in _READERS:
        raise InputError(f"A model file ends in {' or '.join(_READERS)}, got {str(path)!r}.")
    return path


def check_writable(path: Path, *, may_replace: bool = False, room: int = ROOM_BYTES) -> None:
    """Refuse, before anything is spent, a place where the result could not be written; never replaces a ledger."""
    if path.exists() and not may_replace:
        raise InputError(f"{path} is there already. Give a new name, or --force to replace it.")
    check_no_ledger(path)
    check_room(path, room)


def check_room(path: Path, room: int = ROOM_BYTES) -> None:
    """Refuse a folder that is not there, or where nothing can be written: really writes there."""
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give the name of a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist. Make it, or give another place.")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpadmm-room-") as trial:
            trial.write(b"\0" * room)
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}. Nothing was spent. Free some room or give another place."
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Write all or nothing: a new file beside the old one, synced, then renamed over it; never over a ledger."""
    check_no_ledger(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".dpadmm-new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_model(model: SavedModel, path: str | os.PathLike[str]) -> Path:
    """Save a model whose privacy is already paid for; return where it is.

    If the place has become unwritable meanwhile, the model goes to the folder for temporary files instead: what was
    paid for must not be lost. Compare the returned path with the one given.
    """
    place = checked_suffix(Path(path))
    content = to_bytes(model, place.suffix)
    try:
        write_file(place, content)
        return place
    except (OSError, InputError):
        handle, name = tempfile.mkstemp(prefix=f"{place.stem}-", suffix=place.suffix)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return Path(name)
