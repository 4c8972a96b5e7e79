"""What a silo keeps: one SQLite file, its ledger's, with further tables for runs, answers, mask keys, peers and a log.

The payment for a round and its answer are one commit, so that no crash parts them (`privacy.ledger.store` says how it
is made durable). An older copy of the file beside its newer `.head` is refused by the ledger; one that was put back
together with it is recognised by the other silos (`rollback_detection`).
"""

import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dpadmm.errors import ResumeError
from dpadmm.federation import sqlite_file
from dpadmm.federation.errors import NotApproved, Refusal, printable
from dpadmm.federation.keys import fingerprint, read_fingerprint
from dpadmm.federation.masked_sums import Roster, masks_among, read_roster
from dpadmm.federation.messages import Step
from dpadmm.federation.silo_directory import SiloDirectory
from dpadmm.federation.silo_round import State
from dpadmm.federation.terms import NoiseOrigin, Terms, stored_terms
from dpadmm.files import parse_json
from dpadmm.noise.masks import MaskKey, PairwiseMasks
from dpadmm.privacy.ledger import ConfirmedLedger, Ledger, Transaction, open_for_reading
from dpadmm.privacy.releases import Origin

MOST_REFUSALS = 10_000
"""Refusals that a silo's log keeps, the latest ones."""

_log = logging.getLogger("dpadmm.silo")


@dataclass(frozen=True)
class LogEntry:
    """One line of a silo's own log."""

    time: str
    event: str
    detail: str


def paid_labels(terms: Terms) -> dict[str, Any]:
    """Return what a ledger keeps of a run beside its releases."""
    return {"run": terms.paid_run, "algorithm": terms.method, "origin": Origin.SECURE}


@contextmanager
def open_store(files: SiloDirectory, noise: NoiseOrigin, *, for_reading: bool = False) -> Iterator["SiloStore"]:
    """Open a silo's file; for reading nothing is written."""
    with (open_for_reading if for_reading else Ledger.open)(files.ledger(noise)) as ledger:
        yield SiloStore(ledger)


class SiloStore:
    """The tables beside the ledger's own. Every method that writes does so in the open transaction, or in its own."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._work: Transaction | None = None
        self._ready: dict[tuple[str, Roster], PairwiseMasks] = {}

    @contextmanager
    def transaction(self, data: ConfirmedLedger | None = None) -> Iterator[Transaction]:
        """Make durable together what the block writes, and reserves for `data`; or nothing, where it fails."""
        with self.ledger.transaction(data) as work:
            self._work = work
            try:
                yield work
            finally:
                self._work = None

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        return self.ledger.select(query, values) if self._work is None else self._work.execute(query, values)

    def _one(self, query: str, *values: object) -> Any:
        return next(iter(self.rows(query, *values)), None)

    def _write(self, statement: str, *values: object) -> None:
        if self._work is not None:
            self._work.execute(statement, values)
            return
        with self.transaction():
            self._write(statement, *values)

    def note(self, event: str, detail: str) -> None:
        """Write one line of the log, here and for whoever watches the process."""
        _log.log(logging.WARNING if event == "refused" else logging.INFO, "%s: %s", event, printable(detail))
        self._write("INSERT INTO log VALUES (?, ?, ?)", sqlite_file.now("milliseconds"), event, printable(detail))
        if event == "refused":  # whoever asks in vain as often as he likes fills no disk
            oldest = "SELECT rowid FROM log WHERE event = 'refused' ORDER BY rowid DESC LIMIT 1 OFFSET ?"
            self._write(f"DELETE FROM log WHERE rowid = ({oldest})", MOST_REFUSALS)

    def log(self) -> list[LogEntry]:
        """Return all lines of the log, oldest first."""
        return [LogEntry(*row) for row in self.rows("SELECT time, event, detail FROM log ORDER BY rowid")]

    def latest_refusals(self, number: int) -> tuple[LogEntry, ...]:
        """Return the latest refusals, the latest first."""
        query = "SELECT time, event, detail FROM log WHERE event = 'refused' ORDER BY rowid DESC LIMIT ?"
        return tuple(LogEntry(*row) for row in self.rows(query, number))

    def key(self) -> str:
        """Return the identity key that the file belongs to."""
        row = self._one("SELECT key FROM identity")
        if row is None or len(str(row[0])) != 64:
            raise ResumeError("What the silo's file keeps of its key is damaged. Restore it from a backup.")
        return str(row[0])

    def change_key(self, public: str, detail: str) -> None:
        """Let the file belong to this identity key, and log it, in one step."""
        with self.transaction():
            self._write("UPDATE identity SET key = ?", public)
            self.note("new key", detail)

    # --- runs --------------------------------------------------------------------------------------------------------

    def approve(self, terms: Terms) -> None:
        """Keep the owner's approval of these terms."""
        self.check_open(terms.digest)
        row = (terms.digest, terms.as_json(), sqlite_file.now("milliseconds"))
        self._write("INSERT OR IGNORE INTO run VALUES (?, ?, NULL, NULL, ?)", *row)

    def all_terms(self, *, are_joined: bool = False, with_closed: bool = False) -> list[Terms]:
        """Return all terms that were approved, or joined, and are not closed, the oldest first."""
        query = "SELECT terms FROM run WHERE (? OR secret IS NOT NULL) AND (? OR closed IS NULL) ORDER BY rowid"
        return [stored_terms(text) for (text,) in self.rows(query, not are_joined, with_closed)]

    def is_joined(self, digest: str) -> bool:
        """Return whether a run was joined."""
        return self._one("SELECT 1 FROM run WHERE digest = ? AND secret IS NOT NULL", digest) is not None

    def is_closed(self, digest: str) -> bool:
        """Return whether a run was closed."""
        return self._one("SELECT 1 FROM run WHERE digest = ? AND closed IS NOT NULL", digest) is not None

    def check_open(self, digest: str) -> None:
        """Refuse a run that was closed."""
        if self.is_closed(digest):
            raise Refusal(
                f"The run with the terms {digest[:16]}... is permanently closed at this silo. Agree on a new run, "
                "under a new name."
            )

    def join(self, terms: Terms) -> bool:
        """Write down that an approved run is joined, with a secret of its own; say whether it is new."""
        self.approved(terms)  # it may have been closed by now
        if self.is_joined(terms.digest):
            return False
        self._write("UPDATE run SET secret = ? WHERE digest = ?", secrets.token_hex(16), terms.digest)
        return True

    def approved(self, terms: Terms) -> Terms:
        """Return approved terms as they are kept, with what was derived from them; refuse those that are not."""
        self.check_open(terms.digest)
        if self._one("SELECT 1 FROM run WHERE digest = ?", terms.digest) is None:
            raise NotApproved(
                f"The terms of run {terms.run!r} (digest {terms.digest[:16]}...) have not been approved by the owner "
                "of this silo yet: run `dpadmm silo join` or `dpadmm silo approve` there."
            )
        return stored_terms(terms.as_json())

    def joined(self, digest: str) -> tuple[Terms, int]:
        """Return the terms and the secret of a run that was joined and is not closed."""
        self.check_open(digest)
        row = self._one("SELECT terms, secret FROM run WHERE digest = ? AND secret IS NOT NULL", digest)
        if row is None:
            raise Refusal(f"This silo has not joined a run with the terms {digest[:16]}...")
        try:
            return stored_terms(row[0]), int(row[1], 16)
        except ValueError as problem:
            raise ResumeError("What the silo's file keeps of a run is damaged. Restore it from a backup.") from problem

    def close(self, digest: str, reason: str) -> None:
        """Write down that nothing is answered in this run any more, whatever happens."""
        self._write("UPDATE run SET closed = ? WHERE digest = ? AND closed IS NULL", reason, digest)
        self._write("UPDATE answer SET state = NULL WHERE digest = ?", digest)
        self.erase_masks(digest)

    # --- answers -----------------------------------------------------------------------------------------------------

    def find(self, request: Step, asked: str) -> bytes | None:
        """Return the answer given to this very request; refuse another request for an answered round."""
        query = "SELECT request, reply FROM answer WHERE digest = ? AND round = ?"
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
        row = self._one("SELECT round, state FROM answer WHERE digest = ? ORDER BY round DESC LIMIT 1", digest)
        if row is None:
            return None, None
        return int(row[0]), None if row[1] is None else sqlite_file.unpack(row[1])

    def rounds(self) -> dict[str, int]:
        """Return the last answered rounds of all runs, those answered last first, by their terms as JSON."""
        query = "SELECT terms, MAX(round) FROM answer JOIN run USING (digest) GROUP BY digest "
        return {str(terms): int(k) for terms, k in self.rows(f"{query} ORDER BY MAX(answer.rowid) DESC")}

    def count_answers(self) -> int:
        """Return how many rounds were answered, of all runs."""
        return int(self._one("SELECT COUNT(*) FROM answer")[0])

    def add_answer(self, request: Step, asked: str, state: State | None, reply: bytes) -> None:
        """Keep the answer, and the state after it alone."""
        self._write("UPDATE answer SET state = NULL WHERE digest = ?", request.digest)
        row = (request.digest, request.round, asked, None if state is None else sqlite_file.pack(state), reply)
        self._write("INSERT INTO answer VALUES (?, ?, ?, ?, ?)", *row)

    # --- peers and masks ---------------------------------------------------------------------------------------------

    def confirm(self, name: str, reported: str) -> None:
        """Keep the fingerprint of a participant's identity key, as its owner has stated it."""
        self._write("INSERT OR REPLACE INTO peer VALUES (?, ?)", name, read_fingerprint(name, reported))

    def unconfirmed(self, terms: Terms, own: str) -> list[str]:
        """Return who takes part, beside the silo `own`, with an identity key that its owner has not confirmed."""
        known = dict(self.rows("SELECT name, fingerprint FROM peer"))
        return [
            person.name
            for person in terms.participants
            if person.name != own and known.get(person.name) != fingerprint(person.key).replace("-", "")
        ]

    def check_peers(self, terms: Terms, own: str) -> None:
        """Refuse terms under masks with identities that came from nobody but the coordinator."""
        strangers = self.unconfirmed(terms, own) if terms.is_masked else []
        if strangers:
            raise Refusal(
                f"The identity keys of {', '.join(strangers)} are not confirmed: whoever wrote the terms could have "
                "invented these silos, or could be impersonating them. Ask their owners, over a channel other than the "
                "coordinator, for the fingerprints that `dpadmm silo show` prints there, and pass them to `dpadmm silo "
                "approve --peer NAME=FINGERPRINT`."
            )

    def mask_key(self, digest: str) -> str:
        """Return the public part of this silo's mask key for these terms; made once, and never again."""
        row = self._one("SELECT public FROM mask WHERE digest = ?", digest)
        if row is not None:
            return str(row[0])
        key = MaskKey.create()
        self._write("INSERT INTO mask VALUES (?, ?, ?, NULL)", digest, key.public, key.secret)
        return key.public

    def take_masks(self, terms: Terms, agent: int, request: Step) -> tuple[PairwiseMasks, Step]:
        """Return this silo's masks with all others; the first request brings the roster, and is returned without."""
        digest = terms.digest
        public, secret, kept = self._one("SELECT public, secret, roster FROM mask WHERE digest = ?", digest)
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
            self._ready[digest, roster] = masks_among(terms, agent, MaskKey.of(secret), roster)
        if kept is None:
            self._write("UPDATE mask SET roster = ? WHERE digest = ?", json.dumps(roster), digest)
        return self._ready[digest, roster], request

    def erase_masks(self, digest: str) -> None:
        """Forget the secret part of a mask key: no other masks of this run will be needed, nor can be made."""
        self._write("UPDATE mask SET secret = NULL WHERE digest = ?", digest)
        self._ready = {place: masks for place, masks in self._ready.items() if place[0] != digest}
