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
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from dpadmm import checks, codec
from dpadmm.codec import canonical
from dpadmm.errors import InputError, LedgerError
from dpadmm.files import parse_json
from dpadmm.privacy.releases import Release

GENESIS = "0" * 64
_T = TypeVar("_T")
_COMMON = ("seq", "time", "event")
Key = tuple[str, int, int, int]
"""What names a release: run, round, agent, slot."""


class Kind(Enum):
    """What an entry records."""

    CREATED = "created"
    RELEASE = "release"
    BUDGET = "budget"
    REFUSAL = "refusal"
    PROFILE = "profile"
    VERSION = "version"


@dataclass(frozen=True)
class Entry:
    """One line of the log; `seq` counts from 1, `body` is canonical JSON, `digest` its place in the chain."""

    seq: int
    body: str
    digest: str

    def content(self) -> dict[str, Any]:
        """Return the body as plain values."""
        with readable(self.seq):
            content = parse_json(self.body)
            Kind(content["event"])
            return dict(content)


@contextmanager
def readable(seq: int) -> Iterator[None]:
    """Turn a missing or malformed field of an entry into `LedgerError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise LedgerError(
            f"Entry {seq} cannot be understood ({type(error).__name__}): the ledger is damaged or was written by a "
            "newer version of dpadmm. Restore it from a backup, or use that version."
        ) from error


def read_record(kind: type[_T], content: Mapping[str, Any]) -> _T:
    """Return the record that an entry's content writes, besides its number, time and event."""
    return codec.decode(kind, {name: value for name, value in content.items() if name not in _COMMON})


def link(previous: str, body: str) -> str:
    """Return the digest of the entry `body` that follows `previous`."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


@dataclass
class Writer:
    """Makes the entries that follow (`seq`, `digest`), all with one time stamp (UTC)."""

    seq: int
    digest: str
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="microseconds"))

    def next(self, kind: Kind, record: Any) -> Entry:
        """Return the next entry, of a record or of plain values, and move on."""
        content = record if isinstance(record, dict) else codec.encode(record)
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
class Reservation:
    """One release asked for, with all that makes it unique; equal asks are the same message.

    `silo` is the name under which the ledger knows the silo whose data it is about; None stands for all of them.
    """

    run: str
    algorithm: str
    slot: int
    release: Release
    silo: str | None

    def __post_init__(self) -> None:
        """Refuse fewer releases than one: they would take from what is spent."""
        checks.count("count", self.release.count)

    @property
    def key(self) -> Key:
        """What names the message."""
        return self.run, self.release.round, self.release.agent, self.slot


def encode_release(release: Release) -> dict[str, Any]:
    """Return `release` as plain JSON values, its type under `"kind"`; `InputError` for anything else."""
    try:
        written = dict(codec.encode(release, Release))
    except InputError as problem:
        raise InputError(f"The release cannot be recorded: {problem}") from problem
    for name in vars(release):
        value = getattr(release, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"The release cannot be recorded: {name} must be a finite number, got {value!r}.")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(f"The release cannot be recorded: {name} must be a whole number of 64 bits.")
    return written
