"""What a ledger says about itself: receipts for what was recorded, and what was spent, in all and by run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpadmm.codec import encode
from dpadmm.privacy.ledger.entries import Ask
from dpadmm.privacy.ledger.profiles import is_profile
from dpadmm.privacy.ledger.spending import Budget, Mechanism, Meter, Piles
from dpadmm.privacy.protection import FROM_STRONG_TO_WEAK, Protection, Strength, View, standing

if TYPE_CHECKING:
    from dpadmm.privacy.ledger.history import Account


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


def draw_statement(account: "Account", meter: Meter) -> LedgerStatement:
    """Return the statement of an account."""
    piles, budget = account.piles, account.budget
    spent = _worst(piles, meter, budget)
    reached = ((silo, pile + piles.everyone) for silo, pile in sorted(piles.silos.items()))
    return LedgerStatement(
        budget=budget,
        protection=piles.protection,
        spent_epsilon=spent,
        left_epsilon=max(0.0, budget.epsilon - spent),
        releases=piles.releases,
        refusals=account.refusals,
        head=account.reader.digest,
        entries=account.reader.seq,
        strengths=tuple(strength for strength in FROM_STRONG_TO_WEAK if piles.strengths[strength]),
        holds_adaptively=piles.is_gaussian() or budget.delta == 0,
        silos=tuple(
            SiloSpending(silo=silo, releases=pile.releases, spent_epsilon=meter.epsilon(pile, budget))
            for silo, pile in reached
        ),
        declared=tuple(sorted(piles.declared)),
        profiles=len(account.profiles),
        version=account.newest.number,
        version_since=account.newest.since,
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
    piles: Piles
    profile: Piles
    version: int
    first_time: str
    last_time: str = ""
    drawn: tuple[Meter, float, RunSpending] | None = None

    def add(self, ask: Ask, share: Fraction | Mechanism, time: str) -> None:
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


def _worst(piles: Piles, meter: Meter, budget: Budget) -> float:
    """Return the epsilon of the person who is reached most."""
    return max(meter.epsilon(pile, budget) for pile in piles.people().values())
