"""C4: PS-ADMM, noisy variance-reduced inner steps (record level, view: eavesdropper).

    v+ = v - step ( mean_batch [grad l(v) - grad l(vt)] + g_full + a_i + rho (v - z) + theta ),
    theta ~ N(0, sigma^2 I).

The data enter twice: through `g_full` in every step and through the sampled correction. Splitting the noise,
`sigma^2 = s1^2 + s2^2`, the step post-processes a Gaussian release with s1 (`ps_admm_full_gradient`) and a sampled
Gaussian release with s2 (`ps_admm_correction`), composed over all inner steps. Proof: `docs/proofs/c4.md`.
"""

import math

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.certificates.neighbours import LocalFunction, bounded, tolerance_of
from dpadmm.privacy.protection import Certificate

NOISY_STATE = "the gradient is taken at a point made of earlier noisy values"
FRESH_BATCH = "the batch is drawn afresh in every step, independently of the data, and is not revealed"


def ps_admm_full_gradient(local: LocalFunction) -> Certificate:
    """Bound `g_full = w grad f_i(x_i)`: `w 2G r/n` (+ 2 `solver_tolerance` if it is evaluated with that error).

    It is added in every inner step, hence released with s1 once per inner step; or, equally sound, perturb it once
    per round and use that noisy value in all of the round's steps.

    >>> ps_admm_full_gradient(LocalFunction(gradient_bound=1, n_records=100)).bound
    0.02
    """
    exact = local.evaluated()
    return exact.certify(exact.gap, "C4 (full gradient)", exact.words, NOISY_STATE)


def sampled_term(local: LocalFunction, largest: float, *, batch_size: float, persons_sampled_whole: bool) -> float:
    """Bound one person's term in a batch mean, `w r largest/l`; refuse r > 1 under record-wise sampling.

    With r records drawn independently a person is in the batch with probability `1 - (1-q)^r`, not q: keeping q and
    multiplying the bound by r is not sound (`docs/proofs/c4.md` has the counterexample).
    """
    local.check_single_rows("The bound on a batch of sampled rows")
    r = local.records_per_person
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
    exact = local.evaluated()
    # inf * 0 is undefined: without both numbers the displacement says nothing.
    known = math.isfinite(displacement) and math.isfinite(curvature_bound)
    moved = checks.non_negative("displacement", displacement) * curvature_bound if known else math.inf
    largest = bounded("min(2G, c1 displacement, clip)", min(2 * exact.gradient_bound, moved, clip))
    largest += tolerance_of(exact.solver_tolerance)
    return exact.certify(
        sampled_term(exact, largest, batch_size=batch_size, persons_sampled_whole=persons_sampled_whole),
        "C4 (sampled correction)",
        f"one record's correction has norm at most {largest:g} before division by the expected batch size",
        FRESH_BATCH,
    )
