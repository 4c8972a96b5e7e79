"""What a silo keeps for sums under masks: which identities its owner has confirmed, its mask keys, their rosters."""

import json
import sqlite3
from dataclasses import replace

from dpadmm.federation.agreement import Agreement
from dpadmm.federation.keys import fingerprint, read_fingerprint
from dpadmm.federation.masking import Roster, masks_among, read_roster
from dpadmm.federation.messages import Step
from dpadmm.federation.refusal import Refusal
from dpadmm.federation.terms import AgreedRun
from dpadmm.noise.masks import MaskKey, PairwiseMasks
from dpadmm.parsing import parse_json


class MaskStore:
    """One silo's durable facts about masks, in its state file; who calls holds the file where that matters."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("PRAGMA secure_delete = ON")  # an erased key is overwritten
        self._ready: dict[tuple[str, Roster], PairwiseMasks] = {}
        self._has_erased = True  # perhaps by a process that was killed before it emptied the log

    def confirm(self, name: str, told: str) -> None:
        """Keep the fingerprint of a participant's identity key, as its owner has told it."""
        row = name, read_fingerprint(name, told)
        self._connection.execute("INSERT OR REPLACE INTO peers VALUES (?, ?)", row)

    def unconfirmed(self, agreement: Agreement, own: str) -> list[str]:
        """Return who takes part, beside the silo `own`, with an identity key that its owner has not confirmed."""
        known = dict(self._connection.execute("SELECT name, fingerprint FROM peers").fetchall())
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

    def public(self, digest: str) -> str:
        """Return the public part of this silo's mask key for these terms; made once, and never again."""
        row = self._connection.execute("SELECT public FROM masks WHERE digest = ?", (digest,)).fetchone()
        if row is not None:
            return str(row[0])
        key = MaskKey.create()
        row = (digest, key.public, key.secret)
        self._connection.execute("INSERT INTO masks VALUES (?, ?, ?, NULL)", row)
        return key.public

    def taken(self, terms: AgreedRun, agent: int, request: Step) -> tuple[PairwiseMasks, Step]:
        """Return this silo's masks with all others; the first request brings the roster, and is returned without."""
        digest = terms.agreement.digest
        public, secret, kept = self._connection.execute(
            "SELECT public, secret, roster FROM masks WHERE digest = ?", (digest,)
        ).fetchone()
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
        masks = self._made(terms.agreement, agent, MaskKey.of(secret), roster)
        if kept is None:
            self._connection.execute("UPDATE masks SET roster = ? WHERE digest = ?", (json.dumps(roster), digest))
        return masks, request

    def _made(self, agreement: Agreement, agent: int, key: MaskKey, roster: Roster) -> PairwiseMasks:
        """Agree on secrets with all others once, not in every round."""
        place = agreement.digest, roster
        if place not in self._ready:
            self._ready[place] = masks_among(agreement, agent, key, roster)
        return self._ready[place]

    def erase(self, digest: str) -> None:
        """Forget the secret part of a mask key: no other masks of this run will be needed, nor can be made."""
        done = self._connection.execute(
            "UPDATE masks SET secret = NULL WHERE digest = ? AND secret IS NOT NULL", (digest,)
        )
        self._has_erased |= done.rowcount > 0
        self._ready = {place: masks for place, masks in self._ready.items() if place[0] != digest}

    def flush(self) -> None:
        """Empty the write-ahead log, where it holds what was erased as well; not within a transaction."""
        if self._has_erased:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._has_erased = False
