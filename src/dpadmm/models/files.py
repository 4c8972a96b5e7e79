"""Files of results: where they may be written, never over a ledger or what a command reads; and what is in a model's.

A model's file is a signed document, JSON or NPZ: facts, read by the codec and checked by a digest. It is
never a pickle, and nothing in it is ever executed.
"""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.checks import option_name, safe_repr
from dpadmm.codec import canonical, decode, encode, register_form
from dpadmm.core.model import ReleasedModel
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.files import parse_json, read_arrays, read_bytes, write_atomic
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import ReleasedLoss

VERSIONS = {"model": 6, "evaluation": 1}
"""Of each kind of document, the only one that is written and read."""

SUFFIXES = (".json", ".npz")
TRIAL_BYTES = 2**20
"""Room tried before a run is paid for; more than models of the sizes seen in tests take."""

_LEDGER_START = b"SQLite format 3\0"
_COMPANIONS = (".key", ".head", "-journal", "-wal", "-shm", ".new")


def ledger_files(path: Path) -> tuple[Path, ...]:
    """Return the ledger and all files that belong to it, there or not, beside its name and beside what that links to.

    >>> [each.name for each in ledger_files(Path("/none/a"))][:4]
    ['a', 'a.key', 'a.head', 'a-journal']
    """
    ledgers = dict.fromkeys((path, Path(os.path.realpath(path))))
    return tuple(ledger.with_name(ledger.name + end) for ledger in ledgers for end in ("", *_COMPANIONS))


def check_apart(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None], ledger: Path | None = None) -> None:
    """Refuse outputs that are the same file as another output, an input, or a file of the ledger.

    No file of the ledger may be an input either. Links are followed. `outputs` are paths by the names of their
    settings, None where nothing is written.
    """
    wanted = {option_name(name): path for name, path in outputs.items() if path is not None}
    kept = [path for path in inputs if path is not None]
    parts = ledger_files(ledger) if ledger is not None else ()
    for place, (name, path) in enumerate(wanted.items()):
        for other, another in list(wanted.items())[:place]:
            if _is_same(path, another):
                raise InputError(
                    f"{other} and {name} are the same file, {path}, so one would replace the other. {_APART}"
                )
        if any(_is_same(path, each) for each in kept):
            raise InputError(f"{name} {path} is a file that this command reads, so it would be replaced. {_APART}")
        if any(_is_same(path, each) for each in parts):
            raise InputError(f"{name} {path} belongs to the ledger {ledger}, which must not be replaced. {_APART}")
    if any(_is_same(part, each) for part in parts for each in kept):
        raise InputError(
            f"{option_name('ledger')} {ledger} is, or would overwrite, a file that this command reads. {_APART}"
        )


_APART = "Nothing was read or spent. Give another name."


def _is_same(one: Path, other: Path) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


def check_no_ledger(path: Path) -> None:
    """Refuse to replace a ledger or its key or anchor, whatever the command: what it remembers cannot be had again."""
    for place in dict.fromkeys((path, Path(os.path.realpath(path)))):
        owners = [place, *(place.with_name(place.name.removesuffix(end)) for end in _COMPANIONS if _has(place, end))]
        if any(_is_ledger(owner) for owner in owners):
            raise InputError(f"{path} is part of a ledger, which is never replaced. Give another name.")


def _has(place: Path, end: str) -> bool:
    return place.name.endswith(end) and place.name != end


def _is_ledger(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_LEDGER_START)) == _LEDGER_START
    except OSError:
        return False


def check_writable(path: Path, *, may_replace: bool = False) -> None:
    """Refuse, before anything is spent, a place where the result could not be written; never replaces a ledger."""
    if path.exists() and not may_replace:
        raise InputError(f"{path} exists already. Give a new name, or add {option_name('force', True)} to replace it.")
    check_no_ledger(path)
    check_space(path)


def check_space(path: Path) -> None:
    """Refuse a folder that is not there, or where nothing can be written: really writes there."""
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give the name of a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist. Create it, or give another place.")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpadmm-trial-") as trial:
            trial.write(b"\0" * TRIAL_BYTES)
            trial.flush()
            os.fsync(trial.fileno())
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}. Nothing was spent. Free some space or give another place."
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Write durably and all or nothing; never over a ledger."""
    check_no_ledger(path)
    write_atomic(path, content)


def write_or_keep(path: Path, content: bytes) -> Path:
    """Write what is paid for and must not be lost: if not there, in the folder for temporary files. Return where."""
    try:
        write_file(path, content)
        return path
    except (OSError, InputError):
        handle, name = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=path.suffix)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        return Path(name)


register_form(Schema, lambda schema: json.loads(schema.to_json()), lambda plain: Schema.from_json(json.dumps(plain)))


def to_bytes(facts: dict[str, Any], suffix: str) -> bytes:
    """Return the content of a `.json` or `.npz` file; in an archive the coefficients are an array of their own."""
    if suffix == ".json":
        return sign_facts(facts)
    coefficients = np.array(facts["coefficients"], dtype=np.float64)
    rest = sign_facts(facts | {"coefficients": []}, coefficients)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, document=np.frombuffer(rest, dtype=np.uint8), coefficients=coefficients)
    return buffer.getvalue()


def sign_facts(facts: dict[str, Any], coefficients: Floats | None = None, kind: str = "model") -> bytes:
    """Return facts as JSON text with their digest.

    What UTF-8 cannot hold becomes JSON's own escape, so that what is paid for is never lost.
    """
    digest = digest_of(facts, coefficients)
    whole = {"format": f"dpadmm-{kind}", "version": VERSIONS[kind], "digest": digest, kind: facts}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=1).encode(errors="backslashreplace")


def digest_of(facts: Any, coefficients: Floats | None = None) -> str:
    """Return the SHA-256 of the facts, however they are laid out, and of an archive's coefficients."""
    tail = b"" if coefficients is None else np.ascontiguousarray(coefficients, dtype="<f8").tobytes()
    return hashlib.sha256(canonical(facts).encode() + tail).hexdigest()


def read_facts(place: Path) -> dict[str, Any]:
    """Return the facts of a model's file; `InputError` for anything else, and nothing in the file is ever executed."""
    content = read_document(check_suffix(place))
    if content[:1] == b"\x80" or content[:2] in (b"cp", b"(d", b"(l"):
        raise InputError(f"{place} looks like a pickle, which can run code when opened. Only model files are read.")
    return _from_npz(place, content) if place.suffix == ".npz" else check_facts(place, content)


def read_document(place: Path, kind: str = "model") -> bytes:
    """Return the content of a file that should hold a document of this kind."""
    try:
        return read_bytes(place)
    except InputError as problem:
        raise InputError(f"{place} cannot be read: {problem}. Give a file of a released {kind}.") from problem


def check_suffix(path: Path) -> Path:
    """Return the path if its ending says which format it is."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"A model file ends in {' or '.join(SUFFIXES)}, got {str(path)!r}.")
    return path


def _from_npz(place: Path, content: bytes) -> dict[str, Any]:
    try:
        found = read_arrays(content, ("document", "coefficients"))
    except InputError as problem:
        raise InputError(f"{place} is not a model of this package, or it is damaged: {problem}.") from problem
    document, coefficients = found["document"], found["coefficients"]
    if document.dtype != np.uint8 or coefficients.dtype != np.float64 or not np.isfinite(coefficients).all():
        raise InputError(f"{place} is damaged: its arrays are not those of a model. Restore it from a copy.")
    return check_facts(place, document.tobytes(), coefficients)


def check_facts(place: Path, content: bytes, coefficients: Floats | None = None, kind: str = "model") -> dict[str, Any]:
    """Return the facts of a document whose format, version and digest are right."""
    article = "an" if kind[0] in "aeiou" else "a"
    try:
        whole = parse_json(content)
    except InputError as problem:
        raise InputError(f"{place} is not {article} {kind} of this package, or it is damaged: {problem}.") from problem
    if not isinstance(whole, dict) or whole.get("format") != f"dpadmm-{kind}":
        raise InputError(f"{place} is not {article} {kind} of this package. Give a file of a released {kind}.")
    if whole.get("version") != VERSIONS[kind]:
        raise InputError(
            f"{place} has {kind} version {safe_repr(whole.get('version'))}; this package reads version "
            f"{VERSIONS[kind]} "
            f"only. Make the {kind} again, or use the package that wrote it."
        )
    facts = whole.get(kind)
    if not isinstance(facts, dict) or whole.get("digest") != digest_of(facts, coefficients):
        raise InputError(f"{place} is damaged or was edited: its digest does not fit. Restore it from a copy.")
    if coefficients is not None:
        facts = facts | {"coefficients": coefficients.ravel().tolist()}
    return facts


def save_model(model: ReleasedModel, path: Path) -> Path:
    """Write a model that is paid for; return where it is, which is elsewhere if the place cannot be written."""
    check_suffix(path)
    return write_or_keep(path, to_bytes(encode(model), path.suffix))


def load_model(place: Path) -> ReleasedModel:
    """Read a saved model; `InputError` for anything else, and nothing in the file is ever executed."""
    try:
        facts = read_facts(place)
        model: ReleasedModel = decode(ReleasedModel, facts, str(place))
        if encode(model.loss, ReleasedLoss) != facts["loss"]:
            raise InputError(f"{place}.loss must state every parameter: what was fitted is never a default.")
    except InputError as problem:
        if str(place) in str(problem):
            raise
        raise InputError(f"{place}: {problem}") from problem
    return model
