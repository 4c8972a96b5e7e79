"""The directory of a silo: policy, keys, ledger, state; and the private table it stands for."""

import hashlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpadmm.engines.federation import durable
from dpadmm.engines.federation.agreement import NoiseOrigin
from dpadmm.engines.federation.keys import SigningKey, need_extra
from dpadmm.engines.federation.policy import Policy
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats, Matrix

if TYPE_CHECKING:
    from dpadmm.datasets.screening import Screening
    from dpadmm.privacy.ledger import SiloColumns

APPLICATION = 0x64704131
_TABLES = """
CREATE TABLE approved (digest TEXT PRIMARY KEY, terms TEXT NOT NULL, time TEXT NOT NULL);
CREATE TABLE joined (digest TEXT PRIMARY KEY, parent TEXT NOT NULL, terms TEXT NOT NULL, secret TEXT NOT NULL,
                     time TEXT NOT NULL);
CREATE TABLE answers (digest TEXT, round INTEGER, request TEXT NOT NULL, state BLOB, reply BLOB NOT NULL,
                      PRIMARY KEY (digest, round));
CREATE TABLE begun (digest TEXT, round INTEGER, PRIMARY KEY (digest, round));
CREATE TABLE log (time TEXT NOT NULL, event TEXT NOT NULL, detail TEXT NOT NULL);
"""


@dataclass(frozen=True)
class SiloFiles:
    """Where the parts of a silo are."""

    directory: Path

    @property
    def policy(self) -> Path:
        """The owner's rules."""
        return self.directory / "policy.toml"

    @property
    def key(self) -> Path:
        """The signing key."""
        return self.directory / "silo.key"

    @property
    def state(self) -> Path:
        """State, answers, approvals and the log of refusals."""
        return self.directory / "state.db"

    @property
    def anchor(self) -> Path:
        """How many answers the state holds at least."""
        return self.directory / "state.head"

    @property
    def schema(self) -> Path:
        """The public schema, as it was when the silo was made."""
        return self.directory / "schema.json"

    def ledger(self, noise: NoiseOrigin) -> Path:
        """The ledger; rehearsals have one of their own, so that test noise never stands in the real one."""
        return self.directory / ("ledger" if noise is NoiseOrigin.SECURE else "rehearsal.ledger")

    def create(self, policy: Policy, epsilon: float, delta: float) -> "Records":
        """Make the directory of a new silo; nothing is overwritten."""
        from dpadmm.privacy.ledger import Budget, Ledger
        from dpadmm.privacy.protection import Protection, View

        need_extra()
        budget = Budget(epsilon=epsilon, delta=delta)
        if self.directory.exists() and any(self.directory.iterdir()):
            raise InputError(f"{self.directory} is not empty. A silo needs a directory of its own.")
        records = read_records(Path(policy.data), Path(policy.schema), policy.screening, policy.has_header)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)  # also one that was there already: logs and Flower's files are in it
        shutil.copyfile(policy.schema, self.schema)
        view = View.PUBLIC if policy.trusts_coordinator else View.EAVESDROPPER
        # One silo: what a person's other silos release is in their ledgers. How many there are is the policy's to ask.
        protection = Protection(view=view, records_per_person=policy.records_per_person)
        Ledger.create(self.ledger(policy.noise), [records.table], budget, protection=protection).close()
        durable.create(self.state, APPLICATION, _TABLES)
        SigningKey.create(self.key)
        policy.save(self.policy)
        return records


@dataclass(frozen=True, eq=False)
class Records:
    """The encoded private table of a silo, the table as it was read (by which the ledger knows it), and notes."""

    features: Matrix = field(repr=False)
    labels: Floats = field(repr=False)
    row_norm: float
    schema: str
    table: "SiloColumns"
    notes: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """How many records there are."""
        return len(self.labels)

    @property
    def dimension(self) -> int:
        """How many features a record has."""
        return int(self.features.shape[1])


def schema_digest(path: Path) -> str:
    """Return the SHA-256 of a schema's canonical text, by which agreements name it."""
    from dpadmm.datasets.schema import Schema

    return hashlib.sha256(Schema.load(path).to_json().encode()).hexdigest()


def read_records(data: Path, schema: Path, screening: "Screening", has_header: bool = True) -> Records:
    """Read and encode the table by its public schema."""
    from dpadmm.datasets.schema import Schema
    from dpadmm.datasets.screening import encode_table
    from dpadmm.datasets.tables import read_table
    from dpadmm.privacy.ledger import SiloColumns

    public = Schema.load(schema)
    frame = read_table(data, has_header=has_header)
    encoded = encode_table(public, frame, str(data), screening)
    digest = hashlib.sha256(public.to_json().encode()).hexdigest()
    table = SiloColumns.of_frame("this silo", frame)
    return Records(encoded.features, encoded.labels, public.row_norm, digest, table, encoded.notes)
