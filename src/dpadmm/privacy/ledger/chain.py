"""The log as a hash chain: every entry's digest covers the digest before it and the entry's own canonical text.

    digest_k = SHA-256( digest_{k-1} || newline || body_k ),      digest_0 = 64 zeros

Changing, dropping or inserting an entry changes every later digest. The last one, the *head*, therefore stands for the
whole history: whoever wrote down an earlier head can later tell an edited or restored file from the true one.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger.codec import canonical

GENESIS = "0" * 64
_ANCHOR = re.compile(rb"(\d{16}) ([0-9a-f]{64})\n")


class Kind(Enum):
    """What an entry records."""

    CREATED = "created"
    RELEASE = "release"
    BUDGET = "budget"
    REFUSAL = "refusal"
    MIGRATION = "migration"


@dataclass(frozen=True)
class Entry:
    """One line of the log; `seq` counts from 1, `body` is canonical JSON, `digest` its place in the chain."""

    seq: int
    body: str
    digest: str

    def content(self) -> dict[str, Any]:
        """Return the body as plain values."""
        try:
            content = json.loads(self.body)
            Kind(content["event"])
        except (TypeError, ValueError, KeyError) as error:
            raise LedgerError(
                f"Entry {self.seq} cannot be read ({error!r}); it was damaged or written by a newer version of "
                "dpadmm. Restore the ledger from a backup, or use that version."
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
                f"Entry {entry.seq} does not continue the chain after entry {self.seq}: the ledger was edited or "
                "damaged. Nothing was changed; restore it from a backup."
            )

    def move_to(self, entry: Entry) -> None:
        """Go on to a checked entry."""
        self.seq, self.digest = entry.seq, entry.digest


def anchor_text(seq: int, digest: str) -> bytes:
    """Return the fixed-width line of the anchor file."""
    return f"{seq:016d} {digest}\n".encode()


def write_anchor(path: Path, seq: int, digest: str) -> None:
    """Overwrite the anchor in place with one small write.

    It is not synced: after a power cut an older anchor may come back, and that is still an ancestor of the head,
    because the ledger itself was synced first. Several processes may write in any order for the same reason.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, anchor_text(seq, digest), 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LedgerError(
            f"The entry was recorded, but its anchor {path} could not be written: {error.strerror}. Do not send; "
            "repair the file and ask again under the same run, round, agent and slot: that spends nothing more."
        ) from error


def read_anchor(path: Path) -> tuple[int, str] | None:
    """Return the anchored sequence number and digest, or None without an anchor file."""
    try:
        found = _ANCHOR.fullmatch(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(f"The anchor file {path} cannot be read: {error.strerror}.") from error
    if found is None:
        raise LedgerError(
            f"The anchor file {path} is damaged. If you know the ledger's head from a statement, move the file away "
            "and open with expected_head."
        )
    return int(found[1]), found[2].decode()
