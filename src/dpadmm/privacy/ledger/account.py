"""What the entries of a ledger amount to, and the checks of a history."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dpadmm.errors import LedgerError, ResumeError
from dpadmm.privacy.ledger import store
from dpadmm.privacy.ledger.chain import Entry, Kind, Reader
from dpadmm.privacy.ledger.codec import decode_release, encode_release
from dpadmm.privacy.ledger.meter import Budget
from dpadmm.privacy.ledger.silos import KnownData
from dpadmm.privacy.ledger.tally import EVERY_SILO, Tally
from dpadmm.privacy.records import Protection, Relation, Release, Unit, View


@dataclass(frozen=True)
class Ask:
    """One release asked for, with all that makes it unique; equal asks are the same message.

    `silo` is the name under which the ledger knows the silo whose data it is about; None stands for all of them.
    """

    run: str
    algorithm: str
    slot: int
    release: Release
    silo: str | None

    @property
    def key(self) -> store.Key:
        """What names the message."""
        return self.run, self.release.round, self.release.agent, self.slot

    def content(self) -> dict[str, Any]:
        """Return the ask as plain values."""
        return {
            "run": self.run,
            "algorithm": self.algorithm,
            "slot": self.slot,
            "silo": self.silo,
            "release": encode_release(self.release),
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Ask":
        """Return the ask that `content` wrote."""
        release = decode_release(content["release"])
        return cls(content["run"], content["algorithm"], content["slot"], release, _silo_of(content, release))


def _silo_of(content: Mapping[str, Any], release: Release) -> str | None:
    """Return whose release an entry records; earlier formats knew the position in a list only."""
    if "silo" in content:
        silo: str | None = content["silo"]
        return silo
    return None if release.agent < 0 else f"position {release.agent}"


def first_content(budget: Budget, protection: Protection, data: KnownData) -> dict[str, Any]:
    """Return what the first entry says about the ledger; `Account.opened_by` reads it."""
    return {
        "budget": asdict(budget),
        "unit": protection.unit.value,
        "relation": protection.relation.value,
        "view": protection.view.value,
        "records_per_person": protection.records_per_person,
        "silos_per_person": protection.silos_per_person,
        **data.content(),
    }


def _protection_of(content: Mapping[str, Any]) -> Protection:
    earlier = {"APART": 1, "TOGETHER": EVERY_SILO}
    return Protection(
        unit=Unit(content["unit"]),
        relation=Relation(content["relation"]),
        view=View(content["view"]),
        records_per_person=content["records_per_person"],
        silos_per_person=earlier[content["holding"]] if "holding" in content else content["silos_per_person"],
    )


@dataclass
class Account:
    """All entries read so far, folded together."""

    tally: Tally
    budget: Budget
    data: KnownData
    created: dict[str, Any]
    reader: Reader = field(default_factory=Reader)
    refusals: int = 0

    @classmethod
    def opened_by(cls, first: Entry | None) -> "Account":
        """Return the empty account that the first entry describes."""
        content = {} if first is None else first.content()
        if first is None or Kind(content["event"]) is not Kind.CREATED:
            raise LedgerError("The ledger has no first entry: it is damaged. Restore it from a backup.")
        with _readable(first.seq):
            return cls(Tally(_protection_of(content)), Budget(**content["budget"]), KnownData.read(content), content)

    def absorb(self, entries: Iterable[Entry]) -> None:
        """Fold further entries in, checking the chain.

        The reader moves on only after an entry is counted: whatever interrupts this, none is skipped later.
        """
        for entry in entries:
            self.reader.check(entry)
            with _readable(entry.seq):
                self._count(entry.content())
            self.reader.move_to(entry)

    def _count(self, content: Mapping[str, Any]) -> None:
        match Kind(content["event"]):
            case Kind.RELEASE:
                ask = Ask.of(content)
                self.tally.add(ask.release, ask.silo)
            case Kind.BUDGET:
                self.budget = Budget(**content["budget"])
            case Kind.REFUSAL:
                self.refusals += 1
            case Kind.CREATED | Kind.MIGRATION:
                pass


@contextmanager
def _readable(seq: int) -> Iterator[None]:
    """Turn a missing or malformed field into `LedgerError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(
            f"Entry {seq} cannot be understood ({error!r}): the ledger is damaged or was written by a newer version of "
            "dpadmm. Restore it from a backup, or use that version."
        ) from error


def read_account(connection: sqlite3.Connection) -> Account:
    """Return the account of all entries, checking the chain from the first."""
    account = Account.opened_by(store.read_entry(connection, 1))
    account.absorb(store.read_entries(connection))
    return account


def check_keys(connection: sqlite3.Connection, path: Path, account: Account) -> None:
    """Raise `LedgerError` unless there is a key for every release: a lost one would let it be paid for twice."""
    (number,) = connection.execute("SELECT COUNT(*) FROM keys").fetchone()
    if number != account.tally.releases:
        raise LedgerError(f"{path}: the table of keys does not match the entries. Restore it from a backup.")


def check_history(
    connection: sqlite3.Connection, path: Path, anchor: tuple[int, str] | None, expected_head: str | None
) -> None:
    """Raise `LedgerError` unless the anchor and the expected head are part of the (already checked) chain."""
    if anchor is not None:
        entry = store.read_entry(connection, anchor[0])
        if entry is None or entry.digest != anchor[1]:
            raise LedgerError(
                f"{path} does not contain entry {anchor[0]} that was recorded in it: it is an older copy, it was "
                "edited, or its journal was lost. Releases may be missing from it. Put the newest files back."
            )
    if expected_head is not None:
        known = connection.execute("SELECT 1 FROM entries WHERE digest = ?", (expected_head,)).fetchone()
        if known is None:
            raise LedgerError(
                f"{path} does not contain the expected head {expected_head}: it is an older copy or it was edited. "
                "Releases may be missing from it. Put the newest copy back."
            )


def conflict(asks: list[Ask], found: list[Entry | None]) -> ResumeError | None:
    """Return the error if something else is recorded under the key of one of `asks`."""
    for ask, entry in zip(asks, found, strict=True):
        if entry is not None and Ask.of(entry.content()) != ask:
            run, round_, agent, slot = ask.key
            return ResumeError(
                f"Refused: run {run!r}, round {round_}, agent {agent}, slot {slot} is recorded as entry {entry.seq} "
                "with another algorithm, silo, certificate or noise. Send the message stored then, or use a new run."
            )
    return None
