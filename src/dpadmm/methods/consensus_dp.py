"""Consensus DP-ADMM: the coordinator adds noise to what it broadcasts (Cao, Zhang, Poor, Tian 2021, Algorithm 1).

    z    <- prox_{g/(rho N)}( mean_i x_i + mean_i a_i / rho )                                   (11)
    zhat <- z + v,   v ~ exp(-alpha_k ||v||)  or  N(0, s_k^2 I)                                  (12)
    x_i  <- argmin w_i f_i(x) + (rho/2) || x + a_i/rho - zhat ||^2                               (13)
    a_i  <- a_i + rho (x_i - zhat)                                                              (14)

Rounds: the first z is the prox of 0, free of data, and goes out bare before round 1. Round k of the engine makes the
agents' k-th step (13)-(14) and then the k-th *private* broadcast, the paper's zhat(k+1) with its alpha(k+1). So K
rounds of the engine spend the budget on K broadcasts; the paper's K iterations are K - 1 rounds here, followed by one
more local step that is never published.

What may be published is the broadcasts, and the estimate is the last of them. The paper's error is that of x_i(K),
which touched the data after the last noise; it never leaves the silos.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, Protocol, Self

import numpy as np

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.methods.base import BROADCAST, ROWS, About, NoiseHook, Setting, Topology, of_rows
from dpadmm.methods.consensus import ConsensusADMM, StarState
from dpadmm.networks.graph import Network
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec
from dpadmm.privacy.certificates.hidden_state import (
    consensus_broadcast,
    consensus_broadcast_quadratic,
    consensus_broadcast_records,
)
from dpadmm.privacy.certificates.local import LocalFunction
from dpadmm.privacy.protection import Certificate, Protection, Unit, with_spherical_noise
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem
from dpadmm.problems.quadratics import QuadraticAgents


class Neighbours(Protocol):
    """What makes two data sets neighbours, and how far the k-th private broadcast can then move."""

    def certificates(self, rho: float, setting: Setting) -> tuple[Certificate, ...]:
        """Return C3 for private broadcasts 1..rounds: the largest bound over the agents, round by round."""


@dataclass(frozen=True)
class RecordsDiffer:
    """One record of one silo is replaced (unit: record); its loss has gradients bounded by G.

    A person with records in s silos moves the mean by at most the sum of what each silo does, s times the bound.
    """

    def certificates(self, rho: float, setting: Setting) -> tuple[Certificate, ...]:
        """C3 with gradient distance 2 G r/n_i."""
        constants = setting.problem.functions.constants
        if not np.isfinite(constants.record_gradient):
            raise InputError(
                "A record's gradient has no bound for these functions, so records cannot be protected. Use a loss with "
                "a bounded slope, or protect functions: FunctionsDiffer(gradient_distance)."
            )

        def one_kind(weight: float, n_records: int) -> tuple[Certificate, ...]:
            local = LocalFunction(
                gradient_bound=constants.record_gradient,
                n_records=n_records,
                weight=weight,
                strong_convexity=constants.strong_convexity,
                solver_tolerance=setting.solver_tolerance,
                protection=Protection(
                    unit=of_rows(setting.protection).unit,
                    records_per_person=setting.protection.records_per_person,
                    silos_per_person=setting.protection.silos_per_person,
                ),
            )
            n, smoothness = setting.problem.n_agents, constants.smoothness
            return consensus_broadcast_records(
                local, rounds=setting.rounds, n_agents=n, penalty=rho, smoothness=smoothness
            )

        return _worst(one_kind, setting)


RECORDS = RecordsDiffer()


@dataclass(frozen=True)
class FunctionsDiffer:
    """One agent's function is replaced, its gradient moves by at most `gradient_distance` delta >= 0 everywhere.

    Unit: function (Definition 1 of the paper). Any admissible functions, tau-strongly convex and L-smooth.
    """

    gradient_distance: float

    def __post_init__(self) -> None:
        """Refuse distances that are none."""
        checks.positive("gradient_distance", self.gradient_distance)

    def certificates(
        self, rho: float, setting: Setting, certify: Callable[..., tuple[Certificate, ...]] = consensus_broadcast
    ) -> tuple[Certificate, ...]:
        """C3."""
        constants, protection = setting.problem.functions.constants, setting.protection
        if protection.records_per_person != 1 or protection.silos_per_person != 1:
            raise InputError(
                "The protected unit is one agent's function, so records_per_person and silos_per_person do not apply; "
                "leave them at 1."
            )

        def one_kind(weight: float, _: int) -> tuple[Certificate, ...]:
            return certify(
                rounds=setting.rounds,
                gradient_distance=self.gradient_distance,
                n_agents=setting.problem.n_agents,
                penalty=rho,
                strong_convexity=constants.strong_convexity,
                smoothness=constants.smoothness,
                weight=weight,
                solver_tolerance=setting.solver_tolerance,
            )

        return _worst(one_kind, setting)


@dataclass(frozen=True)
class LinearTermsDiffer(FunctionsDiffer):
    """The linear term of one agent's *quadratic* is replaced by one at most `gradient_distance` away.

    Among quadratics this is all that a bounded gradient distance allows: the Hessians are equal and not protected. The
    bound is smaller than that of `FunctionsDiffer`, and valid for `QuadraticAgents` only.
    """

    def certificates(
        self,
        rho: float,
        setting: Setting,
        certify: Callable[..., tuple[Certificate, ...]] = consensus_broadcast_quadratic,
    ) -> tuple[Certificate, ...]:
        """C3 for the quadratic class."""
        if not isinstance(setting.problem.functions, QuadraticAgents):
            raise InputError(
                "LinearTermsDiffer is proved for quadratic functions only (QuadraticAgents). Use FunctionsDiffer or "
                "RecordsDiffer for other functions."
            )
        return super().certificates(rho, setting, certify)


def _worst(one_kind: Callable[[float, int], Sequence[Certificate]], setting: Setting) -> tuple[Certificate, ...]:
    """Return, round by round, the certificate of the agents that can move the mean most: valid for all agents."""
    pairs = np.unique(np.column_stack([setting.problem.weights, setting.problem.functions.sizes]), axis=0)
    tables = [one_kind(float(weight), int(size)) for weight, size in pairs]
    return tuple(max(column, key=lambda certificate: certificate.bound) for column in zip(*tables, strict=True))


class NoisePlace(Enum):
    """Where the coordinator adds its noise; C3 bounds both values alike."""

    AFTER_PROX = "on z, after the prox"
    BEFORE_PROX = "on the mean, before the prox: what is broadcast keeps exact zeros and walls"


@dataclass(frozen=True)
class ConsensusDPADMM(ConsensusADMM):
    """A trusted coordinator broadcasts a noisy consensus model; whoever hears all broadcasts learns little.

    Parameters
    ----------
    rho: penalty to the consensus model, > 0.
    neighbours: whom the noise hides: `RecordsDiffer()`, `FunctionsDiffer(delta)`, or, for quadratic agents,
        `LinearTermsDiffer(delta)`.
    family: `Family.SPHERICAL` (pure epsilon, up to floating point) or `Family.GAUSSIAN`.
    place: after the prox as in the paper, or before it.

    Guarantees: C3, for every convex g and every rho > 0, against whoever sees the broadcasts (the coordinator is
    trusted, the uplink protected). The bounds differ from round to round; dpadmm-research
    (`papers.consensus.planner`) has the schedules that make the most of it.

    >>> from dpadmm.methods.consensus_dp import FunctionsDiffer
    >>> from dpadmm.data import random_quadratics
    >>> from dpadmm.problems.problem import Weighting
    >>> agents = random_quadratics(10_000, 5, rng=np.random.default_rng(0))
    >>> setting = Setting(Problem.of(agents, Weighting.EQUAL), rounds=60, tolerance=1e-9)
    >>> row = ConsensusDPADMM(rho=5.0, neighbours=FunctionsDiffer(1.0)).mechanisms(setting)[0].rows[0]
    >>> f"{row.certificates[0].bound:.4g} {row.certificates[-1].bound:.4g}"
    '3.333e-05 4.684e-05'
    """

    about: ClassVar[About] = About(
        name="consensus",
        summary="spherical Laplace noise on the coordinator's broadcast",
        topology=Topology.STAR,
        certificate="C3",
        noise=(Family.SPHERICAL,),
        noised="the coordinator's broadcast",
        trusts_coordinator=True,
        takes_any_regulariser=True,
        units=ROWS | {Unit.FUNCTION},
    )

    neighbours: Neighbours = RECORDS
    family: Family = Family.SPHERICAL
    place: NoisePlace = NoisePlace.AFTER_PROX

    def __post_init__(self) -> None:
        """Refuse penalties that are none, and noise that has no place here."""
        super().__post_init__()
        if self.family not in (Family.SPHERICAL, Family.GAUSSIAN):
            raise InputError(f"family must be Family.SPHERICAL or Family.GAUSSIAN, got {safe_repr(self.family)}.")
        if not isinstance(self.place, NoisePlace):
            raise InputError(
                f"place must be one of {[str(place) for place in NoisePlace]}, got {safe_repr(self.place)}."
            )

    @classmethod
    def at_step(cls, setting: Setting, step: float) -> Self:
        """`rho` moves the mean by `1/(N rho)`."""
        return cls(rho=1.0 / (setting.problem.n_agents * step))

    def exchange(
        self, k: int, problem: Problem, network: Network | None, inbox: Floats, messages: Floats, noise: NoiseHook
    ) -> Floats:
        """The z step of the coordinator, with the noise of round k."""
        step = 1 / (self.rho * problem.n_agents)
        if self.place is NoisePlace.BEFORE_PROX:
            return problem.regulariser.prox(noise.total(BROADCAST, k, messages), step)
        z = problem.regulariser.prox(messages.sum(axis=0, keepdims=True), step)
        return noise.perturb(BROADCAST, k, np.array([COORDINATOR]), z)

    def models(self, state: StarState, inbox: Floats) -> Floats:
        """The last broadcast, for every agent: their own x_i touched the data after the last noise."""
        return np.broadcast_to(inbox, state.x.shape)

    def mechanisms(self, setting: Setting) -> tuple[MechanismSpec, ...]:
        """One release of the coordinator a round (C3)."""
        certificates = self.neighbours.certificates(self.rho, setting)
        if self.family is Family.SPHERICAL:
            certificates = tuple(with_spherical_noise(certificate) for certificate in certificates)
        row = AgentReleases(COORDINATOR, tuple(range(1, setting.rounds + 1)), certificates)
        return (MechanismSpec(BROADCAST, self.family, (row,)),)


@dataclass(frozen=True)
class GaussianConsensusADMM(ConsensusDPADMM):
    """The same with Gaussian noise, which composes better over many rounds."""

    about: ClassVar[About] = replace(
        ConsensusDPADMM.about,
        name="consensus-gaussian",
        summary="Gaussian noise on the coordinator's broadcast",
        noise=(Family.GAUSSIAN,),
        is_sum=True,
    )

    family: Family = Family.GAUSSIAN

    def with_noise_in_sum(self) -> Self:
        """Return the method with the noise in the mean, where shares of it can add up."""
        return replace(self, place=NoisePlace.BEFORE_PROX)
