"""A silo's state file: runs, answers, mask keys, a log; and whether that file and the ledger tell the same story."""

import hashlib
import json
import logging
import secrets
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpadmm.errors import ResumeError
from dpadmm.federation import identity, sqlite_file
from dpadmm.federation.agreement import DAMAGED, Agreement, stored_terms
from dpadmm.federation.errors import NotApproved, Refusal, printable
from dpadmm.federation.keys import fingerprint, read_fingerprint
from dpadmm.federation.masked_sums import Roster, masks_among, read_roster
from dpadmm.federation.messages import Step
from dpadmm.federation.silo_directory import APPLICATION, TABLES, SiloDirectory
from dpadmm.federation.silo_round import State
from dpadmm.federation.terms import AgreedRun, agreed_run
from dpadmm.files import parse_json
from dpadmm.noise.masks import MaskKey, PairwiseMasks
from dpadmm.privacy.ledger import Ledger, SiloColumns
from dpadmm.privacy.releases import Origin

MOST_REFUSALS = 10_000
"""Refusals that a silo's log keeps, the latest ones."""

Marks = dict[str, dict[int, str]]
"""By run and round, the digest of an answer."""

_NOT_CLOSED = "digest NOT IN (SELECT digest FROM closed)"
_log = logging.getLogger("dpadmm.silo")


@dataclass(frozen=True)
class LogEntry:
    """One line of a silo's own log."""

    time: str
    event: str
    detail: str


def paid_labels(agreement: Agreement) -> dict[str, Any]:
    """Return what a ledger keeps of a run beside its releases."""
    return {"run": agreement.paid_run, "algorithm": agreement.method, "origin": Origin.SECURE}


def digest_of(reply: bytes) -> str:
    """Return the digest by which a ledger knows an answer."""
    return hashlib.sha256(reply).hexdigest()


@contextmanager
def open_store(files: SiloDirectory, *, for_reading: bool = False) -> Iterator["SiloStore"]:
    """Open a silo's state; for reading nothing is written, and no other process is kept waiting."""
    connect = sqlite_file.connect_for_reading if for_reading else sqlite_file.connect
    with closing(connect(files.state, APPLICATION, TABLES)) as connection:
        yield SiloStore(connection, files.state, {})


class SiloStore:
    """What a silo keeps in its state file; who calls holds the file where that matters.

    seen: by terms and round, the digests of answers that were seen in it (`rollback_detection.Session`).
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, seen: dict[tuple[str, int], str]) -> None:
        self._connection, self._path, self._digests = connection, path, seen
        connection.execute("PRAGMA secure_delete = ON")  # an erased key is overwritten
        self._ready: dict[tuple[str, Roster], PairwiseMasks] = {}
        self._has_erased = True  # perhaps by a process that was killed before it emptied the log
        self._paid_runs: dict[str, str] = {}

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return what a query finds, at once: an open one would hold back a checkpoint."""
        return self._execute(query, *values).fetchall()

    def _one(self, query: str, *values: object) -> Any:
        return self._execute(query, *values).fetchone()

    def _execute(self, query: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(query, values)

    def note(self, event: str, detail: str) -> None:
        """Write one line of the log, here and for whoever watches the process."""
        _log.log(logging.WARNING if event == "refused" else logging.INFO, "%s: %s", event, printable(detail))
        self._execute("INSERT INTO log VALUES (?, ?, ?)", sqlite_file.now("milliseconds"), event, printable(detail))
        if event == "refused":  # whoever asks in vain as often as he likes fills no disk
            oldest = "SELECT rowid FROM log WHERE event = 'refused' ORDER BY rowid DESC LIMIT 1 OFFSET ?"
            self._execute(f"DELETE FROM log WHERE rowid = ({oldest})", MOST_REFUSALS)

    def log(self) -> list[LogEntry]:
        """Return all lines of the log, oldest first."""
        return [LogEntry(*row) for row in self.rows("SELECT time, event, detail FROM log ORDER BY rowid")]

    def approve(self, terms: Agreement) -> None:
        """Keep the owner's word that these terms may be run."""
        self.check_open(terms.digest)
        row = (terms.digest, terms.as_json(), sqlite_file.now("milliseconds"))
        self._execute("INSERT OR IGNORE INTO approved VALUES (?, ?, ?)", *row)

    def agreements(self, *, are_joined: bool = False, with_closed: bool = False) -> list[Agreement]:
        """Return all terms that were approved, or joined, and are not closed, the oldest first."""
        table = "joined" if are_joined else "approved"
        query = f"SELECT terms FROM {table} {'' if with_closed else f'WHERE {_NOT_CLOSED}'} ORDER BY rowid"
        return [stored_terms(text) for (text,) in self.rows(query)]

    def is_joined(self, digest: str) -> bool:
        """Return whether a run was joined."""
        return self._one("SELECT 1 FROM joined WHERE digest = ?", digest) is not None

    def is_closed(self, digest: str) -> bool:
        """Return whether a run was closed."""
        return self._one("SELECT 1 FROM closed WHERE digest = ?", digest) is not None

    def count_answers(self) -> int:
        """Return how many rounds were answered, of all runs."""
        return int(self._one("SELECT COUNT(*) FROM answers")[0])

    def latest_refusals(self, number: int) -> tuple[LogEntry, ...]:
        """Return the latest refusals, the latest first."""
        query = "SELECT time, event, detail FROM log WHERE event = 'refused' ORDER BY rowid DESC LIMIT ?"
        return tuple(LogEntry(*row) for row in self.rows(query, number))

    def known_key(self) -> str:
        """Return the identity key that the state belongs to."""
        return identity.known_key(self._connection)

    def change_key(self, public: str, detail: str) -> None:
        """Let the state belong to this identity key, and log it, in one step."""
        with sqlite_file.exclusive(self._connection):
            identity.set_key(self._connection, public)
            self.note("new key", detail)

    def check_approved(self, agreement: Agreement) -> None:
        """Refuse terms that the owner has not approved."""
        self.check_open(agreement.digest)
        found = self._one("SELECT 1 FROM approved WHERE digest = ?", agreement.digest)
        if found is None:
            raise NotApproved(
                f"The terms of run {agreement.run!r} (digest {agreement.digest[:16]}...) have not been approved by the "
                "owner of this silo yet: run `dpadmm silo join` or `dpadmm silo approve` there."
            )

    def join(self, agreement: Agreement) -> bool:
        """Write down that a run is joined, with a secret of its own; say whether it is new."""
        self.check_open(agreement.digest)
        row = (agreement.digest, agreement.as_json(), secrets.token_hex(16), sqlite_file.now("milliseconds"))
        return self._execute("INSERT OR IGNORE INTO joined VALUES (?, ?, ?, ?)", *row).rowcount > 0

    def joined(self, digest: str) -> tuple[Agreement, int]:
        """Return the terms and the secret of a run that was joined and is not closed."""
        self.check_open(digest)
        row = self._one("SELECT terms, secret FROM joined WHERE digest = ?", digest)
        if row is None:
            raise Refusal(f"This silo has not joined a run with the terms {digest[:16]}...")
        try:
            return stored_terms(row[0]), int(row[1], 16)
        except ValueError as problem:
            raise ResumeError(DAMAGED) from problem

    def close(self, digest: str, reason: str) -> None:
        """Write down that nothing is answered in this run any more, whatever happens."""
        self._execute("INSERT OR IGNORE INTO closed VALUES (?, ?, ?)", digest, reason, sqlite_file.now("milliseconds"))
        self._execute("UPDATE answers SET state = NULL WHERE digest = ?", digest)
        self.erase_masks(digest)

    def check_open(self, digest: str) -> None:
        """Refuse a run that was closed."""
        if self.is_closed(digest):
            raise Refusal(
                f"The run with the terms {digest[:16]}... is permanently closed at this silo. Agree on a new run, "
                "under a new name."
            )

    def find(self, request: Step, asked: str) -> bytes | None:
        """Return the answer given to this very request; refuse another request for an answered round."""
        query = "SELECT request, reply FROM answers WHERE digest = ? AND round = ?"
        found = self._one(query, request.digest, request.round)
        if found is None:
            return None
        if found[0] != asked:
            raise Refusal(
                f"Round {request.round} was already answered, to a different request; a round is answered only once."
            )
        return bytes(found[1])

    def last(self, digest: str) -> tuple[int | None, State | None]:
        """Return the last answered round and the state after it, None if the run ended there."""
        row = self._one("SELECT round, state FROM answers WHERE digest = ? ORDER BY round DESC LIMIT 1", digest)
        if row is None:
            return None, None
        return int(row[0]), None if row[1] is None else sqlite_file.unpack(row[1])

    def rounds(self) -> dict[str, int]:
        """Return the last answered rounds of all runs, the latest first, by their terms as JSON."""
        query = "SELECT terms, MAX(round) FROM answers JOIN joined USING (digest) GROUP BY digest "
        return {str(terms): int(k) for terms, k in self.rows(f"{query} ORDER BY joined.rowid DESC")}

    def store(self, request: Step, asked: str, state: State | None, reply: bytes) -> None:
        """Write state and answer; they become durable when the transaction ends, before the answer leaves."""
        self._execute("UPDATE answers SET state = NULL WHERE digest = ?", request.digest)
        row = (request.digest, request.round, asked, None if state is None else sqlite_file.pack(state), reply)
        self._execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", *row)

    def check(self, marked: Marks) -> None:
        """Refuse a state that lacks, or has otherwise, an answer that the ledger has marked, or has too many others.

        The last answer of a run may be without a mark: its process ended between the two. It has not left.
        """
        stored = self.marks()
        for run, marks in marked.items():
            lost = [k for k, digest in marks.items() if stored.get(run, {}).get(k) != digest]
            if lost:
                raise ResumeError(
                    f"The ledger has recorded an answer to round {max(lost)} of {run} that is missing from "
                    f"{self._path}: that file is an older copy. Restore the newest one."
                )
        for run, answers in stored.items():
            if any(k not in marked.get(run, {}) for k in sorted(answers)[:-1]):
                raise ResumeError(
                    f"{self._path} has answers of {run} that the ledger does not know: the ledger is an older copy. "
                    "Restore the newest one."
                )

    def settle(self, ledger: Ledger, name: str, table: Callable[[], SiloColumns]) -> None:
        """Mark every answer that has no mark, of any run, and pay for it first where the ledger does not know of it.

        Its process ended between the two. Or it has left, and the ledger is an older copy, by one round of each run.
        name: the silo's. table: reads its data, where something must be paid.
        """
        marked = ledger.answers()
        lacking = {run: sorted(marks.keys() - marked.get(run, {}).keys()) for run, marks in self.marks().items()}
        if not any(lacking.values()):
            return
        for (text,) in self.rows("SELECT terms FROM joined"):
            agreement = stored_terms(text)
            labels = paid_labels(agreement)
            for k in lacking.get(labels["run"], ()):
                paid = ledger.newest_round(labels["run"])
                if paid is None or paid < k:
                    releases = agreed_run(agreement).releases(agreement.agent(name), k)
                    if releases:
                        ledger.confirm([table()]).reserve(releases, **labels)
                ledger.mark_answer(labels["run"], k, self._digests[agreement.digest, k])

    def remember(self, request: Step, reply: bytes) -> None:
        """Remember an answer that leaves: a file that was put back in place, during this session, lacks it."""
        self._digests[request.digest, request.round] = digest_of(reply)

    def marks(self) -> Marks:
        """Return the digests of all answers."""
        found: Marks = defaultdict(dict)
        rows = [(str(digest), int(k)) for digest, k in self.rows("SELECT digest, round FROM answers")]
        if self._digests.keys() - set(rows):
            raise ResumeError(f"{self._path} was replaced by an older copy while in use. Restore the newest one.")
        for digest, k in rows:
            if (digest, k) not in self._digests:  # large ones are read once only
                query = "SELECT reply FROM answers WHERE digest = ? AND round = ?"
                self._digests[digest, k] = digest_of(self._one(query, digest, k)[0])
            if digest not in self._paid_runs:
                (terms,) = self._one("SELECT terms FROM joined WHERE digest = ?", digest)
                self._paid_runs[digest] = stored_terms(terms).paid_run
            found[self._paid_runs[digest]][k] = self._digests[digest, k]
        return found

    def confirm(self, name: str, told: str) -> None:
        """Keep the fingerprint of a participant's identity key, as its owner has told it."""
        self._execute("INSERT OR REPLACE INTO peers VALUES (?, ?)", name, read_fingerprint(name, told))

    def unconfirmed(self, agreement: Agreement, own: str) -> list[str]:
        """Return who takes part, beside the silo `own`, with an identity key that its owner has not confirmed."""
        known = dict(self.rows("SELECT name, fingerprint FROM peers"))
        return [
            person.name
            for person in agreement.participants
            if person.name != own and known.get(person.name) != fingerprint(person.key).replace("-", "")
        ]

    def check_peers(self, agreement: Agreement, own: str) -> None:
        """Refuse terms under masks with identities that came from nobody but the coordinator."""
        strangers = self.unconfirmed(agreement, own) if agreement.is_masked else []
        if strangers:
            raise Refusal(
                f"The identity keys of {', '.join(strangers)} are not confirmed: whoever wrote the terms could have "
                "invented these silos, or could be impersonating them. Ask their owners, over a channel other than the "
                "coordinator, for the fingerprints that `dpadmm silo show` prints there, and pass them to `dpadmm silo "
                "approve --peer NAME=FINGERPRINT`."
            )

    def mask_key(self, digest: str) -> str:
        """Return the public part of this silo's mask key for these terms; made once, and never again."""
        row = self._one("SELECT public FROM masks WHERE digest = ?", digest)
        if row is not None:
            return str(row[0])
        key = MaskKey.create()
        self._execute("INSERT INTO masks VALUES (?, ?, ?, NULL)", digest, key.public, key.secret)
        return key.public

    def take_masks(self, terms: AgreedRun, agent: int, request: Step) -> tuple[PairwiseMasks, Step]:
        """Return this silo's masks with all others; the first request brings the roster, and is returned without."""
        digest = terms.agreement.digest
        public, secret, kept = self._one("SELECT public, secret, roster FROM masks WHERE digest = ?", digest)
        if secret is None:
            raise Refusal("The masks of this run have been erased, so no further round is answered.")
        roster: Roster | None = None if kept is None else tuple(parse_json(kept))
        if request.round == terms.first_round:
            shown = read_roster(terms, request.relay, agent, public)
            if roster is not None and shown != roster:
                raise Refusal("Different mask keys were relayed earlier for this run; they are accepted only once.")
            roster, request = shown, replace(request, relay=())
        if roster is None:
            raise Refusal("No mask keys were relayed with the first round of this run.")
        if (digest, roster) not in self._ready:  # secrets are agreed on with all others once, not in every round
            self._ready[digest, roster] = masks_among(terms.agreement, agent, MaskKey.of(secret), roster)
        if kept is None:
            self._execute("UPDATE masks SET roster = ? WHERE digest = ?", json.dumps(roster), digest)
        return self._ready[digest, roster], request

    def erase_masks(self, digest: str) -> None:
        """Forget the secret part of a mask key: no other masks of this run will be needed, nor can be made."""
        query = "UPDATE masks SET secret = NULL WHERE digest = ? AND secret IS NOT NULL"
        self._has_erased |= self._execute(query, digest).rowcount > 0
        self._ready = {place: masks for place, masks in self._ready.items() if place[0] != digest}

    def flush(self) -> None:
        """Empty the write-ahead log, where it holds what was erased as well; not within a transaction."""
        if self._has_erased:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._has_erased = False
