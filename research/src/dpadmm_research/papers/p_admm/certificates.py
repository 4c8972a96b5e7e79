"""Certificates of variants of P-ADMM that no run uses: a tighter one for the logistic loss, and one for the errata.

Proofs: `docs/proofs/c1.md`.
"""

import math
from dataclasses import replace

from scipy.special import expit

from dpadmm import checks
from dpadmm.privacy.certificates.local import (
    READS_BROADCASTS,
    LocalFunction,
    check_bounded,
    edge_curvature,
    p_admm,
    tolerance_of,
)
from dpadmm.privacy.protection import Certificate


def logistic_gradient_gap(norm: float, feature_bound: float = 1.0) -> float:
    """Bound `||grad loss(x; v) - grad loss(x; v')||` over logistic records of norm <= B and all `||x|| <= norm`.

    In the plane, with `q = |cos(v, x)| B norm`, the worst pair is mirror-symmetric about x and the exact value is

        Psi = 2 B max_p sqrt(1 - p^2) / (1 + exp(-p B norm)),   0 <= p <= 1.

    It grows from B at norm 0 to 2B; returned inflated by 1e-9 so that rounding cannot make it too small.

    >>> tuple(round(logistic_gradient_gap(t), 2) for t in (0, 1, 2, 5, 10))
    (1.0, 1.1, 1.27, 1.62, 1.82)
    """
    from scipy.optimize import brentq  # slow to load, and only this bound needs a root

    size = check_bounded("feature_bound", feature_bound)
    t = size * checks.non_negative("norm", norm)

    def slope(p: float) -> float:
        # Stationarity of the maximand: increasing in p, negative at 0, positive near 1, hence one root.
        return float(p - (1 - p * p) * t * expit(-p * t))

    p = float(brentq(slope, 0.0, 1.0, xtol=1e-15)) if t > 0 else 0.0
    return size * min(2.0, 2 * math.sqrt(1 - p * p) * float(expit(p * t)) * (1 + 1e-9))


def p_admm_logistic(local: LocalFunction, *, centre_norm: float, edge_penalty: float, degree: int) -> Certificate:
    """Tighter C1 for logistic loss: `D = (w r Psi(R)/n + 2 tol)/s` with `R = (centre_norm + w B + tol)/s`.

    `centre_norm` bounds the public vector `||eta sum_j (xt_i + xt_j) - a_i||` of this round. Since that vector is
    an earlier output, the certificate is for this round only: compose with a filter, or use one bound that is
    enforced for all rounds. `gradient_bound` is B, which bounds a record's feature norm.

    >>> own = LocalFunction(gradient_bound=1, n_records=100)
    >>> wide = p_admm(own, edge_penalty=0.5, degree=2).bound
    >>> near = p_admm_logistic(own, centre_norm=1.0, edge_penalty=0.5, degree=2).bound
    >>> near / wide < 0.6
    True
    """
    size = check_bounded("gradient_bound", local.gradient_bound)
    modulus = edge_curvature(edge_penalty=edge_penalty, degree=degree) + local.curvature
    tol = tolerance_of(local.solver_tolerance)
    radius = (checks.non_negative("centre_norm", centre_norm) + local.weight * size + tol) / modulus
    near = replace(local, gradient_bound=logistic_gradient_gap(radius, size) / 2)
    return local.certify(
        near.gap / modulus,
        "C1 (logistic, public centre)",
        f"binary logistic loss, labels -1/+1, feature norm at most {size:g}",
        f"the public centre vector of this round has norm at most {centre_norm:g}",
        READS_BROADCASTS,
    )


def own_iterate_p_admm(
    local: LocalFunction, *, rounds: int, edge_penalty: float, degree: int
) -> tuple[Certificate, ...]:
    """Bound the variant that re-uses its own noise-free iterate (eq. 10 read literally); for the errata.

    The iterate is hidden state: `D_{k+1} = (eta deg D_k + gap)/s`, `D_0 = 0`, with limit `gap/(eta deg + w mu)`, up
    to twice C1. The dual variable is taken to follow the noisy broadcasts (eq. 14). Entry k-1 is round k.
    """
    fresh = p_admm(local, edge_penalty=edge_penalty, degree=degree)
    half = edge_penalty * degree
    memory = half / (2 * half + local.curvature)
    bounds = [0.0]
    for _ in range(checks.count("rounds", rounds)):
        bounds.append(memory * bounds[-1] + fresh.bound)
    own = "the agent re-uses its own noise-free iterate; neighbours and duals are read from the broadcasts"
    return tuple(local.certify(bound, "C1 (own iterate)", local.bound_text, own) for bound in bounds[1:])
