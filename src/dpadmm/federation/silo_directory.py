"""The directory of a silo: policy, keys, ledger, state; and the private table it stands for."""

import contextlib
import pickle
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpadmm.errors import InputError
from dpadmm.federation.errors import Refusal
from dpadmm.federation.keys import SigningKey, need_extra
from dpadmm.federation.names import check_name
from dpadmm.federation.party_directory import PartyDirectory, finish_creation, new_directory
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.terms import CountedColumns, NoiseOrigin, Terms
from dpadmm.problems.arrays import Floats
from dpadmm.settings import TableFormat

if TYPE_CHECKING:
    from dpadmm.data.schema import Schema
    from dpadmm.data.tables import ScreenedCells
    from dpadmm.privacy.ledger import SiloColumns
    from dpadmm.settings import CellRules

_ANY = TableFormat()
_TABLES = (
    "CREATE TABLE run (digest TEXT PRIMARY KEY, terms TEXT NOT NULL, secret TEXT, closed TEXT, time TEXT NOT NULL)",
    "CREATE TABLE answer (digest TEXT, round INTEGER, request TEXT NOT NULL, state BLOB, reply BLOB NOT NULL, "
    "PRIMARY KEY (digest, round))",
    "CREATE TABLE mask (digest TEXT PRIMARY KEY, public TEXT NOT NULL, secret BLOB, roster TEXT)",
    "CREATE TABLE peer (name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL)",
    "CREATE TABLE log (time TEXT NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL)",
    "CREATE TABLE identity (key TEXT NOT NULL)",
)
"""Beside the ledger's: approved runs (joined ones have a secret, closed ones a reason), answers, mask keys, confirmed
peers, a log, and the identity key that the file belongs to."""


class SiloDirectory(PartyDirectory):
    """Where the parts of a silo are.

    policy: the owner's rules. key: signs. entry: what it sends for drafting terms. schema: the public one, as it was
    when the silo was made. address: where the coordinator listens that invited it last.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.policy, self.key = self.directory / "policy.toml", self.directory / "silo.key"
        self.entry, self.schema = self.directory / "silo.entry", self.directory / "schema.json"
        self.address = self.directory / "address"

    def read_address(self) -> str:
        """Return that address, `InputError` if the silo was not invited."""
        if not self.address.exists():
            raise InputError(f"{self.directory} has no coordinator's address: give --coordinator HOST:PORT.")
        return self.address.read_text(encoding="utf-8").strip()

    def ledger(self, noise: NoiseOrigin) -> Path:
        """The ledger, with everything else that lasts; test noise never stands in that of a silo with secure noise."""
        return self.directory / ("silo.db" if noise is NoiseOrigin.SECURE else "rehearsal.db")

    def is_made(self) -> bool:
        """Return whether there is a silo; one that was made but for its last step is completed."""
        finish_creation(self.directory)
        return self.policy.exists()

    def check(self) -> None:
        """Refuse a directory that is no silo's, by name."""
        finish_creation(self.directory)
        lacking = [path.name for path in (self.policy, self.key, self.schema) if not path.is_file()]
        if not any(self.ledger(noise).is_file() for noise in NoiseOrigin):
            lacking.append("silo.db")
        if lacking:
            is_other = (self.directory / "coordinator.key").exists()
            what = "a coordinator's directory" if is_other else f"no silo's directory: it has no {lacking[0]}"
            raise InputError(f"{self.directory} is {what}. Give a directory made by `dpadmm silo init`.")

    def create(self, policy: Policy, epsilon: float, delta: float) -> "Records":
        """Make the directory of a new silo, whole or not at all; nothing is overwritten."""
        from dpadmm.privacy.ledger import Budget, Ledger

        need_extra()
        check_name("silo", policy.name)
        budget = Budget(epsilon=epsilon, delta=delta)
        # One silo: what a person's other silos release is in their ledgers. How many there are is the policy's to ask.
        protection = replace(policy.protection, silos_per_person=1)
        with new_directory(self.directory, "silo") as place:
            made = SiloDirectory(place)
            records = policy_records(policy, Path(policy.schema))
            shutil.copyfile(policy.schema, made.schema)
            key = SigningKey.create(made.key).public
            file = made.ledger(policy.noise)
            ledger = Ledger.create(file, [records.table], budget, protection=protection)
            with ledger, ledger.transaction() as work:
                for statement in _TABLES:
                    work.execute(statement)
                work.execute("INSERT INTO identity VALUES (?)", (key,))
            kept = replace(policy, written=records.written, schema=str(self.schema.resolve()))
            kept.save(made.policy)  # so that it is read alike from now on
            made.entry_of(kept, key, records.number).save(made.entry)
        return records

    def entry_of(self, policy: Policy, key: str, records: int) -> SiloEntry:
        """Return what the silo states about itself: its owner's rules, and what its ledger's budget is against."""
        from dpadmm.privacy.ledger import open_for_reading

        with open_for_reading(self.ledger(policy.noise)) as ledger:
            budget = ledger.protection
        return SiloEntry(
            name=policy.name,
            key=key,
            schema=schema_digest(self.schema),
            methods=policy.methods,
            records=records if policy.protection.relation.has_public_sizes else None,
            protection=replace(policy.protection, view=budget.view, colluders=budget.colluders),
        )


@dataclass(frozen=True, eq=False)
class Records:
    """The private table of a silo: its cells by the public schema, and the columns by which the ledger knows it.

    Rows are encoded when it is known how (`columns.encoding_of`). written: how the file was read.
    """

    schema: "Schema"
    cells: "ScreenedCells" = field(repr=False)
    table: "SiloColumns"
    written: TableFormat

    @property
    def number(self) -> int:
        """How many records there are."""
        return self.cells.number

    def check_number(self, terms: Terms, agent: int) -> None:
        """Refuse terms about another number of records: noise is computed from it.

        Where sizes are secret the terms' number is nominal: comparing it would reveal the true one.
        """
        me = terms.participants[agent]
        if terms.has_public_sizes and me.records != self.number:
            raise Refusal(f"The terms say {me.records} records for {me.name}, which is not the number it holds.")

    def check_facts(self, terms: Terms, agent: int) -> None:
        """Refuse terms that are not about this table: its number of records, its schema, its columns."""
        self.check_number(terms, agent)
        name, schema = terms.participants[agent].name, self.schema
        classes = len(schema.label.classes)
        vectors = classes if classes > 2 else 1
        facts = (terms.schema, terms.dimension, terms.row_norm, terms.n_classes)
        if facts != (schema.digest, vectors * schema.dimension, schema.row_norm, vectors):
            raise Refusal(f"The terms are for a different schema than {name}'s.")
        if terms.class_weights and len(terms.class_weights) != classes:
            raise Refusal(f"The terms weigh other classes than the {classes} of {name}'s schema.")
        counted = terms.profile
        if counted is not None and counted != counted_columns(schema, counted.share):
            raise Refusal(f"The terms count different columns than {name}'s schema has.")

    def counts(self) -> Floats:
        """Return the bare counts of all columns."""
        from dpadmm.data.profile import ProfileForm

        return self.cells.counts(ProfileForm(self.schema.columns))


def counted_columns(schema: "Schema", share: float) -> CountedColumns:
    """Return what round 0 counts of this schema's columns, for a share of the squared budget."""
    from dpadmm.data.profile import ProfileForm

    form = ProfileForm(schema.columns)
    return CountedColumns(share=share, n_numeric=form.n_numeric, n_categorical=form.n_categorical, size=form.size)


def schema_digest(path: Path) -> str:
    """Return the SHA-256 of a schema's canonical text, by which terms name it."""
    from dpadmm.data.schema import Schema

    return Schema.load(path).digest


def policy_records(policy: Policy, schema: Path) -> Records:
    """Read the table of a silo by its owner's rules; one of a secret size may be empty."""
    may_be_empty = not policy.protection.relation.has_public_sizes
    return read_records(Path(policy.data), schema, policy.screening, policy.written, may_be_empty=may_be_empty)


def records_apart(policy: Policy, schema: Path) -> Records:
    """Read the table in a process of its own: what reading takes, a third of a silo's memory, is given back."""
    child = [sys.executable, "-c", f"import {__name__} as files; files.hand_over()"]
    reported = pickle.dumps((policy, schema))  # in a session of its own: Ctrl-C is the silo's to answer
    done = subprocess.run(child, input=reported, stdout=subprocess.PIPE, check=False, start_new_session=True)
    if done.returncode:
        raise InputError("The process that reads the table has failed; its output above says why.")
    found: Records | InputError = pickle.loads(done.stdout)
    if isinstance(found, InputError):
        raise found
    return found


def hand_over() -> None:
    """Be that process: the rules and the schema's file come in, the records or why there are none go out."""
    found: Records | InputError
    try:
        found = policy_records(*pickle.load(sys.stdin.buffer))
        _ = found.table.digests  # computed here, where the cells are as they were read
    except InputError as refusal:
        found = InputError(str(refusal))
    with contextlib.suppress(BrokenPipeError):  # the silo may have ended meanwhile
        sys.stdout.buffer.write(pickle.dumps(found))
        sys.stdout.flush()


def read_records(
    data: Path, schema: Path, screening: "CellRules", written: TableFormat = _ANY, *, may_be_empty: bool = False
) -> Records:
    """Read and screen the table by its public schema."""
    from dpadmm.data.reading import read_file
    from dpadmm.data.schema import Schema
    from dpadmm.data.tables import cells_for_ledger, screen_cells
    from dpadmm.privacy.ledger import SiloColumns

    public = Schema.load(schema)
    read = read_file(data, written)
    cells = screen_cells(public, read.frame, str(data), screening, may_be_empty=may_be_empty)
    return Records(public, cells, SiloColumns.of_frame("this silo", cells_for_ledger(read.frame, data)), read.written)
