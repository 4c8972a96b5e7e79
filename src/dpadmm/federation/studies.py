"""Invitations to a study: one for each silo, by which it registers, gets the terms, and knows its coordinator.

The coordinator's file holds what was announced, an invitation and, once the silo has registered, an entry for every
silo, and the terms when they are drafted. An invitation carries a key of its own: the coordinator lets its holder
bring one entry, under one name, and fetch the terms; nothing else.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from dpadmm import checks
from dpadmm.codec import decode, encode
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.federation import messages, sqlite_file
from dpadmm.federation.coordinator_store import CoordinatorStore
from dpadmm.federation.errors import Refusal
from dpadmm.federation.keys import SigningKey, body_of, open_envelope
from dpadmm.federation.messages import Join, Register
from dpadmm.federation.names import check_distinct, check_name
from dpadmm.federation.policy import SiloEntry
from dpadmm.federation.terms import Terms, check_hex, check_text, stored_terms
from dpadmm.files import parse_json
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, View

_VIEWS = (View.EAVESDROPPER, View.AGGREGATE, View.PUBLIC)


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """What a silo learns before it joins: who invites it, to what, the cost, and from whom its records are protected.

    coordinator, address: the coordinator's public key, and where it listens. secret: of the invitation's own key; empty
    in an invitation to nobody, from which those of all silos are made. schema: JSON, as in its file.
    """

    study: str
    address: str
    coordinator: str
    epsilon: float
    delta: float
    schema: str
    protection: Protection = field(default_factory=Protection)
    nominal_records: int | None = None
    silo: str = ""
    secret: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        """Check everything that silos will rely on."""
        check_name("study", self.study)
        if self.silo or self.secret:
            check_name("silo", self.silo)
        check_text("address", self.address)
        check_hex("coordinator", self.coordinator)
        _ = self.target, self.table
        if self.secret:
            _ = self.key.public  # refuses what is no key
        if self.protection.view not in _VIEWS:
            texts = ", ".join(each.value for each in _VIEWS)
            found = self.protection.view.value
            raise InputError(f"{checks.option_name('view')} must be one of {texts}, got {found!r}.")
        if (self.nominal_records is None) != self.protection.relation.has_public_sizes:
            raise InputError(
                "With --neighbours add-remove silos do not disclose their number of records: give one nominal number "
                "for all of them with --nominal-records; otherwise leave that option out."
            )
        if self.nominal_records is not None:
            checks.count("nominal_records", self.nominal_records)

    @property
    def target(self) -> Target:
        """What the run may cost a record."""
        return Target(self.epsilon, self.delta)

    @cached_property
    def table(self) -> Schema:
        """The public schema that all silos share."""
        return Schema.from_json(self.schema, origin="The schema of the invitation")

    @property
    def key(self) -> SigningKey:
        """The invitation's own key, which shows the coordinator that its holder was invited."""
        return SigningKey.of(self.secret)

    def save(self, path: Path) -> None:
        """Write it as TOML, readable by its owner alone."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sqlite_file.save_toml(path, self, 0o600)

    @classmethod
    def load(cls, path: Path) -> "Invitation":
        """Read an invitation; anything odd is refused by the file's name."""
        found = sqlite_file.load_toml(
            path, cls, "an invitation, as `dpadmm coordinator invite` writes one for each silo"
        )
        if not found.secret:
            raise InputError(f"{path} is not an invitation of a silo: it has no secret.")
        return found

    def check_facts(self, entry: SiloEntry) -> None:
        """Refuse a silo whose budget or rules ask for another protection than the one announced, or state no number."""
        if entry.protection.view is not self.protection.view or not entry.protection.is_covered_by(self.protection):
            raise InputError(
                f"The budget and the rules of {entry.name} are {entry.protection.describe()}; the study is "
                f"{self.protection.describe()}. One ledger cannot count both: create another silo, or announce another "
                "study."
            )
        if self.protection.relation.has_public_sizes:
            entry.participant(entry.records or 0)  # refuses none
        elif entry.records is not None:
            raise InputError(f"{entry.name} discloses its number of records, which is secret in this study.")


class Studies:
    """The studies of a coordinator, in its file, and what its port offers to who is invited."""

    def __init__(self, store: CoordinatorStore, key: SigningKey) -> None:
        self.store, self._key = store, key

    def invite(self, announced: Invitation, silos: Sequence[str], *, may_replace: bool = False) -> list[Invitation]:
        """Return an invitation for each of these silos; a study that is there gets more of them, until it has terms.

        A silo that was invited before has the same invitation again; with `may_replace` another, and the earlier one,
        and the entry that was registered by it, count no longer.
        """
        study = announced.study
        with self.store.transaction():
            before = {each.silo: each for each in self._invitations(study)}
            check_silos(announced, silos, before)
            if self._terms(study) is not None:
                raise InputError(f"The study {study!r} already has its terms. To add silos, create a new study.")
            if any(replace(each, silo="", secret="") != announced for each in before.values()):
                raise InputError(
                    f"The study {study!r} was announced with different settings. Use the same ones, or create a new "
                    "study."
                )
            made = [
                before[silo]
                if silo in before and not may_replace
                else replace(announced, silo=silo, secret=SigningKey.new().secret)
                for silo in silos
            ]
            text = json.dumps(encode(announced))
            self.store.execute("INSERT OR IGNORE INTO study VALUES (?, ?, NULL)", study, text)
            for each in made:
                if each.silo in before and may_replace:
                    for table in ("invitation", "entry"):
                        self.store.execute(f"DELETE FROM {table} WHERE study = ? AND silo = ?", study, each.silo)
                row = (each.key.public, study, each.silo, each.secret)
                self.store.execute("INSERT OR IGNORE INTO invitation VALUES (?, ?, ?, ?)", *row)
        return made

    def announced(self, study: str) -> Invitation:
        """Return what all invitations to a study say."""
        found = dict(self.store.rows("SELECT name, announced FROM study ORDER BY name"))
        if study not in found:
            raise InputError(
                f"There is no study {study!r} in {self.store.path.parent}; the studies there are: "
                f"{', '.join(found) or 'none'}."
            )
        invitation: Invitation = decode(Invitation, parse_json(found[study]), "What was announced")
        return invitation

    def absent(self, study: str) -> list[str]:
        """Return who was invited and has not registered."""
        entries = {entry.name for entry in self.entries(study)}
        return [each.silo for each in self._invitations(study) if each.silo not in entries]

    def entries(self, study: str) -> list[SiloEntry]:
        """Return what all silos that have registered state about themselves, with the protection that was announced."""
        found = self.store.rows("SELECT entry FROM entry WHERE study = ? ORDER BY silo", study)
        protection = self.announced(study).protection
        return [replace(_read_entry(text), protection=protection) for (text,) in found]

    def drafted(self, study: str) -> Terms | None:
        """Return the terms; None before they are drafted."""
        text = self._terms(study)
        return None if text is None else stored_terms(text)

    def publish(self, study: str, terms: Terms) -> None:
        """Keep the terms: from now on silos can fetch them, and nobody else can register."""
        self.store.write(("UPDATE study SET terms = ? WHERE name = ?", terms.as_json(), study))

    def keys(self) -> set[str]:
        """Return the public keys of all invitations."""
        return {key for (key,) in self.store.rows("SELECT key FROM invitation")}

    def is_invited(self, key: str) -> bool:
        """Return whether this is the key of an invitation."""
        return bool(self.store.rows("SELECT 1 FROM invitation WHERE key = ?", key))

    def register(self, key: str, envelope: bytes) -> None:
        """Keep the entry of the silo that holds an invitation; `Refusal` if it is another's, or there is another."""
        invitation = self._invitation(key)
        message = messages.read(body_of(envelope))
        if not isinstance(message, Register) or (message.study, message.silo) != (invitation.study, invitation.silo):
            raise Refusal(f"The invitation is for {invitation.silo} in the study {invitation.study!r}.")
        entry = message.entry
        open_envelope(envelope, entry.key)
        if entry.name != invitation.silo:
            raise Refusal(f"The silo is called {entry.name!r}, but it was invited as {invitation.silo!r}.")
        if entry.schema != invitation.table.digest:
            raise Refusal(f"{entry.name} was created with a different schema from the study's.")
        invitation.check_facts(entry)
        with self.store.transaction():
            known = self._entry(self._invitation(key))  # it may have been replaced by now
            if known is not None and known != entry:
                raise Refusal(
                    f"{entry.name} has registered before, with a different key or different facts. If your key or "
                    "table has changed since, ask the coordinator's operator to invite you again. If that was not you, "
                    "tell the operator: somebody else has the invitation."
                )
            if known is None and self._terms(invitation.study) is not None:
                raise Refusal("The terms have already been drafted, without this silo.")
            row = (invitation.study, entry.name, json.dumps(encode(entry)))
            self.store.execute("INSERT OR IGNORE INTO entry VALUES (?, ?, ?)", *row)

    def terms(self, key: str) -> bytes | None:
        """Return the terms, signed, for a silo that has registered; None before they are drafted."""
        invitation = self._invitation(key)
        terms = self.drafted(invitation.study)
        if terms is None or self._entry(invitation) is None:
            return None
        return self._key.seal(Join(terms).encode())

    def _invitations(self, study: str) -> list[Invitation]:
        found = self.store.rows("SELECT silo, secret FROM invitation WHERE study = ? ORDER BY silo", study)
        announced = self.announced(study) if found else None
        return [replace(announced, silo=silo, secret=secret) for silo, secret in found if announced is not None]

    def _invitation(self, key: str) -> Invitation:
        found = self.store.rows("SELECT study, silo, secret FROM invitation WHERE key = ?", key)
        if not found:  # replaced just now
            raise Refusal("This invitation has been withdrawn.")
        ((study, silo, secret),) = found
        return replace(self.announced(study), silo=silo, secret=secret)

    def _entry(self, invitation: Invitation) -> SiloEntry | None:
        query = "SELECT entry FROM entry WHERE study = ? AND silo = ?"
        found = self.store.rows(query, invitation.study, invitation.silo)
        return _read_entry(found[0][0]) if found else None

    def _terms(self, study: str) -> str | None:
        found = self.store.rows("SELECT terms FROM study WHERE name = ?", study)
        return found[0][0] if found else None


def _read_entry(text: str) -> SiloEntry:
    entry: SiloEntry = decode(SiloEntry, parse_json(text), "The entry")
    return entry


def check_silos(announced: Invitation, silos: Sequence[str], before: Iterable[str] = ()) -> None:
    """Refuse silos that cannot be invited to a study, beside those that were invited before."""
    for silo in silos:
        check_name("silo", silo)
    check_distinct(silos)
    everybody = {*silos, *before}
    check_distinct(sorted(everybody))
    checks.count("silos", len(everybody), least=2)
    announced.protection.check_silos(len(everybody))
