"""What the fixed-point paper claims about one user of a run."""

import math
from dataclasses import dataclass

from dpadmm.methods.base import Setting
from dpadmm.methods.fixed_point import CentralisedADMM, FederatedADMM, GeneralADMM, RandomWalkADMM
from dpadmm.methods.fixed_point.blocks import BlockADMM
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.agent_claims import Claims, constant_level, repeated
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedSchedule
from dpadmm_research.papers.fixed_point import claims as fixed_point


@dataclass(frozen=True, kw_only=True)
class BlockClaims(Claims):
    """Fixed-point ADMM: Renyi theorems about constant noise in the blocks, whole users protected.

    theorems: first the one the paper calibrates by.
    """

    theorems: tuple[fixed_point.RenyiTheorem, ...]

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        sigma = constant_level(levels, self.theorems[0].theorem)
        return tuple(theorem.epsilon(noise_std=sigma, delta=delta) for theorem in self.theorems)

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """The least constant sigma for which the first theorem gives the target, its conditions met."""
        constant_level(shape, self.theorems[0].theorem)
        noise = self.theorems[0].noise_for_epsilon(epsilon=epsilon, delta=delta)
        curve = shape / shape[0]
        return repeated(noise, self.epsilon(noise.value * curve, delta)[0], curve)


def block_lipschitz(algorithm: BlockADMM, setting: Setting) -> float:
    """Return L of F_i = N w_i f_i, the largest over the agents; a clip bounds `x_i - z` as `L = clip/gamma` would."""
    problem, limit = setting.problem, algorithm.clip / algorithm.gamma
    bound = problem.functions.constants.record_gradient if math.isfinite(limit) else setting.gradient_bound
    return min(bound * problem.n_agents * float(problem.weights.max()), limit)


def _most_participations(algorithm: BlockADMM, setting: Setting) -> int:
    drawn = algorithm.participation
    return setting.rounds if drawn is None else int(drawn.counts(setting.rounds).max())


def centralised_claims(algorithm: CentralisedADMM, setting: Setting) -> BlockClaims | None:
    """Return Theorem 2; the paper says nothing about single records."""
    if algorithm.unit is not Unit.USER:
        return None
    theorem = fixed_point.CentralisedTheorem2(
        iterations=setting.rounds,
        records=setting.problem.n_agents,
        lipschitz=block_lipschitz(algorithm, setting),
        gamma=algorithm.gamma,
    )
    return BlockClaims(theorems=(theorem,))


def federated_claims_of(algorithm: FederatedADMM, setting: Setting) -> BlockClaims | None:
    """Return Theorems 3 and 10; the paper says nothing about single records."""
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
    return BlockClaims(theorems=(*central, local))


def walk_claims(algorithm: RandomWalkADMM, setting: Setting) -> BlockClaims | None:
    """Return Theorem 4 and the local one; the paper says nothing about single records."""
    if algorithm.unit is not Unit.USER:
        return None
    visits, lipschitz = _most_participations(algorithm, setting), block_lipschitz(algorithm, setting)
    network = fixed_point.NetworkTheorem4(
        participations=visits, users=setting.problem.n_agents, lipschitz=lipschitz, gamma=algorithm.gamma
    )
    local = fixed_point.LocalTheorem3(participations=visits, lipschitz=lipschitz, gamma=algorithm.gamma)
    return BlockClaims(theorems=(network, local))


def general_claims(algorithm: GeneralADMM, setting: Setting) -> BlockClaims:
    """Return Theorem 7."""
    theorem = fixed_point.GeneralTheorem7(
        iterations=setting.rounds,
        records=int(setting.problem.functions.sizes[0]),
        lipschitz=setting.gradient_bound * float(setting.problem.weights[0]),
        gamma=algorithm.gamma,
        spectral_norm=float(algorithm.constraint.singular_values[0]),
        least_singular_value=algorithm.constraint.omega,
    )
    return BlockClaims(theorems=(theorem,))
