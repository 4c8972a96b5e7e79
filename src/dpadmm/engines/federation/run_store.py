"""The runs in a silo's state file: terms that its owner approved, runs that it joined, and those closed for good."""

import logging
import secrets
import sqlite3

from dpadmm.engines.federation.agreement import Agreement
from dpadmm.engines.federation.messages import Join
from dpadmm.engines.federation.refusal import NotApproved, Refusal, printable
from dpadmm.engines.federation.silo_log import now
from dpadmm.engines.federation.terms import AgreedRun
from dpadmm.errors import InputError, ResumeError

# Made when a silo is opened: files of earlier versions have none.
CLOSED_TABLE = "CREATE TABLE IF NOT EXISTS closed (digest TEXT PRIMARY KEY, reason TEXT NOT NULL, time TEXT NOT NULL);"
_NOT_CLOSED = "digest NOT IN (SELECT digest FROM closed)"
_log = logging.getLogger("dpadmm.silo")
_NO_HEIR = "digest NOT IN (SELECT parent FROM joined)"


class RunStore:
    """What a silo knows of its runs; who calls holds the file where that matters."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._refused = connection, set[str]()
        connection.execute(CLOSED_TABLE)

    def approve(self, terms: Agreement) -> None:
        """Keep the owner's word that these terms may be run."""
        self.check_open(terms.digest)
        row = (terms.digest, terms.as_json(), now())
        self._connection.execute("INSERT OR IGNORE INTO approved VALUES (?, ?, ?)", row)

    def agreements(self) -> list[Agreement]:
        """Return all terms that were approved here, or joined since others left, and are not closed."""
        query = f"SELECT terms FROM approved WHERE {_NOT_CLOSED} UNION SELECT terms FROM joined WHERE {_NOT_CLOSED}"
        return self._terms(query)

    def newest_forms(self) -> list[Agreement]:
        """Return those of them that have not gone on without somebody."""
        heirs = {digest for (digest,) in self._connection.execute("SELECT parent FROM joined").fetchall()}
        return [each for each in self.agreements() if each.digest not in heirs]

    def under_way(self) -> list[Agreement]:
        """Return the runs that were joined, in their newest form, and are not closed."""
        return self._terms(f"SELECT terms FROM joined WHERE {_NOT_CLOSED} AND {_NO_HEIR} ORDER BY rowid")

    def _terms(self, query: str) -> list[Agreement]:
        """Return stored terms; those that this version refuses are passed over, and logged once."""
        found = []
        for (text,) in self._connection.execute(query).fetchall():
            try:
                found.append(Agreement.from_json(text))
            except InputError as problem:
                if text not in self._refused:
                    _log.warning("refused: terms of an earlier version in the silo's file: %s", printable(str(problem)))
                    self._refused.add(text)
        return found

    def check_approved(self, agreement: Agreement, request: Join, parent: AgreedRun | None) -> None:
        """Refuse terms that the owner has not approved, and that do not follow from approved ones when silos leave."""
        self.check_open(agreement.digest)
        if parent is not None:
            if agreement.coordinator != parent.agreement.coordinator or request.left_in > parent.agreement.rounds:
                raise Refusal("These terms do not follow from those they claim to continue.")
            names = agreement.left[len(parent.agreement.left) :]
            if parent.without(names, request.left_in) != agreement:
                raise Refusal("These terms do not follow from those they claim to continue.")
            return
        found = self._connection.execute("SELECT 1 FROM approved WHERE digest = ?", (agreement.digest,)).fetchone()
        if found is None:
            raise NotApproved(
                f"The terms of run {agreement.run!r} (digest {agreement.digest[:16]}...) have not been approved by the "
                "owner of this silo yet: run `dpadmm silo join` or `dpadmm silo approve` there."
            )

    def check_only_heir(self, agreement: Agreement, request: Join, answered: int | None) -> None:
        """Refuse a second way for a run to go on: two would each spend what is left.

        answered: the last round that was answered before silos left.
        """
        query = "SELECT digest FROM joined WHERE parent = ? AND parent != '' AND digest != ?"
        if self._connection.execute(query, (request.parent, agreement.digest)).fetchone():
            raise Refusal("This run has already continued, without some of its silos.")
        if request.parent and (answered or 0) > request.left_in:
            raise Refusal("More rounds have been answered than these terms count as spent.")

    def check_no_heir(self, digest: str) -> None:
        """Refuse a run that has gone on without somebody, in its old form."""
        if self._connection.execute("SELECT 1 FROM joined WHERE parent = ?", (digest,)).fetchone():
            raise Refusal("This run has continued without a silo; its earlier terms are closed.")

    def join(self, agreement: Agreement, parent: str) -> bool:
        """Write down that a run is joined, with a secret of its own; say whether it is new."""
        self.check_open(agreement.digest)
        row = (agreement.digest, parent, agreement.as_json(), secrets.token_hex(16), now())
        return self._connection.execute("INSERT OR IGNORE INTO joined VALUES (?, ?, ?, ?, ?)", row).rowcount > 0

    def joined(self, digest: str) -> tuple[Agreement, int]:
        """Return the terms and the secret of a run that was joined and is not closed."""
        self.check_open(digest)
        row = self._connection.execute("SELECT terms, secret FROM joined WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise Refusal(f"This silo has not joined a run with the terms {digest[:16]}...")
        try:
            return Agreement.from_json(row[0]), int(row[1], 16)
        except ValueError as problem:
            raise ResumeError(
                f"What the state file keeps of the run with the terms {digest[:16]}... is damaged. Restore it from a "
                "backup."
            ) from problem

    def close(self, digest: str, reason: str) -> None:
        """Write down that nothing is answered in this run any more, whatever happens."""
        self._connection.execute("INSERT OR IGNORE INTO closed VALUES (?, ?, ?)", (digest, reason, now()))
        self._connection.execute("UPDATE answers SET state = NULL WHERE digest = ?", (digest,))

    def check_open(self, digest: str) -> None:
        """Refuse a run that was closed."""
        if self._connection.execute("SELECT 1 FROM closed WHERE digest = ?", (digest,)).fetchone():
            raise Refusal(
                f"The run with the terms {digest[:16]}... is permanently closed at this silo. Agree on a new run, "
                "under a new name."
            )
