"""What P-ADMM's paper claims about one agent of a run, also of its recycled form."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.recycled import RecycledPADMM
from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.agent_claims import Claims, is_about_one, repeated
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedSchedule, ClaimedSensitivity
from dpadmm_research.papers.p_admm import claims as p_admm

# Theorem 3 of P-ADMM is printed for R < 1 and continuous there: constant noise is its limit.
_LARGEST_DECAY = math.nextafter(1.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class BroadcastClaims(Claims):
    """P-ADMM and its recycled form: Lemma 4 and Theorems 2 and 3, about noise that is constant or falls geometrically.

    whole_gradient_bound: V, of an agent's whole gradient. l2_weight: Lambda of `Lambda ||w||^2`.
    """

    eta: float
    degree: int
    whole_gradient_bound: float
    l2_weight: float

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        decay = variance_decay(levels)
        rho = p_admm.theorem_2_rho(
            gradient_bound=self.whole_gradient_bound,
            eta=self.eta,
            degree=self.degree,
            noise_std=float(levels[0]),
            l2_weight=self.l2_weight,
        )
        claim = p_admm.theorem_3_epsilon(rho, decay=decay, rounds=len(levels), delta=delta)
        return (replace(claim, theorem=_theorem_3(decay)),)

    def sensitivity(self) -> ClaimedSensitivity:
        """Lemma 4."""
        return p_admm.lemma_4_sensitivity(
            gradient_bound=self.whole_gradient_bound, eta=self.eta, degree=self.degree, l2_weight=self.l2_weight
        )

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Theorem 3 solved for the first round's noise."""
        decay, curve = variance_decay(shape), shape / shape[0]
        noise = p_admm.theorem_3_noise(
            epsilon=epsilon,
            delta=delta,
            decay=decay,
            rounds=len(shape),
            gradient_bound=self.whole_gradient_bound,
            eta=self.eta,
            degree=self.degree,
            l2_weight=self.l2_weight,
        )
        (aim,) = self.epsilon(noise.value * shape / shape[0], delta)
        return repeated(replace(noise, theorem=_theorem_3(decay)), aim, curve)


def _theorem_3(decay: float) -> str:
    return "Theorem 3 in the limit R -> 1" if decay == _LARGEST_DECAY else "Theorem 3"


def variance_decay(levels: Floats) -> float:
    """Return R of `s_k^2 = s_1^2 R^(k-1)`, just below 1 for constant noise; `InputError` for any other course.

    >>> round(variance_decay(np.array([4.0, 2.0, 1.0])), 12)
    0.25
    """
    steps = np.diff(2 * np.log(levels))
    if steps.size and (np.ptp(steps) > 1e-9 or steps.max() > 1e-9):
        raise InputError("Theorem 3 assumes noise that is constant or decreases geometrically; use such a schedule.")
    decay = math.exp(float(steps.mean())) if steps.size else 1.0
    return decay if decay < 1 - 1e-9 else _LARGEST_DECAY


def broadcast_claims(algorithm: PADMM | RecycledPADMM, setting: Setting) -> BroadcastClaims:
    """Return the claims about agent 0."""
    constants = setting.problem.functions.constants
    return BroadcastClaims(
        eta=algorithm.eta,
        degree=int(setting.degrees[0]),
        whole_gradient_bound=float(setting.problem.weights[0]) * constants.record_gradient,
        l2_weight=constants.strong_convexity / 2,
        is_about_one=is_about_one(setting),
    )
