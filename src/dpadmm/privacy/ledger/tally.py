"""What has been spent: the recorded releases merged into few, for the accountant.

Gaussian releases keep only the sum of their squared ratios, `m^2 = sum (D_k/s_k)^2` (C0), summed without rounding from
terms rounded up; all others are counted by mechanism. So the thousandth reservation costs what the first did.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import singledispatch
from typing import Any

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.discrete import gdp_factor
from dpadmm.privacy.ledger.codec import canonical, encode_release
from dpadmm.privacy.records import (
    BareRelease,
    Certificate,
    GaussianRelease,
    Norm,
    Relation,
    Release,
    Strength,
    Unit,
    View,
)


class Holding(Enum):
    """What a person may have with the agents of one data set."""

    TOGETHER = "a person's records may be with any of the agents"
    APART = "a person's records are all with one agent"


# Which observers a certificate against the first also holds against: the eavesdropper sees every message, and what is
# public is computed from what the coordinator saw.
_COVERED = {
    View.EAVESDROPPER: frozenset(View),
    View.COORDINATOR: frozenset({View.COORDINATOR, View.PUBLIC}),
    View.PEER: frozenset({View.PEER}),
    View.PUBLIC: frozenset({View.PUBLIC}),
}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a budget is about: whose change is hidden, from whom. Only certificates that cover this are counted.

    `records_per_person` is the most records a person may have for the budget to be about persons; `holding` says
    whether they may be spread over the agents of this data set. What other data sets release about the same people is
    in other ledgers and not counted here.
    """

    unit: Unit = Unit.RECORD
    relation: Relation = Relation.REPLACE_ONE
    view: View = View.EAVESDROPPER
    records_per_person: int = 1
    holding: Holding = Holding.TOGETHER

    def __post_init__(self) -> None:
        """Refuse people without records."""
        checks.count("records_per_person", self.records_per_person)

    def admit(self, release: Release) -> Release:
        """Return `release`, or raise `InputError` if its certificate says nothing about these terms.

        A user-level certificate covers one record of the user, and one against a stronger view covers a weaker one.
        If a person's records may be spread over the agents, an aggregate (an agent below zero) moves by what all of
        them do: its certificate must then be about a person in as many silos as there may be records.
        """
        certificate = certificate_of(release)
        if certificate is None:
            return release
        units = {certificate.unit} | ({Unit.RECORD} if certificate.unit is Unit.USER else set())
        is_covered = (
            self.unit in units
            and self.relation is certificate.relation
            and self.view in _COVERED[certificate.view]
            and self.records_per_person <= certificate.records_per_person
        )
        is_spread = self.holding is Holding.TOGETHER and release.agent < 0
        if is_spread and certificate.silos_per_person < self.records_per_person:
            raise InputError(
                f"A person may have {self.records_per_person} records, each with another agent, but the aggregate of "
                f"round {release.round} is certified for a person in {certificate.silos_per_person} silo(s). Certify "
                f"it with silos_per_person={self.records_per_person}, or create the ledger with Holding.APART."
            )
        if not is_covered:
            raise InputError(
                f"The budget is {self._words(self)}; the release of agent {release.agent} in round {release.round} is "
                f"certified {self._words(certificate)}, which does not cover it. Certify for the ledger's terms."
            )
        return release

    @staticmethod
    def _words(terms: "Terms | Certificate") -> str:
        return (
            f"per {terms.unit.value}, {terms.relation.value}, against the {terms.view.value}, for at most "
            f"{terms.records_per_person} record(s) a person"
        )

    def certificate(self, certificate: Certificate) -> Certificate:
        """Return an admitted certificate as one for exactly these terms, so that what costs the same is the same."""
        return replace(
            certificate,
            unit=self.unit,
            view=self.view,
            records_per_person=self.records_per_person,
            silos_per_person=1,
            strength=Strength.FULL,
            theorem="as recorded",
            assumptions=("as recorded",),
        )


@singledispatch
def certificate_of(release: Release) -> Certificate | None:
    """Return the certificate of `release`, None for a bare one."""
    certificate: Certificate = release.certificate  # type: ignore[union-attr]
    return certificate


@certificate_of.register
def _(_release: BareRelease) -> Certificate | None:
    return None


@dataclass(frozen=True)
class Mechanism:
    """What a release costs, without who, when and how often; known by its text, which is quick to compare."""

    text: str
    release: Release = field(compare=False)

    @classmethod
    def of(cls, release: Release, terms: Terms) -> "Mechanism":
        """Return the mechanism of an admitted release under `terms`."""
        certificate = certificate_of(release)
        bare = replace(release, agent=0, round=0, count=1)
        if certificate is not None:
            bare = replace(bare, certificate=terms.certificate(certificate))  # type: ignore[arg-type]
        return cls(canonical(encode_release(bare)), bare)


@singledispatch
def gaussian_square(release: Any) -> Fraction | None:
    """Return an upper bound of `count (D/s)^2` if C0 applies to `release`; None if the accountant must see it."""
    return None


@gaussian_square.register
def _(release: GaussianRelease) -> Fraction | None:
    certificate = release.certificate
    noise_std = checks.positive("noise_std", release.noise_std)
    if certificate.norm is not Norm.L2 or certificate.log_jacobian:
        return None
    if certificate.bound == 0:
        return Fraction(0)
    ratio = math.nextafter(certificate.bound / noise_std, math.inf)
    if certificate.grid is not None:  # discrete noise is a little less than Gaussian (C8)
        ratio = math.nextafter(ratio * gdp_factor(noise_std, certificate.grid), math.inf)
    square = math.nextafter(ratio * ratio, math.inf)
    if not math.isfinite(square):
        raise InputError(
            f"A sensitivity of {certificate.bound!r} under noise of {noise_std!r} protects nothing. Add noise."
        )
    return release.count * Fraction(square)


@dataclass
class Pile:
    """Releases that one person's change can reach, merged: m^2 of the Gaussian ones, and how often each other was."""

    terms: Terms
    releases: int = 0
    squares: Fraction = Fraction(0)
    others: Counter[Mechanism] = field(default_factory=Counter)

    def add(self, release: Release) -> None:
        """Put one more release on the pile."""
        square = gaussian_square(release)
        if square is None:
            self.others[Mechanism.of(release, self.terms)] += release.count
        else:
            self.squares += square
        self.releases += 1

    def __add__(self, other: "Pile") -> "Pile":
        """Return both piles as one."""
        others = self.others.copy()
        others.update(other.others)
        return Pile(self.terms, self.releases + other.releases, self.squares + other.squares, others)

    def merged(self) -> list[Release]:
        """Return few releases that together are as private as all that were added."""
        return [replace(kind.release, count=count) for kind, count in self.others.items()] + self.gaussian()

    def gaussian(self) -> list[Release]:
        """Return the one Gaussian release that all Gaussian ones amount to (C0), or none."""
        if not self.squares:
            return []
        # Up, so that rounding never understates what was spent.
        m = math.nextafter(math.sqrt(math.nextafter(float(self.squares), math.inf)), math.inf)
        certificate = Certificate(
            bound=m,
            unit=self.terms.unit,
            relation=self.terms.relation,
            view=self.terms.view,
            records_per_person=self.terms.records_per_person,
            theorem="C0",
            assumptions=("as recorded",),
        )
        return [GaussianRelease(certificate=certificate, noise_std=1.0, agent=0, round=0)]


@dataclass
class Tally:
    """All releases of a data set, as a whole and per agent.

    An agent below zero stands for a release that reaches everyone's data, such as a coordinator's aggregate.
    """

    terms: Terms
    whole: Pile = field(init=False)
    everyone: Pile = field(init=False)
    agents: dict[int, Pile] = field(default_factory=dict)
    strengths: Counter[Strength] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Start empty."""
        self.whole, self.everyone = Pile(self.terms), Pile(self.terms)

    def add(self, release: Release) -> None:
        """Count one more release."""
        self.whole.add(release)
        self.agents.setdefault(release.agent, Pile(self.terms)).add(release)
        if release.agent < 0:
            self.everyone.add(release)
        certificate = certificate_of(release)
        if certificate is not None:
            self.strengths[certificate.strength] += 1

    def is_gaussian(self) -> bool:
        """Return whether C0 covers everything, so that the figure holds however the noise was chosen."""
        return not self.whole.others

    def reach(self, agent: int) -> Pile:
        """Return what reaches a person whose records are with `agent`."""
        return self.everyone if agent < 0 else self.agents.get(agent, Pile(self.terms)) + self.everyone

    def groups(self) -> Iterator[Pile]:
        """Yield the piles that must each stay within the budget."""
        if self.terms.holding is Holding.TOGETHER:
            yield self.whole
        else:
            yield from (self.reach(agent) for agent in self.agents)

    def groups_with(self, asked: "Tally") -> Iterator[tuple[Pile, Pile]]:
        """Yield, for each group that `asked` would add to, what it has and what would be added."""
        if self.terms.holding is Holding.TOGETHER:
            yield self.whole, asked.whole
            return
        reached = set(asked.agents) | (set(self.agents) if asked.everyone.releases else set())
        for agent in sorted(reached):
            yield self.reach(agent), asked.reach(agent)
