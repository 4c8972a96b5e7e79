"""What a coordinator keeps: its directory with the signing key, and one SQLite file for studies, runs and the log."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpadmm.errors import InputError
from dpadmm.federation import sqlite_file
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.keys import SigningKey, need_extra
from dpadmm.federation.party_directory import PartyDirectory, finish_creation, new_directory
from dpadmm.federation.terms import Terms, stored_terms
from dpadmm.privacy.ledger.spending import PROFILE_ROUND
from dpadmm.privacy.ledger.store import identity
from dpadmm.problems.arrays import Floats

APPLICATION = 0x64704132
_TABLES = """
CREATE TABLE study (name TEXT PRIMARY KEY, announced TEXT NOT NULL, terms TEXT);
CREATE TABLE invitation (key TEXT PRIMARY KEY, study TEXT NOT NULL, silo TEXT NOT NULL, secret TEXT NOT NULL);
CREATE TABLE entry (study TEXT NOT NULL, silo TEXT NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (study, silo));
CREATE TABLE run (digest TEXT PRIMARY KEY, terms TEXT NOT NULL, state TEXT NOT NULL, reason TEXT);
CREATE TABLE answer (run TEXT, round INTEGER, agent INTEGER, envelope BLOB NOT NULL, PRIMARY KEY (run, round, agent));
CREATE TABLE round (run TEXT, round INTEGER, inbox BLOB NOT NULL, estimate BLOB NOT NULL, time REAL NOT NULL,
    PRIMARY KEY (run, round));
CREATE TABLE log (time REAL NOT NULL, run TEXT NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL);
"""

NEW, WANTED, STOPPED, ENDED, DONE = "new", "wanted", "stopped", "ended", "done"
"""States of a run: nobody has asked for it; to be driven; stopped, until somebody asks again; ended for good; done."""

JOINING = -1
"""Stands for a round among the answers: the messages by which silos joined, with their signed mask keys."""

MOST_LOGGED = 10_000
"""Lines of its log that a run keeps, the latest ones."""


class CoordinatorStore:
    """The file, opened. Every method that writes is one transaction: durable as a whole when it returns."""

    def __init__(self, path: Path, *, for_reading: bool = False, any_thread: bool = False) -> None:
        """Open it; `any_thread`: whether it is used in another thread than this one, in one at a time."""
        if for_reading:
            self._connection = sqlite_file.connect_for_reading(path, APPLICATION, _TABLES)
        else:
            self._connection = sqlite_file.connect(path, APPLICATION, _TABLES, any_thread=any_thread)
        self.path, self._identity = path, identity(path)

    @classmethod
    def create(cls, path: Path) -> None:
        """Make an empty file."""
        sqlite_file.create(path, APPLICATION, _TABLES)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def check_in_place(self) -> None:
        """Refuse to go on where the file was replaced or removed: what is open here is no longer the coordinator's."""
        if identity(self.path) != self._identity:
            raise FederationStopped(
                f"The coordinator's file, {self.path}, was replaced or removed while it was in use. Put the newest one "
                "in its place, restart the coordinator, and run the command again to continue from there."
            )

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        return self._connection.execute(query, values).fetchall()

    def execute(self, statement: str, *values: Any) -> None:
        """Execute a statement within a transaction."""
        self._connection.execute(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the file alone; everything inside becomes durable together, or not at all."""
        with sqlite_file.exclusive(self._connection):
            yield

    def write(self, *statements: tuple[Any, ...]) -> None:
        """Execute statements, each with its values, in one transaction."""
        with self.transaction():
            for statement in statements:
                self.execute(*statement)

    def runs(self, *states: str) -> list[str]:
        """Return the digests of the runs in one of these states, or of all runs, in the order in which they began."""
        found = self.rows("SELECT digest, state FROM run ORDER BY rowid")
        return [digest for digest, state in found if not states or state in states]


class StoredRun:
    """The rows of one run."""

    def __init__(self, store: CoordinatorStore, digest: str) -> None:
        self.store, self.digest = store, digest

    @classmethod
    def start(cls, store: CoordinatorStore, terms: Terms) -> "StoredRun":
        """Write down a run that nobody has asked for yet; one that is there stays as it is."""
        store.write(("INSERT OR IGNORE INTO run VALUES (?, ?, ?, NULL)", terms.digest, terms.as_json(), NEW))
        return cls(store, terms.digest)

    def terms(self) -> Terms:
        """Return its terms."""
        return stored_terms(self.store.rows("SELECT terms FROM run WHERE digest = ?", self.digest)[0][0])

    def state(self) -> tuple[str, str | None]:
        """Return its state, and why it has stopped or ended."""
        ((state, reason),) = self.store.rows("SELECT state, reason FROM run WHERE digest = ?", self.digest)
        return state, reason

    def change_state(self, state: str, reason: str | None = None) -> None:
        """Change its state, and log it; what has ended or is done stays so."""
        change = "UPDATE run SET state = ?, reason = ? WHERE digest = ? AND state NOT IN (?, ?)"
        self.store.write((change, state, reason, self.digest, ENDED, DONE), *self._logged(state, reason or ""))

    def log(self, event: str, detail: str) -> None:
        """Write a line into its log."""
        self.store.write(*self._logged(event, detail))

    def _logged(self, event: str, detail: str) -> Iterable[tuple[Any, ...]]:
        yield "INSERT INTO log VALUES (?, ?, ?, ?)", time.time(), self.digest, event, detail
        oldest = "SELECT rowid FROM log WHERE run = ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"
        forget = f"DELETE FROM log WHERE run = ? AND rowid <= ({oldest})"
        yield forget, self.digest, self.digest, MOST_LOGGED

    def logged(self) -> list[tuple[str, str]]:
        """Return events and details, oldest first."""
        return self.store.rows("SELECT event, detail FROM log WHERE run = ? ORDER BY rowid", self.digest)

    def answers(self, k: int) -> dict[int, bytes]:
        """Return the envelopes with which silos have answered round k."""
        query = "SELECT agent, envelope FROM answer WHERE run = ? AND round = ? ORDER BY agent"
        return {int(agent): bytes(envelope) for agent, envelope in self.store.rows(query, self.digest, k)}

    def has_answer(self, agent: int, envelope: bytes) -> bool:
        """Return whether a silo has sent this before."""
        query = "SELECT 1 FROM answer WHERE run = ? AND agent = ? AND envelope = ?"
        return bool(self.store.rows(query, self.digest, agent, envelope))

    def add_answer(self, k: int, agent: int, envelope: bytes) -> None:
        """Keep a silo's answer to round k; the first one stays."""
        self.store.write(("INSERT OR IGNORE INTO answer VALUES (?, ?, ?, ?)", self.digest, k, agent, envelope))

    def last_round(self) -> int | None:
        """Return the last complete round."""
        ((found,),) = self.store.rows("SELECT MAX(round) FROM round WHERE run = ?", self.digest)
        return None if found is None else int(found)

    def add_round(self, k: int, inbox: Floats, estimate: Floats, *, is_last: bool) -> None:
        """Keep what the exchange of a round has made; the first one stays: its noise may have left."""
        row = (self.digest, k, sqlite_file.pack([inbox]), sqlite_file.pack([estimate]), time.time())
        done = ("UPDATE run SET state = ?, reason = NULL WHERE digest = ?", DONE, self.digest)
        self.store.write(("INSERT OR IGNORE INTO round VALUES (?, ?, ?, ?, ?)", *row), *([done] if is_last else []))

    def inbox(self, k: int) -> Floats:
        """Return what the exchange of a round has made."""
        ((found,),) = self.store.rows("SELECT inbox FROM round WHERE run = ? AND round = ?", self.digest, k)
        return sqlite_file.unpack(found)[0]

    def estimates(self) -> list[tuple[Floats, float]]:
        """Return the public estimate after each complete round of training, and when it was complete."""
        query = "SELECT estimate, time FROM round WHERE run = ? AND round > ? ORDER BY round"
        found = self.store.rows(query, self.digest, PROFILE_ROUND)
        return [(sqlite_file.unpack(estimate)[0], float(at)) for estimate, at in found]


class CoordinatorFiles(PartyDirectory):
    """The directory of a coordinator. key_file: its signing key. database: everything else that lasts."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.key_file, self.database = self.directory / "coordinator.key", self.directory / "coordinator.db"

    def create(self, key: SigningKey | None = None) -> SigningKey:
        """Make the directory of a new coordinator with its signing key, whole or not at all; nothing is overwritten."""
        need_extra()
        made = SigningKey.new() if key is None else key
        with new_directory(self.directory, "coordinator") as place:
            draft = CoordinatorFiles(place)
            CoordinatorStore.create(draft.database)
            made.save(draft.key_file)
        return made

    def is_made(self) -> bool:
        """Return whether there is a coordinator; one that was made but for its last step is completed."""
        finish_creation(self.directory)
        return self.key_file.exists()

    def check(self) -> None:
        """Refuse a directory that is no coordinator's, by name."""
        finish_creation(self.directory)
        if self.key_file.is_file() and self.database.is_file():
            return
        is_other = (self.directory / "policy.toml").exists()
        what = "a silo's directory" if is_other else "no coordinator's directory"
        raise InputError(f"{self.directory} is {what}. Give a directory made by `dpadmm coordinator init`.")

    def key(self) -> SigningKey:
        """Return the signing key."""
        self.check()
        return SigningKey.load(self.key_file)

    def open_store(self, *, for_reading: bool = False, any_thread: bool = False) -> CoordinatorStore:
        """Open the file."""
        self.check()
        return CoordinatorStore(self.database, for_reading=for_reading, any_thread=any_thread)

    def invitation(self, study: str, silo: str) -> Path:
        """Return where the invitation of a silo is written, to be sent to its owner."""
        return self.directory / "invitations" / study / f"{silo}.invite"
