"""What has been spent, and whether more fits the budget.

The recorded releases are merged into few, for the accountant, which alone composes them. Gaussian releases keep only
the sum of their squared ratios, `m^2 = sum (D_k/s_k)^2` (C0), summed without rounding from terms rounded up; all others
are counted by mechanism. So the thousandth reservation costs what the first did.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from dpadmm import checks
from dpadmm.checks import plural
from dpadmm.codec import canonical
from dpadmm.errors import BudgetError, InputError
from dpadmm.privacy.ledger.entries import Ask, encode_release
from dpadmm.privacy.protection import Certificate, Norm, Protection, Strength
from dpadmm.privacy.records import GaussianRelease, NoisyRelease, Release

if TYPE_CHECKING:
    from dpadmm.privacy.curves import Curve

# Keeps the shortcut below on the safe side of rounding; the accountant decides what is closer.
_MARGIN = 1e-9


class Composer(Protocol):
    """Composes releases; must follow C0 for Gaussian ones, which arrive merged into one."""

    def __call__(self, releases: Iterable[Release], /) -> "Curve":
        """Return the curve of all `releases` together, chosen adaptively."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most a data set may spend: `epsilon` > 0 at `delta` in [0, 1); 0 asks for pure differential privacy."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse budgets that are none."""
        checks.positive("epsilon", self.epsilon)
        if checks.non_negative("delta", self.delta) >= 1:
            raise InputError(f"delta must be at least 0 and below 1, got {self.delta!r}.")

    def allows(self, curve: "Curve") -> bool:
        """Return whether `curve` stays within the budget; a NaN does not."""
        if self.delta == 0:
            return curve.epsilon(0.0) <= self.epsilon
        return curve.delta(self.epsilon) <= self.delta


def admitted(release: Release, asked: Protection) -> Release:
    """Return `release`, or raise `InputError` if its certificate says less than the ledger's budget asks for."""
    if isinstance(release, NoisyRelease) and not asked.is_covered_by(release.certificate.protection):
        raise InputError(
            f"The ledger's budget is {asked.words()}; the release of agent {release.agent} in round {release.round} is "
            f"certified {release.certificate.protection.words()}, which does not cover that. Certify the release for "
            "the ledger's terms."
        )
    return release


def _as_asked(certificate: Certificate, asked: Protection) -> Certificate:
    """Return an admitted certificate as one for exactly what is asked, so that what costs the same is the same."""
    return replace(
        certificate,
        protection=replace(asked, silos_per_person=1),  # the pile has added up a person's silos
        strength=Strength.FULL,
        theorem="as recorded",
        assumptions=("as recorded",),
        declared=(),
    )


@dataclass(frozen=True)
class Mechanism:
    """What a release costs, without who, when and how often; known by its text, which is quick to compare."""

    text: str
    release: Release = field(compare=False)

    @classmethod
    def of(cls, release: Release, protection: Protection) -> "Mechanism":
        """Return the mechanism of an admitted release under `protection`."""
        once = replace(release, agent=0, round=0, count=1)
        if isinstance(once, NoisyRelease):
            once = replace(once, certificate=_as_asked(once.certificate, protection))
        return cls(canonical(encode_release(once)), once)


def gaussian_square(release: Release) -> Fraction | None:
    """Return an upper bound of `count (D/s)^2` if C0 applies to `release`; None if the accountant must see it."""
    if not isinstance(release, GaussianRelease):
        return None
    certificate = release.certificate
    noise_std = checks.positive("noise_std", release.noise_std)
    if certificate.norm is not Norm.L2 or certificate.log_jacobian:
        return None
    if certificate.bound == 0:
        return Fraction(0)
    ratio = math.nextafter(certificate.bound / noise_std, math.inf)
    if certificate.grid is not None:  # discrete noise is a little less than Gaussian (C8)
        ratio = math.nextafter(ratio * release.grid_factor, math.inf)
    square = math.nextafter(ratio * ratio, math.inf)
    if not math.isfinite(square):
        raise InputError(
            f"A sensitivity of {certificate.bound!r} with noise of {noise_std!r} protects nothing. Add noise."
        )
    return release.count * Fraction(square)


def share_of(release: Release, protection: Protection) -> Fraction | Mechanism:
    """Return what an admitted release puts on a pile: its square where C0 applies, otherwise its mechanism."""
    square = gaussian_square(release)
    return Mechanism.of(release, protection) if square is None else square


@dataclass
class Pile:
    """Releases that one person's change can reach, merged: m^2 of the Gaussian ones, and how often each other was."""

    protection: Protection
    releases: int = 0
    squares: Fraction = Fraction(0)
    others: Counter[Mechanism] = field(default_factory=Counter)

    def add(self, release: Release, share: Fraction | Mechanism | None = None) -> None:
        """Put one more release on the pile; `share` is its own where that is known."""
        square = share_of(release, self.protection) if share is None else share
        if isinstance(square, Mechanism):
            self.others[square] += release.count
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
            protection=replace(self.protection, silos_per_person=1),
            theorem="C0",
            assumptions=("as recorded",),
        )
        return [GaussianRelease(certificate=certificate, noise_std=1.0, agent=0, round=0)]


@dataclass
class Piles:
    """All releases of a data set, silo by silo.

    `everyone` holds what reaches the data of all silos: a coordinator's aggregate, or a release of which it is not
    known whose it was (silo None).
    """

    protection: Protection
    everyone: Pile = field(init=False)
    silos: dict[str, Pile] = field(default_factory=dict)
    strengths: Counter[Strength] = field(default_factory=Counter)
    declared: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Start empty."""
        self.everyone = Pile(self.protection)

    def add(self, release: Release, silo: str | None, share: Fraction | Mechanism | None = None) -> None:
        """Count one more release of the silo; `share` as in `Pile.add`."""
        if silo is not None and silo not in self.silos:
            self.silos[silo] = Pile(self.protection)
        pile = self.everyone if silo is None else self.silos[silo]
        pile.add(release, share)
        if isinstance(release, NoisyRelease):
            self.strengths[release.certificate.strength] += 1
            self.declared.update(release.certificate.declared)

    def __add__(self, other: "Piles") -> "Piles":
        """Return both as one."""
        both = Piles(
            self.protection, strengths=self.strengths + other.strengths, declared=self.declared + other.declared
        )
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


class Meter:
    """Measures piles of releases with a composer."""

    def __init__(self, compose: Composer) -> None:
        """Measure with `compose`."""
        self._compose = compose
        self._pure_epsilons: dict[Mechanism, float] = {}

    def is_within(self, pile: Pile, budget: Budget) -> bool:
        """Return whether all of `pile` together stays within `budget`."""
        if self._is_clearly_within(pile, budget):
            return True
        merged = pile.merged()
        return not merged or budget.allows(self._compose(merged))

    def epsilon(self, pile: Pile, budget: Budget) -> float:
        """Return the epsilon of `pile` at the budget's delta; 0 if nothing in it depends on the data."""
        merged = pile.merged()
        return self._compose(merged).epsilon(budget.delta) if merged else 0.0

    def _is_clearly_within(self, pile: Pile, budget: Budget) -> bool:
        """Return True only if a bound that needs no composition of its own says so.

        With E the sum of pure epsilons and m^2 that of the Gaussian squares, `delta(eps) <= delta_m(eps - E)`.
        """
        if not pile.others:
            return False  # all Gaussian: the accountant's closed form is as quick, and exact
        pure = math.fsum(count * self._pure_epsilon(kind) for kind, count in pile.others.items())
        left = budget.epsilon - pure * (1.0 + _MARGIN)
        if not left > 0:
            return False
        gaussian = pile.gaussian()
        if gaussian and budget.delta == 0:
            return False  # a delta that underflows to zero is not zero
        return not gaussian or self._compose(gaussian).delta(left) <= budget.delta * (1.0 - _MARGIN)

    def _pure_epsilon(self, kind: Mechanism) -> float:
        if kind not in self._pure_epsilons:
            self._pure_epsilons[kind] = self._compose([kind.release]).epsilon(0.0)
        return self._pure_epsilons[kind]


def overspend(spent: Piles, asks: Sequence[Ask], budget: Budget, meter: Meter, *, n_silos: int) -> BudgetError | None:
    """Return the refusal if `asks` on top of what is spent would pass the budget of a data set of `n_silos` silos."""
    if not asks:
        return None
    asked = Piles(spent.protection)
    for ask in asks:
        asked.add(ask.release, ask.silo)
    after = (spent + asked).people()
    touched = after if asked.everyone.releases else {who: after[who] for who in asked.people()}
    for who, pile in touched.items():
        if not meter.is_within(pile, budget):
            before, added = (each.people().get(who, each.everyone) for each in (spent, asked))
            so_far, alone, total = (meter.epsilon(each, budget) for each in (before, added, pile))
            return BudgetError(
                f"Refused: epsilon {so_far:.6g} of {budget.epsilon:.6g} is spent at delta {budget.delta:.3g}, "
                f"{max(0.0, budget.epsilon - so_far):.6g} is left; the {plural(added.releases, 'requested release')} "
                f"would cost {alone:.6g} alone and bring the total to {total:.6g}. Nothing was spent, so nothing may "
                "be released. Ask for a smaller epsilon, or raise the budget and give a reason (`dpadmm ledger "
                f"budget`, or Ledger.set_budget).{_pooled_words(asks, n_silos)}"
            )
    return None


def below_spent(spent: Piles, budget: Budget, meter: Meter) -> BudgetError | None:
    """Return the refusal if more than a new budget is spent already."""
    for pile in spent.people().values():
        if not meter.is_within(pile, budget):
            return BudgetError(
                f"The budget cannot become epsilon {budget.epsilon:.6g} at delta {budget.delta:.3g}: epsilon "
                f"{meter.epsilon(pile, budget):.6g} is already spent at that delta. Choose a larger budget."
            )
    return None


def _pooled_words(asks: Sequence[Ask], n_silos: int) -> str:
    """Say so where the refusal comes from adding up silos that the ledger cannot tell apart."""
    agents = {ask.release.agent for ask in asks if ask.release.agent >= 0}
    if n_silos > 1 or len(agents) < 2:
        return ""
    return (
        f" This ledger was created for one silo, so the releases of all {len(agents)} agents add up, as if a person "
        "had records with each of them. If every person's records are with one agent only, create the ledger with "
        "separate silos, as in ledger_data(X, y, groups): each silo then has the whole budget."
    )
