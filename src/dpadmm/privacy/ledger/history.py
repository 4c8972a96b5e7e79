"""The history of a ledger: begun in new files, read back and checked, folded into what it amounts to."""

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpadmm.checks import option_name
from dpadmm.errors import InputError, LedgerError, ResumeError
from dpadmm.files import sync_directory
from dpadmm.privacy.ledger import store
from dpadmm.privacy.ledger.entries import (
    GENESIS,
    Entry,
    Kind,
    Reader,
    Reservation,
    Writer,
    key_of,
    read_record,
    readable,
)
from dpadmm.privacy.ledger.fingerprints import DatasetFingerprint, DataVersion, NewVersion, SiloColumns
from dpadmm.privacy.ledger.profiles import KeptProfile
from dpadmm.privacy.ledger.spending import Budget, RunAccount, SpentBySilo, share_of
from dpadmm.privacy.protection import Protection, Unit, View


@dataclass(frozen=True)
class Created:
    """The first entry: the terms of a ledger, and what it keeps of its data."""

    budget: Budget
    key_check: str
    protection: Protection
    data: DatasetFingerprint


@dataclass(frozen=True)
class BudgetChange:
    """Another budget, and why."""

    budget: Budget
    reason: str


def create(path: Path, data: Sequence[SiloColumns], budget: Budget, protection: Protection) -> None:
    """Write the three files of a new ledger for these silos.

    The log appears under its name only when it is complete; if anything fails, nothing stays behind. If the process is
    killed here, a key without a log stays behind, and the name is refused until somebody removes it.
    """
    draft = path.with_name(path.name + ".new")
    ends = ("", ".key", ".head", ".new", "-wal", "-shm", "-journal")
    there = [str(file) for file in (path.with_name(path.name + end) for end in ends) if file.exists()]
    if there:
        raise LedgerError(
            f"Found {', '.join(there)}: a ledger is never overwritten. Open it, choose another name, or move all of "
            "its files away if you are sure that nothing was ever released from these data."
        )
    # A single table is one silo's of many, or split later: what is released of it counts the silos of its sum (C12).
    is_part = len(data) == 1 and protection.view is View.AGGREGATE
    (replace(protection, view=View.PUBLIC, colluders=None) if is_part else protection).check_silos(len(data))
    check_persons(data, protection)
    are_names_public = protection.unit is not Unit.USER  # a user's name is a person's
    DatasetFingerprint.of(data, bytes(32))  # refuses unusable data before anything is written
    made = [store.key_path(path)]
    key = store.new_key(made[0])
    try:
        known = DatasetFingerprint.of(
            data, key, are_names_public=are_names_public, tells_copies_apart=not protection.relation.has_public_sizes
        )
        writer = Writer(0, GENESIS)
        entries = [writer.next(Kind.CREATED, Created(budget, store.key_check(key), protection, known))]
        store.write_new(store.anchor_path(path), store.anchor_text(writer.seq, writer.digest))
        made += [store.anchor_path(path), draft]
        with store.clear_errors(path):
            store.create_file(draft, entries)
        os.rename(draft, path)
        sync_directory(path.parent)
    except BaseException:
        for file in made:
            file.unlink(missing_ok=True)
        raise


def check_persons(data: Sequence[SiloColumns], protection: Protection) -> None:
    """Refuse data that do not say whose rows they are where a budget is about persons, and data that do elsewhere."""
    has_persons = [each.persons is not None for each in data]
    if protection.unit is Unit.PERSON and not all(has_persons):
        raise InputError(
            "The ledger's budget is per person, so it needs to know which person each row belongs to: give "
            f"{option_name('persons')}. Nothing was spent."
        )
    if protection.unit is not Unit.PERSON and any(has_persons):
        raise InputError(
            f"The ledger's budget is per {protection.unit.value}, but rows were assigned to persons. Leave the persons "
            "out, or create a ledger with the unit person, and count in its budget what is already spent."
        )


@dataclass
class LedgerState:
    """All entries read so far, folded together."""

    spent: SpentBySilo
    budget: Budget
    versions: list[DataVersion]
    key_check: str
    reader: Reader = field(default_factory=Reader)
    refusals: int = 0
    refused: set[tuple[str, ...]] = field(default_factory=set)
    profiles: list[KeptProfile] = field(default_factory=list)
    runs: dict[tuple[str, str], RunAccount] = field(default_factory=dict)
    is_whole: bool = True

    @classmethod
    def opened_by(cls, first: Entry | None) -> "LedgerState":
        """Return the empty state that the first entry describes."""
        content = {} if first is None else first.content()
        if first is None or Kind(content["event"]) is not Kind.CREATED:
            raise LedgerError("The ledger has no first entry, so it is damaged. Restore it from a backup.")
        with readable(first.seq):
            made = read_record(Created, content)
            versions = [DataVersion(1, 1, str(content["time"]), made.data)]
            return cls(SpentBySilo(made.protection), made.budget, versions, made.key_check)

    @property
    def newest(self) -> DataVersion:
        """The version of the data that is used now."""
        return self.versions[-1]

    def absorb(self, entries: Iterable[Entry]) -> None:
        """Fold further entries in, checking the chain.

        The reader moves on only after an entry is counted: whatever interrupts this, none is skipped later.
        """
        for entry in entries:
            with self._moving_to(entry), readable(entry.seq):
                self._count(entry)

    def take(self, entry: Entry, ask: Reservation, time: str) -> None:
        """Fold in a release whose entry this process has just committed: there is nothing to decode."""
        with self._moving_to(entry):
            self._count_release(ask, time)

    @contextmanager
    def _moving_to(self, entry: Entry) -> Iterator[None]:
        self.reader.check(entry)
        self.is_whole = False  # stays so if the block is interrupted: the entry may be counted twice then
        yield
        self.reader.move_to(entry)
        self.is_whole = True

    def _count_release(self, ask: Reservation, time: str) -> None:
        protection, name = self.spent.protection, (ask.run, ask.algorithm)
        share = share_of(ask.release, protection)
        self.spent.add(ask.release, ask.silo, share)
        if name not in self.runs:
            self.runs[name] = RunAccount(
                *name, SpentBySilo(protection), SpentBySilo(protection), self.newest.number, time
            )
        self.runs[name].add(ask, share, time)

    def _count(self, entry: Entry) -> None:
        content = entry.content()
        match Kind(content["event"]):
            case Kind.RELEASE:
                self._count_release(read_record(Reservation, content), str(content["time"]))
            case Kind.BUDGET:
                self.budget = read_record(BudgetChange, content).budget
            case Kind.REFUSAL:
                self.refusals += 1
                self.refused.add(what_was_refused(content))
            case Kind.PROFILE:
                self.profiles.append(read_record(KeptProfile, content))
            case Kind.VERSION:
                new = read_record(NewVersion, content)
                if new.version != self.newest.number + 1:
                    raise ValueError(f"version {new.version} follows version {self.newest.number}")
                self.versions.append(DataVersion(new.version, entry.seq, str(content["time"]), new.data))
                self.profiles.clear()  # they are counts of another table
            case Kind.CREATED:
                pass


def what_was_refused(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what distinguishes one refusal from another: it is recorded once, however often the same is asked for."""
    return tuple(str(content.get(name, "")) for name in ("run", "algorithm", "detail"))


_KEPT: dict[Path, LedgerState] = {}
_MOST_KEPT = 8


def keep(path: Path, state: LedgerState) -> None:
    """Remember the state of a ledger that was closed, for whoever opens the file next in this process."""
    if state.is_whole:
        _KEPT.pop(path, None)
        _KEPT[path] = state
        for earlier in list(_KEPT)[:-_MOST_KEPT]:
            _KEPT.pop(earlier, None)


def read_state(connection: sqlite3.Connection, path: Path | None = None) -> LedgerState:
    """Return the state of all entries, checking the chain from the first.

    Entries of which this process has kept a state under `path` are not decoded again. They are still read and
    hashed, all of them: a chain that leads to the digest at which the state ends is the one that it is about.
    """
    kept = None if path is None else _KEPT.pop(path, None)
    if kept is not None and _leads_to(connection, kept.reader):
        state = kept
    else:
        state = LedgerState.opened_by(store.read_entry(connection, 1))
    state.absorb(store.read_entries(connection, state.reader.seq))
    return state


def _leads_to(connection: sqlite3.Connection, end: Reader) -> bool:
    """Return whether the entries up to the number of `end` have its digest; `LedgerError` where they are no chain."""
    reader = Reader()
    for entry in store.read_entries(connection, upto=end.seq):
        reader.check(entry)
        reader.move_to(entry)
    return reader == end


def check_keys(connection: sqlite3.Connection, path: Path, state: LedgerState) -> None:
    """Raise `LedgerError` unless there is a key for every release: a lost one would let it be paid for twice."""
    (number,) = connection.execute("SELECT COUNT(*) FROM keys").fetchone()
    if number != state.spent.releases:
        raise LedgerError(f"{path}: the table of keys does not match the entries. Restore the ledger from a backup.")


def read_again(connection: sqlite3.Connection, path: Path) -> LedgerState:
    """Return the state of all entries once pages, chain and every single key are found sound."""
    store.validate(connection, path)
    state = read_state(connection)
    keys = Counter(key_of(entry) for entry in store.read_entries(connection))
    del keys[None]
    listed = connection.execute("SELECT run, round, agent, slot FROM keys").fetchall()
    if keys != Counter(listed):
        raise LedgerError(f"{path}: the table of keys does not match the entries. Restore the ledger from a backup.")
    return state


def check_history(
    connection: sqlite3.Connection, path: Path, anchor: tuple[int, str] | None, expected_head: str | None
) -> None:
    """Raise `LedgerError` unless the anchor and the expected head are part of the (already checked) chain."""
    if anchor is not None:
        entry = store.read_entry(connection, anchor[0])
        if entry is None or entry.digest != anchor[1]:
            raise LedgerError(
                f"{path} does not contain entry {anchor[0]} that was recorded in it: it is an older copy, it was "
                "edited, or its journal was lost. Releases may be missing from it. Restore the newest files."
            )
    if expected_head is not None:
        known = connection.execute("SELECT 1 FROM entries WHERE digest = ?", (expected_head,)).fetchone()
        if known is None:
            raise LedgerError(
                f"{path} does not contain the expected head {expected_head}: it is an older copy or it was edited. "
                "Releases may be missing from it. Restore the newest copy."
            )


def conflict(asks: Sequence[Reservation], found: Sequence[Entry | None]) -> ResumeError | None:
    """Return the error if something else is recorded under the key of one of `asks`."""
    for ask, entry in zip(asks, found, strict=True):
        if entry is not None and read_record(Reservation, entry.content()) != ask:
            run, round_, agent, slot = ask.key
            return ResumeError(
                f"Refused: run {run!r}, round {round_}, agent {agent}, slot {slot} is recorded as entry {entry.seq} "
                "with a different algorithm, silo, certificate or noise. Send the message stored then, or start a new "
                "run."
            )
    return None


def outdated(connection: sqlite3.Connection, newest: DataVersion, run: str, confirmed: int) -> ResumeError | None:
    """Return the error if data were confirmed as another version, or if a run was begun with an earlier one.

    What a run has computed from one table must not be mixed with another: no certificate is about both.
    """
    if confirmed != newest.number:
        return ResumeError(
            f"Refused: the data were confirmed as version {confirmed}, but the ledger has used version {newest.number} "
            f"since {newest.when}. Confirm the newest data."
        )
    if newest.number == 1:
        return None
    (begun,) = connection.execute("SELECT MIN(seq) FROM keys WHERE run = ?", (run,)).fetchone()
    if begun is None or begun > newest.entry:
        return None
    return ResumeError(
        f"Refused: run {run!r} was started, as entry {begun}, with an older version of the data; version "
        f"{newest.number} has been in use since {newest.when}. The run cannot continue; start a new one."
    )


def open_checked(
    path: Path, expected_head: str | None, *, is_writing: bool = True
) -> tuple[sqlite3.Connection, LedgerState]:
    """Return a connection and the state, once the file, its chain and its anchor are found sound.

    Nothing is changed before that. A connection for reading leaves no lock and makes no side file.
    """
    store.inspect(path)
    with store.clear_errors(path), store.undisturbed(path) as anchor:
        if anchor is None and expected_head is None:
            raise LedgerError(
                f"The anchor file {store.anchor_path(path)} is missing, so an older copy could not be told from the "
                "current one. Restore the file, or give the head of the last statement as the expected head."
            )
        with closing(store.connect_for_reading(path)) as reading, store.transaction(reading, "BEGIN"):
            store.validate(reading, path)
            state = read_state(reading, path)
            check_keys(reading, path, state)
            check_history(reading, path, anchor, expected_head)
        if not is_writing:
            return store.connect_for_reading(path), state
        connection = store.open_for_writing(path)
        try:
            if anchor is None:
                store.write_new(store.anchor_path(path), store.anchor_text(state.reader.seq, state.reader.digest))
        except BaseException:
            connection.close()
            raise
    return connection, state


class OpenHistory:
    """An open log at `path`, with all that was read of it so far; its one way to write is `_writing`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, state: LedgerState) -> None:
        """Belongs to the running thread and process, and to the file that is at `path` now."""
        self.path, self._connection, self._state = path, connection, state
        self._owner, self._file = (os.getpid(), threading.get_ident()), store.identity(path)
        self._is_busy = self._is_closed = False

    def _guard(self) -> None:
        """Refuse to work across a fork (SQLite cannot) or on a file that is no longer the one at the path."""
        if os.getpid() != self._owner[0]:
            raise LedgerError("This ledger was opened by the parent process; open it again in this process.")
        if threading.get_ident() != self._owner[1]:
            raise LedgerError("This ledger was opened by another thread; open it again in this thread.")
        if self._is_busy:
            raise LedgerError("A transaction of this ledger is open: end it, or ask the transaction.")
        if store.identity(self.path) != self._file:
            raise LedgerError(
                f"{self.path} was moved, removed or replaced while it was open. Put it back and open it again."
            )

    def _refresh(self) -> None:
        """Read what other processes appended; the entry read last must still be there."""
        self._guard()
        reader = self._state.reader
        with store.clear_errors(self.path):
            last = store.read_entry(self._connection, reader.seq)
            if last is None or last.digest != reader.digest:
                raise LedgerError(f"{self.path} was edited while it was open. Restore it from a backup.")
            self._state.absorb(store.read_entries(self._connection, reader.seq))

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """Hold the file alone from reading what is spent to the synced commit, then move the anchor."""
        self._guard()
        with store.locked_anchor(store.anchor_path(self.path), is_writing=True) as anchor:
            with store.clear_errors(self.path), store.transaction(self._connection):
                self._refresh()
                # A log that lacks what the anchor remembers lacks another process's entries.
                check_history(self._connection, self.path, store.read_anchor(anchor), None)
                writer = Writer(self._state.reader.seq, self._state.reader.digest)
                yield writer
            store.write_anchor(anchor, writer.seq, writer.digest)
