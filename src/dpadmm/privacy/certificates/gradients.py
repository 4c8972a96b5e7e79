"""C4 and C9: gradients and steps made of them - PS-ADMM, gradient descent, linearised ADMM, output perturbation.

C4: PS-ADMM, noisy variance-reduced inner steps (record level, view: eavesdropper).

    v+ = v - step ( mean_batch [grad l(v) - grad l(vt)] + g_full + a_i + rho (v - z) + theta ),
    theta ~ N(0, sigma^2 I).

The data enter twice: through `g_full` in every step and through the sampled correction. Splitting the noise,
`sigma^2 = s1^2 + s2^2`, the step post-processes a Gaussian release with s1 (`ps_admm_full_gradient`) and a sampled
Gaussian release with s2 (`ps_admm_correction`), composed over all inner steps. Proof: `docs/proofs/c4.md`.

C9: the other methods - gradients, linearised ADMM, output perturbation, general linear constraints.

All at record level with `gap = w 2G r/n + 2 tol`; proofs in `docs/proofs/c9.md`. The tolerance is a residual where a
subproblem is solved and an evaluation error where a gradient is taken (0 unless given).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.local import TRUSTED_SUM, LocalFunction, adding_text, check_bounded, tolerance_of
from dpadmm.privacy.protection import Certificate, Unit, View

NOISY_STATE = "the gradient is taken at a point made of earlier noisy values"
FRESH_BATCH = "the batch is drawn afresh in every step, independently of the data, and is not revealed"


def ps_admm_full_gradient(local: LocalFunction) -> Certificate:
    """Bound `g_full = w grad f_i(x_i)`: `w 2G r/n` (+ 2 `solver_tolerance` if it is evaluated with that error).

    It is added in every inner step, hence released with s1 once per inner step; or, equally sound, perturb it once
    per round and use that noisy value in all of the round's steps.

    >>> ps_admm_full_gradient(LocalFunction(gradient_bound=1, n_records=100)).bound
    0.02
    """
    exact = local.for_gradients()
    return exact.certify(exact.gap, "C4 (full gradient)", exact.bound_text, NOISY_STATE)


def sampled_term(local: LocalFunction, largest: float, *, batch_size: float, persons_sampled_whole: bool) -> float:
    """Bound one person's term in a batch mean, `w r largest/l`; refuse r > 1 under record-wise sampling.

    With r records drawn independently a person is in the batch with probability `1 - (1-q)^r`, not q: keeping q and
    multiplying the bound by r is not sound (`docs/proofs/c4.md` has the counterexample).
    """
    local.check_single_rows("The bound on a batch of sampled rows")
    r = local.protection.records_per_person
    if r > 1 and not persons_sampled_whole:
        raise InputError(
            f"records_per_person is {r}, but sampling records one by one does not amplify a person's privacy as it "
            "does a single record's. Sample whole persons (persons_sampled_whole=True), or keep one record per person."
        )
    return local.weight * r * largest / checks.positive("batch_size", batch_size)


def ps_admm_correction(
    local: LocalFunction,
    *,
    batch_size: float,
    curvature_bound: float = math.inf,
    displacement: float = math.inf,
    clip: float = math.inf,
    persons_sampled_whole: bool = False,
) -> Certificate:
    """Bound one record's term in the sampled correction: `w min(2G, c1 ||v - vt||, clip)/l`.

    For `SampledGaussianRelease`, whose accountants double it under replace-one. `batch_size` l is the *expected*
    size under Poisson sampling and the divisor used (dividing by the drawn size is not sound). `displacement`
    bounds `||v - vt||` and must be enforced or known from earlier noisy values; `curvature_bound` c1 is the
    smoothness of one record's loss. The tolerance is the evaluation error of one record's correction. In the
    first inner step the correction is zero (v = vt) and needs no release.

    >>> own = LocalFunction(gradient_bound=1, n_records=100)
    >>> ps_admm_correction(own, batch_size=10, curvature_bound=0.25, displacement=0.4).bound
    0.01
    """
    exact = local.for_gradients()
    # inf * 0 is undefined: without both numbers the displacement says nothing.
    known = math.isfinite(displacement) and math.isfinite(curvature_bound)
    moved = checks.non_negative("displacement", displacement) * curvature_bound if known else math.inf
    largest = check_bounded("min(2G, c1 displacement, clip)", min(2 * exact.gradient_bound, moved, clip))
    largest += tolerance_of(exact.solver_tolerance)
    return exact.certify(
        sampled_term(exact, largest, batch_size=batch_size, persons_sampled_whole=persons_sampled_whole),
        "C4 (sampled correction)",
        f"one record's correction has norm at most {largest:g} before division by the expected batch size",
        FRESH_BATCH,
    )


def full_gradient(local: LocalFunction) -> Certificate:
    """Bound a silo's gradient `w grad f_i(x)` at a public point x: `w 2G r/n + 2 tol`.

    >>> full_gradient(LocalFunction(gradient_bound=1, n_records=100, weight=0.5)).bound
    0.01
    """
    exact = local.for_gradients()
    return exact.certify(exact.gap, "C9 (full gradient)", exact.bound_text, NOISY_STATE)


def gradient_sum(silos: Sequence[LocalFunction], *, unit: Unit = Unit.RECORD) -> Certificate:
    """Bound the sum `sum_i w_i grad f_i(x)` of all silos' gradients at a public point x, released with one noise.

        D = the s largest of `w_i 2G r/n_i + 2 tol`; of users, all of whose records change: `w_i 2G + 2 tol`
        D = the s largest of `w_i G r/n_i + 2 tol` where records are added or removed and the n_i are nominal

    A person's changes in s silos add up, since one noise hides them all. With several silos the noise is that of
    whoever adds them up, who is trusted; a silo alone adds it itself.

    >>> silos = [LocalFunction(gradient_bound=1, n_records=n, weight=n / 500) for n in (100, 400)]
    >>> gradient_sum(silos).bound, gradient_sum(silos, unit=Unit.USER).bound
    (0.004, 1.6)
    """
    exact = [each.for_gradients() for each in silos]
    if unit is Unit.USER and any(not each.protection.relation.has_public_sizes for each in exact):
        raise InputError("The sum of gradients is certified for adding or removing records, not for users.")
    if unit is Unit.USER:  # a user is a silo, and all of its records may be others
        one = replace(silos[0].protection, records_per_person=1, unit=Unit.RECORD)
        exact = [replace(each, n_records=1, protection=one) for each in exact]
    first, people = exact[0], silos[0].protection.silos_per_person
    bound = math.fsum(sorted((each.gap for each in exact), reverse=True)[:people])
    alone = len(silos) == 1
    certificate = first.certify(
        bound,
        "C9 (sum of gradients)",
        first.bound_text,
        NOISY_STATE,
        *(() if alone else (TRUSTED_SUM,)),
        *adding_text(people),
        view=View.EAVESDROPPER if alone else View.PUBLIC,
        is_for_additions=True,
    )
    if unit is not Unit.USER:
        return certificate
    return replace(
        certificate,
        protection=replace(certificate.protection, unit=unit),
        assumptions=("neighbours differ in all data of one user", *certificate.assumptions[1:]),
    )


def coordinate_gradient(local: LocalFunction) -> Certificate:
    """Bound one block (or coordinate) of the gradient, `w 2G_b r/n`; `gradient_bound` G_b bounds that block's norm."""
    certificate = full_gradient(local)
    return replace(
        certificate,
        theorem="C9 (coordinate gradient)",
        assumptions=("only this block of the gradient is released", *certificate.assumptions),
    )


def gradient_step(local: LocalFunction, *, step: float) -> Certificate:
    """Bound a decentralised gradient step (DP-DGD): `step (w 2G r/n + 2 tol)`.

    The mixed point must be made of noisy messages, the agent's own included; a projection onto a convex set after
    the step keeps the bound. For noise on coordinates see `in_l1_norm`.

    >>> gradient_step(LocalFunction(gradient_bound=1, n_records=100), step=0.1).bound
    0.002
    """
    certificate = full_gradient(local)
    return replace(
        certificate,
        bound=checks.positive("step", step) * certificate.bound,
        theorem="C9 (gradient step)",
        assumptions=("the mixed point is made of noisy messages, the agent's own included", *certificate.assumptions),
    )


def sampled_gradient(
    local: LocalFunction, *, batch_size: float, clip: float = math.inf, persons_sampled_whole: bool = False
) -> Certificate:
    """Bound one record's term in a sampled gradient (DP-SGD): `w min(G, clip)/l`, l the *expected* batch size.

    For `SampledGaussianRelease`, whose accountants double it under replace-one. The tolerance is the evaluation error
    of one record's gradient; an error of the batch as a whole would not be amplified by sampling.

    >>> sampled_gradient(LocalFunction(gradient_bound=math.inf, n_records=1000), batch_size=50, clip=0.5).bound
    0.01
    """
    exact = local.for_gradients()
    largest = check_bounded("min(G, clip)", min(exact.gradient_bound, clip)) + tolerance_of(exact.solver_tolerance)
    return exact.certify(
        sampled_term(exact, largest, batch_size=batch_size, persons_sampled_whole=persons_sampled_whole),
        "C9 (sampled gradient)",
        f"one record's gradient, clipped if need be, has norm at most {largest:g}",
        FRESH_BATCH,
        NOISY_STATE,
    )


def linearised_admm(local: LocalFunction, *, penalty: float, step: float) -> Certificate:
    """Bound `x = argmin w grad f(xt)'x + (rho/2)||x - c||^2 + ||x - xt||^2/(2 step)`: `gap/(rho + 1/step)`."""
    certificate = full_gradient(local)
    curvature = checks.positive("penalty", penalty) + 1 / checks.positive("step", step)
    return replace(certificate, bound=certificate.bound / curvature, theorem="C9 (linearised ADMM)")


def output_perturbation(local: LocalFunction) -> Certificate:
    """Bound a silo's own optimum `argmin w f_i`: `(w 2G r/n + 2 tol)/(w mu)`, mu > 0.

    >>> own = LocalFunction(gradient_bound=1, n_records=100, strong_convexity=0.5, solver_tolerance=0.0)
    >>> output_perturbation(own).bound
    0.04
    """
    modulus = local.weight * checks.positive("strong_convexity", local.strong_convexity)
    convex = "the minimised function is mu-strongly convex for every data set"
    return local.certify(local.gap / modulus, "C9 (output perturbation)", local.bound_text, convex)


def general_constraint(local: LocalFunction, *, step: float, smallest_singular_value: float) -> Certificate:
    """Bound `2 (A x + B z - c)`, the value that receives N(0, sigma^2 I): `2 gamma gap/omega`.

    For `min f(x) + g(z), Ax + Bz = c` with `u += lam (2 (Ax + Bz - c) + noise)` and omega > 0 the smallest singular
    value of A; on u itself that is `4 lam gamma G/(n omega)`. The data are in f only.

    >>> own = LocalFunction(gradient_bound=1, n_records=100)
    >>> general_constraint(own, step=0.5, smallest_singular_value=2.0).bound
    0.01
    """
    omega = checks.positive("smallest_singular_value", smallest_singular_value)
    return local.certify(
        2 * checks.positive("step", step) * local.gap / omega,
        "C9 (general constraint)",
        local.bound_text,
        f"A is injective with smallest singular value at least {omega:g}",
        "u is made of earlier noisy values",
    )
