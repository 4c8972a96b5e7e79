"""Consensus DP-ADMM as printed (Cao, Zhang, Poor, Tian 2021): Lemma 3, Theorem 1 and the schedule (21).

    (16)       H = G/(rho n - M) + 3 delta rho / ((rho - 2L)(rho n - M))
    Theorem 1  sum_{k=2..K} alpha(k) <= eps/H   gives pure eps
    (21)       alpha(l) = (eps/H) q^(l-2) (q - 1)/(q^(K-1) - 1),   q = (1 + beta)^(1/4),   l = 2..K

`n` counts agents, `delta` is the gradient distance of adjacent functions, and subgradients of the regulariser obey
`||h - h'|| <= G + M ||x - y||`. Claimed, not certified: see `docs/errata.md`.
"""

import math
from collections.abc import Sequence

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm_research.claims.base import (
    ClaimedEpsilon,
    ClaimedNoise,
    ClaimedSchedule,
    ClaimedSensitivity,
    Condition,
    NoiseKind,
    Paper,
)


def l1_subgradient_gap(weight: float, dimension: int) -> float:
    """Return `G = 2 weight sqrt(p)`, the paper's constant for `g = weight ||x||_1` (with M = 0)."""
    return 2 * checks.positive("weight", weight) * math.sqrt(checks.count("dimension", dimension))


def lemma_3_sensitivity(
    *,
    agents: int,
    rho: float,
    strong_convexity: float,
    smoothness: float,
    gradient_distance: float,
    subgradient_gap: float = 0.0,
    regulariser_smoothness: float = 0.0,
) -> ClaimedSensitivity:
    """Return Lemma 3's `H` (eq. 16); infinite where Assumption 3 fails and the formula means nothing.

    Parameters
    ----------
    agents : n >= 1.
    rho : penalty > 0.
    strong_convexity, smoothness : tau > 0 and L >= tau of every admissible `f_i`.
    gradient_distance : delta > 0 of Definition 1.
    subgradient_gap, regulariser_smoothness : G, M >= 0 of Assumption 2.

    >>> gap = l1_subgradient_gap(100.0, 5)
    >>> H = lemma_3_sensitivity(agents=10_000, rho=5.0, strong_convexity=1.0, smoothness=2.0,
    ...                         gradient_distance=1.0, subgradient_gap=gap)
    >>> print(H)
    sensitivity = 0.00924427 [claimed: Consensus DP-ADMM, Lemma 3]
    """
    total = checks.count("agents", agents)
    penalty = checks.positive("rho", rho)
    tau = checks.positive("strong_convexity", strong_convexity)
    smooth = checks.positive("smoothness", smoothness)
    if smooth < tau:
        raise InputError(
            f"smoothness must be at least strong_convexity {safe_repr(tau)}, got {safe_repr(smoothness)}.",
            setting="smoothness",
        )
    distance = checks.positive("gradient_distance", gradient_distance)
    gap = checks.non_negative("subgradient_gap", subgradient_gap)
    slope = checks.non_negative("regulariser_smoothness", regulariser_smoothness)
    fine = penalty > max(2 * smooth, slope / total)
    value = math.inf
    if fine:
        value = (gap + 3 * distance * penalty / (penalty - 2 * smooth)) / (penalty * total - slope)
    condition = Condition("Assumption 3: rho > max(2L, M/n)", fine)
    return ClaimedSensitivity(value=value, paper=Paper.CONSENSUS, theorem="Lemma 3", conditions=(condition,))


def theorem_1_epsilon(sensitivity: ClaimedSensitivity, rates: Sequence[float]) -> ClaimedEpsilon:
    """Return the pure epsilon `H sum alpha(k)`; `rates` holds `alpha(2), ..., alpha(K)`."""
    if not rates:
        raise InputError("rates must hold alpha(2), ..., alpha(K); got none.", setting="rates")
    total = math.fsum(checks.positive("rate", rate) for rate in rates)
    return _epsilon(sensitivity.value * total, sensitivity)


def theorem_1_noise(sensitivity: ClaimedSensitivity, *, epsilon: float, rounds: int) -> ClaimedNoise:
    """Return the constant rate `eps/(H (K-1))` of Theorem 1 for K rounds, of which the first is noise-free."""
    noisy = checks.count("rounds", rounds, least=2) - 1
    budget = checks.positive("epsilon", epsilon) / _usable(sensitivity)
    return ClaimedNoise(
        value=budget / noisy,
        kind=NoiseKind.SPHERICAL_LAPLACE_RATE,
        target=_epsilon(epsilon, sensitivity),
        paper=Paper.CONSENSUS,
        theorem="Theorem 1",
        conditions=sensitivity.conditions,
    )


def theorem_3_schedule(sensitivity: ClaimedSensitivity, *, epsilon: float, rounds: int, beta: float) -> ClaimedSchedule:
    """Return the paper's schedule (21), `alpha(2), ..., alpha(K)`, which spends exactly `epsilon`.

    Parameters
    ----------
    sensitivity : Lemma 3's H.
    epsilon : pure epsilon > 0 of all rounds together.
    rounds : K >= 2.
    beta : contraction constant > 0 of Theorem 2; the paper's largest is `2 tau rho/(rho^2 + tau L)`.
    """
    noisy = checks.count("rounds", rounds, least=2) - 1
    budget = checks.positive("epsilon", epsilon) / _usable(sensitivity)
    log_q = math.log1p(checks.positive("beta", beta)) / 4
    # Divided through by q^(K-1), so that a long schedule cannot overflow.
    last = budget * math.expm1(log_q) / math.exp(log_q) / -math.expm1(-noisy * log_q)
    values = tuple(last * math.exp(log_q * (index + 1 - noisy)) for index in range(noisy))
    return ClaimedSchedule(
        values=values,
        first_round=2,
        kind=NoiseKind.SPHERICAL_LAPLACE_RATE,
        target=_epsilon(epsilon, sensitivity),
        paper=Paper.CONSENSUS,
        theorem="Theorem 3, eq. (21)",
        conditions=sensitivity.conditions,
    )


def _epsilon(value: float, sensitivity: ClaimedSensitivity) -> ClaimedEpsilon:
    conditions = sensitivity.conditions
    return ClaimedEpsilon(value=value, delta=0.0, paper=Paper.CONSENSUS, theorem="Theorem 1", conditions=conditions)


def _usable(sensitivity: ClaimedSensitivity) -> float:
    """Return H, or refuse to calibrate by a lemma that claims nothing."""
    if not math.isfinite(sensitivity.value):
        raise InputError(
            "Lemma 3 claims no finite sensitivity here: choose rho greater than 2L and M/n.", setting="rho"
        )
    return sensitivity.value
