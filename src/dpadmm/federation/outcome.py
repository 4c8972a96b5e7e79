"""What a federation ends with: the public model, and for each silo what its records have cost."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpadmm.federation.terms import PROFILE_ROUND, NoiseOrigin, Terms
from dpadmm.privacy.accounting import account_for
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:
    from dpadmm.federation.coordinator import Coordinator


@dataclass(frozen=True)
class SiloOutcome:
    """One silo's section of the report: public facts only.

    epsilon: certified cost of this run to one of its records, at the agreed delta. least_noise: least ratio of noise to
    sensitivity. noise_level: std (or rate) of its first release in training.
    """

    name: str
    records: int
    releases: int
    epsilon: float
    delta: float
    least_noise: float
    noise_level: float
    sensitivity: float
    certificate: str
    strength: str
    view: str


@dataclass(frozen=True, eq=False)
class FederationOutcome:
    """The end of a run: every figure is a function of messages and agreed terms.

    counts: the pooled noisy counts of the columns by which rows were encoded, where there was a round 0; rounds are
    those of the training.
    """

    terms: Terms
    rounds: int
    estimate: Floats = field(repr=False)
    tail_average: Floats = field(repr=False)
    estimates: Floats = field(repr=False)
    silos: tuple[SiloOutcome, ...]
    seconds_per_round: tuple[float, ...]
    assumptions: tuple[str, ...]
    is_graph: bool
    counts: Floats | None = field(default=None, repr=False)

    @property
    def is_private_release(self) -> bool:
        """Whether the noise was secure; a rehearsal protects nobody."""
        return self.terms.noise is NoiseOrigin.SECURE


def outcome_of(coordinator: "Coordinator") -> FederationOutcome:
    """Read the outcome off a coordinator's file."""
    terms, estimates = coordinator.terms, coordinator.estimates()
    rounds = len(estimates)
    first = coordinator.terms.algorithm.first_averaged_round(terms.rounds) - 1  # as in one process
    tail = estimates[first:] if rounds > first else estimates[-1:]
    nothing = np.zeros(terms.dimension)
    return FederationOutcome(
        terms=terms,
        rounds=rounds,
        estimate=estimates[-1] if rounds else nothing,
        tail_average=tail.mean(axis=0) if rounds else nothing,
        estimates=estimates,
        silos=tuple(_silo(coordinator, agent, rounds) for agent in range(len(terms.participants))),
        seconds_per_round=coordinator.seconds_per_round(),
        assumptions=tuple(account_for(coordinator.terms.plan).assumptions),
        is_graph=coordinator.terms.is_graph,
        counts=coordinator.counts(),
    )


def _silo(coordinator: "Coordinator", agent: int, rounds: int) -> SiloOutcome:
    terms, me = coordinator.terms, coordinator.terms.participants[agent]
    spent = terms.releases_through(agent, rounds)
    listed = spent or terms.all_releases(agent) or list(terms.plan)  # a walk may never visit a silo
    account = account_for(listed)
    first = next((release for release in listed if release.round != PROFILE_ROUND), listed[0])
    return SiloOutcome(
        name=me.name,
        records=me.records,
        releases=len(spent),
        epsilon=terms.spent_epsilon(agent, rounds),
        delta=coordinator.terms.delta,
        least_noise=min(release.noise_ratio for release in listed),
        noise_level=first.noise,
        sensitivity=first.bound,
        certificate=", ".join(account.theorems),
        strength=account.strength.value,
        view=account.protection.view.value,
    )
