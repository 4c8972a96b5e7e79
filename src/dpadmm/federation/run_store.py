"""The runs in a silo's state file: terms that its owner approved, runs that it joined, and those closed for good."""

import secrets
import sqlite3

from dpadmm.errors import InputError, ResumeError
from dpadmm.federation.agreement import Agreement
from dpadmm.federation.refusal import NotApproved, Refusal
from dpadmm.federation.silo_log import now

_NOT_CLOSED = "digest NOT IN (SELECT digest FROM closed)"
_DAMAGED = "What the state file keeps of a run is damaged. Restore it from a backup."


def stored_terms(text: str) -> Agreement:
    """Return the terms of a run as the state file keeps them."""
    try:
        return Agreement.from_json(text)
    except InputError as problem:
        raise ResumeError(_DAMAGED) from problem


class RunStore:
    """What a silo knows of its runs; who calls holds the file where that matters."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def approve(self, terms: Agreement) -> None:
        """Keep the owner's word that these terms may be run."""
        self.check_open(terms.digest)
        row = (terms.digest, terms.as_json(), now())
        self._connection.execute("INSERT OR IGNORE INTO approved VALUES (?, ?, ?)", row)

    def agreements(self) -> list[Agreement]:
        """Return all terms that were approved here and are not closed."""
        return self._terms(f"SELECT terms FROM approved WHERE {_NOT_CLOSED} ORDER BY rowid")

    def under_way(self) -> list[Agreement]:
        """Return the runs that were joined and are not closed."""
        return self._terms(f"SELECT terms FROM joined WHERE {_NOT_CLOSED} ORDER BY rowid")

    def _terms(self, query: str) -> list[Agreement]:
        return [stored_terms(text) for (text,) in self._connection.execute(query).fetchall()]

    def check_approved(self, agreement: Agreement) -> None:
        """Refuse terms that the owner has not approved."""
        self.check_open(agreement.digest)
        found = self._connection.execute("SELECT 1 FROM approved WHERE digest = ?", (agreement.digest,)).fetchone()
        if found is None:
            raise NotApproved(
                f"The terms of run {agreement.run!r} (digest {agreement.digest[:16]}...) have not been approved by the "
                "owner of this silo yet: run `dpadmm silo join` or `dpadmm silo approve` there."
            )

    def join(self, agreement: Agreement) -> bool:
        """Write down that a run is joined, with a secret of its own; say whether it is new."""
        self.check_open(agreement.digest)
        row = (agreement.digest, agreement.as_json(), secrets.token_hex(16), now())
        return self._connection.execute("INSERT OR IGNORE INTO joined VALUES (?, ?, ?, ?)", row).rowcount > 0

    def joined(self, digest: str) -> tuple[Agreement, int]:
        """Return the terms and the secret of a run that was joined and is not closed."""
        self.check_open(digest)
        row = self._connection.execute("SELECT terms, secret FROM joined WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise Refusal(f"This silo has not joined a run with the terms {digest[:16]}...")
        try:
            return stored_terms(row[0]), int(row[1], 16)
        except ValueError as problem:
            raise ResumeError(_DAMAGED) from problem

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
