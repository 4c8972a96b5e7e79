"""Accounting: what a list of releases costs together.

A release of `dpadmm.privacy.records` knows what it costs by itself:

* Gaussian releases compose in closed form, `m^2 = sum count (bound/noise_std)^2` (C0);
* pure releases add up (C2);
* sampled Gaussians, and any mixture, go through one privacy loss distribution (C4, `dpadmm.privacy.sampled`);
* a bare release is infinite, what is no release is refused.

Releases of different agents touch different records: a record of one silo is hurt by its own agent's releases
alone (`by_agent`), and a person present in `s` silos by those of `s` agents (`worst_person`). An agent below zero
stands for a release that reaches everybody's data, such as a coordinator's aggregate: it hurts every person, once.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.curves import Curve, GaussianCurve, InfiniteCurve, PureCurve, WorstCurve
from dpadmm.privacy.protection import FROM_STRONG_TO_WEAK, Certificate, Protection, Strength, standing
from dpadmm.privacy.records import KINDS, Cost, NoisyRelease, Release, SampledStep, SummedGaussianRelease

_MOST_COALITIONS = 1000


@dataclass
class Tally:
    """Costs counted by kind; identical ones are merged, so that k releases equal one release of count k."""

    gaussian: Counter[float] = field(default_factory=Counter)  # (bound/noise_std)^2 -> count
    pure: Counter[float] = field(default_factory=Counter)  # epsilon -> count
    sampled: Counter[SampledStep] = field(default_factory=Counter)
    infinite: bool = False

    @property
    def m_squared(self) -> float:
        return math.fsum(count * value for value, count in self.gaussian.items())

    @property
    def epsilon(self) -> float:
        return math.fsum(count * value for value, count in self.pure.items())

    @classmethod
    def of(cls, releases: Iterable[object]) -> "Tally":
        """Count releases; what is none is refused, whatever it looks like."""
        tally = cls()
        for release in releases:
            if not isinstance(release, Release):
                known = ", ".join(sorted(kind.__name__ for kind in KINDS))
                raise InputError(f"no accounting rule for {type(release).__name__}; use one of {known}.")
            tally.add(release.cost, checks.count("count", release.count))
        return tally

    def add(self, cost: Cost, count: int) -> None:
        if cost.m_squared is not None:
            self.gaussian[cost.m_squared] += count
        if cost.epsilon is not None:
            self.pure[cost.epsilon] += count
        if cost.step is not None:
            self.sampled[cost.step] += count
        self.infinite |= cost.is_infinite

    def key(self) -> Hashable:
        """Equal for tallies that cost the same."""
        pure, sampled = frozenset(self.pure.items()), frozenset(self.sampled.items())
        return self.m_squared, pure, sampled, self.infinite

    def plus(self, other: "Tally") -> "Tally":
        return Tally(
            self.gaussian + other.gaussian,
            self.pure + other.pure,
            self.sampled + other.sampled,
            self.infinite or other.infinite,
        )

    def curve(self) -> Curve:
        m = math.sqrt(self.m_squared)
        if self.infinite or math.isinf(m) or math.isinf(self.epsilon):
            return InfiniteCurve()
        if self.sampled or (m > 0 and self.epsilon > 0):
            from dpadmm.privacy.sampled import compose_losses  # heavy; Gaussian and pure releases do without

            return compose_losses(m, self.pure, self.sampled)
        return GaussianCurve(m) if m > 0 else PureCurve(self.epsilon)


def _certificates(releases: Sequence[Release]) -> list[Certificate]:
    return list(dict.fromkeys(release.certificate for release in releases if isinstance(release, NoisyRelease)))


def _protection(releases: Sequence[Release]) -> Protection | None:
    """What all certificates agree on (None if there are none); only then may their costs be added."""
    agreed: Protection | None = None
    for certificate in _certificates(releases):
        own = certificate.protection
        if agreed is not None and own != agreed:
            name = next(n for n in own.__dataclass_fields__ if getattr(own, n) != getattr(agreed, n))
            raise InputError(
                f"releases disagree on {name}: {getattr(agreed, name)!r} and {getattr(own, name)!r}; account for them "
                "separately, or certify all of them under the same terms."
            )
        agreed = own
    return agreed


def _tallies(releases: Sequence[Release]) -> tuple[Tally, dict[int, Tally]]:
    """What reaches everybody (agents below zero), and what each agent's own releases cost."""
    groups: dict[int, list[Release]] = {}
    for release in releases:
        groups.setdefault(release.agent, []).append(release)
    everyone = Tally.of(release for agent, own in groups.items() if agent < 0 for release in own)
    return everyone, {agent: Tally.of(own) for agent, own in groups.items() if agent >= 0}


def compose(releases: Iterable[Release]) -> Curve:
    """The privacy curve of all given releases about the same records, whoever made them.

    Raises `InputError` for unknown kinds and for certificates with different units, relations, views or people.
    No release at all costs nothing.
    """
    listed = list(releases)
    tally = Tally.of(listed)
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
            "coalitions to compare; give all agents the same noise, or assume one silo per person."
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
    return max(
        (c.strength for c in _certificates(list(releases))), key=FROM_STRONG_TO_WEAK.index, default=Strength.FULL
    )


def with_lookers(releases: Iterable[Release], silos: int | None = None) -> Curve:
    """The worst person's curve if so many silos looked together with the coordinator, whatever is certified (C12).

    Of a sum with shares of one noise they know their own; the noise that hides the sum from them is that of the others'
    shares. None: all silos but the person's own, whose share alone is left, so that m is `sqrt(N - t)` times the
    certified one.
    """

    def seen(release: Release) -> Release:
        if not isinstance(release, SummedGaussianRelease):
            return release
        return release.hidden_by(1 if silos is None else max(1, release.silos - silos))

    return worst_person(map(seen, releases))


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A certified figure with everything it must state: who is protected, from whom, under which assumptions, how far.

    `declared`: the user's own parts on whose declared constants it rests; it is certified if these hold.
    Where sums with shares of one noise are released (C12), also what is *not* certified: the curves if one silo looks,
    though none is counted, and if all silos but the person's own collude; None elsewhere.
    """

    curve: Curve
    protection: Protection
    strength: Strength
    theorems: tuple[str, ...]
    assumptions: tuple[str, ...]
    declared: tuple[str, ...] = ()
    if_one_looks: Curve | None = None
    if_all_collude: Curve | None = None

    @property
    def standing(self) -> str:
        """Whether the figure is certified, up to what, and whether only if declared constants hold."""
        return standing(self.strength, self.declared)


def statement(releases: Iterable[Release]) -> Statement:
    """What may be said about these releases: the worst person's curve with the terms of the certificates."""
    listed = list(releases)
    agreed, certificates = _protection(listed), _certificates(listed)
    if agreed is None:
        raise InputError("no release has a certificate, so no guarantee can be stated; add noise to the releases.")
    has_shares = any(isinstance(release, SummedGaussianRelease) for release in listed)
    return Statement(
        curve=worst_person(listed),
        protection=agreed,
        strength=weakest_strength(listed),
        theorems=tuple(dict.fromkeys(c.theorem for c in certificates)),
        assumptions=tuple(dict.fromkeys(text for c in certificates for text in c.assumptions)),
        declared=tuple(dict.fromkeys(part for c in certificates for part in c.declared)),
        if_one_looks=with_lookers(listed, 1) if has_shares and agreed.n_colluders == 0 else None,
        if_all_collude=with_lookers(listed) if has_shares else None,
    )
