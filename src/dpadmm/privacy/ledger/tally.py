"""What has been spent: the recorded releases merged into few, for the accountant.

Gaussian releases keep only the sum of their squared ratios, `m^2 = sum (D_k/s_k)^2` (C0), summed without rounding from
terms rounded up; all others are counted by mechanism. So the thousandth reservation costs what the first did.
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
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

EVERY_SILO = 10**6
"""As a number of silos per person: records may be in all silos there are."""

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

    `records_per_person` and `silos_per_person` are the most records that a person may have in a silo, and the most
    silos that may hold records of the same person; what the silos release about such a person is added up.
    What other data sets release about the same people is in other ledgers and not counted here.
    """

    unit: Unit = Unit.RECORD
    relation: Relation = Relation.REPLACE_ONE
    view: View = View.EAVESDROPPER
    records_per_person: int = 1
    silos_per_person: int = 1

    def __post_init__(self) -> None:
        """Refuse people without records."""
        checks.count("records_per_person", self.records_per_person)
        checks.count("silos_per_person", self.silos_per_person)

    def admit(self, release: Release) -> Release:
        """Return `release`, or raise `InputError` if its certificate says less than these terms ask for."""
        certificate = certificate_of(release)
        if certificate is not None and not self.is_covered_by(certificate):
            raise InputError(
                f"The ledger's budget is {self.words()}; the release of agent {release.agent} in round {release.round} "
                f"is certified {_words(certificate)}, which does not cover it. Certify for the ledger's terms."
            )
        return release

    def is_covered_by(self, said: "Terms | Certificate") -> bool:
        """Return whether what is said for other terms holds for these.

        A user-level certificate covers one record of the user, one against a stronger view covers a weaker one, and
        one for more records or silos of a person covers fewer.
        """
        units = {said.unit} | ({Unit.RECORD} if said.unit is Unit.USER else set())
        return (
            self.unit in units
            and self.relation is said.relation
            and self.view in _COVERED[said.view]
            and self.records_per_person <= said.records_per_person
            and self.silos_per_person <= said.silos_per_person
        )

    def words(self) -> str:
        """Return the terms in words."""
        return _words(self)

    def certificate(self, certificate: Certificate) -> Certificate:
        """Return an admitted certificate as one for exactly these terms, so that what costs the same is the same."""
        return replace(
            certificate,
            unit=self.unit,
            view=self.view,
            records_per_person=self.records_per_person,
            silos_per_person=1,  # the pile has added up a person's silos
            strength=Strength.FULL,
            theorem="as recorded",
            assumptions=("as recorded",),
        )


def _words(terms: Terms | Certificate) -> str:
    return (
        f"per {terms.unit.value}, {terms.relation.value}, against the {terms.view.value}, for at most "
        f"{terms.records_per_person} record(s) of a person in each of at most {terms.silos_per_person} silo(s)"
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
    """All releases of a data set, silo by silo.

    `everyone` holds what reaches the data of all silos: a coordinator's aggregate, or a release of which it is not
    known whose it was (silo None).
    """

    terms: Terms
    everyone: Pile = field(init=False)
    silos: dict[str, Pile] = field(default_factory=dict)
    strengths: Counter[Strength] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Start empty."""
        self.everyone = Pile(self.terms)

    def add(self, release: Release, silo: str | None) -> None:
        """Count one more release of the silo."""
        pile = self.everyone if silo is None else self.silos.setdefault(silo, Pile(self.terms))
        pile.add(release)
        certificate = certificate_of(release)
        if certificate is not None:
            self.strengths[certificate.strength] += 1

    def __add__(self, other: "Tally") -> "Tally":
        """Return both tallies as one."""
        both = Tally(self.terms, strengths=self.strengths + other.strengths)
        both.everyone = self.everyone + other.everyone
        empty = Pile(self.terms)
        both.silos = {
            silo: self.silos.get(silo, empty) + other.silos.get(silo, empty) for silo in {**self.silos, **other.silos}
        }
        return both

    @property
    def releases(self) -> int:
        """How many releases there are in all."""
        return self.everyone.releases + sum(pile.releases for pile in self.silos.values())

    def is_gaussian(self) -> bool:
        """Return whether C0 covers everything, so that the figure holds however the noise was chosen."""
        return not self.everyone.others and not any(pile.others for pile in self.silos.values())

    def people(self) -> dict[str | None, Pile]:
        """Return the piles that must each stay within the budget: what reaches each kind of person.

        With one silo per person there is one kind per silo, by its name. With s silos per person there is one pile for
        all, of the s dearest silos: the s largest m^2 (C0), and of every other mechanism the s largest numbers, which
        is at least what any s silos released.
        """
        if self.terms.silos_per_person == 1 and self.silos:
            return {silo: pile + self.everyone for silo, pile in self.silos.items()}
        return {None: self._dearest(self.terms.silos_per_person) + self.everyone}

    def _dearest(self, number: int) -> Pile:
        piles = list(self.silos.values())
        counts = Pile(self.terms, releases=sum(pile.releases for pile in piles))
        counts.squares = sum(sorted((pile.squares for pile in piles), reverse=True)[:number], Fraction(0))
        for kind in {kind for pile in piles for kind in pile.others}:
            counts.others[kind] = sum(sorted((pile.others[kind] for pile in piles), reverse=True)[:number])
        return counts
