"""What a federation ends with: the public model, and for each silo what its records have cost."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpadmm.federation.terms import Terms
from dpadmm.privacy.accounting import SiloCost, account_for
from dpadmm.privacy.ledger.spending import PROFILE_ROUND
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:
    from dpadmm.federation.coordinator import Coordinator


@dataclass(frozen=True, eq=False)
class FederationOutcome:
    """The end of a run: every figure is a function of messages and agreed terms.

    estimates: the public estimate after each round of training, (rounds, d). costs: to the participants' records, in
    their order. counts: the pooled noisy counts of the columns by which rows were encoded, where there was a round 0.
    """

    terms: Terms
    estimates: Floats = field(repr=False)
    costs: tuple[SiloCost, ...]
    seconds_per_round: tuple[float, ...]
    counts: Floats | None = field(default=None, repr=False)

    @property
    def rounds(self) -> int:
        """How many rounds of training are complete."""
        return len(self.estimates)

    @property
    def estimate(self) -> Floats:
        """The last estimate, (d,)."""
        last: Floats = self.estimates[-1]
        return last

    @property
    def tail_average(self) -> Floats:
        """The mean of the estimates of the last rounds, as in one process, (d,)."""
        first = self.terms.algorithm.first_averaged_round(self.terms.rounds) - 1
        mean: Floats = (self.estimates[first:] if self.rounds > first else self.estimates[-1:]).mean(axis=0)
        return mean


def outcome_of(coordinator: "Coordinator") -> FederationOutcome:
    """Read the outcome of a run, of which at least one round is complete, off a coordinator's file."""
    terms, estimates = coordinator.terms, coordinator.estimates()
    costs = tuple(_cost(terms, agent, len(estimates)) for agent in range(len(terms.participants)))
    return FederationOutcome(terms, estimates, costs, coordinator.seconds_per_round(), coordinator.counts())


def _cost(terms: Terms, agent: int, rounds: int) -> SiloCost:
    spent = terms.releases_through(agent, rounds)
    listed = spent or terms.all_releases(agent) or list(terms.plan)  # a walk may never visit a silo
    account = account_for(listed)
    first = next((release for release in listed if release.round != PROFILE_ROUND), listed[0])
    return SiloCost(
        releases=len(spent),
        epsilon=terms.spent_epsilon(agent, rounds),
        delta=terms.delta,
        least_noise=min(release.noise_ratio for release in listed),
        noise_level=first.noise,
        sensitivity=first.bound,
        certificate=", ".join(account.theorems),
        strength=account.strength.value,
        view=account.protection.view.value,
    )
