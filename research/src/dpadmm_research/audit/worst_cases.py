"""The neighbouring problems that hurt each method most, the headline first: what the audit attacks.

A method of another package names its own in a class method `worst_cases(seed)` (`docs/adding.md`). The attacks follow
from who talks to whom, who is trusted, and the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpadmm.methods.base import Method
from dpadmm.methods.batches import Batches
from dpadmm.methods.consensus_dp import ConsensusDPADMM, GaussianConsensusADMM, LinearTermsDiffer
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dp_sgd import DPProxSGD
from dpadmm.methods.dvp import DVP
from dpadmm.methods.fixed_point.blocks import CentralisedADMM
from dpadmm.methods.fixed_point.coordinate_descent import CoordinateDescent
from dpadmm.methods.fixed_point.coordinator import CoordinatorADMM
from dpadmm.methods.fixed_point.federated import FederatedADMM
from dpadmm.methods.fixed_point.general import Constraint, GeneralADMM
from dpadmm.methods.fixed_point.lasso import LassoADMM
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.methods.fixed_point.walk import RandomWalkADMM
from dpadmm.methods.linearised import LinearisedADMM
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.preconditioned import PreconditionedGradients, PreconditionedSilos
from dpadmm.methods.ps_admm import PSADMM, Averaging
from dpadmm.methods.r_admm import RADMM
from dpadmm.methods.recycled import RecycledPADMM
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, Unit, View
from dpadmm.problems.losses import SmoothedHinge
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm_research.audit import neighbours


@dataclass(frozen=True)
class WorstCase:
    """Neighbouring problems that hurt a method: in words what differs and why, and the method as it runs on them.

    is_inside: the audit reads the noisy values inside the local step, which is more than travels.
    protection: whom the noise is planned for.
    """

    pair: str
    algorithm: Method
    problems: tuple[Problem, Problem]
    rounds: int
    is_inside: bool = False
    protection: Protection = ONE_RECORD


Cases = Callable[[Any, int], tuple[WorstCase, ...]]
_CASES: dict[type[Method], Cases] = {}


def worst_cases(method: type[Method], seed: int) -> tuple[WorstCase, ...]:
    """Return what the audit attacks, none if nobody named any; `seed` draws batches and participation."""
    if hasattr(method, "worst_cases"):
        own: tuple[WorstCase, ...] = method.worst_cases(seed)
        return own
    named = next((_CASES[kind] for kind in method.__mro__ if kind in _CASES), None)
    return () if named is None else named(method, seed)


def _of(method: type[Method]) -> Callable[[Cases], Cases]:
    def remember(cases: Cases) -> Cases:
        _CASES[method] = cases
        return cases

    return remember


@_of(PADMM)
def _(cls: type[PADMM], seed: int) -> tuple[WorstCase, ...]:
    """One round; twenty at the end of a path, under a ridge, of silos of all sizes; margin losses; a person."""
    method, firm = cls(eta=0.5), cls(eta=5.0)
    hinge = neighbours.misclassified(SmoothedHinge(), 4, 1e3)
    uneven, weights = neighbours.saturated(3, records=3, at=2), np.array([0.25, 0.5, 1.0])
    first, second = (replace(world, regulariser=ElasticNet(l2=1.0), weights=weights) for world in uneven)
    return (
        WorstCase(neighbours.SMALLEST, method, neighbours.saturated(), 1),
        WorstCase(f"{neighbours.PULLED}, 20 rounds", method, (first, second), 20),
        WorstCase(neighbours.NEARLY_OPPOSITE, firm, neighbours.misclassified(records=4, weight=1e3), 5),
        WorstCase(neighbours.HINGE, firm, hinge, 5),
        WorstCase(neighbours.PERSON, method, neighbours.person(), 5, protection=Protection(unit=Unit.PERSON)),
    )


@_of(RecycledPADMM)
def _(cls: type[RecycledPADMM], seed: int) -> tuple[WorstCase, ...]:
    """Free steps in between."""
    return (WorstCase(neighbours.PULLED, cls(eta=0.5), neighbours.saturated(records=2, at=1), 6),)


@_of(DVP)
def _(cls: type[DVP], seed: int) -> tuple[WorstCase, ...]:
    """A silo of one record, and a margin loss."""
    method = cls(eta=50.0)
    return (
        WorstCase(neighbours.SMALLEST, method, neighbours.saturated(at=1), 1),
        WorstCase(neighbours.NEARLY_OPPOSITE, method, neighbours.misclassified(), 3),
    )


@_of(MADMM)
def _(cls: type[MADMM], seed: int) -> tuple[WorstCase, ...]:
    """Penalties that grow."""
    return (WorstCase(neighbours.PULLED, cls(eta=50.0, growth=1.1), neighbours.saturated(records=2, at=1), 2),)


@_of(RADMM)
def _(cls: type[RADMM], seed: int) -> tuple[WorstCase, ...]:
    """Two noisy iterations and two free ones."""
    return (WorstCase(neighbours.PULLED, cls(eta=50.0), neighbours.saturated(records=2, at=1), 4),)


@_of(CentralisedADMM)
def _(cls: type[CentralisedADMM], seed: int) -> tuple[WorstCase, ...]:
    """A record, and a user."""
    method = cls(gamma=1.0)
    pulled = neighbours.saturated(3, records=2, weighting=Weighting.AVERAGE, at=2)
    user = neighbours.saturated(3, records=2, changed=2, weighting=Weighting.AVERAGE)
    return (
        WorstCase(neighbours.PULLED, method, pulled, 1),
        WorstCase(neighbours.USER, replace(method, unit=Unit.USER), user, 4),
    )


@_of(FederatedADMM)
def _(cls: type[FederatedADMM], seed: int) -> tuple[WorstCase, ...]:
    """Records and users who are drawn, and a margin loss."""
    pulled = neighbours.saturated(3, records=2, weighting=Weighting.AVERAGE, at=2)
    user = neighbours.saturated(3, records=2, changed=2, weighting=Weighting.AVERAGE, at=2)
    drawn = _busiest_last(Participation.subsets(3, 2, 6, np.random.default_rng(seed)))
    method, everyone = cls(1.0, participation=drawn), cls(1.0)
    return (
        WorstCase(neighbours.PULLED, method, pulled, 6),
        WorstCase(neighbours.USER, replace(method, unit=Unit.USER), user, 6),
        WorstCase(neighbours.HINGE, everyone, neighbours.dragged(SmoothedHinge(), 2), 2),
    )


@_of(RandomWalkADMM)
def _(cls: type[RandomWalkADMM], seed: int) -> tuple[WorstCase, ...]:
    """A user whom the token visits three times."""
    holders = Participation.of(3, [[2], [1], [0], [2], [1], [2], [0], [1]])
    user = neighbours.saturated(3, records=2, changed=2, weighting=Weighting.AVERAGE, at=2)
    return (WorstCase(neighbours.USER, cls(1.0, unit=Unit.USER, participation=holders), user, 8),)


@_of(CoordinatorADMM)
def _(cls: type[CoordinatorADMM], seed: int) -> tuple[WorstCase, ...]:
    """Blocks are hidden, and remember."""
    method = cls(gamma=1.0)
    pulled = neighbours.saturated(3, records=2, weighting=Weighting.AVERAGE, at=2)
    user = neighbours.saturated(3, records=2, changed=2, weighting=Weighting.AVERAGE)
    return (
        WorstCase(neighbours.PULLED, method, pulled, 1),
        WorstCase(neighbours.NEARLY_OPPOSITE, method, neighbours.dragged(records=2), 2),
        WorstCase(neighbours.USER, replace(method, unit=Unit.USER), user, 5),
        WorstCase(neighbours.HIDDEN, method, neighbours.bent(), 5),
    )


@_of(GeneralADMM)
def _(cls: type[GeneralADMM], seed: int) -> tuple[WorstCase, ...]:
    """The constraint x = z."""
    method = cls(gamma=1.0, constraint=Constraint(np.eye(1), -np.eye(1), np.zeros(1)))
    return (WorstCase(neighbours.PULLED, method, neighbours.saturated(1, records=2), 3),)


@_of(LassoADMM)
def _(cls: type[LassoADMM], seed: int) -> tuple[WorstCase, ...]:
    """Clipping decides."""
    pair = "one user's clipped residual, to opposite sides"
    return (WorstCase(pair, cls(1.0, clip=1.0), neighbours.pulled_lasso(), 3),)


@_of(CoordinateDescent)
def _(cls: type[CoordinateDescent], seed: int) -> tuple[WorstCase, ...]:
    """All coordinates in turn."""
    method = cls(step=0.1, blocks=Participation.in_turn(1, 3))
    return (WorstCase(neighbours.PULLED, method, neighbours.saturated(1, records=2), 3),)


@_of(ConsensusDPADMM)
def _(cls: type[ConsensusDPADMM], seed: int) -> tuple[WorstCase, ...]:
    """The first broadcast, and three."""
    method, pulled = cls(rho=1.0), neighbours.saturated(3, records=2, at=2)
    return (
        WorstCase(neighbours.PULLED, method, pulled, 1),
        WorstCase(neighbours.NEARLY_OPPOSITE, method, neighbours.dragged(records=2), 1),
        WorstCase(f"{neighbours.PULLED}, 3 rounds", method, pulled, 3),
    )


@_of(GaussianConsensusADMM)
def _(cls: type[GaussianConsensusADMM], seed: int) -> tuple[WorstCase, ...]:
    """What the agents remember shows in later broadcasts."""
    method = cls(rho=1.0)
    shifted = replace(method, neighbours=LinearTermsDiffer(1.0))
    return (
        WorstCase(neighbours.PULLED, method, neighbours.saturated(3, records=2, at=2), 1),
        WorstCase(neighbours.HIDDEN, method, neighbours.bent(), 5),
        WorstCase("an agent's linear term (quadratics)", shifted, neighbours.shifted_quadratics(), 5),
    )


@_of(PSADMM)
def _(cls: type[PSADMM], seed: int) -> tuple[WorstCase, ...]:
    """The silo's other records are silent, so that the mixture over batches is known exactly."""
    method = cls(rho=1.0, step=0.1, inner_steps=3, batches=Batches(1, seed), averaging=Averaging.PLAIN)
    pair, inner = neighbours.saturated(2, records=4, at=1), "the attacker reads every noisy inner gradient"
    return (
        WorstCase(neighbours.PULLED, method, pair, 2),
        WorstCase(f"{neighbours.PULLED}; {inner}, more than travels", method, pair, 2, is_inside=True),
    )


@_of(DPProxSGD)
def _(cls: type[DPProxSGD], seed: int) -> tuple[WorstCase, ...]:
    """The silo's other records are silent, so that the mixture over batches is known exactly."""
    method = cls(step=0.1, batches=Batches(1, seed))
    return (WorstCase(neighbours.PULLED, method, neighbours.saturated(1, records=4), 3),)


@_of(DPGD)
def _(cls: type[DPGD], seed: int) -> tuple[WorstCase, ...]:
    """A Huber regression, and a margin loss."""
    method = cls(step=0.1)
    return (
        WorstCase(neighbours.PULLED, method, neighbours.saturated(2, records=2, at=1), 5),
        WorstCase(neighbours.NEARLY_OPPOSITE, method, neighbours.dragged(records=2, step=0.1), 3),
    )


@_of(NoisyGradients)
def _(cls: type[NoisyGradients], seed: int) -> tuple[WorstCase, ...]:
    """A Huber regression, margin losses, counts, a whole user, a record that is there or not, and a person."""
    method = cls(step=0.1)
    user = neighbours.saturated(3, records=2, changed=2)
    added = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE, view=View.PUBLIC)
    return (
        WorstCase(neighbours.PULLED, method, neighbours.saturated(2, records=2, at=1), 5),
        WorstCase(neighbours.NEARLY_OPPOSITE, method, neighbours.dragged(records=2, step=0.1), 3),
        WorstCase(neighbours.SOFTMAX, method, neighbours.dragged_classes(records=2, step=0.1), 3),
        WorstCase(neighbours.COUNTS, method, neighbours.counts(), 3),
        WorstCase(neighbours.USER, replace(method, unit=Unit.USER), user, 5),
        WorstCase(neighbours.ADDED, method, neighbours.added(), 5, protection=added),
        WorstCase(neighbours.PERSON, method, neighbours.person(), 5, protection=Protection(unit=Unit.PERSON)),
    )


@_of(PreconditionedGradients)
def _(cls: type[PreconditionedGradients], seed: int) -> tuple[WorstCase, ...]:
    """A Huber regression, a row at a right angle to the one that replaces it, a record that is there or not."""
    method, added = cls(), Protection(relation=NeighbouringRelation.ADD_OR_REMOVE, view=View.PUBLIC)
    return (
        *_preconditioned(method),
        WorstCase(neighbours.ADDED, method, neighbours.added(), 5, protection=added),
        WorstCase(neighbours.PERSON, method, neighbours.person(), 5, protection=Protection(unit=Unit.PERSON)),
    )


@_of(PreconditionedSilos)
def _(cls: type[PreconditionedSilos], seed: int) -> tuple[WorstCase, ...]:
    """A Huber regression, and a row at a right angle to the one that replaces it."""
    return _preconditioned(cls())


def _preconditioned(method: PreconditionedGradients) -> tuple[WorstCase, ...]:
    pulled, turned = neighbours.saturated(2, records=2, at=1), neighbours.turned(2, records=2, at=1)
    return (
        WorstCase(neighbours.PULLED, method, pulled, 5),
        WorstCase(neighbours.TURNED, replace(method, share=0.9), turned, 3),
    )


@_of(DPDGD)
def _(cls: type[DPDGD], seed: int) -> tuple[WorstCase, ...]:
    """Pure noise, and Gaussian."""
    method, pair = cls(step=0.1, decay=0.9), neighbours.saturated(2, records=2, at=1)
    gaussian = replace(method, noise=Family.GAUSSIAN)
    return (
        WorstCase(neighbours.PULLED, method, pair, 1),
        WorstCase(f"{neighbours.PULLED}, Gaussian noise", gaussian, pair, 5),
    )


@_of(LinearisedADMM)
def _(cls: type[LinearisedADMM], seed: int) -> tuple[WorstCase, ...]:
    """The linearisation is taken at a noisy model."""
    return (WorstCase(neighbours.PULLED, cls(rho=1.0, step=0.5), neighbours.saturated(2, records=2, at=1), 5),)


@_of(OutputPerturbation)
def _(cls: type[OutputPerturbation], seed: int) -> tuple[WorstCase, ...]:
    """Gaussian noise, and pure; a silo alone."""
    pair, pure = neighbours.saturated(2, records=2, mu=0.1, at=1), cls(Family.SPHERICAL)
    return (
        WorstCase(neighbours.PULLED, cls(), pair, 1),
        WorstCase(f"{neighbours.PULLED}, one silo", cls(), neighbours.saturated(1, records=2, mu=0.1), 1),
        WorstCase(f"{neighbours.PULLED}, pure", pure, pair, 1),
    )


def _busiest_last(drawn: Participation) -> Participation:
    """Return the schedule with the last user and whoever takes part most often swapped: noise is calibrated to them."""
    swap = np.arange(drawn.n_agents)
    busiest = int(np.argmax(drawn.counts(drawn.rounds)))
    swap[[-1, busiest]] = busiest, drawn.n_agents - 1
    return Participation(drawn.n_agents, swap[drawn.table])
