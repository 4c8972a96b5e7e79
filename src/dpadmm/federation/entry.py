"""What a silo tells whoever drafts the terms of a federation: a small public file, `NAME.entry`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.federation import durable, term_values
from dpadmm.federation.agreement import Participant
from dpadmm.federation.policy import Policy
from dpadmm.federation.refusal import printable
from dpadmm.federation.silo_files import SiloFiles, schema_digest
from dpadmm.files import parse_toml, read_text
from dpadmm.privacy.protection import Protection, Relation, View

if TYPE_CHECKING:
    from dpadmm.federation.silo import Silo


@dataclass(frozen=True, kw_only=True)
class Protected:
    """What an entry and an invitation say of who is protected from whom, in words. view, colluders: the observer."""

    view: str = View.EAVESDROPPER.value
    colluders: int | None = None
    relation: str = Relation.REPLACE_ONE.value
    records_per_person: int = 1
    silos_per_person: int = 1

    @property
    def protection(self) -> Protection:
        """Who is protected from whom."""
        return Protection(
            view=View(self.view),
            relation=Relation(self.relation),
            colluders=self.colluders,
            records_per_person=self.records_per_person,
            silos_per_person=self.silos_per_person,
        )

    def plain(self) -> dict[str, Any]:
        """Return what is told, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def text(self) -> str:
        """Return it as TOML."""
        return durable.toml(self.plain())


@dataclass(frozen=True, kw_only=True)
class SiloEntry(Protected):
    """The public facts of one silo: who it is, what it holds, and what its owner's rules allow.

    records: None where the number is secret. schema: digest of the schema.
    """

    name: str
    key: str
    schema: str
    methods: tuple[str, ...]
    records: int | None = None

    def save(self, path: Path) -> None:
        """Write the entry."""
        durable.save_toml(path, self.plain())

    @classmethod
    def load(cls, path: Path) -> "SiloEntry":
        """Read an entry; anything odd is refused by the file's name."""
        try:
            text = read_text(path)
        except InputError as problem:
            raise InputError(f"{path} is not a silo's entry: {problem}. `dpadmm silo init` writes one.") from problem
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str) -> "SiloEntry":
        """Read what `text` returned; it may come from anybody."""
        try:
            plain = parse_toml(text)
            entry = cls(**(plain | {"methods": term_values.listed("methods", plain["methods"])}))
            for method in entry.methods:
                term_values.text("a method", method)
            entry.participant(1 if entry.records is None else entry.records)
            if not term_values.is_digest(entry.schema):
                raise InputError(f"schema must be the SHA-256 of the schema file in hex, got {shown(entry.schema)}")
            _ = entry.protection
        except (KeyError, TypeError, ValueError) as problem:
            said = printable(f"{source} is not a silo's entry: {problem}")
            raise InputError(f"{said}. `dpadmm silo init` writes one.") from problem
        return entry

    @classmethod
    def of(cls, silo: "Silo") -> "SiloEntry":
        """Return what a silo tells."""
        return cls.told_by(silo.files, silo.policy, silo.public_key, silo.records)

    @classmethod
    def told_by(cls, files: SiloFiles, policy: Policy, key: str, records: int) -> "SiloEntry":
        """Return what the silo of a directory tells: its owner's rules, and what its ledger's budget is against."""
        from dpadmm.privacy.ledger import open_for_reading

        with open_for_reading(files.ledger(policy.noise)) as ledger:
            budget = ledger.protection
        return cls(
            name=policy.name,
            key=key,
            schema=schema_digest(files.schema),
            methods=policy.methods,
            records=records if policy.relation.has_public_sizes else None,
            view=budget.view.value,
            colluders=budget.colluders,
            relation=policy.relation.value,
            records_per_person=policy.records_per_person,
            silos_per_person=policy.silos_per_person,
        )

    def participant(self, records: int) -> Participant:
        """Return the silo as terms name it, with so many records."""
        return Participant(self.name, records, self.key)
