"""What R-ADMM's paper claims about one agent of a run of R-ADMM, DVP or M-ADMM."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.dvp import DVP
from dpadmm.methods.m_admm import MADMM
from dpadmm.methods.r_admm import RADMM
from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.agent_claims import Claims, constant_level, is_about_one, repeated
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedNoise, ClaimedSchedule, merged
from dpadmm_research.papers.r_admm import claims as r_admm
from dpadmm_research.papers.r_admm import dvp_claims as dvp
from dpadmm_research.papers.r_admm import m_admm_claims as m_admm

Objective = r_admm.PerturbedObjective


@dataclass(frozen=True, kw_only=True)
class ObjectiveClaims(Claims):
    """Objective perturbation: a loss for every private round, each with its own penalty."""

    objectives: tuple[Objective, ...]

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """The constant rate at which all rounds together cost epsilon."""
        noise = self._constant_noise(epsilon)
        constant_level(shape, noise.theorem)
        levels = np.full(len(self.objectives), noise.value)
        return repeated(noise, self.epsilon(levels, 0.0)[0], np.ones_like(levels))

    @abstractmethod
    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        """Return the rate."""

    def _same_objective(self) -> Objective:
        if len(set(self.objectives)) != 1:
            raise InputError("the paper calibrates for a constant penalty; set penalty_growth to 1.")
        return self.objectives[0]

    def _summed(
        self, theorem: Callable[[Objective, Sequence[float]], ClaimedEpsilon], levels: Floats
    ) -> ClaimedEpsilon:
        """Return a theorem about one penalty summed over the rounds, with the conditions of all of them."""
        parts = [theorem(one, [rate]) for one, rate in zip(self.objectives, levels.tolist(), strict=True)]
        conditions = merged(condition for part in parts for condition in part.conditions)
        return replace(parts[0], value=math.fsum(part.value for part in parts), conditions=conditions)


class DualClaims(ObjectiveClaims):
    """DVP: eq. (30) of R-ADMM, charged in every round."""

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (self._summed(dvp.total_epsilon, levels),)

    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        return dvp.total_epsilon_noise(self._same_objective(), epsilon=epsilon, iterations=len(self.objectives))


class RecycledClaims(ObjectiveClaims):
    """R-ADMM: Theorem IV.1, charged in the odd rounds."""

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (self._summed(r_admm.theorem_iv_1_epsilon, levels),)

    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        rounds = len(self.objectives)
        return r_admm.theorem_iv_1_noise(self._same_objective(), epsilon=epsilon, noisy_iterations=rounds)


class PenaltyClaims(ObjectiveClaims):
    """M-ADMM: the total loss of all rounds; the paper's rate is that of e_i, the plan's that of `2 eta_i deg_i e_i`."""

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (m_admm.total_epsilon(self.objectives, levels.tolist()),)

    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        return m_admm.total_epsilon_noise(self.objectives, epsilon=epsilon)


def _objectives(setting: Setting, penalties: Sequence[float]) -> tuple[Objective, ...]:
    """The objective of each private round as the papers see it: C is the weight, rho/N the weighted ridge."""
    constants, weight = setting.problem.functions.constants, float(setting.problem.weights[0])
    return tuple(
        Objective(
            records=int(setting.problem.functions.sizes[0]),
            degree=int(setting.degrees[0]),
            eta=penalty,
            ridge=weight * constants.strong_convexity,
            curvature=constants.record_curvature,
            loss_weight=weight,
            gradient_bound=constants.record_gradient,
        )
        for penalty in penalties
    )


def dual_claims(algorithm: DVP, setting: Setting) -> DualClaims:
    """Return the claims about agent 0 of DVP."""
    objectives = _objectives(setting, [algorithm.eta] * setting.rounds)
    return DualClaims(objectives=objectives, is_about_one=is_about_one(setting))


def recycled_claims(algorithm: RADMM, setting: Setting) -> RecycledClaims:
    """Return the claims about agent 0 of R-ADMM."""
    objectives = _objectives(setting, [algorithm.penalty(t) for t in range(1, setting.rounds + 1, 2)])
    return RecycledClaims(objectives=objectives, is_about_one=is_about_one(setting))


def penalty_claims(algorithm: MADMM, setting: Setting) -> PenaltyClaims:
    """Return the claims about agent 0 of M-ADMM."""
    rounds, number = range(1, setting.rounds + 1), setting.problem.n_agents
    objectives = _objectives(setting, [float(algorithm.penalties(t, number)[0]) for t in rounds])
    return PenaltyClaims(objectives=objectives, is_about_one=is_about_one(setting))
