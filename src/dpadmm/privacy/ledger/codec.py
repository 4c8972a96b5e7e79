"""Releases as canonical JSON: the same record always gives the same bytes, and the bytes give the record back.

Objects have sorted keys and no blanks, text is ASCII with escapes, and a float is written by its shortest decimal
form that reads back to the same 64 bits. A field declared as a float is written as one even if a whole number was
stored in it, and -0.0 is written as 0.0, so equal records are equal bytes.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_type_hints

from dpadmm import checks
from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.records import KINDS, Certificate, FixedSizeSampling, PoissonSampling, Release

_RELEASES: dict[str, type] = {cls.__name__: cls for cls in KINDS}
_SAMPLINGS: dict[str, type] = {cls.__name__: cls for cls in (PoissonSampling, FixedSizeSampling)}
_KIND = "kind"
_E = TypeVar("_E", bound=Enum)


@dataclass(frozen=True)
class _FieldCodec:
    """How the values of one declared type are written and read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def canonical(value: Mapping[str, Any]) -> str:
    """Return the one JSON text of `value` (sorted keys, no blanks, ASCII, no NaN or infinity).

    >>> canonical({"b": 1.0, "a": "x"})
    '{"a":"x","b":1.0}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def encode_release(release: Release) -> dict[str, Any]:
    """Return `release` as plain JSON values, its type under `"kind"`.

    Raises `InputError` for anything that is not one of the release types, or that holds a number that is not finite.
    """
    if type(release).__name__ not in _RELEASES:
        raise InputError(f"A release must be one of {', '.join(sorted(_RELEASES))}, got {type(release).__name__}.")
    return _write_record(release)


def decode_release(value: Mapping[str, Any]) -> Release:
    """Return the release that `encode_release` wrote; `LedgerError` for an unknown kind or unknown fields."""
    return _read_tagged(_RELEASES, value)


def _write_record(record: Any) -> dict[str, Any]:
    written: dict[str, Any] = {_KIND: type(record).__name__}
    cls: type = type(record)
    for name, codec in _field_codecs(cls).items():
        try:
            written[name] = codec.write(getattr(record, name))
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{type(record).__name__}.{name} cannot be recorded: {error} Give a value of its declared type."
            ) from error
    return written


def _read_record(cls: type, value: Mapping[str, Any]) -> Any:
    codecs = _field_codecs(cls)
    unknown = sorted(set(value) - set(codecs) - {_KIND})
    # A field added to a record later has a default: entries written before it read back with that default.
    required = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    missing = sorted(required - set(value))
    if unknown or missing:
        raise LedgerError(
            f"A recorded {cls.__name__} has unknown fields {unknown} and lacks {missing}; "
            "it was written by another version of dpadmm. Use that version or a newer one."
        )
    try:
        return cls(**{name: codecs[name].read(value[name]) for name in codecs if name in value})
    except (TypeError, ValueError, KeyError) as error:
        raise LedgerError(
            f"A recorded {cls.__name__} cannot be read: {error} Restore the ledger from a backup."
        ) from error


def _read_tagged(kinds: Mapping[str, type], value: Mapping[str, Any]) -> Any:
    kind = str(value.get(_KIND))
    if kind not in kinds:
        raise LedgerError(
            f"A record of kind {kind!r} is unknown; known are {', '.join(sorted(kinds))}. "
            "The ledger may have been written by a newer version of dpadmm: use that one."
        )
    return _read_record(kinds[kind], value)


@cache
def _field_codecs(cls: type) -> dict[str, _FieldCodec]:
    """The codec of every field of `cls`, chosen by its declared type so that a new record needs no new code."""
    hints = get_type_hints(cls)
    return {f.name: _codec_of(cls, f.name, hints[f.name]) for f in fields(cls)}


def _codec_of(owner: type, name: str, declared: Any) -> _FieldCodec:
    if isinstance(declared, type) and issubclass(declared, Enum):
        return _enum_codec(declared)
    if declared not in _BY_TYPE:
        raise TypeError(f"{owner.__name__}.{name} is declared {declared}, for which the ledger has no codec.")
    return _BY_TYPE[declared]


def _enum_codec(declared: type[_E]) -> _FieldCodec:
    return _FieldCodec(write=lambda member: declared(member).value, read=declared)


def _write_float(value: Any) -> float:
    return checks.finite("it", value) + 0.0  # -0.0 + 0.0 is 0.0


def _write_int(value: Any) -> int:
    number = int(value)
    if number != value or not -(2**63) <= number < 2**63:
        raise ValueError(f"{value!r} is not a whole number of 64 bits.")
    return number


def _write_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text.")
    return str(value)


def _optional(codec: _FieldCodec) -> _FieldCodec:
    return _FieldCodec(
        write=lambda value: None if value is None else codec.write(value),
        read=lambda value: None if value is None else codec.read(value),
    )


_FLOAT = _FieldCodec(write=_write_float, read=float)
_INT = _FieldCodec(write=_write_int, read=int)
_TEXT = _FieldCodec(write=_write_text, read=str)

_BY_TYPE: dict[Any, _FieldCodec] = {
    float: _FLOAT,
    int: _INT,
    str: _TEXT,
    float | None: _optional(_FLOAT),
    int | None: _optional(_INT),
    str | None: _optional(_TEXT),
    tuple[str, ...]: _FieldCodec(write=lambda texts: [_write_text(text) for text in texts], read=tuple),
    Certificate: _FieldCodec(write=_write_record, read=lambda value: _read_record(Certificate, value)),
    PoissonSampling | FixedSizeSampling: _FieldCodec(
        write=_write_record, read=lambda value: _read_tagged(_SAMPLINGS, value)
    ),
}
