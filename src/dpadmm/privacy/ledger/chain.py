"""The log as a hash chain: every entry's digest covers the digest before it and the entry's own canonical text.

    digest_k = SHA-256( digest_{k-1} || newline || body_k ),      digest_0 = 64 zeros

Changing, dropping or inserting an entry changes every later digest. The last one, the *head*, therefore stands for the
whole history: whoever wrote down an earlier head can later tell an edited or restored file from the true one.
"""

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def locked_anchor(path: Path, timeout: float, *, is_writing: bool) -> Iterator[int]:
    """Hold the anchor's lock, alone for writing, and yield its descriptor.

    SQLite's own locks belong to the process, and closing any other descriptor of the ledger in it drops them: a backup
    in another thread was enough to let two processes write at once. This lock belongs to the descriptor. It is taken
    before anything is recorded, so an anchor that cannot be written costs nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDWR if is_writing else os.O_RDONLY)
    except OSError as error:
        raise LedgerError(
            f"The anchor file {path} cannot be opened: {error.strerror}. Nothing was recorded; repair or restore it."
        ) from error
    try:
        _lock(descriptor, path, timeout, fcntl.LOCK_EX if is_writing else fcntl.LOCK_SH)
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, timeout: float, kind: int) -> None:
    end = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise LedgerError(
                    f"Another process held the ledger of {path} beyond the timeout; nothing was recorded. Try again."
                ) from None
            time.sleep(0.002)
        else:
            return


def write_anchor(descriptor: int, seq: int, digest: str) -> None:
    """Overwrite the anchor in place with one small write.

    It is not synced: after a power cut an older anchor may come back, and that is still an ancestor of the head,
    because the ledger itself was synced first.
    """
    try:
        os.pwrite(descriptor, anchor_text(seq, digest), 0)
    except OSError as error:
        raise LedgerError(
            f"The entry was recorded, but its anchor could not be written: {error.strerror}. Do not send; make room "
            "and ask again under the same run, round, agent and slot: that spends nothing more."
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
