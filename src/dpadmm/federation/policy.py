"""What a silo's owner allows, kept in the silo and enforced there, whatever a coordinator asks; and what it says of it.

The policy is `policy.toml`, for people to read and edit. The entry, `silo.entry`, is a small public file, or part of a
message: the facts of a silo that terms are drafted from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.federation import sqlite_file
from dpadmm.federation.errors import Refusal
from dpadmm.federation.terms import NoiseOrigin, Participant, Terms, check_hex, check_text
from dpadmm.methods.registry import METHODS
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.protection import Protection, View
from dpadmm.privacy.releases import Release
from dpadmm.settings import CellRules, TableFormat

if TYPE_CHECKING:
    from dpadmm.federation.terms import Terms

FULLY_CERTIFIED = tuple(
    method.about.name
    for method in METHODS
    if method.about.is_private
    and method.about.is_federated
    and method.about.noise == (Family.GAUSSIAN,)
    and not method.about.trusts_coordinator
)
"""Methods allowed unless the owner says otherwise: of this package, no trust in anybody, exact noise."""

SUMMED = tuple(method.about.name for method in METHODS if method.about.is_sum and method.about.is_federated)
"""Methods that need no trust in anybody either where their messages leave under masks."""

MOST_METHODS = 100
"""Names of methods that an entry lists at most."""

MOST_ROUNDS = 5000
"""Rounds of terms at most unless the owner says otherwise: more than the planner ever drafts."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The owner's rules.

    Parameters
    ----------
    name: the silo's name in every terms. data, schema: its files.
    screening: what is done with awkward cells. written: how the table is written.
    methods: what may run. least_noise: least ratio of noise to sensitivity of any single release, >= 0.
    coordinators: public keys that may ask; empty: whoever the approved terms name.
    protection: who is protected from whom. view: "public" trusts the coordinator, to whom bare messages may then go and
        who adds the noise; "aggregate" is for messages that leave under masks. colluders: how many silos must then be
        allowed to look together with the coordinator, at least; 1 counts every single silo that is curious. relation:
        between which neighbours the budget counts; under add-or-remove the number of records stays secret.
        records_per_person, silos_per_person: what terms must allow for at least.
    noise: secure; a silo made for rehearsals uses test noise, has a ledger of its own, and stays a rehearsal.
    most_rounds: how many rounds terms may have at most.
    """

    name: str
    data: str
    schema: str
    methods: tuple[str, ...] = FULLY_CERTIFIED
    least_noise: float = 0.0
    coordinators: tuple[str, ...] = ()
    noise: NoiseOrigin = NoiseOrigin.SECURE
    most_rounds: int = MOST_ROUNDS
    protection: Protection = field(default_factory=Protection)
    screening: CellRules = field(default_factory=CellRules)
    written: TableFormat = field(default_factory=TableFormat)

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.non_negative("least_noise", self.least_noise)
        checks.count("most_rounds", self.most_rounds)
        if self.protection.view not in (View.EAVESDROPPER, View.PUBLIC, View.AGGREGATE):
            raise InputError(f"The view must be eavesdropper, public or aggregate, got {self.protection.view.value!r}.")
        if not self.methods:
            raise InputError("A policy must allow at least one method.")

    @property
    def trusts_coordinator(self) -> bool:
        """Whether bare messages may go to the coordinator (noise is then the coordinator's)."""
        return self.protection.view is View.PUBLIC

    def save(self, path: Path) -> None:
        """Write the policy as TOML, for people to read and edit."""
        sqlite_file.save_toml(path, self)

    @classmethod
    def load(cls, path: Path) -> "Policy":
        """Read a policy; anything odd is refused by name."""
        return sqlite_file.load_toml(path, cls, "a usable policy")

    def check_terms(self, terms: Terms) -> None:
        """Refuse terms that the rules do not allow, before anything is computed from them."""
        asked, own = terms.protection, self.protection
        if terms.method not in self.methods:
            raise Refusal(f"{self.name} does not allow the method {terms.method!r}.")
        if self.coordinators and terms.coordinator not in self.coordinators:
            raise Refusal(f"{self.name} does not work with the coordinator {terms.coordinator[:16]}...")
        if asked.relation is not own.relation:
            raise Refusal(
                f"{self.name} works with {own.relation.value} neighbours only, but the terms say "
                f"{asked.relation.value}."
            )
        if terms.noise is not self.noise:
            raise Refusal(
                f"{self.name} works with {self.noise.value} noise only, but the terms ask for {terms.noise.value} "
                "noise."
            )
        if terms.rounds > self.most_rounds:
            raise Refusal(
                f"{self.name} allows at most {self.most_rounds} rounds (most_rounds in policy.toml), but the terms ask "
                f"for {terms.rounds}."
            )
        least = {"records_per_person": own.records_per_person, "silos_per_person": own.silos_per_person}
        if terms.is_masked:
            least["colluders"] = own.n_colluders if own.view is View.AGGREGATE else 1
        for name, number in least.items():
            if getattr(asked, name) < number:
                raise Refusal(f"{self.name} requires {name} to be at least {number}, got {getattr(asked, name)}.")

    def check_observers(self, terms: Terms, budget: Protection) -> None:
        """Refuse terms under which others see this silo's messages than its owner trusts and its budget counts."""
        if not self.trusts_coordinator and terms.sends_bare:
            raise Refusal(
                f"{terms.method} sends messages without noise to the coordinator, which {self.name} does not trust."
            )
        if terms.is_masked and not budget.is_covered_by(terms.protection):
            raise Refusal(
                f"{self.name} has a budget {budget.describe()}; these terms are {terms.protection.describe()}, which "
                "does not cover that. For sums under masks create the silo with --view aggregate."
            )

    def check_releases(self, releases: Sequence[Release]) -> None:
        """Refuse releases with less noise than the rules ask for."""
        least = min((release.noise_ratio for release in releases), default=float("inf"))
        if least < self.least_noise:
            raise Refusal(
                f"{self.name} requires noise of at least {self.least_noise:g} times the sensitivity in every release; "
                f"the terms give {least:.6g}."
            )


@dataclass(frozen=True, kw_only=True)
class SiloEntry:
    """The public facts of one silo: who it is, what it holds, and what its owner's rules allow.

    records: None where the number is secret. schema: digest of the schema. protection: what its budget is about.
    """

    name: str
    key: str
    schema: str
    methods: tuple[str, ...]
    protection: Protection
    records: int | None = None

    def __post_init__(self) -> None:
        """Check what terms are drafted from."""
        if len(self.methods) > MOST_METHODS:
            raise InputError(f"methods must be at most {MOST_METHODS}, got {len(self.methods)}.")
        for method in self.methods:
            check_text("a method", method)
        self.participant(1 if self.records is None else self.records)
        check_hex("schema", self.schema)

    def save(self, path: Path) -> None:
        """Write the entry."""
        sqlite_file.save_toml(path, self)

    @classmethod
    def load(cls, path: Path) -> "SiloEntry":
        """Read an entry; anything odd is refused by the file's name."""
        return sqlite_file.load_toml(path, cls, "a silo's entry, as `dpadmm silo init` writes one")

    def participant(self, records: int) -> Participant:
        """Return the silo as terms name it, with so many records."""
        return Participant(self.name, records, self.key)
