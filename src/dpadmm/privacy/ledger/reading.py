"""Reading a ledger without touching it: no lock left, no side file made, no migration, nothing written.

For whoever has read permission only, and for commands that promise to change nothing.
"""

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from dpadmm.errors import LedgerError
from dpadmm.privacy.ledger import chain, store
from dpadmm.privacy.ledger.account import Account, Ask, check_history, read_account
from dpadmm.privacy.ledger.chain import Kind
from dpadmm.privacy.ledger.files import anchor_path, undisturbed
from dpadmm.privacy.ledger.ledger import Ledger
from dpadmm.privacy.ledger.tally import Tally


@dataclass(frozen=True, kw_only=True)
class RunSpending:
    """What one run has in the log, and what it would have cost alone at the budget's delta."""

    run: str
    algorithm: str
    releases: int
    silos: int
    alone_epsilon: float
    first_time: str
    last_time: str


def open_for_reading(
    path: str | os.PathLike[str], *, expected_head: str | None = None, timeout_seconds: float = 30.0
) -> Ledger:
    """Open a ledger for reading only, checked like `Ledger.open`; nothing can be reserved and no budget changed.

    SQLite's read lock keeps writers away for the moment of reading. A file of an earlier format that nobody has open
    (no write-ahead log, `-wal`, beside it) is read as it is.
    """
    place = Path(os.path.realpath(path))
    if not place.is_file():
        raise LedgerError(f"{place} is not there or not a file. Give the path of a ledger.")
    is_at_rest = not any(place.with_name(place.name + end).exists() for end in ("-wal", "-journal"))
    anchor = chain.read_anchor(anchor_path(place))  # before the log, which can only be ahead of it
    with store.clear_errors(place), undisturbed(place, anchor, timeout_seconds):
        if is_at_rest and store.is_earlier_file(place):
            connection = store.connect(place, "mode=ro&immutable=1", timeout_seconds)
        else:
            connection = store.connect_for_reading(place, timeout_seconds)
        try:
            with store.transaction(connection, "BEGIN"):
                account = _checked(connection, place, anchor, expected_head)
        except BaseException:
            connection.close()
            raise
    return Ledger(place, connection, account, None)


def _checked(
    connection: sqlite3.Connection, place: Path, anchor: tuple[int, str] | None, expected_head: str | None
) -> Account:
    found = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if found != store.APPLICATION_ID:
        raise LedgerError(f"{place} is not a ledger (application id {found:#x}). Give the path of one.")
    if anchor is None and expected_head is None:
        raise LedgerError(
            f"The anchor file {anchor_path(place)} is missing, so an older copy of the ledger could not be told from "
            "the true one. Restore it, or give the head of the last statement as the expected head."
        )
    store.validate(connection, place)
    account = read_account(connection)
    check_history(connection, place, anchor, expected_head)
    return account


@dataclass
class _Run:
    tally: Tally
    first_time: str
    last_time: str = ""


def runs_of(ledger: Ledger) -> tuple[RunSpending, ...]:
    """Return what each run has spent, in order of their first release.

    Epsilons of runs do not simply add up to the total of the statement, which composes all releases together.
    """
    budget, meter, found = ledger.budget, ledger._meter(), dict[tuple[str, str], _Run]()
    with store.clear_errors(ledger._path):
        for entry in store.read_entries(ledger._connection):
            content = entry.content()
            if Kind(content["event"]) is Kind.RELEASE:
                key = content["run"], content["algorithm"]
                run = found.setdefault(key, _Run(Tally(ledger._account.tally.protection), content["time"]))
                ask = Ask.of(content)
                run.tally.add(ask.release, ask.silo)
                run.last_time = content["time"]
    return tuple(
        RunSpending(
            run=name,
            algorithm=algorithm,
            releases=run.tally.releases,
            silos=len(run.tally.silos),
            alone_epsilon=max(meter.epsilon(pile, budget) for pile in run.tally.people().values()),
            first_time=run.first_time,
            last_time=run.last_time,
        )
        for (name, algorithm), run in found.items()
    )


def verify(ledger: Ledger) -> str:
    """Check pages, chain and keys again and return the head; a file of version 1 has no table of keys to check."""
    with store.clear_errors(ledger._path):
        tables = ledger._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'keys'").fetchone()
    return ledger.head if tables is None else ledger.verify()
