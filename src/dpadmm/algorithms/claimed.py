"""The figures that a method's paper prints, read off the algorithm and the public facts of its setting.

They are shown beside the certified figure, never mixed with it.
"""

import math
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from dpadmm.algorithms.consensus_dp import ConsensusDPADMM
from dpadmm.algorithms.consensus_neighbours import FunctionsDiffer, LinearTermsDiffer
from dpadmm.algorithms.dvp import DVP
from dpadmm.algorithms.fixed_point import CentralisedADMM, FederatedADMM, GeneralADMM, RandomWalkADMM
from dpadmm.algorithms.fixed_point.blocks import BlockADMM
from dpadmm.algorithms.m_admm import MADMM
from dpadmm.algorithms.method import Setting
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.algorithms.ps_admm import PSADMM
from dpadmm.algorithms.r_admm import RADMM
from dpadmm.algorithms.recycled import RecycledPADMM
from dpadmm.algorithms.theory.claims import (
    BlockClaims,
    BroadcastClaims,
    Claims,
    CoordinatorClaims,
    DualClaims,
    InnerStepClaims,
    Objective,
    PenaltyClaims,
    RecycledClaims,
)
from dpadmm.errors import InputError
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.promises import Family
from dpadmm.privacy.claims import ClaimedEpsilon, fixed_point, ps_admm
from dpadmm.privacy.protection import Unit, View

NO_PAPER = "no paper studied here claims a figure for this method and unit"
OUT_OF_RANGE = "its formula leaves the range of floating-point numbers here"

PRINTED_ONLY: dict[type, tuple[str, ...]] = {
    PADMM: ("whole_gradient_bound",),
    RecycledPADMM: ("whole_gradient_bound",),
    ConsensusDPADMM: ("l1_weight", "dimension"),
}
"""Numbers of a paper's claim that no certificate uses, and which a user may therefore tell."""


@singledispatch
def claims_of(algorithm: Any, setting: Setting) -> Claims | None:
    """Return what the method's paper claims for agent 0; None without a paper, or where it says nothing."""
    return None


def _is_about_one(setting: Setting) -> bool:
    return setting.protection.records_per_person == setting.protection.silos_per_person == 1


@claims_of.register(PADMM)
@claims_of.register(RecycledPADMM)
def _(algorithm: PADMM | RecycledPADMM, setting: Setting) -> Claims:
    constants = setting.problem.functions.constants
    return BroadcastClaims(
        eta=algorithm.eta,
        degree=int(setting.graph.degrees[0]),
        whole_gradient_bound=float(setting.problem.weights[0]) * constants.record_gradient,
        l2_weight=constants.strong_convexity / 2,
        is_about_one=_is_about_one(setting),
    )


def _objectives(setting: Setting, penalties: Sequence[float]) -> tuple[Objective, ...]:
    """The objective of each private round as the papers see it: C is the weight, rho/N the weighted ridge."""
    constants, weight = setting.problem.functions.constants, float(setting.problem.weights[0])
    return tuple(
        Objective(
            records=int(setting.problem.functions.sizes[0]),
            degree=int(setting.graph.degrees[0]),
            eta=penalty,
            ridge=weight * constants.strong_convexity,
            curvature=constants.record_curvature,
            loss_weight=weight,
            gradient_bound=constants.record_gradient,
        )
        for penalty in penalties
    )


@claims_of.register
def _(algorithm: DVP, setting: Setting) -> Claims:
    objectives = _objectives(setting, [algorithm.eta] * setting.rounds)
    return DualClaims(objectives=objectives, is_about_one=_is_about_one(setting))


@claims_of.register
def _(algorithm: RADMM, setting: Setting) -> Claims:
    objectives = _objectives(setting, [algorithm.penalty(t) for t in range(1, setting.rounds + 1, 2)])
    return RecycledClaims(objectives=objectives, is_about_one=_is_about_one(setting))


@claims_of.register
def _(algorithm: MADMM, setting: Setting) -> Claims:
    rounds, number = range(1, setting.rounds + 1), setting.problem.n_agents
    objectives = _objectives(setting, [float(algorithm.penalties(t, number)[0]) for t in rounds])
    return PenaltyClaims(objectives=objectives, is_about_one=_is_about_one(setting))


@claims_of.register
def _(algorithm: ConsensusDPADMM, setting: Setting) -> Claims | None:
    if algorithm.family is Family.GAUSSIAN:
        return None
    problem, neighbours = setting.problem, algorithm.neighbours
    constants, weight = problem.functions.constants, float(problem.weights[0])
    distance = 2 * constants.record_gradient / int(problem.functions.sizes[0])
    if isinstance(neighbours, FunctionsDiffer | LinearTermsDiffer):
        distance = neighbours.gradient_distance
    return CoordinatorClaims(
        agents=problem.n_agents,
        rho=algorithm.rho,
        strong_convexity=weight * constants.strong_convexity,
        smoothness=weight * constants.smoothness,
        gradient_distance=weight * distance,
        is_about_one=_is_about_one(setting),
    )


@claims_of.register
def _(algorithm: PSADMM, setting: Setting) -> Claims:
    theorem = ps_admm.Theorem2(
        rounds=setting.rounds,
        inner_steps=algorithm.inner_steps,
        records=int(setting.problem.functions.sizes[0]),
        lipschitz=setting.problem.functions.constants.record_gradient * float(setting.problem.weights[0]),
    )
    return InnerStepClaims(theorem=theorem, is_about_one=_is_about_one(setting))


def block_lipschitz(algorithm: BlockADMM, setting: Setting) -> float:
    """Return L of F_i = N w_i f_i, the largest over the agents; a clip bounds `x_i - z` as `L = clip/gamma` would."""
    problem, limit = setting.problem, algorithm.clip / algorithm.gamma
    bound = problem.functions.constants.record_gradient if math.isfinite(limit) else setting.gradient_bound
    return min(bound * problem.n_agents * float(problem.weights.max()), limit)


def _most_participations(algorithm: BlockADMM, setting: Setting) -> int:
    drawn = algorithm.participation
    return setting.rounds if drawn is None else int(drawn.counts(setting.rounds).max())


@claims_of.register
def _(algorithm: CentralisedADMM, setting: Setting) -> Claims | None:
    if algorithm.unit is not Unit.USER:
        return None
    theorem = fixed_point.CentralisedTheorem2(
        iterations=setting.rounds,
        records=setting.problem.n_agents,
        lipschitz=block_lipschitz(algorithm, setting),
        gamma=algorithm.gamma,
    )
    return BlockClaims(theorems=(theorem,), by_view=((View.PUBLIC, theorem),))


@claims_of.register
def _(algorithm: FederatedADMM, setting: Setting) -> Claims | None:
    if algorithm.unit is not Unit.USER:
        return None
    users = setting.problem.n_agents
    return federated_claims(
        rounds=setting.rounds,
        users=users,
        sampled=users if algorithm.participation is None else algorithm.participation.table.shape[1],
        participations=_most_participations(algorithm, setting),
        lipschitz=block_lipschitz(algorithm, setting),
        gamma=algorithm.gamma,
    )


def federated_claims(
    *, rounds: int, users: int, sampled: int, participations: int, lipschitz: float, gamma: float
) -> BlockClaims:
    """Theorem 3 (central), Theorem 10 and, against everyone who sees the messages, Theorem 3 (local)."""
    central = tuple(
        theorem(rounds=rounds, users=users, sampled=sampled, lipschitz=lipschitz, gamma=gamma)
        for theorem in (fixed_point.FederatedTheorem3, fixed_point.FederatedTheorem10)
    )
    local = fixed_point.LocalTheorem3(participations=participations, lipschitz=lipschitz, gamma=gamma)
    others = ((view, local) for view in View if view is not View.PUBLIC)
    return BlockClaims(theorems=(*central, local), by_view=((View.PUBLIC, central[0]), *others))


@claims_of.register
def _(algorithm: RandomWalkADMM, setting: Setting) -> Claims | None:
    if algorithm.unit is not Unit.USER:
        return None
    visits, lipschitz = _most_participations(algorithm, setting), block_lipschitz(algorithm, setting)
    network = fixed_point.NetworkTheorem4(
        participations=visits, users=setting.problem.n_agents, lipschitz=lipschitz, gamma=algorithm.gamma
    )
    local = fixed_point.LocalTheorem3(participations=visits, lipschitz=lipschitz, gamma=algorithm.gamma)
    return BlockClaims(theorems=(network, local), by_view=((View.PEER, network),))


@claims_of.register
def _(algorithm: GeneralADMM, setting: Setting) -> Claims:
    theorem = fixed_point.GeneralTheorem7(
        iterations=setting.rounds,
        records=int(setting.problem.functions.sizes[0]),
        lipschitz=setting.gradient_bound * float(setting.problem.weights[0]),
        gamma=algorithm.gamma,
        spectral_norm=float(algorithm.constraint.singular_values[0]),
        least_singular_value=algorithm.constraint.omega,
    )
    return BlockClaims(theorems=(theorem,))


def claimed_against(
    algorithm: Any, setting: Setting, plan: NoisePlan, view: View, delta: float
) -> ClaimedEpsilon | None:
    """Return the figure for agent 0 against this view; None where the paper prints none, or none that applies."""
    try:
        claims = claims_of(algorithm, setting)
        return None if claims is None else claims.seen_by(view, claims.levels(plan), delta)
    except InputError:  # the theorem's conditions exclude this setting
        return None
