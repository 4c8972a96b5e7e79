"""A silo's answers, kept in its state file; and whether that file and the ledger tell the same story."""

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpadmm.errors import ResumeError
from dpadmm.federation import durable
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.messages import Step
from dpadmm.federation.refusal import Refusal
from dpadmm.federation.run_store import stored_terms
from dpadmm.federation.step import State
from dpadmm.federation.terms import agreed_run
from dpadmm.privacy.ledger import Ledger, SiloColumns
from dpadmm.privacy.records import Origin

Marks = dict[str, dict[int, str]]
"""By run and round, the digest of an answer."""


def paid_labels(agreement: Agreement) -> dict[str, Any]:
    """Return what a ledger keeps of a run beside its releases."""
    return {"run": agreement.paid_run, "algorithm": agreement.method, "origin": Origin.SECURE}


def digest_of(reply: bytes) -> str:
    """Return the digest by which a ledger knows an answer."""
    return hashlib.sha256(reply).hexdigest()


class AnswerStore:
    """The answers in a silo's state file; who calls holds the file where that matters.

    seen: by terms and round, the digests of answers that were seen in it (`vouching.Session`).
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, seen: dict[tuple[str, int], str]) -> None:
        self._connection, self._path, self._digests = connection, path, seen
        self._runs: dict[str, str] = {}

    def find(self, request: Step, asked: str) -> bytes | None:
        """Return the answer given to this very request; refuse another request for an answered round."""
        query = "SELECT request, reply FROM answers WHERE digest = ? AND round = ?"
        found = self._connection.execute(query, (request.digest, request.round)).fetchone()
        if found is None:
            return None
        if found[0] != asked:
            raise Refusal(
                f"Round {request.round} was already answered, to a different request; a round is answered only once."
            )
        return bytes(found[1])

    def last(self, digest: str) -> tuple[int | None, State | None]:
        """Return the last answered round and the state after it, None if the run ended there."""
        query = "SELECT round, state FROM answers WHERE digest = ? ORDER BY round DESC LIMIT 1"
        row = self._connection.execute(query, (digest,)).fetchone()
        if row is None:
            return None, None
        return int(row[0]), None if row[1] is None else durable.unpack(row[1])

    def rounds(self) -> dict[str, int]:
        """Return the last answered rounds of all runs, the latest first, by their terms as JSON."""
        query = "SELECT terms, MAX(round) FROM answers JOIN joined USING (digest) GROUP BY digest "
        query += "ORDER BY joined.rowid DESC"
        return {str(terms): int(k) for terms, k in self._connection.execute(query).fetchall()}

    def store(self, request: Step, asked: str, state: State | None, reply: bytes) -> None:
        """Write state and answer; they become durable when the transaction ends, before the answer leaves."""
        self._connection.execute("UPDATE answers SET state = NULL WHERE digest = ?", (request.digest,))
        row = (request.digest, request.round, asked, None if state is None else durable.pack(state), reply)
        self._connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", row)

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

    def unmarked(self, marked: Marks) -> list[tuple[Agreement, int, str]]:
        """Return the answers without a mark: their terms, their rounds, in order, and their digests."""
        lacking = {run: sorted(marks.keys() - marked.get(run, {}).keys()) for run, marks in self.marks().items()}
        if not any(lacking.values()):
            return []
        texts = [str(text) for (text,) in self._connection.execute("SELECT terms FROM joined")]
        terms = [each for each in map(stored_terms, texts) if lacking.get(each.paid_run)]
        return [(each, k, self._digests[each.digest, k]) for each in terms for k in lacking[each.paid_run]]

    def settle(self, ledger: Ledger, name: str, table: Callable[[], SiloColumns]) -> None:
        """Mark every answer that has no mark, of any run, and pay for it first where the ledger does not know of it.

        Its process ended between the two. Or it has left, and the ledger is an older copy, by one round of each run.
        name: the silo's. table: reads its data, where something must be paid.
        """
        for agreement, k, digest in self.unmarked(ledger.answers()):
            labels = paid_labels(agreement)
            paid = ledger.newest_round(labels["run"])
            if paid is None or paid < k:
                releases = agreed_run(agreement).releases(agreement.agent(name), k)
                if releases:
                    ledger.confirm([table()]).reserve(releases, **labels)
            ledger.mark_answer(labels["run"], k, digest)

    def has_left(self, request: Step, reply: bytes) -> None:
        """Remember an answer that leaves: a file that was put back in place, during this session, lacks it."""
        self._digests[request.digest, request.round] = digest_of(reply)

    def marks(self) -> Marks:
        """Return the digests of all answers."""
        found: Marks = defaultdict(dict)
        rows = [(str(digest), int(k)) for digest, k in self._connection.execute("SELECT digest, round FROM answers")]
        if self._digests.keys() - set(rows):
            raise ResumeError(f"{self._path} was replaced by an older copy while in use. Restore the newest one.")
        for digest, k in rows:
            if (digest, k) not in self._digests:  # large ones are read once only
                query = "SELECT reply FROM answers WHERE digest = ? AND round = ?"
                self._digests[digest, k] = digest_of(self._connection.execute(query, (digest, k)).fetchone()[0])
            found[self._run(digest)][k] = self._digests[digest, k]
        return found

    def _run(self, digest: str) -> str:
        """Return what the ledger calls a run."""
        if digest not in self._runs:
            (terms,) = self._connection.execute("SELECT terms FROM joined WHERE digest = ?", (digest,)).fetchone()
            self._runs[digest] = stored_terms(terms).paid_run
        return self._runs[digest]
