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
    Protection,
    Release,
    Strength,
)

EVERY_SILO = 10**6
"""As a number of silos per person: records may be in all silos there are."""


def _as_asked(certificate: Certificate, asked: Protection) -> Certificate:
    """Return an admitted certificate as one for exactly what is asked, so that what costs the same is the same."""
    return replace(
        certificate,
        unit=asked.unit,
        view=asked.view,
        records_per_person=asked.records_per_person,
        silos_per_person=1,  # the pile has added up a person's silos
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
    def of(cls, release: Release, protection: Protection) -> "Mechanism":
        """Return the mechanism of an admitted release under `protection`."""
        certificate = certificate_of(release)
        bare = replace(release, agent=0, round=0, count=1)
        if certificate is not None:
            bare = replace(bare, certificate=_as_asked(certificate, protection))  # type: ignore[arg-type]
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

    protection: Protection
    releases: int = 0
    squares: Fraction = Fraction(0)
    others: Counter[Mechanism] = field(default_factory=Counter)

    def add(self, release: Release) -> None:
        """Put one more release on the pile."""
        square = gaussian_square(release)
        if square is None:
            self.others[Mechanism.of(release, self.protection)] += release.count
        else:
            self.squares += square
        self.releases += 1

    def __add__(self, other: "Pile") -> "Pile":
        """Return both piles as one."""
        others = self.others.copy()
        others.update(other.others)
        return Pile(self.protection, self.releases + other.releases, self.squares + other.squares, others)

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
            unit=self.protection.unit,
            relation=self.protection.relation,
            view=self.protection.view,
            records_per_person=self.protection.records_per_person,
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

    protection: Protection
    everyone: Pile = field(init=False)
    silos: dict[str, Pile] = field(default_factory=dict)
    strengths: Counter[Strength] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Start empty."""
        self.everyone = Pile(self.protection)

    def add(self, release: Release, silo: str | None) -> None:
        """Count one more release of the silo."""
        pile = self.everyone if silo is None else self.silos.setdefault(silo, Pile(self.protection))
        pile.add(release)
        certificate = certificate_of(release)
        if certificate is not None:
            self.strengths[certificate.strength] += 1

    def __add__(self, other: "Tally") -> "Tally":
        """Return both tallies as one."""
        both = Tally(self.protection, strengths=self.strengths + other.strengths)
        both.everyone = self.everyone + other.everyone
        empty = Pile(self.protection)
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
        if self.protection.silos_per_person == 1 and self.silos:
            return {silo: pile + self.everyone for silo, pile in self.silos.items()}
        return {None: self._dearest(self.protection.silos_per_person) + self.everyone}

    def _dearest(self, number: int) -> Pile:
        piles = list(self.silos.values())
        counts = Pile(self.protection, releases=sum(pile.releases for pile in piles))
        counts.squares = sum(sorted((pile.squares for pile in piles), reverse=True)[:number], Fraction(0))
        for kind in {kind for pile in piles for kind in pile.others}:
            counts.others[kind] = sum(sorted((pile.others[kind] for pile in piles), reverse=True)[:number])
        return counts
