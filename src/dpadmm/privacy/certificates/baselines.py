"""C9: the other methods - gradients, linearised ADMM, output perturbation, general linear constraints.

All at record level with `gap = w 2G r/n + 2 tol`; proofs in `docs/proofs/c9.md`. `solver_tolerance` is a residual
where a subproblem is solved and an evaluation error where a gradient is taken (0 unless told).
"""

import math
from dataclasses import replace

from dpadmm import checks
from dpadmm.privacy.certificates.neighbours import (
    bounded,
    certify_record,
    gradient_words,
    record_gap,
)
from dpadmm.privacy.certificates.ps_admm import sampled_term
from dpadmm.privacy.records import Certificate, View

_NOISY_STATE = "the gradient is taken at a point made of earlier noisy values"


def full_gradient(
    *,
    gradient_bound: float,
    n_records: int,
    weight: float = 1.0,
    solver_tolerance: float = 0.0,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound a silo's gradient `w grad f_i(x)` at a public point x: `w 2G r/n + 2 tol`.

    >>> full_gradient(gradient_bound=1, n_records=100, weight=0.5).bound
    0.01
    """
    gap = record_gap(
        gradient_bound=gradient_bound,
        n_records=n_records,
        weight=weight,
        records_per_person=records_per_person,
        solver_tolerance=solver_tolerance,
    )
    return certify_record(
        gap,
        view=View.EAVESDROPPER,
        theorem="C9 (full gradient)",
        assumptions=(gradient_words(gradient_bound), _NOISY_STATE),
        solver_tolerance=solver_tolerance,
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )


def coordinate_gradient(
    *,
    block_gradient_bound: float,
    n_records: int,
    weight: float = 1.0,
    solver_tolerance: float = 0.0,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound one block (or coordinate) of the gradient, `w 2G_b r/n`, G_b bounding that block of a record's gradient."""
    certificate = full_gradient(
        gradient_bound=block_gradient_bound,
        n_records=n_records,
        weight=weight,
        solver_tolerance=solver_tolerance,
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )
    return replace(
        certificate,
        theorem="C9 (coordinate gradient)",
        assumptions=("only this block of the gradient is released", *certificate.assumptions),
    )


def gradient_step(
    *,
    step: float,
    gradient_bound: float,
    n_records: int,
    weight: float = 1.0,
    solver_tolerance: float = 0.0,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound a decentralised gradient step (DP-DGD): `step (w 2G r/n + 2 tol)`.

    The mixed point must be made of noisy messages, the agent's own included; a projection onto a convex set after
    the step keeps the bound. For noise on coordinates see `in_l1_norm`.

    >>> gradient_step(step=0.1, gradient_bound=1, n_records=100).bound
    0.002
    """
    certificate = full_gradient(
        gradient_bound=gradient_bound,
        n_records=n_records,
        weight=weight,
        solver_tolerance=solver_tolerance,
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )
    return replace(
        certificate,
        bound=checks.positive("step", step) * certificate.bound,
        theorem="C9 (gradient step)",
        assumptions=("the mixed point is made of noisy messages, the agent's own included", *certificate.assumptions),
    )


def sampled_gradient(
    *,
    batch_size: float,
    gradient_bound: float = math.inf,
    clip: float = math.inf,
    weight: float = 1.0,
    solver_tolerance: float = 0.0,
    records_per_person: int = 1,
    silos_per_person: int = 1,
    persons_sampled_whole: bool = False,
) -> Certificate:
    """Bound one record's term in a sampled gradient (DP-SGD): `w min(G, clip)/l`, l the *expected* batch size.

    For `SampledGaussianRelease`, whose accountants double it under replace-one. `solver_tolerance` is the evaluation
    error of one record's gradient; an error of the batch as a whole would not be amplified by sampling.

    >>> sampled_gradient(batch_size=50, clip=0.5).bound
    0.01
    """
    largest = bounded("min(G, clip)", min(gradient_bound, clip))
    largest += checks.non_negative("solver_tolerance", solver_tolerance)
    term = sampled_term(
        largest,
        batch_size=batch_size,
        weight=weight,
        records_per_person=records_per_person,
        persons_sampled_whole=persons_sampled_whole,
    )
    return certify_record(
        term,
        view=View.EAVESDROPPER,
        theorem="C9 (sampled gradient)",
        assumptions=(
            f"one record's gradient, clipped if need be, has norm at most {largest:g}",
            "the batch is drawn afresh in every step, independently of the data, and is not revealed",
            _NOISY_STATE,
        ),
        solver_tolerance=solver_tolerance,
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )


def linearised_admm(
    *,
    penalty: float,
    step: float,
    gradient_bound: float,
    n_records: int,
    weight: float = 1.0,
    solver_tolerance: float = 0.0,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound `x = argmin w grad f(xt)'x + (rho/2)||x - c||^2 + ||x - xt||^2/(2 step)`: `gap/(rho + 1/step)`."""
    certificate = full_gradient(
        gradient_bound=gradient_bound,
        n_records=n_records,
        weight=weight,
        solver_tolerance=solver_tolerance,
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )
    curvature = checks.positive("penalty", penalty) + 1 / checks.positive("step", step)
    return replace(certificate, bound=certificate.bound / curvature, theorem="C9 (linearised ADMM)")


def output_perturbation(
    *,
    gradient_bound: float,
    n_records: int,
    strong_convexity: float,
    weight: float = 1.0,
    solver_tolerance: float | None = None,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound a silo's own optimum `argmin w f_i`: `(w 2G r/n + 2 tol)/(w mu)`.

    >>> output_perturbation(gradient_bound=1, n_records=100, strong_convexity=0.5, solver_tolerance=0.0).bound
    0.04
    """
    gap = record_gap(
        gradient_bound=gradient_bound,
        n_records=n_records,
        weight=weight,
        records_per_person=records_per_person,
        solver_tolerance=solver_tolerance,
    )
    return certify_record(
        gap / (weight * checks.positive("strong_convexity", strong_convexity)),
        view=View.EAVESDROPPER,
        theorem="C9 (output perturbation)",
        assumptions=(gradient_words(gradient_bound), "the minimised function is mu-strongly convex for every data set"),
        solver_tolerance=solver_tolerance,
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )


def general_constraint(
    *,
    step: float,
    smallest_singular_value: float,
    gradient_bound: float,
    n_records: int,
    weight: float = 1.0,
    solver_tolerance: float | None = None,
    records_per_person: int = 1,
    silos_per_person: int = 1,
) -> Certificate:
    """Bound `2 (A x + B z - c)`, the value that receives N(0, sigma^2 I): `2 gamma gap/omega`.

    For `min f(x) + g(z), Ax + Bz = c` with `u += lam (2 (Ax + Bz - c) + noise)` and omega > 0 the smallest singular
    value of A; on u itself that is `4 lam gamma G/(n omega)`. The data are in f only.

    >>> general_constraint(step=0.5, smallest_singular_value=2.0, gradient_bound=1, n_records=100).bound
    0.01
    """
    gap = record_gap(
        gradient_bound=gradient_bound,
        n_records=n_records,
        weight=weight,
        records_per_person=records_per_person,
        solver_tolerance=solver_tolerance,
    )
    omega = checks.positive("smallest_singular_value", smallest_singular_value)
    return certify_record(
        2 * checks.positive("step", step) * gap / omega,
        view=View.EAVESDROPPER,
        theorem="C9 (general constraint)",
        assumptions=(
            gradient_words(gradient_bound),
            f"A is injective with smallest singular value at least {omega:g}",
            "u is made of earlier noisy values",
        ),
        solver_tolerance=solver_tolerance,
        records_per_person=records_per_person,
        silos_per_person=silos_per_person,
    )
