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
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True)
class Mechanism:
    """What a release costs, without who, when and how often; known by its text, which is quick to compare."""

    text: str
    release: Release = field(compare=False)

    @classmethod
    def of(cls, release: Release, asked: Protection) -> "Mechanism":
        """Return the mechanism of a release that covers `asked`, for exactly that: what costs the same is the same."""
        once = replace(release, agent=0, round=0, count=1)
        if isinstance(once, NoisyRelease):
            certificate = replace(
                once.certificate,
                protection=replace(asked, silos_per_person=1),  # a person's silos are added up already
                strength=Strength.FULL,
                theorem="as recorded",
                assumptions=("as recorded",),
                declared=(),
            )
            once = replace(once, certificate=certificate)
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
    """Return what a covered release adds to what is spent: its square where C0 applies, otherwise its mechanism."""
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
        """Count one more release; `share` is its own where that is known."""
        square = share_of(release, self.protection) if share is None else share
        if isinstance(square, Mechanism):
            self.others[square] += release.count
        else:
            self.squares += square
        self.releases += 1

    def __add__(self, other: "SpentReleases") -> "SpentReleases":
        """Return both as one."""
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
            bound=m, protection=replace(self.protection, silos_per_person=1), theorem="C0", assumptions=("as recorded",)
        )
        return [GaussianRelease(certificate=certificate, noise_std=1.0, agent=0, round=0)]

    def epsilon(self, budget: Budget) -> float:
        """Return the epsilon of all of it at the budget's delta; 0 if nothing in it depends on the data."""
        merged = self.merged()
        return compose(merged).epsilon(budget.delta) if merged else 0.0

    def is_within(self, budget: Budget) -> bool:
        """Return whether all of it together stays within `budget`."""
        if self._is_clearly_within(budget):
            return True
        merged = self.merged()
        return not merged or budget.allows(compose(merged))

    def _is_clearly_within(self, budget: Budget) -> bool:
        """Return True only if a bound that needs no composition of its own says so.

        With E the sum of pure epsilons and m^2 that of the Gaussian squares, `delta(eps) <= delta_m(eps - E)`.
        """
        if not self.others:
            return False  # all Gaussian: the accountant's closed form is as quick, and exact
        pure = math.fsum(count * _pure_epsilon(kind) for kind, count in self.others.items())
        left = budget.epsilon - pure * (1.0 + _MARGIN)
        if not left > 0:
            return False
        gaussian = self.gaussian()
        if gaussian and budget.delta == 0:
            return False  # a delta that underflows to zero is not zero
        return not gaussian or compose(gaussian).delta(left) <= budget.delta * (1.0 - _MARGIN)


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
        (self.everyone if silo is None else self.silos[silo]).add(release, share)
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
        return self.everyone.releases + sum(each.releases for each in self.silos.values())

    def is_gaussian(self) -> bool:
        """Return whether C0 covers everything, so that the figure holds however the noise was chosen."""
        return not self.everyone.others and not any(each.others for each in self.silos.values())

    def people(self) -> dict[str | None, SpentReleases]:
        """Return what reaches each kind of person, all of which must stay within the budget.

        With one silo per person there is one kind per silo, by its name. With s silos per person there is one for all,
        of the s dearest silos: the s largest m^2 (C0), and of every other mechanism the s largest numbers, which
        is at least what any s silos released.
        """
        if self.protection.silos_per_person == 1 and self.silos:
            return {silo: own + self.everyone for silo, own in self.silos.items()}
        number, own = self.protection.silos_per_person, list(self.silos.values())
        dearest = SpentReleases(self.protection, releases=sum(each.releases for each in own))
        dearest.squares = sum(sorted((each.squares for each in own), reverse=True)[:number], Fraction(0))
        for kind in {kind for each in own for kind in each.others}:
            dearest.others[kind] = sum(sorted((each.others[kind] for each in own), reverse=True)[:number])
        return {None: dearest + self.everyone}

    def epsilon(self, budget: Budget) -> float:
        """Return the epsilon of the person who is reached most."""
        return max(reached.epsilon(budget) for reached in self.people().values())


def compose(releases: Iterable[Release]) -> "Curve":
    """Return the curve of all releases together."""
    from dpadmm.privacy import accounting  # heavy: a ledger that is only read does without

    return accounting.compose(releases)


@lru_cache(maxsize=1024)
def _pure_epsilon(kind: Mechanism) -> float:
    return compose([kind.release]).epsilon(0.0)


def overspend(spent: SpentBySilo, asks: Sequence[Reservation], budget: Budget, *, n_silos: int) -> BudgetError | None:
    """Return the refusal if `asks` on top of what is spent would pass the budget of a data set of `n_silos` silos."""
    asked = SpentBySilo(spent.protection)
    for ask in asks:
        asked.add(ask.release, ask.silo)
    after = (spent + asked).people()
    touched = after if asked.everyone.releases else {who: after[who] for who in asked.people()} if asks else {}
    for who, total in touched.items():
        if not total.is_within(budget):
            before, added = (each.people().get(who, each.everyone) for each in (spent, asked))
            so_far = before.epsilon(budget)
            return BudgetError(
                f"Refused: epsilon {so_far:.6g} of {budget.epsilon:.6g} is spent at delta {budget.delta:.3g}, "
                f"{max(0.0, budget.epsilon - so_far):.6g} is left; the {plural(added.releases, 'requested release')} "
                f"would cost {added.epsilon(budget):.6g} alone and bring the total to {total.epsilon(budget):.6g}. "
                "Nothing was spent, so nothing may be released. Ask for a smaller epsilon, or raise the budget and "
                f"give a reason (`dpadmm ledger budget`, or Ledger.set_budget).{_describe_pooling(asks, n_silos)}"
            )
    return None


def below_spent(spent: SpentBySilo, budget: Budget) -> BudgetError | None:
    """Return the refusal if more than a new budget is spent already."""
    if all(reached.is_within(budget) for reached in spent.people().values()):
        return None
    return BudgetError(
        f"The budget cannot become epsilon {budget.epsilon:.6g} at delta {budget.delta:.3g}: epsilon "
        f"{spent.epsilon(budget):.6g} is already spent at that delta. Choose a larger budget."
    )


def _describe_pooling(asks: Sequence[Reservation], n_silos: int) -> str:
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

    def __str__(self) -> str:
        """Return the statement as a few lines of text."""
        planned = "however later noise was chosen" if self.holds_adaptively else "for noise planned beforehand"
        strengths = "; ".join([*(strength.value for strength in self.strengths[:-1]), self.standing])
        lines = [
            f"Spent      epsilon {self.spent_epsilon:.6g} of {self.budget.epsilon:.6g}, delta {self.budget.delta:.3g}",
            f"Left       epsilon {self.left_epsilon:.6g}",
            f"Protects   {self.protection} from {self.protection.observer}",
            *self._colluders_lines(),
            f"Assumes    {self.protection.people}",
            f"Strength   {strengths}; {planned}",
            f"Releases   {self.releases} recorded, {self.refusals} refusals",
        ]
        if self.version > 1:
            lines.append(f"Data       {describe_version(self.version, self.version_since)}")
        if self.profiles:
            lines.append(f"Profiles   {self.profiles} kept, which later fits on the same columns reuse at no cost")
        if len(self.silos) > 1:
            lines += [
                f"  {each.silo}: epsilon {each.spent_epsilon:.6g} in {each.releases} releases" for each in self.silos
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


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The state of the ledger: the budget, what is spent and left, and the head that pins its history.

    data_version, data_since: which version of the data it is about now; what was spent on earlier ones is counted.
    """

    ledger: str
    budget_epsilon: float
    budget_delta: float
    spent_epsilon: float
    left_epsilon: float
    releases: int
    head: str
    runs: tuple[tuple[str, float], ...]
    time: str
    data_version: int = 1
    data_since: str = ""


def draw_statement(state: "LedgerState") -> LedgerStatement:
    """Return the statement of a state."""
    spent, budget = state.spent, state.budget
    epsilon = spent.epsilon(budget)
    return LedgerStatement(
        budget=budget,
        protection=spent.protection,
        spent_epsilon=epsilon,
        left_epsilon=max(0.0, budget.epsilon - epsilon),
        releases=spent.releases,
        refusals=state.refusals,
        head=state.reader.digest,
        entries=state.reader.seq,
        strengths=tuple(strength for strength in FROM_STRONG_TO_WEAK if spent.strengths[strength]),
        holds_adaptively=spent.is_gaussian() or budget.delta == 0,
        silos=tuple(
            SiloSpending(silo=silo, releases=own.releases, spent_epsilon=own.epsilon(budget))
            for silo, own in ((silo, own + spent.everyone) for silo, own in sorted(spent.silos.items()))
        ),
        declared=tuple(sorted(spent.declared)),
        profiles=len(state.profiles),
        version=state.newest.number,
        version_since=state.newest.since,
    )


def describe_version(number: int, since: str) -> str:
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
    spent: SpentBySilo
    profile: SpentBySilo
    version: int
    first_time: str
    last_time: str = ""
    drawn: tuple[float, RunSpending] | None = None  # at this delta

    def add(self, ask: Reservation, share: Fraction | Mechanism, time: str) -> None:
        """Count one more release, whose share is known."""
        self.spent.add(ask.release, ask.silo, share)
        if is_profile(ask.release):
            self.profile.add(ask.release, ask.silo, share)
        self.last_time, self.drawn = time, None

    def spending(self, budget: Budget) -> RunSpending:
        """Return what it has spent."""
        if self.drawn is None or self.drawn[0] != budget.delta:
            found = RunSpending(
                run=self.run,
                algorithm=self.algorithm,
                releases=self.spent.releases,
                silos=len(self.spent.silos),
                alone_epsilon=self.spent.epsilon(budget),
                profile_epsilon=self.profile.epsilon(budget) if self.profile.releases else None,
                first_time=self.first_time,
                last_time=self.last_time,
                version=self.version,
                declared=tuple(sorted(self.spent.declared)),
            )
            self.drawn = budget.delta, found
        return self.drawn[1]
