"""The ledger of one data set: what was released from it, for good, and a hard stop before the budget is passed."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Self

from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.errors import BudgetError, DpadmmError, InputError, LedgerError
from dpadmm.privacy.ledger import chain, files, store
from dpadmm.privacy.ledger.account import Account, Ask, conflict, first_content, read_account
from dpadmm.privacy.ledger.chain import Entry, Kind, Writer
from dpadmm.privacy.ledger.codec import decode_release, encode_release
from dpadmm.privacy.ledger.fingerprint import (
    fingerprint,
    is_same,
    key_check,
    read_key,
    write_new,
)
from dpadmm.privacy.ledger.meter import Budget, Composer, Meter
from dpadmm.privacy.ledger.statement import Receipt, Statement, draw_statement
from dpadmm.privacy.ledger.tally import Holding, Pile, Tally, Terms
from dpadmm.privacy.records import Release


class Origin(Enum):
    """Where the noise of a release comes from."""

    SECURE = "secure"
    SIMULATED = "simulated"


def _accountant() -> Composer:
    from dpadmm.privacy.accounting import compose  # heavy; a ledger that is only read does not need it

    return compose


class Ledger:
    """A durable, append-only record of the releases of one data set.

    Made by `Ledger.create` or `Ledger.open`; use it as a context manager. Every method that records commits to disk
    before it returns. One object belongs to one thread of one process; any number of processes may open the same file.

    >>> import tempfile, pathlib
    >>> from dpadmm.privacy.ledger import Budget, Ledger
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = pathlib.Path(place, "clinic.ledger")
    ...     with Ledger.create(path, {"x": [[0.5], [1.0]]}, Budget(epsilon=1.0, delta=1e-5)) as ledger:
    ...         ledger.budget
    Budget(epsilon=1.0, delta=1e-05)
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, account: Account, compose: Composer | None) -> None:
        """Not for callers: use `create` or `open`."""
        self._path = path
        self._connection = connection
        self._account = account
        self._compose = compose
        self._measure: Meter | None = None
        self._confirmed = False
        self._process = os.getpid()
        self._file = files.identity(path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        data: Mapping[str, ArrayLike],
        budget: Budget,
        *,
        terms: Terms = Terms(),  # noqa: B008 (frozen)
        compose: Composer | None = None,
        timeout_seconds: float = 30.0,
    ) -> "Ledger":
        """Start the ledger of `data` at the new file `path`, with `path.key` and `path.head` beside it.

        `terms` say what the budget is about; by default one record, replaced, against the eavesdropper, with the
        releases of all agents added up (see `Holding.APART`). `LedgerError` if any of the files exists.
        """
        place = Path(os.path.realpath(path))
        files.create(place, data, first_content(budget, terms))
        return cls.open(place, data=data, compose=compose, timeout_seconds=timeout_seconds)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        data: Mapping[str, ArrayLike] | None = None,
        expected_head: str | None = None,
        compose: Composer | None = None,
        timeout_seconds: float = 30.0,
    ) -> "Ledger":
        """Open a ledger and check all of it: pages, version, chain, anchor.

        Without `data` it can be read but nothing can be reserved; with `data` they must be those it was created for.
        `expected_head` is a head you noted earlier: it must be in the history, or the file is an older or edited copy.
        Raises `LedgerError`, with nothing changed, for a foreign, damaged, too new or unexpected file.
        """
        place = Path(os.path.realpath(path))
        timeout = checks.positive("timeout_seconds", timeout_seconds)
        connection, account = files.open_checked(place, expected_head, timeout)
        try:
            ledger = cls(place, connection, account, compose)
            ledger._refresh()
            if data is not None:
                ledger.confirm(data)
        except BaseException:
            connection.close()
            raise
        return ledger

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if os.getpid() == self._process:
            self._connection.close()

    def __enter__(self) -> Self:
        """Return the ledger."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the ledger."""
        self.close()

    def __deepcopy__(self, memo: object) -> Self:
        """Return the ledger itself: what is spent is on the one file, whoever holds a copy of the object around it."""
        return self

    @property
    def budget(self) -> Budget:
        """The budget in force."""
        self._refresh()
        return self._account.budget

    @property
    def head(self) -> str:
        """The digest of the last entry: note it down, and give it to `open` later."""
        self._refresh()
        return self._account.reader.digest

    def confirm(self, data: Mapping[str, ArrayLike]) -> None:
        """Check that `data` are what the ledger was created for; `LedgerError` if not. Needed before `reserve`."""
        key = read_key(files.key_path(self._path))
        if not is_same(key_check(key), self._account.created["key_check"]):
            raise LedgerError(f"{files.key_path(self._path)} is the key of another ledger. Restore the right one.")
        if not is_same(fingerprint(data, key), self._account.created["fingerprint"]):
            raise LedgerError(
                f"{self._path} belongs to other data: values, names, shapes or the order of rows differ. Nothing "
                "may be released. Use the original data, or create a ledger for the new data and count in its budget "
                "what people who are in both have spent."
            )
        self._confirmed = True

    def reserve(
        self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin, slot: int = 0
    ) -> Receipt:
        """Record `releases` as spent, durably, and return the receipt that lets their messages leave.

        Call it before any noise is drawn. All of the releases are recorded or none. A release is known by (run, round,
        agent, slot); several of one agent and round in one call get the slots `slot`, `slot + 1`, ... in order.
        Asking again for the same returns the same receipt and spends nothing.

        Raises `BudgetError` if the budget would be passed (logged), `ResumeError` if something else is recorded under
        the same key (logged), `InputError` for simulated noise or a certificate for other terms, `LedgerError` if the
        data were not confirmed or the file cannot be written.
        """
        asks = self._asks(releases, run, algorithm, origin, slot)
        refusal: DpadmmError | None = None
        rows: list[tuple[Entry, bool]] = []
        with self._writing() as writer:
            found = [store.find_key(self._connection, ask.key) for ask in asks]
            new = [ask for ask, entry in zip(asks, found, strict=True) if entry is None]
            refusal = conflict(asks, found) or self._overspend(new)
            if refusal is None:
                for ask, entry in zip(asks, found, strict=True):
                    rows.append((entry or writer.next(Kind.RELEASE, ask.content()), entry is None))
                store.append(self._connection, [entry for entry, is_new in rows if is_new])
            else:
                content = {"run": run, "algorithm": algorithm, "releases": len(asks), "detail": str(refusal)}
                store.append(self._connection, [writer.next(Kind.REFUSAL, content)])
        if refusal is not None:
            raise refusal
        return Receipt(
            run=run,
            entries=tuple(entry.seq for entry, _ in rows),
            digests=tuple(entry.digest for entry, _ in rows),
            fresh=tuple(is_new for _, is_new in rows),
        )

    def check_room(self, releases: Iterable[Release], *, run: str, algorithm: str, origin: Origin) -> None:
        """Raise `BudgetError` if `reserve` would refuse these releases now; records nothing.

        For the question whether a whole run fits before its first round. Only `reserve` gives leave to send.
        """
        asks = self._asks(releases, run, algorithm, origin, 0)
        self._refresh()
        with store.clear_errors(self._path):
            new = [ask for ask in asks if store.find_key(self._connection, ask.key) is None]
        refusal = self._overspend(new)
        if refusal is not None:
            raise refusal

    def newest_round(self, run: str) -> int:
        """Return the last round of a run that anything was reserved for, 0 if there is none."""
        self._refresh()
        with store.clear_errors(self._path):
            return int(self._connection.execute("SELECT MAX(round) FROM keys WHERE run = ?", (run,)).fetchone()[0] or 0)

    def set_budget(self, budget: Budget, *, reason: str) -> None:
        """Change the budget, for a stated reason, as an entry of the log.

        `BudgetError` if more than the new budget is already spent (logged). Raising a budget after looking at
        results is a decision that the log shows, not one that it can justify.
        """
        _text("reason", reason)
        self._meter()
        refusal: BudgetError | None = None
        with self._writing() as writer:
            for pile in self._account.tally.groups():
                if not self._meter().is_within(pile, budget):
                    spent = self._meter().epsilon(pile, budget)
                    refusal = BudgetError(
                        f"The budget cannot become epsilon {budget.epsilon:.6g} at delta {budget.delta:.3g}: epsilon "
                        f"{spent:.6g} is already spent there. Choose a budget above that."
                    )
                    break
            content = {"budget": asdict(budget), "reason": reason}
            if refusal is None:
                entry = writer.next(Kind.BUDGET, content)
            else:
                entry = writer.next(Kind.REFUSAL, content | {"detail": str(refusal)})
            store.append(self._connection, [entry])
        if refusal is not None:
            raise refusal

    def statement(self) -> Statement:
        """Return what was spent, what is left and the head of the chain."""
        self._refresh()
        account = self._account
        return draw_statement(
            account.tally,
            account.budget,
            self._meter(),
            refusals=account.refusals,
            head=account.reader.digest,
            entries=account.reader.seq,
        )

    def verify(self) -> str:
        """Read everything again from the file, check pages, chain and keys, and return the head."""
        self._guard()
        with store.clear_errors(self._path), store.transaction(self._connection, "BEGIN"):
            store.validate(self._connection, self._path)
            account = read_account(self._connection)
            keys = Counter(store.key_of(entry) for entry in store.read_entries(self._connection))
            del keys[None]
            listed = self._connection.execute("SELECT run, round, agent, slot FROM keys").fetchall()
            if keys != Counter(listed):
                raise LedgerError(f"{self._path}: the table of keys does not match the entries. Restore it.")
        return account.reader.digest

    def export_json(self, path: str | os.PathLike[str]) -> None:
        """Write the statement and every entry to a new, readable JSON file.

        The digest of an entry is SHA-256 of the digest before it, a newline and the entry's `"body"` as canonical
        JSON (sorted keys, no blanks), so the chain can be checked without this package.
        """
        statement = self.statement()
        with store.clear_errors(self._path):
            entries = [
                {"body": entry.content(), "digest": entry.digest}
                for entry in store.read_entries(self._connection)
                if entry.seq <= statement.entries
            ]
        document = {
            "format": "dpadmm ledger export 1",
            "statement": str(statement).splitlines(),
            "budget": asdict(statement.budget),
            "spent_epsilon": statement.spent_epsilon,
            "head": statement.head,
            "entries": entries,
        }
        text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
        write_new(Path(path), text.encode() + b"\n")

    def _asks(self, releases: Iterable[Release], run: str, algorithm: str, origin: Origin, slot: int) -> list[Ask]:
        if Origin(origin) is not Origin.SECURE:
            raise InputError(
                "Simulated noise is reproducible, so it protects nobody and cannot be recorded as a release. "
                "Run with the secure sampler to release, or without a ledger to simulate."
            )
        if not self._confirmed:
            raise LedgerError("Nothing can be reserved before the data are confirmed: open the ledger with data=...")
        _text("run", run)
        _text("algorithm", algorithm)
        self._meter()  # imported before the file is locked
        next_slot: Counter[tuple[int, int]] = Counter()
        asks = []
        for given in releases:
            # Through the codec, so that what is compared and composed now is what will be read back.
            release = self._account.tally.terms.admit(decode_release(encode_release(given)))
            checks.count("count", release.count)
            place = release.round, release.agent
            asks.append(Ask(run, algorithm, checks.count("slot", slot, least=0) + next_slot[place], release))
            next_slot[place] += 1
        if not asks:
            raise InputError("reserve needs at least one release, got none.")
        return asks

    def _overspend(self, asks: list[Ask]) -> BudgetError | None:
        if not asks:
            return None
        asked = Tally(self._account.tally.terms)
        for ask in asks:
            asked.add(ask.release)
        for spent, added in self._account.tally.groups_with(asked):
            if not self._meter().is_within(spent + added, self._account.budget):
                return self._refusal(spent, added, asked)
        return None

    def _refusal(self, before: Pile, added: Pile, asked: Tally) -> BudgetError:
        budget, meter = self._account.budget, self._meter()
        spent, alone, total = (meter.epsilon(pile, budget) for pile in (before, added, before + added))
        return BudgetError(
            f"Refused: epsilon {spent:.6g} of {budget.epsilon:.6g} is spent at delta {budget.delta:.3g}, "
            f"{max(0.0, budget.epsilon - spent):.6g} is left; the {added.releases} release(s) asked for cost "
            f"{alone:.6g} alone and would make it {total:.6g}. Nothing was spent, so send nothing. Add more noise, ask "
            f"for fewer rounds, or raise the budget with set_budget and a reason.{self._apart_words(asked)}"
        )

    def _apart_words(self, asked: Tally) -> str:
        """Say so where the refusal comes from adding up agents that people may not share."""
        if self._account.tally.terms.holding is Holding.APART or len(asked.agents) < 2:
            return ""
        return (
            f" This ledger adds up what all {len(asked.agents)} agents release (Holding.TOGETHER), as if a person had "
            "records with each. If every person's records are with one agent, create the ledger with "
            "terms=Terms(holding=Holding.APART): each agent then has the whole budget."
        )

    def _meter(self) -> Meter:
        """Return the meter; made on first use, since a ledger that is only checked or exported needs none."""
        if self._measure is None:
            self._measure = Meter(_accountant() if self._compose is None else self._compose)
        return self._measure

    def _guard(self) -> None:
        """Refuse to work across a fork (SQLite cannot) or on a file that is no longer the one at the path."""
        if os.getpid() != self._process:
            raise LedgerError("This ledger was opened by the parent process; open it again in this one.")
        if files.identity(self._path) != self._file:
            raise LedgerError(
                f"{self._path} was moved, removed or replaced while it was open. Put it back and open it again."
            )

    def _refresh(self) -> None:
        """Read what other processes appended; the entry read last must still be there."""
        self._guard()
        reader = self._account.reader
        with store.clear_errors(self._path):
            last = store.read_entry(self._connection, reader.seq)
            if last is None or last.digest != reader.digest:
                raise LedgerError(f"{self._path} was edited while it was open. Restore it from a backup.")
            self._account.absorb(store.read_entries(self._connection, reader.seq))

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """Hold the file alone from reading what is spent to the synced commit, then move the anchor."""
        self._guard()
        with store.clear_errors(self._path), store.transaction(self._connection):
            self._refresh()
            writer = Writer(self._account.reader.seq, self._account.reader.digest)
            yield writer
        chain.write_anchor(files.anchor_path(self._path), writer.seq, writer.digest)


def _text(name: str, value: str) -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{name} must be printable text that is not empty, got {value!r}.")
