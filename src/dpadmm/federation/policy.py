"""What a silo's owner allows, kept in the silo and enforced there, whatever a coordinator asks."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpadmm import checks
from dpadmm.data.reading import TableFormat
from dpadmm.data.schema import Screening
from dpadmm.errors import InputError
from dpadmm.federation import durable
from dpadmm.federation.agreement import Agreement, NoiseOrigin
from dpadmm.federation.refusal import Refusal
from dpadmm.files import parse_toml, read_text
from dpadmm.methods.registry import METHODS
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.protection import Protection, Relation
from dpadmm.privacy.releases import Release

if TYPE_CHECKING:
    from dpadmm.federation.terms import AgreedRun

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

MOST_ROUNDS = 5000
"""Rounds of terms at most unless the owner says otherwise: more than the planner ever drafts."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The owner's rules.

    Parameters
    ----------
    name: the silo's name in every agreement. data, schema: its files.
    screening: what is done with awkward cells; in the file, a line each for missing, unlisted and out_of_range.
    written: how the table is written; in the file, a line each for sep, decimal, encoding, na_values and has_header.
    methods: what may run. least_noise: least ratio of noise to sensitivity of any single release, >= 0.
    coordinators: public keys that may ask; empty: whoever the approved terms name.
    trusts_coordinator: whether bare messages may go to the coordinator (noise is then the coordinator's).
    colluders: how many silos must be allowed to look together with the coordinator, at least, where messages leave
        under masks; 1 counts every single silo that is curious.
    relation: between which neighbours the budget counts; under add-or-remove the number of records stays secret.
    noise: secure; a silo made for rehearsals uses test noise, has a ledger of its own, and stays a rehearsal.
    records_per_person, silos_per_person: what terms must allow for at least.
    most_rounds: how many rounds terms may have at most.
    """

    name: str
    data: str
    schema: str
    methods: tuple[str, ...] = FULLY_CERTIFIED
    least_noise: float = 0.0
    coordinators: tuple[str, ...] = ()
    trusts_coordinator: bool = False
    screening: Screening = field(default_factory=Screening)
    noise: NoiseOrigin = NoiseOrigin.SECURE
    relation: Relation = Relation.REPLACE_ONE
    records_per_person: int = 1
    silos_per_person: int = 1
    written: TableFormat = field(default_factory=TableFormat)
    colluders: int = 1
    most_rounds: int = MOST_ROUNDS

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.non_negative("least_noise", self.least_noise)
        checks.count("records_per_person", self.records_per_person)
        checks.count("silos_per_person", self.silos_per_person)
        checks.count("colluders", self.colluders, least=0)
        checks.count("most_rounds", self.most_rounds)
        if not isinstance(self.trusts_coordinator, bool):  # the text "false" would count as true
            raise InputError(
                f"trusts_coordinator must be true or false, without quotes; got {self.trusts_coordinator!r}."
            )
        for listed in ("methods", "coordinators"):
            if not all(isinstance(one, str) and len(one) > 1 for one in getattr(self, listed)):
                raise InputError(f"{listed} must be a list of names, got {getattr(self, listed)!r}.")
        if not self.methods:
            raise InputError("A policy must allow at least one method.")

    def save(self, path: Path) -> None:
        """Write the policy as TOML, for people to read and edit."""
        plain = asdict(self) | {"noise": self.noise.value, "relation": self.relation.value}
        plain |= {name: policy.value for name, policy in plain.pop("screening").items()}
        del plain["written"]
        plain |= self.written.record()
        durable.save_toml(path, plain)

    @classmethod
    def load(cls, path: Path) -> "Policy":
        """Read a policy; anything odd is refused by name."""
        try:
            plain = parse_toml(read_text(path))
            for name in ("name", "data", "schema"):
                if not isinstance(plain[name], str):
                    raise InputError(f"{name} must be text, got {checks.shown(plain[name])}")
            for name in ("methods", "coordinators"):
                if not isinstance(plain[name], list):
                    raise InputError(f"{name} must be a list of names, got {checks.shown(plain[name])}")
            words = {name: plain.pop(name) for name in ("missing", "unlisted", "out_of_range") if name in plain}
            written = TableFormat.taken_from(plain)
            values = plain | {
                "screening": Screening.of(**words),
                "written": written,
                "methods": tuple(plain["methods"]),
                "coordinators": tuple(plain["coordinators"]),
                "noise": NoiseOrigin(plain["noise"]),
                "relation": Relation(plain.get("relation", Relation.REPLACE_ONE.value)),
            }
            return cls(**values)
        except InputError as problem:
            raise InputError(f"The policy {path} cannot be used: {str(problem).rstrip('.')}.") from problem
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(f"The policy {path} cannot be used: {type(problem).__name__} {problem}.") from problem

    def check_terms(self, terms: Agreement) -> None:
        """Refuse terms that the rules do not allow, before anything is computed from them."""
        if terms.method not in self.methods:
            raise Refusal(f"{self.name} does not allow the method {terms.method!r}.")
        if self.coordinators and terms.coordinator not in self.coordinators:
            raise Refusal(f"{self.name} does not work with the coordinator {terms.coordinator[:16]}...")
        if terms.neighbours is not self.relation:
            raise Refusal(
                f"{self.name} works with {self.relation.value} neighbours only, but the terms say {terms.relation}."
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
        asked = ("records_per_person", "silos_per_person", *(("colluders",) if terms.is_masked else ()))
        for name in asked:
            if getattr(terms, name) < getattr(self, name):
                raise Refusal(
                    f"{self.name} requires {name} to be at least {getattr(self, name)}, got {getattr(terms, name)}."
                )

    def check_observers(self, terms: "AgreedRun", budget: Protection) -> None:
        """Refuse sums under masks for which the ledger's budget, against others than who sees sums, could never pay."""
        asked = terms.run.setting.protection
        if terms.is_masked and not budget.is_covered_by(asked):
            raise Refusal(
                f"{self.name} has a budget {budget.words()}; these terms are {asked.words()}, which does not cover "
                "that. For sums under masks create the silo with --view aggregate."
            )

    def check_noise(self, terms: "AgreedRun", agent: int) -> None:
        """Refuse terms under which a bare message would leave to someone untrusted, or any noise is too small."""
        self.check_trust(terms)
        self.check_releases(terms.all_releases(agent))

    def check_trust(self, terms: "AgreedRun") -> None:
        """Refuse terms under which bare messages would go to a coordinator that is not trusted (any more)."""
        if not self.trusts_coordinator and terms.sends_bare:
            raise Refusal(
                f"{terms.agreement.method} sends messages without noise to the coordinator, which {self.name} does "
                "not trust."
            )

    def check_releases(self, releases: Sequence[Release]) -> None:
        """Refuse releases with less noise than the rules ask for."""
        least = min((release.noise_ratio for release in releases), default=float("inf"))
        if least < self.least_noise:
            raise Refusal(
                f"{self.name} requires noise of at least {self.least_noise:g} times the sensitivity in every release; "
                f"the terms give {least:.6g}."
            )
