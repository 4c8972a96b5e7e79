"""R-ADMM as printed (Zhang, Khalili, Liu 2018): Theorem IV.1, eq. (30), and the noise rate it asks for.

    eps_i = sum_k (2C/B_i) ( 1.4 c1 / (rho/N + 2 eta V_i) + alpha_i(k) ),   over the odd iterations k;   max over agents

`C` weights the loss, `B_i` counts records, `rho/N` is the ridge's strong convexity, `c1` bounds the loss's second
derivative, `V_i` is the degree, `alpha_i(k)` the rate of the linear-term noise. With C = 1 the Jacobian part is
`2.8 c1/(B_i (rho/N + 2 eta V_i))`. Claimed, not certified: see `docs/errata.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedNoise, Condition, NoiseKind, Paper

THEOREM = "Theorem IV.1"


@dataclass(frozen=True, kw_only=True)
class PerturbedObjective:
    """One agent's objective as Theorem IV.1 sees it.

    Parameters
    ----------
    records : B_i >= 1.
    degree : V_i >= 1.
    eta : penalty > 0.
    ridge : rho/N >= 0, the strong convexity the regulariser gives this agent.
    curvature : c1 > 0, bound on the loss's second derivative (logistic 1/4).
    loss_weight : C > 0.
    gradient_bound : bound > 0 on a record's loss gradient; the theorem is printed for 1.
    """

    records: int
    degree: int
    eta: float
    ridge: float
    curvature: float = 0.25
    loss_weight: float = 1.0
    gradient_bound: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no agent can have."""
        checks.count("records", self.records)
        checks.count("degree", self.degree)
        checks.positive("eta", self.eta)
        checks.non_negative("ridge", self.ridge)
        checks.positive("curvature", self.curvature)
        checks.positive("loss_weight", self.loss_weight)
        checks.positive("gradient_bound", self.gradient_bound)

    @property
    def modulus(self) -> float:
        """Return `rho/N + 2 eta V_i`."""
        return self.ridge + 2 * self.eta * self.degree

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return Assumptions 4 and 5 and the parameter rule of Algorithm 2, checked."""
        share = self.records / self.loss_weight
        return (
            Condition("records of norm at most 1 and |loss'| <= 1", self.gradient_bound <= 1),
            Condition("the regulariser is strongly convex: rho/N > 0", self.ridge > 0),
            Condition("2 c1 < (B_i/C)(rho/N + 2 eta V_i)", 2 * self.curvature < share * self.modulus),
            Condition("C <= B_i", self.loss_weight <= self.records),
        )


def round_loss(objective: PerturbedObjective, rate: float) -> float:
    """Return the summand of eq. (30) for one noisy iteration."""
    jacobian = 1.4 * objective.curvature / objective.modulus
    return 2 * objective.loss_weight / objective.records * (jacobian + checks.positive("rate", rate))


def theorem_iv_1_epsilon(objective: PerturbedObjective, rates: Sequence[float]) -> ClaimedEpsilon:
    """Return eq. (30)'s pure epsilon of one agent; `rates` holds `alpha_i(k)`, one per odd iteration.

    Take `largest` over the agents for the network.

    >>> agent = PerturbedObjective(records=1000, degree=2, eta=1.0, ridge=0.1)
    >>> round(theorem_iv_1_epsilon(agent, [5.0, 5.0]).value, 9)
    0.020341463
    """
    if not rates:
        raise InputError("rates must hold at least one noise rate, one per odd iteration; got none.", setting="rates")
    value = math.fsum(round_loss(objective, rate) for rate in rates)
    return ClaimedEpsilon(value=value, delta=0.0, paper=Paper.R_ADMM, theorem=THEOREM, conditions=objective.conditions)


def theorem_iv_1_noise(objective: PerturbedObjective, *, epsilon: float, noisy_iterations: int) -> ClaimedNoise:
    """Return the constant rate `alpha` for which eq. (30) gives exactly `epsilon`.

    `alpha = epsilon B_i/(2 C K) - 1.4 c1/(rho/N + 2 eta V_i)`; no rate exists if that is not positive.
    """
    checks.positive("epsilon", epsilon)
    total = checks.count("noisy_iterations", noisy_iterations)
    jacobian = 1.4 * objective.curvature / objective.modulus
    rate = epsilon * objective.records / (2 * objective.loss_weight * total) - jacobian
    if rate <= 0:
        least = 2 * objective.loss_weight * total * jacobian / objective.records
        raise InputError(
            f"epsilon must exceed {least:.6g}, which eq. (30) charges regardless of the noise, got "
            f"{safe_repr(epsilon)}; "
            "raise epsilon or eta, or use fewer iterations.",
            setting="epsilon",
        )
    target = ClaimedEpsilon(
        value=epsilon, delta=0.0, paper=Paper.R_ADMM, theorem=THEOREM, conditions=objective.conditions
    )
    return ClaimedNoise(
        value=rate,
        kind=NoiseKind.SPHERICAL_LAPLACE_RATE,
        target=target,
        paper=Paper.R_ADMM,
        theorem=THEOREM,
        conditions=objective.conditions,
    )
