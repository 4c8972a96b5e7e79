"""Accounting: what a list of releases costs together.

Accountants interpret the records of `dpadmm.privacy.records`:

* Gaussian releases compose in closed form, `m^2 = sum count (bound/noise_std)^2` (C0);
* pure releases add up (C2);
* sampled Gaussians, and any mixture, go through one privacy loss distribution (C4, `dpadmm.privacy.sampled`);
* a bare release is infinite, an unknown one is refused.

Releases of different agents touch different records: a record of one silo is hurt by its own agent's releases
alone (`by_agent`), and a person present in `s` silos by those of `s` agents (`worst_person`). An agent below zero
stands for a release that reaches everybody's data, such as a coordinator's aggregate: it hurts every person, once.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from dpadmm import checks
from dpadmm.errors import BudgetError, InputError
from dpadmm.privacy.costs import Tally, count_release, objective_epsilon
from dpadmm.privacy.curves import Curve, InfiniteCurve, WorstCurve
from dpadmm.privacy.records import Certificate, Protection, Release, Strength

__all__ = [
    "GdpFilter",
    "Statement",
    "by_agent",
    "compose",
    "objective_epsilon",
    "statement",
    "weakest_strength",
    "worst_person",
]

# From strong to weak: a proof about an idealised solver says less than one about an idealised number format.
_STRENGTHS = (Strength.FULL, Strength.UP_TO_FLOATING_POINT, Strength.UP_TO_SOLVER_ERROR)
_MOST_COALITIONS = 1000


def _certificates(releases: Sequence[Release]) -> list[Certificate]:
    found = [getattr(release, "certificate", None) for release in releases]
    return list(dict.fromkeys(certificate for certificate in found if certificate is not None))


def _protection(releases: Sequence[Release]) -> Protection | None:
    """What all certificates agree on (None if there are none); only then may their costs be added."""
    agreed: Protection | None = None
    for certificate in _certificates(releases):
        own = certificate.protection
        if agreed is not None and own != agreed:
            name = next(n for n in own.__dataclass_fields__ if getattr(own, n) != getattr(agreed, n))
            raise InputError(
                f"releases disagree on {name}: {getattr(agreed, name)!r} and {getattr(own, name)!r}; "
                "account them apart, or certify all of them for the same terms."
            )
        agreed = own
    return agreed


def _tally(releases: Iterable[Release]) -> Tally:
    tally = Tally()
    for release in releases:
        count_release(release, tally)
    return tally


def _tallies(releases: Sequence[Release]) -> tuple[Tally, dict[int, Tally]]:
    """What reaches everybody (agents below zero), and what each agent's own releases cost."""
    groups: dict[int, list[Release]] = {}
    for release in releases:
        groups.setdefault(release.agent, []).append(release)
    everyone = _tally(release for agent, own in groups.items() if agent < 0 for release in own)
    return everyone, {agent: _tally(own) for agent, own in groups.items() if agent >= 0}


def compose(releases: Iterable[Release]) -> Curve:
    """The privacy curve of all given releases about the same records, whoever made them.

    Raises `InputError` for unknown kinds and for certificates with different units, relations, views or people.
    No release at all costs nothing.
    """
    listed = list(releases)
    tally = _tally(listed)
    _protection(listed)
    return tally.curve()


def by_agent(releases: Iterable[Release]) -> dict[int, Curve]:
    """One curve per agent: what the records of its silo pay. Agents that pay the same share the work.

    What reaches everybody (an agent below zero) is part of every agent's curve; such an agent's own curve is that of
    people in silos that release nothing else.
    """
    listed = list(releases)
    everyone, own = _tallies(listed)
    _protection(listed)
    tallies = {release.agent: everyone for release in listed if release.agent < 0}
    tallies |= {agent: tally.plus(everyone) for agent, tally in own.items()}
    known: dict[Hashable, Curve] = {}
    for tally in tallies.values():
        key = tally.key()
        if key not in known:
            known[key] = tally.curve()
    return {agent: known[tally.key()] for agent, tally in tallies.items()}


def worst_person(releases: Iterable[Release]) -> Curve:
    """The curve of the person hurt most, with records in as many silos as the certificates allow for.

    With `s = silos_per_person`: the s largest m^2 add for Gaussians, the s largest epsilons for pure releases; for
    sampled or mixed ones the upper envelope over all choices of s agents. What reaches everybody adds to each choice
    once (its certificate bounds the change by all of a person's silos together).
    """
    listed = list(releases)
    everyone, own = _tallies(listed)
    tallies, agreed = list(own.values()), _protection(listed)
    silos = agreed.silos_per_person if agreed else 1
    if any(tally.infinite for tally in (everyone, *tallies)):
        return InfiniteCurve()
    if not any(tally.pure or tally.sampled for tally in (everyone, *tallies)):
        worst = sorted((tally.m_squared for tally in tallies), reverse=True)[:silos]
        return Tally(gaussian=Counter(worst)).plus(everyone).curve()
    if not any(tally.gaussian or tally.sampled for tally in (everyone, *tallies)):
        worst = sorted((tally.epsilon for tally in tallies), reverse=True)[:silos]
        return Tally(pure=Counter(worst)).plus(everyone).curve()
    return _envelope(tallies, everyone, silos)


def _envelope(tallies: Sequence[Tally], everyone: Tally, silos: int) -> Curve:
    """The upper envelope over all coalitions of `silos` agents, each different coalition once."""
    by_key = {tally.key(): tally for tally in tallies}
    present = Counter(tally.key() for tally in tallies)
    candidates = [key for key, n in present.items() for _ in range(min(n, silos))]
    size = min(silos, len(candidates))
    if size > 1 and math.comb(len(candidates), size) > _MOST_COALITIONS:
        raise InputError(
            f"{len(by_key)} agents with different sampled or mixed costs and {silos} silos per person give too many "
            "coalitions to compare; give agents equal noise, or assume one silo per person."
        )
    curves = []
    for keys in dict.fromkeys(combinations(candidates, size)):
        total = everyone
        for key in keys:
            total = total.plus(by_key[key])
        curves.append(total.curve())
    return curves[0] if len(curves) == 1 else WorstCurve(tuple(curves))


def weakest_strength(releases: Iterable[Release]) -> Strength:
    """How far a statement about all these releases reaches: as far as its weakest certificate."""
    return max((c.strength for c in _certificates(list(releases))), key=_STRENGTHS.index, default=Strength.FULL)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A certified figure with everything it must name: for whom, against whom, under what, how far."""

    curve: Curve
    protection: Protection
    strength: Strength
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]


def statement(releases: Iterable[Release]) -> Statement:
    """What may be said about these releases: the worst person's curve with the terms of the certificates."""
    listed = list(releases)
    agreed, certificates = _protection(listed), _certificates(listed)
    if agreed is None:
        raise InputError("no release has a certificate, so there is nothing to state; release with noise.")
    return Statement(
        curve=worst_person(listed),
        protection=agreed,
        strength=weakest_strength(listed),
        theorems=tuple(dict.fromkeys(c.theorem for c in certificates)),
        assumptions=tuple(dict.fromkeys(text for c in certificates for text in c.assumptions)),
    )


@dataclass(frozen=True)
class GdpFilter:
    """A budget `m` for Gaussian noise whose scales are chosen along the way (C0): the sum may never pass it.

    >>> left = GdpFilter(budget_m=1.0).spend(bound=1.0, noise_std=2.0)
    >>> left.spent_m_squared, round(left.least_noise_std(bound=1.0), 6)
    (0.25, 1.154701)
    """

    budget_m: float
    spent_m_squared: float = 0.0

    def __post_init__(self) -> None:
        """Refuse budgets that are none."""
        checks.positive("budget_m", self.budget_m)
        checks.non_negative("spent_m_squared", self.spent_m_squared)

    @property
    def remaining_m(self) -> float:
        """The m that may still be spent in one release."""
        return math.sqrt(max(0.0, self.budget_m**2 - self.spent_m_squared))

    def least_noise_std(self, bound: float) -> float:
        """The smallest noise the rest of the budget pays for, rounded up; infinite when nothing is left."""
        checks.positive("bound", bound)
        return bound / self.remaining_m * (1 + 1e-12) if self.remaining_m > 0 else math.inf

    def spend(self, *, bound: float, noise_std: float, count: int = 1) -> "GdpFilter":
        """Return the filter after the release, or raise `BudgetError` and spend nothing."""
        ratio = checks.non_negative("bound", bound) / checks.positive("noise_std", noise_std)
        total = self.spent_m_squared + checks.count("count", count) * ratio * ratio
        if total > self.budget_m**2:
            raise BudgetError(
                f"the release would bring m^2 to {total:.6g}, above the budget {self.budget_m**2:.6g}; add noise "
                f"of at least {self.least_noise_std(bound) * math.sqrt(count):.6g} or stop."
            )
        return GdpFilter(self.budget_m, total)
