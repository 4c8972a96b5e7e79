"""C2: objective perturbation - DVP, M-ADMM, R-ADMM (record level, pure epsilon, view: eavesdropper).

The subproblem carries a random linear term `b'x`, b of density proportional to `exp(-alpha ||b||)`, and its exact
minimiser is broadcast. With `s = w mu + kappa` (kappa the curvature of the public quadratic, `2 eta deg_i`) and
`t = w c1/(n_i s)`:

    eps_round = alpha w 2G r/n_i + r q ln(1 + t);       logistic and alpha >= G/s:  eps_round = alpha w 2G r/n_i,

q the rank of one record's Hessian (1 for generalised linear losses). Proof: `docs/proofs/c2.md`.
The certificate's `bound` is the gradient distance, `log_jacobian` the second term, `jacobian_free_rate` is G/s.
"""

import math
from dataclasses import replace

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.local import LocalFunction, check_bounded, edge_curvature
from dpadmm.privacy.protection import Certificate, Strength


def objective_perturbation(
    local: LocalFunction,
    *,
    curvature_bound: float,
    quadratic_curvature: float,
    is_logistic: bool = False,
    hessian_rank: int = 1,
    is_smoothed: bool = False,
) -> Certificate:
    """Bound what objective perturbation reveals about one agent in one round.

    Parameters: `gradient_bound` G and `curvature_bound` c1 >= 0 bound the gradient norm and the largest Hessian
    eigenvalue of one record's loss (logistic on features of norm <= B: G = B, c1 = B^2/4),
    `quadratic_curvature` kappa >= 0 of the public quadratic. `is_logistic` opens the Jacobian-free branch, for
    which `gradient_bound` must be the feature norm bound B. `hessian_rank` q >= 1 per record.

    The proof is about the exact minimiser, so the strength is UP_TO_SOLVER_ERROR whatever the tolerance is,
    unless `is_smoothed`: the output then also carries the noise of `solver_smoothing`, whose release must be
    accounted beside this one; the strength is then UP_TO_FLOATING_POINT.

    >>> own = LocalFunction(gradient_bound=1, n_records=100)
    >>> c = objective_perturbation(own, curvature_bound=0.25, quadratic_curvature=0.5, is_logistic=True)
    >>> c.bound, c.jacobian_free_rate, round(c.log_jacobian, 6)
    (0.02, 2.0, 0.004988)
    """
    local.check_single_rows("C2")
    g, c1 = check_bounded("gradient_bound", local.gradient_bound), check_bounded("curvature_bound", curvature_bound)
    rank = checks.count("hessian_rank", hessian_rank)
    if is_logistic and (rank > 1 or c1 < 0.25 * g * g * (1 - 1e-12)):
        raise InputError(
            f"is_logistic needs hessian_rank 1 and curvature_bound >= gradient_bound^2/4 = {0.25 * g * g:g}, got rank "
            f"{rank} and {c1:g}. Pass the feature norm bound B as gradient_bound and B^2/4 as curvature_bound."
        )
    if is_smoothed and local.solver_tolerance is None:
        raise InputError(
            "is_smoothed needs the solver_tolerance that the smoothing covers, got none. Pass solver_tolerance."
        )
    modulus = _modulus(local, quadratic_curvature)
    exact = replace(local, solver_tolerance=None)
    certificate = exact.certify(
        exact.gap,
        "C2",
        exact.bound_text,
        f"every record's gradient is Lipschitz with constant {c1:g} and its Hessian has rank at most {rank}",
        "the strong convexity mu comes from a ridge that does not depend on the data",
        "binary logistic loss" if is_logistic else "no loss-specific property is used",
        "the noise has density proportional to exp(-rate ||b||) in exact arithmetic",
        _smoothing_text(is_smoothed, local.solver_tolerance),
    )
    return replace(
        certificate,
        log_jacobian=local.replaced * rank * math.log1p(local.weight * c1 / (local.n_records * modulus)),
        jacobian_free_rate=g / modulus if is_logistic else None,
        strength=Strength.UP_TO_FLOATING_POINT if is_smoothed else Strength.UP_TO_SOLVER_ERROR,
    )


def _modulus(local: LocalFunction, quadratic_curvature: float) -> float:
    modulus = checks.non_negative("quadratic_curvature", quadratic_curvature) + local.curvature
    return checks.positive("the curvature 2 eta deg + w mu of the subproblem", modulus)


def _smoothing_text(is_smoothed: bool, solver_tolerance: float | None) -> str:
    if is_smoothed:
        return f"the output is smoothed against residuals up to {solver_tolerance:g}, accounted as its own release"
    return "the broadcast is the exact minimiser; a residual is not covered"


def solver_smoothing(local: LocalFunction, *, quadratic_curvature: float) -> Certificate:
    """Bound what an inexact solve adds to C2: spherical Laplace noise of rate a' on the output costs `a' 2 tol/s`.

    The released value is the approximate minimiser plus that noise; its epsilon is that of the objective
    perturbation plus this one. Everything later (duals, even steps) must read the released value.

    >>> own = LocalFunction(gradient_bound=1, n_records=100, solver_tolerance=1e-10)
    >>> solver_smoothing(own, quadratic_curvature=0.5).bound
    4e-10
    """
    if local.solver_tolerance is None:
        raise InputError("Smoothing needs the solver_tolerance that it covers, got none. Pass solver_tolerance.")
    bound = 2 * local.solver_tolerance / _modulus(local, quadratic_curvature)
    beside = "added to the output of an objective perturbation (C2) that is accounted beside it"
    certificate = local.certify(bound, "C7 (smoothed objective perturbation)", beside)
    return certificate.weaken(Strength.UP_TO_FLOATING_POINT)


def dvp(
    local: LocalFunction,
    *,
    curvature_bound: float,
    edge_penalty: float,
    degree: int,
    is_logistic: bool = False,
    hessian_rank: int = 1,
    is_smoothed: bool = False,
) -> Certificate:
    """C2 on a graph, with this round's penalty eta: `kappa = 2 eta deg`. For DVP as it is, every round counts."""
    return objective_perturbation(
        local,
        curvature_bound=curvature_bound,
        quadratic_curvature=edge_curvature(edge_penalty=edge_penalty, degree=degree),
        is_logistic=is_logistic,
        hessian_rank=hessian_rank,
        is_smoothed=is_smoothed,
    )


def r_admm(odd: Certificate) -> Certificate:
    """C2 for recycled ADMM: that of `dvp` in an odd iteration, which is all that a pair of iterations releases."""
    even = "even iterations take grad f_i + b_i from the broadcasts by the odd step's optimality condition"
    return replace(odd, theorem="C2 (odd iterations)", assumptions=(*odd.assumptions, even))


def m_admm(tilted: Certificate) -> Certificate:
    """C2 for penalty perturbation: that of `dvp` with this round's penalty eta_i(t).

    The certificate is about the linear term `b = 2 eta_i deg e`. Where e has the rate alpha, b has
    `alpha/(2 eta_i deg)`.
    """
    return replace(tilted, theorem="C2 (penalty noise as a linear term)")
