"""M-ADMM, penalty perturbation (Zhang, Khalili, Liu 2018), total privacy loss.

    eps_i = sum_t C (1.4 c1 + alpha_i(t)) / (eta_i(t) V_i B_i),   max over agents

The noise `e ~ exp(-alpha ||e||)` sits inside the penalty, so the linear term carries `2 eta_i V_i e`: R-ADMM's
eq. (30) with rate `alpha/(2 eta_i V_i)` and with `rho/N` dropped from the denominator gives this sum. M-ADMM's paper
is not among the five studied here, so figures are marked reconstructed. Claimed, not certified: see `docs/errata.md`.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm_research.claims.base import (
    ClaimedEpsilon,
    ClaimedNoise,
    Condition,
    NoiseKind,
    Paper,
    Provenance,
    merged,
)
from dpadmm_research.papers.r_admm.claims import PerturbedObjective

THEOREM = "total privacy loss of penalty perturbation"


def _conditions(objectives: Sequence[PerturbedObjective]) -> tuple[Condition, ...]:
    """R-ADMM's conditions at every iteration's penalty, and penalties that do not fall."""
    if not objectives:
        raise InputError("objectives must hold one entry per iteration; got none.", setting="objectives")
    etas = [objective.eta for objective in objectives]
    growing = all(later >= earlier for earlier, later in pairwise(etas))
    every = merged(condition for objective in objectives for condition in objective.conditions)
    return (*every, Condition("eta_i(t) does not decrease", growing))


def _weight(objective: PerturbedObjective) -> float:
    """Return `C/(eta_i(t) V_i B_i)`."""
    return objective.loss_weight / (objective.eta * objective.degree * objective.records)


def _claim(value: float, conditions: tuple[Condition, ...]) -> ClaimedEpsilon:
    return ClaimedEpsilon(
        value=value,
        delta=0.0,
        paper=Paper.M_ADMM,
        theorem=THEOREM,
        conditions=conditions,
        provenance=Provenance.RECONSTRUCTED,
    )


def total_epsilon(objectives: Sequence[PerturbedObjective], rates: Sequence[float]) -> ClaimedEpsilon:
    """Return the pure epsilon of one agent from its objective (its penalty differs) and rate per iteration.

    >>> agents = [PerturbedObjective(records=1000, degree=2, eta=eta, ridge=0.1) for eta in (1.0, 2.0)]
    >>> round(total_epsilon(agents, [5.0, 5.0]).value, 9)
    0.0040125
    """
    conditions = _conditions(objectives)
    if len(objectives) != len(rates):
        raise InputError(f"objectives and rates need one entry per iteration, got {len(objectives)} and {len(rates)}.")
    value = math.fsum(
        _weight(objective) * (1.4 * objective.curvature + checks.positive("rate", rate))
        for objective, rate in zip(objectives, rates, strict=True)
    )
    return _claim(value, conditions)


def total_epsilon_noise(objectives: Sequence[PerturbedObjective], *, epsilon: float) -> ClaimedNoise:
    """Return the constant rate `alpha` for which `total_epsilon` is exactly `epsilon`."""
    conditions = _conditions(objectives)
    checks.positive("epsilon", epsilon)
    weight = math.fsum(_weight(objective) for objective in objectives)
    jacobian = math.fsum(_weight(objective) * 1.4 * objective.curvature for objective in objectives)
    if epsilon <= jacobian:
        raise InputError(
            f"epsilon must exceed {jacobian:.6g}, which the bound charges regardless of the noise, got "
            f"{safe_repr(epsilon)}; raise epsilon or the penalties, or use fewer iterations.",
            setting="epsilon",
        )
    return ClaimedNoise(
        value=(epsilon - jacobian) / weight,
        kind=NoiseKind.SPHERICAL_LAPLACE_RATE,
        target=_claim(epsilon, conditions),
        paper=Paper.M_ADMM,
        theorem=THEOREM,
        conditions=conditions,
        provenance=Provenance.RECONSTRUCTED,
    )
