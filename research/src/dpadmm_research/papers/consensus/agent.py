"""What Consensus DP-ADMM's paper claims about the coordinator's noise of a run."""

from dataclasses import dataclass

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.consensus_dp import ConsensusDPADMM, FunctionsDiffer, LinearTermsDiffer
from dpadmm.noise.mechanisms import Family
from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.agent_claims import Claims, is_about_one, repeated
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedSchedule, ClaimedSensitivity
from dpadmm_research.papers.consensus import claims as consensus


@dataclass(frozen=True, kw_only=True)
class CoordinatorClaims(Claims):
    """Consensus DP-ADMM: Lemma 3's H and Theorem 1; at record level with the gradient distance `2G/n_i` of one record.

    strong_convexity, smoothness, gradient_distance: of the weighted functions. The start's broadcast does not touch the
    data and needs no noise; the paper counts it, so its K is one more than the private rounds.
    """

    agents: int
    rho: float
    strong_convexity: float
    smoothness: float
    gradient_distance: float
    l1_weight: float = 0.0
    dimension: int | None = None

    def sensitivity(self) -> ClaimedSensitivity:
        """Lemma 3's H."""
        gap = 0.0
        if self.l1_weight > 0:
            if self.dimension is None:
                raise InputError("Lemma 3 needs the dimension as well as the l1 weight; give the dimension.")
            gap = consensus.l1_subgradient_gap(self.l1_weight, self.dimension)
        if self.strong_convexity == 0:
            raise InputError("Lemma 3 assumes strongly convex functions; give mu greater than 0.")
        return consensus.lemma_3_sensitivity(
            agents=self.agents,
            rho=self.rho,
            strong_convexity=self.strong_convexity,
            smoothness=self.smoothness,
            gradient_distance=self.gradient_distance,
            subgradient_gap=gap,
        )

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (consensus.theorem_1_epsilon(self.sensitivity(), levels.tolist()),)

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Theorem 1 with `sum alpha = eps/H`, in the course of the shape; with the Cao shape this is eq. (21)."""
        rounds, relative = len(shape), 1 / shape
        constant = consensus.theorem_1_noise(self.sensitivity(), epsilon=epsilon, rounds=rounds + 1)
        curve = relative * (rounds / relative.sum())
        return repeated(constant, self.epsilon(constant.value * curve, 0.0)[0], curve, first_round=2)


def coordinator_claims(algorithm: ConsensusDPADMM, setting: Setting) -> CoordinatorClaims | None:
    """Return the claims; the paper says nothing about Gaussian noise."""
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
        is_about_one=is_about_one(setting),
    )
