"""Invitations to a study: one file for each silo, by which it registers, gets the terms, and knows its coordinator.

A study is a folder of the coordinator's directory. It holds an invitation and, once the silo has registered, an entry
for every silo, and the terms when they are drafted. An invitation carries a key of its own: the coordinator lets its
holder bring one entry, under one name, and fetch the terms; nothing else.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from dpadmm import checks
from dpadmm.codec import decode, encode
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.federation import messages, sqlite_file
from dpadmm.federation.agreement import Agreement, is_digest, read_federation, write_federation
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.errors import Refusal
from dpadmm.federation.keys import SigningKey, open_envelope, split, write_private
from dpadmm.federation.messages import Join, Register
from dpadmm.federation.names import check_distinct, check_name
from dpadmm.federation.new_directory import new_directory
from dpadmm.federation.policy import SiloEntry
from dpadmm.files import parse_toml, read_text, write_atomic
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, View

_log = logging.getLogger("dpadmm.coordinator")
_VIEWS = (View.EAVESDROPPER, View.AGGREGATE, View.PUBLIC)


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """What a silo is told before it joins: by whom, to what, at which cost, and against whom its records are protected.

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
        if not self.address.isprintable() or not is_digest(self.coordinator):
            raise InputError("An invitation must give the coordinator's address, and its public key as 64 hex digits.")
        _ = self.target, self.table
        if self.secret:
            _ = self.key.public  # refuses what is no key
        if self.protection.view not in _VIEWS:
            words = ", ".join(each.value for each in _VIEWS)
            found = self.protection.view.value
            raise InputError(f"{checks.setting('view')} must be one of {words}, got {found!r}.")
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

    def to(self, silo: str) -> "Invitation":
        """Return this invitation for one silo, with a key of its own."""
        return replace(self, silo=silo, secret=SigningKey.new().secret)

    def save(self, path: Path) -> None:
        """Write it as TOML, readable by its owner alone; an existing file is refused."""
        write_private(path, sqlite_file.toml(encode(self)).encode())

    @classmethod
    def load(cls, path: Path) -> "Invitation":
        """Read an invitation; anything odd is refused by the file's name."""
        try:
            found: Invitation = decode(cls, parse_toml(read_text(path)), "it")
            _ = found.key.public
        except ValueError as problem:
            said = f"{path} is not an invitation: {problem}"
            raise InputError(f"{said.rstrip('.')}. `dpadmm coordinator invite` writes one for each silo.") from problem
        return found

    def check_facts(self, entry: SiloEntry) -> None:
        """Refuse a silo whose budget or rules ask for another protection than the one announced, or tell no number."""
        if entry.protection.view is not self.protection.view or not entry.protection.is_covered_by(self.protection):
            raise InputError(
                f"The budget and the rules of {entry.name} are {entry.protection.words()}; the study is "
                f"{self.protection.words()}. One ledger cannot count both: create another silo, or announce another "
                "study."
            )
        if self.protection.relation.has_public_sizes:
            entry.participant(entry.records or 0)  # refuses none
        elif entry.records is not None:
            raise InputError(f"{entry.name} discloses its number of records, which is secret in this study.")


class Study:
    """One study in a coordinator's directory: who is invited, who has registered, and the terms when there are some."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.schema, self.federation = directory / "schema.json", directory / "federation.toml"

    def invitation(self, silo: str) -> Path:
        """The invitation of one silo."""
        return self.directory / f"{silo}.invite"

    def entry(self, silo: str) -> Path:
        """What one silo has told of itself."""
        return self.directory / f"{silo}.entry"

    def invitations(self) -> list[Invitation]:
        """Return the invitations of all silos, in the order of their names."""
        return [Invitation.load(path) for path in sorted(self.directory.glob("*.invite"))]

    def announced(self) -> Invitation:
        """Return what all invitations say; `InputError` if there is none, as where `invite` was interrupted."""
        for invitation in self.invitations():
            return invitation
        raise InputError(
            f"Nobody has been invited to {self.directory.name!r} yet: run `dpadmm coordinator invite` again."
        )

    def write(self, invitation: Invitation, silos: Sequence[str]) -> None:
        """Write the schema, and an invitation for each of these silos."""
        write_atomic(self.schema, invitation.schema.encode())
        for silo in silos:
            invitation.to(silo).save(self.invitation(silo))

    def absent(self) -> list[str]:
        """Return who was invited and has not registered."""
        invited = sorted(path.stem for path in self.directory.glob("*.invite"))
        return [silo for silo in invited if not self.entry(silo).exists()]

    def entries(self) -> list[SiloEntry]:
        """Return what all silos that have registered tell of themselves, with the protection that was announced."""
        return [
            replace(SiloEntry.load(self.entry(each.silo)), protection=each.protection)
            for each in self.invitations()
            if self.entry(each.silo).exists()
        ]

    def terms(self) -> Agreement | None:
        """Return the terms; None before they are drafted."""
        return read_federation(self.federation) if self.federation.exists() else None

    def publish(self, terms: Agreement) -> None:
        """Write the terms: from now on silos can fetch them, and nobody else can register."""
        write_federation(self.federation, terms)


@dataclass
class Studies:
    """All studies of a coordinator, and what its port offers to who is invited."""

    files: CoordinatorFiles
    _known: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    _invited: dict[str, tuple[Study, Invitation]] = field(default_factory=dict)

    def all(self) -> Iterator[Study]:
        """Return all studies."""
        return (Study(path) for path in sorted((self.files.directory / "studies").glob("[!.]*")) if path.is_dir())

    def find(self, name: str) -> Study:
        """Return a study by its name."""
        for study in self.all():
            if study.directory.name == name:
                return study
        known = ", ".join(study.directory.name for study in self.all()) or "none"
        raise InputError(f"There is no study {name!r} in {self.files.directory}; the studies there are: {known}.")

    def invite(self, invitation: Invitation, silos: Sequence[str]) -> Study:
        """Write an invitation for each of these silos; a study that is there gets more of them, until it has terms."""
        study = self.check(invitation, silos)
        if study.directory.exists():
            study.write(invitation, silos)
        else:
            with new_directory(study.directory, "study") as place:
                Study(place).write(invitation, silos)
        return study

    def check(self, invitation: Invitation, silos: Sequence[str]) -> Study:
        """Return the study that these silos would be invited to; refuse what does not fit, before anything is made."""
        study = Study(self.files.directory / "studies" / invitation.study)
        before = study.invitations()
        for silo in silos:
            invitation.to(silo)
        if study.federation.exists():
            raise InputError(f"The study {invitation.study!r} already has its terms. To add silos, create a new study.")
        if any(replace(each, silo="", secret="") != invitation for each in before):
            raise InputError(
                f"The study {invitation.study!r} was announced with different settings. Use the same ones, or "
                "create a new study."
            )
        everybody = [*silos, *(each.silo for each in before)]
        check_distinct(everybody, advice="To add silos to a study, name only the new ones.")
        checks.count("silos", len(everybody), least=2)
        invitation.protection.check_silos(len(everybody))
        return study

    def keys(self) -> set[str]:
        """Return the public keys of all invitations; those that are new, or were deleted, are noticed."""
        now = {
            path: sqlite_file.stamp(path) for study in self.all() for path in sorted(study.directory.glob("*.invite"))
        }
        if now != self._known:
            found: dict[str, tuple[Study, Invitation]] = {}
            for path in now:
                try:
                    invitation = Invitation.load(path)
                    found[invitation.key.public] = Study(path.parent), invitation
                except InputError as problem:  # the port serves others too
                    _log.warning("an invitation is skipped: %s", problem)
            self._known, self._invited = now, found
        return set(self._invited)

    def is_invited(self, key: str) -> bool:
        """Return whether this is the key of an invitation."""
        return key in self._invited

    def _find(self, key: str) -> tuple[Study, Invitation]:
        found = self._invited.get(key)
        if found is None:  # deleted just now, by another thread
            raise Refusal("This invitation has been withdrawn.")
        return found

    def register(self, key: str, envelope: bytes) -> None:
        """Keep the entry of the silo that holds an invitation; `Refusal` if it is another's, or there is another."""
        study, invitation = self._find(key)
        told = messages.read(split(envelope)[1])
        if not isinstance(told, Register) or (told.study, told.silo) != (invitation.study, invitation.silo):
            raise Refusal(f"The invitation is for {invitation.silo} in the study {invitation.study!r}.")
        entry = told.entry
        open_envelope(envelope, entry.key)
        if entry.name != invitation.silo:
            raise Refusal(f"The silo is called {entry.name!r}, but it was invited as {invitation.silo!r}.")
        if entry.schema != invitation.table.digest:
            raise Refusal(f"{entry.name} was created with a different schema from the study's.")
        invitation.check_facts(entry)
        self._keep(study, entry)

    def _keep(self, study: Study, entry: SiloEntry) -> None:
        place = study.entry(entry.name)
        if place.exists():
            if SiloEntry.load(place) != entry:
                raise Refusal(
                    f"{entry.name} has registered before, with a different key or different facts. If your key or "
                    "table has changed since, ask the coordinator's operator to invite you again. If that was not you, "
                    "tell the operator: somebody else has the invitation."
                )
            return
        if study.federation.exists():
            raise Refusal("The terms have already been drafted, without this silo.")
        entry.save(place)

    def terms(self, key: str) -> bytes | None:
        """Return the terms, signed, for a silo that has registered; None before they are drafted."""
        study, invitation = self._find(key)
        terms = study.terms()
        if terms is None or not study.entry(invitation.silo).exists():
            return None
        return self.files.key().seal(Join(terms).encode())
