"""P-ADMM as printed (Ding, Gong, Zhang, Pan, Han 2019): Lemma 4, Theorems 2 and 3, and the noise they ask for.

Symbols: `V` bounds the whole gradient of `f_i`, `eta` is the penalty, `|V_i|` the degree and
`s_{i,k}^2 = s_{i,1}^2 R^(k-1)` the noise variance.

    Lemma 4      Delta_i = V / (eta |V_i|)
    Theorem 2    rho_i^k = V^2 / (2 eta^2 |V_i|^2 s_{i,k}^2)
    Theorem 3    rho_tot = rho_i^1 (1 - R^K) / (R^(K-1) - R^K)
                 eps = rho_tot + 2 sqrt(rho_tot ln(1/delta)),   the largest over i

Claimed, not certified: see `docs/errata.md`.
"""

import math

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm_research.claims.base import (
    ClaimedEpsilon,
    ClaimedNoise,
    ClaimedSensitivity,
    ClaimedZcdp,
    Condition,
    NoiseKind,
    Paper,
    epsilon_of_linear_renyi,
    linear_renyi_of_epsilon,
)


def _bounded_gradient(l2_weight: float) -> tuple[Condition, ...]:
    """The only printed condition: an l2 term has an unbounded gradient, so no finite V exists with one."""
    fine = checks.non_negative("l2_weight", l2_weight) == 0
    return (Condition("||grad f_i(x)|| <= V for every x, the regulariser included", fine),)


def lemma_4_sensitivity(
    *, gradient_bound: float, eta: float, degree: int, l2_weight: float = 0.0
) -> ClaimedSensitivity:
    """Return Lemma 4's sensitivity `V/(eta |V_i|)` of one primal update.

    Parameters
    ----------
    gradient_bound : V > 0, bound on the gradient of the whole local objective.
    eta : penalty > 0.
    degree : number of neighbours >= 1.
    l2_weight : weight >= 0 of `||w||^2` inside `f_i`; any positive one breaks the lemma's condition.

    >>> lemma_4_sensitivity(gradient_bound=1.0, eta=1.0, degree=2).value
    0.5
    """
    bound = checks.positive("gradient_bound", gradient_bound)
    value = bound / (checks.positive("eta", eta) * checks.count("degree", degree))
    conditions = _bounded_gradient(l2_weight)
    return ClaimedSensitivity(value=value, paper=Paper.P_ADMM, theorem="Lemma 4", conditions=conditions)


def theorem_2_rho(
    *, gradient_bound: float, eta: float, degree: int, noise_std: float, l2_weight: float = 0.0
) -> ClaimedZcdp:
    """Return Theorem 2's `rho_i^k = V^2/(2 eta^2 |V_i|^2 s^2)` for the round whose noise is `noise_std`."""
    sensitivity = lemma_4_sensitivity(gradient_bound=gradient_bound, eta=eta, degree=degree, l2_weight=l2_weight)
    value = (sensitivity.value / checks.positive("noise_std", noise_std)) ** 2 / 2
    return ClaimedZcdp(value=value, paper=Paper.P_ADMM, theorem="Theorem 2", conditions=sensitivity.conditions)


def _growth(decay: float, rounds: int) -> float:
    """Return `(1 - R^K)/(R^(K-1) - R^K)`, the total over the first round's loss."""
    log_decay = math.log(checks.open_unit("decay", decay))
    total = checks.count("rounds", rounds)
    try:
        growth = math.expm1(-total * log_decay) / math.expm1(-log_decay)
    except OverflowError:
        growth = math.inf
    if not math.isfinite(growth):
        raise InputError(
            f"decay {safe_repr(decay)} over {rounds} rounds leaves no noise a float can hold; "
            "use fewer rounds or a slower decay.",
            setting="decay",
        )
    return growth


def theorem_3_epsilon(first_rho: ClaimedZcdp, *, decay: float, rounds: int, delta: float) -> ClaimedEpsilon:
    """Return Theorem 3's total epsilon of one agent; take `largest` over the agents for the network.

    Parameters
    ----------
    first_rho : Theorem 2's rho of the agent's first round.
    decay : variance ratio R of consecutive rounds, strictly inside (0, 1) as printed.
    rounds : K >= 1.
    delta : in (0, 1).

    >>> rho = theorem_2_rho(gradient_bound=1.0, eta=1.0, degree=2, noise_std=5.0)
    >>> round(theorem_3_epsilon(rho, decay=0.5, rounds=3, delta=1e-4).value, 6)
    1.170538
    """
    checks.open_unit("delta", delta)
    total = first_rho.value * _growth(decay, rounds)
    return ClaimedEpsilon(
        value=epsilon_of_linear_renyi(total, delta),
        delta=delta,
        paper=Paper.P_ADMM,
        theorem="Theorem 3",
        conditions=first_rho.conditions,
    )


def theorem_3_noise(
    *,
    epsilon: float,
    delta: float,
    decay: float,
    rounds: int,
    gradient_bound: float,
    eta: float,
    degree: int,
    l2_weight: float = 0.0,
) -> ClaimedNoise:
    """Return the first round's standard deviation `s_{i,1}` for which Theorem 3 gives exactly `epsilon`."""
    sensitivity = lemma_4_sensitivity(gradient_bound=gradient_bound, eta=eta, degree=degree, l2_weight=l2_weight)
    first_rho = linear_renyi_of_epsilon(epsilon, delta) / _growth(decay, rounds)
    target = ClaimedEpsilon(
        value=epsilon,
        delta=delta,
        paper=Paper.P_ADMM,
        theorem="Theorem 3",
        conditions=sensitivity.conditions,
    )
    return ClaimedNoise(
        value=sensitivity.value / math.sqrt(2 * first_rho),
        kind=NoiseKind.GAUSSIAN_STD,
        target=target,
        paper=Paper.P_ADMM,
        theorem="Theorem 3",
        conditions=sensitivity.conditions,
    )
