"""What PS-ADMM's paper claims about one agent of a run."""

from dataclasses import dataclass

from dpadmm.methods.base import Setting
from dpadmm.methods.ps_admm import PSADMM
from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.agent_claims import Claims, constant_level, is_about_one, repeated
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedSchedule
from dpadmm_research.papers.ps_admm import claims as ps_admm


@dataclass(frozen=True, kw_only=True)
class InnerStepClaims(Claims):
    """PS-ADMM: Theorem 2 about the constant sigma of all inner steps, its open constants set to 1."""

    theorem: ps_admm.Theorem2

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        sigma = constant_level(levels, "Theorem 2 of PS-ADMM")
        return (self.theorem.epsilon(noise_std=sigma, delta=delta),)

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Theorem 2's constant sigma."""
        constant_level(shape, "Theorem 2 of PS-ADMM")
        noise = self.theorem.noise(epsilon=epsilon, delta=delta)
        curve = shape / shape[0]
        return repeated(noise, self.epsilon(noise.value * curve, delta)[0], curve)


def inner_step_claims(algorithm: PSADMM, setting: Setting) -> InnerStepClaims:
    """Return the claims about agent 0."""
    theorem = ps_admm.Theorem2(
        rounds=setting.rounds,
        inner_steps=algorithm.inner_steps,
        records=int(setting.problem.functions.sizes[0]),
        lipschitz=setting.problem.functions.constants.record_gradient * float(setting.problem.weights[0]),
    )
    return InnerStepClaims(theorem=theorem, is_about_one=is_about_one(setting))
