"""What has been spent, and whether more fits the budget.

The recorded releases are merged into few, for the accountant, which alone composes them. Gaussian releases keep only
the sum of their squared ratios, `m^2 = sum (D_k/s_k)^2` (C0), summed without rounding from terms rounded up; all others
are counted by mechanism. So the thousandth reservation costs what the first did.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from dpadmm import checks
from dpadmm.checks import plural
from dpadmm.codec import canonical, encode
from dpadmm.errors import BudgetError, InputError
from dpadmm.privacy.ledger.entries import Reservation, encode_release
from dpadmm.privacy.protection import FROM_STRONG_TO_WEAK, Certificate, Norm, Protection, Strength, View, standing
from dpadmm.privacy.releases import GaussianRelease, NoisyRelease, Release

if TYPE_CHECKING:
    from dpadmm.privacy.curves import Curve
    from dpadmm.privacy.ledger.history import LedgerState

# Keeps the shortcut below on the safe side of rounding; the accountant decides what is closer.
_MARGIN = 1e-9
_PROFILE_THEOREM = "C11"

PROFILE_ROUND = 0
"""The round in which a column profile is released."""


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


def check_covered(release: Release, asked: Protection) -> Release:
    """Return `release`, or raise `InputError` if its certificate says less than the ledger's budget asks for."""
    if isinstance(release, NoisyRelease) and not asked.is_covered_by(release.certificate.protection):
        raise InputError(
            f"The ledger's budget is {asked.words()}; the release of agent {release.agent} in round {release.round} is "
            f"certified {release.certificate.protection.words()}, which does not cover that. Certify the release for "
            "the ledger's terms."
        )
    return release


def _as_asked(certificate: Certificate, asked: Protection) -> Certificate:
    """Return a covering certificate as one for exactly what is asked, so that what costs the same is the same."""
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
        """Return the mechanism of a covered release under `protection`."""
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
    """Return what a covered release puts on a pile: its square where C0 applies, otherwise its mechanism."""
    square = gaussian_square(release)
    return Mechanism.of(release, protection) if square is None else square


@dataclass
class SpentReleases:
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

    def __add__(self, other: "SpentReleases") -> "SpentReleases":
        """Return both piles as one."""
        others = self.others.copy()
        others.update(other.others)
        return SpentReleases(self.protection, self.releases + other.releases, self.squares + other.squares, others)

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
class SpentBySilo:
    """All releases of a data set, silo by silo.

    `everyone` holds what reaches the data of all silos: a coordinator's aggregate, or a release of which it is not
    known whose it was (silo None).
    """

    protection: Protection
    everyone: SpentReleases = field(init=False)
    silos: dict[str, SpentReleases] = field(default_factory=dict)
    strengths: Counter[Strength] = field(default_factory=Counter)
    declared: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Start empty."""
        self.everyone = SpentReleases(self.protection)

    def add(self, release: Release, silo: str | None, share: Fraction | Mechanism | None = None) -> None:
        """Count one more release of the silo; `share` as in `SpentReleases.add`."""
        if silo is not None and silo not in self.silos:
            self.silos[silo] = SpentReleases(self.protection)
        pile = self.everyone if silo is None else self.silos[silo]
        pile.add(release, share)
        if isinstance(release, NoisyRelease):
            self.strengths[release.certificate.strength] += 1
            self.declared.update(release.certificate.declared)

    def __add__(self, other: "SpentBySilo") -> "SpentBySilo":
        """Return both as one."""
        both = SpentBySilo(
            self.protection, strengths=self.strengths + other.strengths, declared=self.declared + other.declared
        )
        both.everyone = self.everyone + other.everyone
        empty = SpentReleases(self.protection)
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

    def people(self) -> dict[str | None, SpentReleases]:
        """Return the piles that must each stay within the budget: what reaches each kind of person.

        With one silo per person there is one kind per silo, by its name. With s silos per person there is one pile for
        all, of the s dearest silos: the s largest m^2 (C0), and of every other mechanism the s largest numbers, which
        is at least what any s silos released.
        """
        if self.protection.silos_per_person == 1 and self.silos:
            return {silo: pile + self.everyone for silo, pile in self.silos.items()}
        return {None: self._dearest(self.protection.silos_per_person) + self.everyone}

    def _dearest(self, number: int) -> SpentReleases:
        piles = list(self.silos.values())
        counts = SpentReleases(self.protection, releases=sum(pile.releases for pile in piles))
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

    def is_within(self, pile: SpentReleases, budget: Budget) -> bool:
        """Return whether all of `pile` together stays within `budget`."""
        if self._is_clearly_within(pile, budget):
            return True
        merged = pile.merged()
        return not merged or budget.allows(self._compose(merged))

    def epsilon(self, pile: SpentReleases, budget: Budget) -> float:
        """Return the epsilon of `pile` at the budget's delta; 0 if nothing in it depends on the data."""
        merged = pile.merged()
        return self._compose(merged).epsilon(budget.delta) if merged else 0.0

    def _is_clearly_within(self, pile: SpentReleases, budget: Budget) -> bool:
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


def overspend(
    spent: SpentBySilo, asks: Sequence[Reservation], budget: Budget, meter: Meter, *, n_silos: int
) -> BudgetError | None:
    """Return the refusal if `asks` on top of what is spent would pass the budget of a data set of `n_silos` silos."""
    if not asks:
        return None
    asked = SpentBySilo(spent.protection)
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
                "be released. Reservation for a smaller epsilon, or raise the budget and give a reason (`dpadmm ledger "
                f"budget`, or Ledger.set_budget).{_pooled_words(asks, n_silos)}"
            )
    return None


def below_spent(spent: SpentBySilo, budget: Budget, meter: Meter) -> BudgetError | None:
    """Return the refusal if more than a new budget is spent already."""
    for pile in spent.people().values():
        if not meter.is_within(pile, budget):
            return BudgetError(
                f"The budget cannot become epsilon {budget.epsilon:.6g} at delta {budget.delta:.3g}: epsilon "
                f"{meter.epsilon(pile, budget):.6g} is already spent at that delta. Choose a larger budget."
            )
    return None


def _pooled_words(asks: Sequence[Reservation], n_silos: int) -> str:
    """Say so where the refusal comes from adding up silos that the ledger cannot tell apart."""
    agents = {ask.release.agent for ask in asks if ask.release.agent >= 0}
    if n_silos > 1 or len(agents) < 2:
        return ""
    return (
        f" This ledger was created for one silo, so the releases of all {len(agents)} agents add up, as if a person "
        "had records with each of them. If every person's records are with one agent only, create the ledger with "
        "separate silos, as in ledger_data(X, y, groups): each silo then has the whole budget."
    )


def is_profile(release: Release) -> bool:
    """Return whether a release is one of a column profile: round 0, certified by C11."""
    if not isinstance(release, GaussianRelease) or release.round != PROFILE_ROUND:
        return False
    return release.certificate.theorem.split(" ")[0] == _PROFILE_THEOREM


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Proof that releases are recorded: their messages may leave.

    `entries` are their numbers in the log, `digests` their places in the chain, in the order asked. `fresh` says which
    of them were recorded by this very call; a release that is not fresh was paid for earlier, so **the message stored
    then must be sent again bit for bit**, or drawn now if it is certain that none was ever sent.
    """

    run: str
    entries: tuple[int, ...]
    digests: tuple[str, ...]
    fresh: tuple[bool, ...] = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class SiloSpending:
    """What the releases about one silo's data have spent, those about everyone's data included."""

    silo: str
    releases: int
    spent_epsilon: float


@dataclass(frozen=True, kw_only=True)
class LedgerStatement:
    """What a data set has spent, and what is left.

    `spent_epsilon` is the certified total at the budget's delta, for `protection`.
    `left_epsilon` is the budget less that; since epsilons do not simply add, more than it may still fit.
    `holds_adaptively`: the figure also holds if the noise of later releases was chosen after seeing earlier ones
    (C0: Gaussian releases only, or a budget with delta 0); otherwise the noise must have been planned beforehand.
    `declared`: users' own losses and the like, on whose declared constants the figure rests: it holds if these do.
    `profiles`: how many column profiles are kept, for later fits to use at no cost.
    `version`: which one of the data is used, since `version_since` (UTC); what was spent on earlier ones is counted.
    """

    budget: Budget
    protection: Protection
    spent_epsilon: float
    left_epsilon: float
    releases: int
    refusals: int
    head: str
    entries: int
    strengths: tuple[Strength, ...]
    holds_adaptively: bool
    silos: tuple[SiloSpending, ...]
    declared: tuple[str, ...] = ()
    profiles: int = 0
    version: int = 1
    version_since: str = ""

    @property
    def strength(self) -> Strength:
        """The weakest strength among the releases' certificates; an empty ledger is fully certified."""
        return self.strengths[-1] if self.strengths else Strength.FULL

    @property
    def standing(self) -> str:
        """Whether the figure is certified, up to what, and whether only if declared constants hold."""
        return standing(self.strength, self.declared)

    @property
    def _standings(self) -> list[str]:
        """Every strength there is, the weakest with what the whole figure rests on."""
        return [*(strength.value for strength in self.strengths[:-1]), self.standing]

    def __str__(self) -> str:
        """Return the statement as a few lines of text."""
        planned = "however later noise was chosen" if self.holds_adaptively else "for noise planned beforehand"
        lines = [
            f"Spent      epsilon {self.spent_epsilon:.6g} of {self.budget.epsilon:.6g}, delta {self.budget.delta:.3g}",
            f"Left       epsilon {self.left_epsilon:.6g}",
            f"Protects   {self.protection} from {self.protection.observer}",
            *self._colluders_lines(),
            f"Assumes    {self.protection.people}",
            f"Strength   {'; '.join(self._standings)}; {planned}",
            f"Releases   {self.releases} recorded, {self.refusals} refusals",
        ]
        if self.version > 1:
            lines.append(f"Data       {version_words(self.version, self.version_since)}")
        if self.profiles:
            lines.append(f"Profiles   {self.profiles} kept, which later fits on the same columns reuse at no cost")
        if len(self.silos) > 1:
            lines += [
                f"  {spending.silo}: epsilon {spending.spent_epsilon:.6g} in {spending.releases} releases"
                for spending in self.silos
            ]
        return "\n".join([*lines, f"Head       {self.head} (entry {self.entries})"])

    def _colluders_lines(self) -> list[str]:
        """Say what the number of colluders counts, where only sums are seen (C12)."""
        if self.protection.view is not View.AGGREGATE:
            return []
        if self.protection.n_colluders == 0:
            return ["Colluders  none: the figure holds for the coordinator and outsiders, not for a silo that looks"]
        counted = "every silo that looks counts, alone or together with the coordinator"
        return [f"Colluders  up to {self.protection.n_colluders}: {counted}"]

    def document(self, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the export of a ledger: this statement with the entries that it is about."""
        return {
            "format": "dpadmm ledger export 1",
            "statement": str(self).splitlines(),
            "protection": encode(self.protection),
            "budget": encode(self.budget),
            "spent_epsilon": self.spent_epsilon,
            "declared": list(self.declared),
            "head": self.head,
            "entries": entries,
        }


def draw_statement(state: "LedgerState", meter: Meter) -> LedgerStatement:
    """Return the statement of a state."""
    piles, budget = state.piles, state.budget
    spent = _worst(piles, meter, budget)
    reached = ((silo, pile + piles.everyone) for silo, pile in sorted(piles.silos.items()))
    return LedgerStatement(
        budget=budget,
        protection=piles.protection,
        spent_epsilon=spent,
        left_epsilon=max(0.0, budget.epsilon - spent),
        releases=piles.releases,
        refusals=state.refusals,
        head=state.reader.digest,
        entries=state.reader.seq,
        strengths=tuple(strength for strength in FROM_STRONG_TO_WEAK if piles.strengths[strength]),
        holds_adaptively=piles.is_gaussian() or budget.delta == 0,
        silos=tuple(
            SiloSpending(silo=silo, releases=pile.releases, spent_epsilon=meter.epsilon(pile, budget))
            for silo, pile in reached
        ),
        declared=tuple(sorted(piles.declared)),
        profiles=len(state.profiles),
        version=state.newest.number,
        version_since=state.newest.since,
    )


def version_words(number: int, since: str) -> str:
    """Say which version of the data is used, and that nothing spent on the others is forgotten."""
    others = "the one before it" if number == 2 else f"the {number - 1} before it"
    return f"version {number}, since {since[:19]} UTC; what was spent on {others} counts as well"


@dataclass(frozen=True, kw_only=True)
class RunSpending:
    """What one run has recorded in the log, and what it would have cost alone at the budget's delta.

    `declared`: the user's own parts on whose declared constants its figure rests.
    `profile_epsilon` is what its column profile (round 0) would have cost alone, a part of that; None without one.
    `version`: of the data that it was about.
    """

    run: str
    algorithm: str
    releases: int
    silos: int
    alone_epsilon: float
    first_time: str
    last_time: str
    profile_epsilon: float | None = None
    version: int = 1
    declared: tuple[str, ...] = ()


@dataclass
class RunAccount:
    """What one run has in the log, folded together; its figure is drawn once and kept until something is added."""

    run: str
    algorithm: str
    piles: SpentBySilo
    profile: SpentBySilo
    version: int
    first_time: str
    last_time: str = ""
    drawn: tuple[Meter, float, RunSpending] | None = None

    def add(self, ask: Reservation, share: Fraction | Mechanism, time: str) -> None:
        """Count one more release, whose share is known."""
        self.piles.add(ask.release, ask.silo, share)
        if is_profile(ask.release):
            self.profile.add(ask.release, ask.silo, share)
        self.last_time, self.drawn = time, None

    def spending(self, meter: Meter, budget: Budget) -> RunSpending:
        """Return what it has spent."""
        if self.drawn is None or self.drawn[:2] != (meter, budget.delta):
            self.drawn = meter, budget.delta, self._drawn_by(meter, budget)
        return self.drawn[2]

    def _drawn_by(self, meter: Meter, budget: Budget) -> RunSpending:
        return RunSpending(
            run=self.run,
            algorithm=self.algorithm,
            releases=self.piles.releases,
            silos=len(self.piles.silos),
            alone_epsilon=_worst(self.piles, meter, budget),
            profile_epsilon=_worst(self.profile, meter, budget) if self.profile.releases else None,
            first_time=self.first_time,
            last_time=self.last_time,
            version=self.version,
            declared=tuple(sorted(self.piles.declared)),
        )


def _worst(piles: SpentBySilo, meter: Meter, budget: Budget) -> float:
    """Return the epsilon of the person who is reached most."""
    return max(meter.epsilon(pile, budget) for pile in piles.people().values())
