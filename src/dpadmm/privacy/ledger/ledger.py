"""The ledger of one data set: what was released from it, for good, and a hard stop before the budget is passed."""

import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dpadmm import checks
from dpadmm.errors import BudgetError, DpadmmError, LedgerError
from dpadmm.privacy.ledger import chain, files, store
from dpadmm.privacy.ledger.account import Account, Ask, check_history, conflict, read_account
from dpadmm.privacy.ledger.chain import Entry, Kind, Writer
from dpadmm.privacy.ledger.confirmed import ConfirmedLedger, check_text
from dpadmm.privacy.ledger.keys import is_same, key_check, read_key, write_new
from dpadmm.privacy.ledger.meter import Budget, Composer, Meter
from dpadmm.privacy.ledger.silos import SiloColumns
from dpadmm.privacy.ledger.statement import Receipt, Statement, draw_statement
from dpadmm.privacy.ledger.tally import Pile, Tally
from dpadmm.privacy.records import ONE_RECORD, Protection


def _accountant() -> Composer:
    from dpadmm.privacy.accounting import compose  # heavy; a ledger that is only read does not need it

    return compose


class Ledger:
    """A durable, append-only record of the releases of one data set.

    Made by `Ledger.create` or `Ledger.open`; use it as a context manager. To release, show the data to `confirm`, every
    time: it returns the `ConfirmedLedger` that reserves. Every method that records commits to disk before it returns.
    One object belongs to one thread of one process; any number of them may open the same file, and a copied or
    pickled ledger opens the file again.

    >>> import tempfile, pathlib
    >>> from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path, data = pathlib.Path(place, "clinic.ledger"), [SiloColumns("clinic", {"x": [0.5, 1.0]})]
    ...     with Ledger.create(path, data, Budget(epsilon=1.0, delta=1e-5)) as ledger:
    ...         ledger.budget
    Budget(epsilon=1.0, delta=1e-05)
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        account: Account,
        compose: Composer | None,
        timeout: float = 30.0,
    ) -> None:
        """Not for callers: use `create` or `open`."""
        self._timeout = timeout
        self._path = path
        self._connection = connection
        self._account = account
        self._compose = compose
        self._measure: Meter | None = None
        self._owner = os.getpid(), threading.get_ident()
        self._file = files.identity(path)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        data: Sequence[SiloColumns],
        budget: Budget,
        *,
        protection: Protection = ONE_RECORD,
        compose: Composer | None = None,
        timeout_seconds: float = 30.0,
    ) -> "Ledger":
        """Start the ledger of the silos in `data` at the new file `path`, with `path.key` and `path.head` beside it.

        `protection` says what the budget is about (`ONE_RECORD` by default). `LedgerError` if any of the files exists.
        """
        place = Path(os.path.realpath(path))
        files.create(place, data, budget, protection)
        return cls.open(place, compose=compose, timeout_seconds=timeout_seconds)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        expected_head: str | None = None,
        compose: Composer | None = None,
        timeout_seconds: float = 30.0,
    ) -> "Ledger":
        """Open a ledger and check all of it: pages, version, chain, anchor.

        `expected_head` is a head you noted earlier: it must be in the history, or the file is an older or edited copy.
        Raises `LedgerError`, with nothing changed, for a foreign, damaged, too new or unexpected file.
        """
        place = Path(os.path.realpath(path))
        timeout = checks.positive("timeout_seconds", timeout_seconds)
        connection, account = files.open_checked(place, expected_head, timeout)
        try:
            ledger = cls(place, connection, account, compose, timeout)
            ledger._refresh()
        except BaseException:
            connection.close()
            raise
        return ledger

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if os.getpid() == self._owner[0]:
            self._connection.close()

    def __enter__(self) -> Self:
        """Return the ledger."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the ledger."""
        self.close()

    def __copy__(self) -> Self:
        """Return the ledger itself: what is spent is on the one file, whoever holds a copy of the object around it."""
        return self

    def __deepcopy__(self, memo: object) -> Self:
        """Return the ledger itself, for the same reason."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the way to the file: another process opens it again, or fails; it never goes on without."""
        return _opened_again, (str(self._path), self._compose)

    def here(self) -> "Ledger":
        """Return the ledger for the running thread and process: itself, or the same file opened again."""
        if self._owner == (os.getpid(), threading.get_ident()):
            return self
        return Ledger.open(self._path, compose=self._compose)

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path

    @property
    def has_own_accountant(self) -> bool:
        """Whether it composes by other rules than the package's."""
        return self._compose is not None

    @property
    def protection(self) -> Protection:
        """What the budget is about."""
        return self._account.tally.protection

    @property
    def is_earlier_format(self) -> bool:
        """Whether the file has an earlier format: it can be read, not written, and may undercount."""
        with store.clear_errors(self._path):
            return store.is_earlier(self._connection)

    @property
    def silos(self) -> tuple[str, ...]:
        """The names under which the ledger knows its silos."""
        return tuple(silo.name for silo in self._account.data.silos)

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

    def confirm(self, data: Sequence[SiloColumns]) -> ConfirmedLedger:
        """Check that `data` are what the ledger was created for, and return what reserves for them.

        The silos may come in any order; each is recognised by what it holds. `LedgerError` if the data are others.
        """
        self._guard()
        key = read_key(files.key_path(self._path))
        if not is_same(key_check(key), self._account.created["key_check"]):
            raise LedgerError(f"{files.key_path(self._path)} is the key of another ledger. Restore the right one.")
        try:
            names = self._account.data.match(data, key)
        except LedgerError as problem:
            raise LedgerError(f"{self._path}: {problem}") from None
        return ConfirmedLedger(self, names, tuple(each.rows for each in data))

    def has_head(self, digest: str) -> bool:
        """Return whether a head noted earlier is in the history."""
        self._guard()
        with store.clear_errors(self._path):
            found = self._connection.execute("SELECT 1 FROM entries WHERE digest = ?", (digest,)).fetchone()
        return found is not None

    def is_about(self, data: Sequence[SiloColumns]) -> bool:
        """Return whether any of these tables looks like one of the ledger's: half of its columns or more are there."""
        self._guard()
        key = read_key(files.key_path(self._path))
        return any(self._account.data.is_like(each, key) for each in data)

    def _reserve(self, asks: list[Ask]) -> Receipt:
        refusal: DpadmmError | None = None
        rows: list[tuple[Entry, bool]] = []
        with self._writing() as writer:
            found = [store.find_key(self._connection, ask.key) for ask in asks]
            new = [ask for ask, entry in zip(asks, found, strict=True) if entry is None]
            refusal = conflict(asks, found) or self._overspend(new)
            run, algorithm = asks[0].run, asks[0].algorithm
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

    def _check_room(self, asks: list[Ask]) -> None:
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
        check_text("reason", reason)
        self._meter()
        refusal: BudgetError | None = None
        with self._writing() as writer:
            for pile in self._account.tally.people().values():
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

    def _overspend(self, asks: list[Ask]) -> BudgetError | None:
        if not asks:
            return None
        spent, asked = self._account.tally, Tally(self.protection)
        for ask in asks:
            asked.add(ask.release, ask.silo)
        after = (spent + asked).people()
        touched = after if asked.everyone.releases else {who: after[who] for who in asked.people()}
        for who, pile in touched.items():
            if not self._meter().is_within(pile, self._account.budget):
                before, added = (tally.people().get(who, tally.everyone) for tally in (spent, asked))
                return self._refusal(before, added, pile, asks)
        return None

    def _refusal(self, before: Pile, added: Pile, after: Pile, asks: list[Ask]) -> BudgetError:
        budget, meter = self._account.budget, self._meter()
        spent, alone, total = (meter.epsilon(pile, budget) for pile in (before, added, after))
        return BudgetError(
            f"Refused: epsilon {spent:.6g} of {budget.epsilon:.6g} is spent at delta {budget.delta:.3g}, "
            f"{max(0.0, budget.epsilon - spent):.6g} is left; the {added.releases} release(s) asked for cost "
            f"{alone:.6g} alone and would make it {total:.6g}. Nothing was spent, so nothing may leave. Ask "
            "for a smaller epsilon, or raise the budget and say why (`dpadmm ledger budget`, or Ledger.set_budget)."
            f"{self._pooled_words(asks)}"
        )

    def _pooled_words(self, asks: list[Ask]) -> str:
        """Say so where the refusal comes from adding up silos that the ledger cannot tell apart."""
        agents = {ask.release.agent for ask in asks if ask.release.agent >= 0}
        if len(self.silos) > 1 or len(agents) < 2:
            return ""
        return (
            f" This ledger was made for one silo, so what all {len(agents)} agents release is added up, as if a person "
            "had records with each. If every person's records are with one of them, create the ledger with the silos "
            "told apart, as in ledger_data(X, y, groups): each then has the whole budget."
        )

    def _meter(self) -> Meter:
        """Return the meter; made on first use, since a ledger that is only checked or exported needs none."""
        if self._measure is None:
            self._measure = Meter(_accountant() if self._compose is None else self._compose)
        return self._measure

    def _guard(self) -> None:
        """Refuse to work across a fork (SQLite cannot) or on a file that is no longer the one at the path."""
        if os.getpid() != self._owner[0]:
            raise LedgerError("This ledger was opened by the parent process; open it again in this one.")
        if threading.get_ident() != self._owner[1]:
            raise LedgerError("This ledger was opened by another thread; open it again in this one.")
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

    def _check_anchor(self) -> None:
        """Refuse to write to a log that lacks what the anchor remembers: another process's entries would be lost."""
        anchor = chain.read_anchor(files.anchor_path(self._path))
        if anchor is None:
            raise LedgerError(
                f"The anchor file {files.anchor_path(self._path)} is gone. Restore it; nothing was recorded."
            )
        check_history(self._connection, self._path, anchor, None)

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """Hold the file alone from reading what is spent to the synced commit, then move the anchor."""
        self._guard()
        with chain.locked_anchor(files.anchor_path(self._path), self._timeout, is_writing=True) as anchor:
            with store.clear_errors(self._path), store.transaction(self._connection):
                self._refresh()
                self._check_anchor()
                writer = Writer(self._account.reader.seq, self._account.reader.digest)
                yield writer
            chain.write_anchor(anchor, writer.seq, writer.digest)


def _opened_again(path: str, compose: Composer | None) -> Ledger:
    """Open a pickled ledger."""
    return Ledger.open(path, compose=compose)
