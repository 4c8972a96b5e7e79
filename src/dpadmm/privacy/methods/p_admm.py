"""P-ADMM and its recycled form: Gaussian noise on the broadcast model (C1; Theorem 3 as the claim)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy import certificates
from dpadmm.privacy.claims import ClaimedEpsilon, ClaimedSchedule, ClaimedSensitivity
from dpadmm.privacy.claims import p_admm as claims
from dpadmm.privacy.methods.method import AnyTarget, Levels, RecordMethod, approximate, repeated, setting
from dpadmm.privacy.protection import Certificate

# Theorem 3 is printed for R < 1 and continuous there: constant noise is its limit.
_LARGEST_DECAY = math.nextafter(1.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class PAdmm(RecordMethod):
    """P-ADMM for one agent: noise is the std of its broadcast in each private round.

    >>> agent = PAdmm(records=6331, degree=2, eta=1e-3, mu=2e-4, rounds=40)
    >>> f"{agent.certificates()[0].bound:.6g} {agent.statement(5.0).curve.epsilon(1e-5):.4g}"
    '0.0752157 0.3227'
    """

    name: ClassVar[str] = "p-admm"
    title: ClassVar[str] = "P-ADMM"
    noised: ClassVar[str] = "the broadcast model"

    records: int = setting("n_i, records of the agent", checks.count)
    degree: int = setting("neighbours of the agent", checks.count)
    eta: float = setting("penalty on an edge, > 0", checks.positive)
    rounds: int = setting("rounds of the run", checks.count)
    mu: float = setting("strong convexity of f_i, 2 Lambda for Lambda ||w||^2", checks.non_negative, 0.0)
    gradient_bound: float = setting("G, bound of a record's loss gradient", checks.positive, 1.0)
    weight: float = setting("factor in front of f_i", checks.positive, 1.0)
    recycled: bool = setting("only odd rounds touch the data (recycled P-ADMM)", None, False)
    whole_gradient_bound: float | None = setting(
        "V of the paper's claim, bound of the whole gradient; weight x G if not given", checks.positive, None
    )

    def private_rounds(self) -> tuple[int, ...]:
        """Every round, or every odd one if recycled."""
        return tuple(range(1, self.rounds + 1, 2 if self.recycled else 1))

    def certificates(self) -> tuple[Certificate, ...]:
        """C1, the same in every round."""
        certificate = certificates.p_admm(
            certificates.LocalFunction(
                gradient_bound=self.gradient_bound,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=self.mu,
                solver_tolerance=self.tolerance,
                records_per_person=self.records_per_person,
                silos_per_person=self.silos_per_person,
            ),
            edge_penalty=self.eta,
            degree=self.degree,
        )
        return (certificate,) * len(self.private_rounds())

    @property
    def _claimed_bound(self) -> float:
        return self.weight * self.gradient_bound if self.whole_gradient_bound is None else self.whole_gradient_bound

    def claimed_sensitivity(self) -> ClaimedSensitivity:
        """Lemma 4."""
        return claims.lemma_4_sensitivity(
            gradient_bound=self._claimed_bound, eta=self.eta, degree=self.degree, l2_weight=self.mu / 2
        )

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        decay = variance_decay(levels)
        rho = claims.theorem_2_rho(
            gradient_bound=self._claimed_bound,
            eta=self.eta,
            degree=self.degree,
            noise_std=float(levels[0]),
            l2_weight=self.mu / 2,
        )
        claim = claims.theorem_3_epsilon(rho, decay=decay, rounds=len(levels), delta=delta)
        return (replace(claim, theorem=_theorem(decay)),)

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """Theorem 3 solved for the first round's noise; the shape must be geometric or constant."""
        relative, wanted = self.shape(shape), approximate(target)
        decay = variance_decay(relative)
        noise = claims.theorem_3_noise(
            epsilon=wanted.epsilon,
            delta=wanted.delta,
            decay=decay,
            rounds=len(relative),
            gradient_bound=self._claimed_bound,
            eta=self.eta,
            degree=self.degree,
            l2_weight=self.mu / 2,
        )
        (aim,) = self.claimed_epsilon(noise.value * relative / relative[0], wanted.delta)
        return repeated(replace(noise, theorem=_theorem(decay)), aim, relative / relative[0])


def _theorem(decay: float) -> str:
    return "Theorem 3 in the limit R -> 1" if decay == _LARGEST_DECAY else "Theorem 3"


def variance_decay(levels: Levels) -> float:
    """Return R of `s_k^2 = s_1^2 R^(k-1)`, just below 1 for constant noise; `InputError` for any other course.

    >>> round(variance_decay(np.array([4.0, 2.0, 1.0])), 12)
    0.25
    """
    steps = np.diff(2 * np.log(levels))
    if steps.size and (np.ptp(steps) > 1e-9 or steps.max() > 1e-9):
        raise InputError("Theorem 3 is about noise that is constant or falls geometrically; use such a schedule.")
    decay = math.exp(float(steps.mean())) if steps.size else 1.0
    return decay if decay < 1 - 1e-9 else _LARGEST_DECAY
