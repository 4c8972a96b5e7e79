"""DVP, dual variable perturbation (Zhang, Zhu 2017), as the R-ADMM literature charges it.

DVP's own paper bounds one node in one iteration and is not among the five studied here. The total used when it is
compared is R-ADMM's eq. (30) with every iteration counted, since none is recycled. Figures are marked reconstructed.
"""

from collections.abc import Sequence
from dataclasses import replace

from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedNoise, Paper, Provenance
from dpadmm_research.papers.r_admm.claims import PerturbedObjective, theorem_iv_1_epsilon, theorem_iv_1_noise

THEOREM = "eq. (30) of R-ADMM on every iteration"


def _as_dvp(claim: ClaimedEpsilon) -> ClaimedEpsilon:
    return replace(claim, paper=Paper.DVP, theorem=THEOREM, provenance=Provenance.RECONSTRUCTED)


def total_epsilon(objective: PerturbedObjective, rates: Sequence[float]) -> ClaimedEpsilon:
    """Return the pure epsilon of one agent; `rates` holds the noise rate of every iteration.

    >>> agent = PerturbedObjective(records=1000, degree=2, eta=1.0, ridge=0.1)
    >>> print(total_epsilon(agent, [5.0] * 4))
    epsilon = 0.0406829, delta = 0 [claimed: DVP, eq. (30) of R-ADMM on every iteration; reconstructed]
    """
    return _as_dvp(theorem_iv_1_epsilon(objective, rates))


def total_epsilon_noise(objective: PerturbedObjective, *, epsilon: float, iterations: int) -> ClaimedNoise:
    """Return the constant rate for which `total_epsilon` is exactly `epsilon`."""
    noise = theorem_iv_1_noise(objective, epsilon=epsilon, noisy_iterations=iterations)
    target = replace(noise.target, paper=Paper.DVP, theorem=THEOREM, provenance=Provenance.RECONSTRUCTED)
    return replace(noise, target=target, paper=Paper.DVP, theorem=THEOREM, provenance=Provenance.RECONSTRUCTED)
