"""The lines of the log: releases as canonical JSON, chained by their digests.

The same record always gives the same bytes, and the bytes give the record back. Objects have sorted keys and no blanks,
text is ASCII with escapes, and a float is written by its shortest decimal form that reads back to the same 64 bits. A
field declared as a float is written as one even if a whole number was stored in it, and -0.0 is written as 0.0, so
equal records are equal bytes.

Every entry's digest covers the digest before it and the entry's own canonical text:

    digest_k = SHA-256( digest_{k-1} || newline || body_k ),      digest_0 = 64 zeros

Changing, dropping or inserting an entry changes every later digest. The last one, the *head*, therefore stands for the
whole history: whoever wrote down an earlier head can later tell an edited or restored file from the true one.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_type_hints

from dpadmm import checks
from dpadmm.errors import InputError, LedgerError
from dpadmm.parsing import parse_json
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import KINDS, FixedSizeSampling, PoissonSampling, Release

GENESIS = "0" * 64
Key = tuple[str, int, int, int]
"""What names a release: run, round, agent, slot."""

_RELEASES: dict[str, type] = {cls.__name__: cls for cls in KINDS}
_SAMPLINGS: dict[str, type] = {cls.__name__: cls for cls in (PoissonSampling, FixedSizeSampling)}
_KIND = "kind"
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
_E = TypeVar("_E", bound=Enum)


class Kind(Enum):
    """What an entry records."""

    CREATED = "created"
    RELEASE = "release"
    BUDGET = "budget"
    REFUSAL = "refusal"
    PROFILE = "profile"
    ANSWER = "answer"
    VERSION = "version"


@dataclass(frozen=True)
class Entry:
    """One line of the log; `seq` counts from 1, `body` is canonical JSON, `digest` its place in the chain."""

    seq: int
    body: str
    digest: str

    def content(self) -> dict[str, Any]:
        """Return the body as plain values."""
        try:
            content = parse_json(self.body)
            Kind(content["event"])
        except (TypeError, ValueError, KeyError) as error:
            raise LedgerError(
                f"Entry {self.seq} cannot be read ({type(error).__name__}); it is damaged or was written by a newer "
                "version of dpadmm. Restore the ledger from a backup, or use that version."
            ) from error
        return dict(content)


def link(previous: str, body: str) -> str:
    """Return the digest of the entry `body` that follows `previous`."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


@dataclass
class Writer:
    """Makes the entries that follow (`seq`, `digest`), all with one time stamp (UTC)."""

    seq: int
    digest: str
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))

    def next(self, kind: Kind, content: dict[str, Any]) -> Entry:
        """Return the next entry and move on."""
        body = canonical(content | {"seq": self.seq + 1, "time": self.time, "event": kind.value})
        self.seq, self.digest = self.seq + 1, link(self.digest, body)
        return Entry(self.seq, body, self.digest)


@dataclass
class Reader:
    """Follows the chain and refuses an entry that does not continue it."""

    seq: int = 0
    digest: str = GENESIS

    def check(self, entry: Entry) -> None:
        """Raise `LedgerError` unless `entry` continues the chain."""
        if entry.seq != self.seq + 1 or entry.digest != link(self.digest, entry.body):
            raise LedgerError(
                f"Entry {entry.seq} does not continue the chain after entry {self.seq}: the ledger was edited or is "
                "damaged. Nothing was changed; restore the ledger from a backup."
            )

    def move_to(self, entry: Entry) -> None:
        """Go on to a checked entry."""
        self.seq, self.digest = entry.seq, entry.digest


def key_of(entry: Entry) -> Key | None:
    """Return (run, round, agent, slot) of a release's entry, None for any other event."""
    content = entry.content()
    if Kind(content["event"]) is not Kind.RELEASE:
        return None
    release = content["release"]
    return content["run"], release["round"], release["agent"], content["slot"]


def check_text(name: str, value: str) -> None:
    """Refuse a name or reason that nobody could read in the log."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{name} must be non-empty printable text, got {value!r}.")


@dataclass(frozen=True)
class Ask:
    """One release asked for, with all that makes it unique; equal asks are the same message.

    `silo` is the name under which the ledger knows the silo whose data it is about; None stands for all of them.
    `written`: the release as `encode_release` writes it, where that is at hand.
    """

    run: str
    algorithm: str
    slot: int
    release: Release
    silo: str | None
    written: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> Key:
        """What names the message."""
        return self.run, self.release.round, self.release.agent, self.slot

    def content(self) -> dict[str, Any]:
        """Return the ask as plain values."""
        return {
            "run": self.run,
            "algorithm": self.algorithm,
            "slot": self.slot,
            "silo": self.silo,
            "release": encode_release(self.release) if self.written is None else self.written,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Ask":
        """Return the ask that `content` wrote."""
        release = decode_release(content["release"])
        for name in ("run", "algorithm"):
            read_text(content[name])
        _read_int(content["slot"])
        checks.count("count", release.count)  # fewer would take from what is spent
        return cls(content["run"], content["algorithm"], content["slot"], release, _OPTIONAL_TEXT.read(content["silo"]))


def canonical(value: Mapping[str, Any]) -> str:
    """Return the one JSON text of `value` (sorted keys, no blanks, ASCII, no NaN or infinity).

    >>> canonical({"b": 1.0, "a": "x"})
    '{"a":"x","b":1.0}'
    """
    return _ENCODER.encode(value)


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


@dataclass(frozen=True)
class _FieldCodec:
    """How the values of one declared type are written and read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class _Layout:
    """The fields of a record: how each is written and read, which must be there, which are left out at a default."""

    codecs: Mapping[str, _FieldCodec]
    required: frozenset[str]
    later: Mapping[str, Any]


def _write_record(record: Any) -> dict[str, Any]:
    written: dict[str, Any] = {_KIND: type(record).__name__}
    cls: type = type(record)
    layout = _layout(cls)
    for name, codec in layout.codecs.items():
        value = getattr(record, name)
        if name in layout.later and value == layout.later[name]:
            continue
        try:
            written[name] = codec.write(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{type(record).__name__}.{name} cannot be recorded: {error} Give a value of its declared type."
            ) from error
    return written


def _read_record(cls: type, value: Mapping[str, Any]) -> Any:
    if not isinstance(value, Mapping):
        raise LedgerError(f"A recorded {cls.__name__} is something else. Restore the ledger from a backup.")
    layout = _layout(cls)
    codecs, given = layout.codecs, value.keys() - {_KIND}
    unknown, missing = sorted(given - codecs.keys()), sorted(layout.required - given)
    if unknown or missing:
        raise LedgerError(
            f"A recorded {cls.__name__} has unknown fields {unknown} and lacks {missing}; it was written by a "
            "different version of dpadmm. Use that version or a newer one."
        )
    try:
        return cls(**{name: codecs[name].read(value[name]) for name in codecs if name in value})
    except (TypeError, ValueError, KeyError) as error:
        raise LedgerError(
            f"A recorded {cls.__name__} cannot be read: {error} Restore the ledger from a backup."
        ) from error


def _read_tagged(kinds: Mapping[str, type], value: Mapping[str, Any]) -> Any:
    kind = value.get(_KIND) if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise LedgerError(
            f"The record kind {checks.shown(kind)} is unknown; known kinds are {', '.join(sorted(kinds))}. The ledger "
            "may have been written by a newer version of dpadmm: use that one."
        )
    return _read_record(kinds[kind], value)


@cache
def _layout(cls: type) -> _Layout:
    """Return the layout of `cls`; codecs go by the declared types, so that a new record needs no new code."""
    hints, own = get_type_hints(cls), fields(cls)
    return _Layout(
        codecs={f.name: _codec_of(cls, f.name, hints[f.name]) for f in own},
        required=frozenset(f.name for f in own if f.default is MISSING and f.default_factory is MISSING),
        later={f.name: f.default for f in own if f.metadata.get("later")},
    )


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


def _read_float(value: Any) -> float:
    return checks.finite("it", value)


def _read_int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("a whole number is something else.")
    return value


def read_text(value: Any) -> str:
    """Return a recorded text; `TypeError` if it is something else."""
    if not isinstance(value, str):
        raise TypeError("a text is something else.")
    return value


_FLOAT = _FieldCodec(write=_write_float, read=_read_float)
_INT = _FieldCodec(write=_write_int, read=_read_int)
_TEXT = _FieldCodec(write=_write_text, read=read_text)
_OPTIONAL_TEXT = _optional(_TEXT)

_BY_TYPE: dict[Any, _FieldCodec] = {
    float: _FLOAT,
    int: _INT,
    str: _TEXT,
    float | None: _optional(_FLOAT),
    int | None: _optional(_INT),
    str | None: _OPTIONAL_TEXT,
    tuple[str, ...]: _FieldCodec(
        write=lambda texts: [_write_text(text) for text in texts],
        read=lambda texts: tuple(read_text(text) for text in texts),
    ),
    Certificate: _FieldCodec(write=_write_record, read=lambda value: _read_record(Certificate, value)),
    PoissonSampling | FixedSizeSampling: _FieldCodec(
        write=_write_record, read=lambda value: _read_tagged(_SAMPLINGS, value)
    ),
}
