"""C8: how a certificate changes with the form of the release - grid, norm, spherical noise.

Proof: `docs/proofs/c8.md`.
"""

import math
from dataclasses import replace

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy.records import Certificate, Norm, Strength


def secure_grid(certificate: Certificate, *, grid: float, dimension: int) -> Certificate:
    """Return the certificate of the value rounded to the nearest multiple of `grid` in each coordinate.

    Rounding moves each of the two neighbouring values by at most `grid/2` per coordinate, so the bound grows by
    `grid sqrt(d)` in the L2 norm and by `grid d` in the L1 norm. `grid` must be a power of two (rounding is then
    exact in binary). Objective perturbation is refused: its noise is not added to the value.

    >>> from dpadmm.privacy.certificates import LocalFunction, full_gradient
    >>> secure_grid(full_gradient(LocalFunction(gradient_bound=1, n_records=8)), grid=0.0625, dimension=4).bound
    0.375
    """
    d, width = checks.count("dimension", dimension), checks.positive("grid", grid)
    if math.frexp(width)[0] != 0.5:
        raise InputError(f"grid must be a power of two, got {shown(width)}. Use 2.0**k, for instance {2.0**-30!r}.")
    _refuse_objective(certificate)
    if certificate.grid is not None:
        raise InputError(f"The certificate has the rounding to {certificate.grid!r} in it already. Use it as it is.")
    spread = {Norm.L2: math.sqrt(d), Norm.L1: float(d)}[certificate.norm]
    rounding = (
        f"the value is rounded to the nearest multiple of {width!r} in each of {d} coordinates before the noise (C8)"
    )
    return replace(
        certificate,
        bound=certificate.bound + width * spread,
        theorem=f"{certificate.theorem} + C8",
        assumptions=(*certificate.assumptions, rounding),
        grid=width,
        grid_dimension=d,
    )


def in_l1_norm(certificate: Certificate, *, dimension: int) -> Certificate:
    """Return an L2 certificate as an L1 one, for independent noise on coordinates: `||v||_1 <= sqrt(d) ||v||_2`.

    >>> from dpadmm.privacy.certificates import LocalFunction, full_gradient
    >>> in_l1_norm(full_gradient(LocalFunction(gradient_bound=1, n_records=8)), dimension=4).bound
    0.5
    """
    _refuse_objective(certificate)
    if certificate.norm is Norm.L1 or certificate.grid is not None:
        raise InputError(
            "The certificate is in the L1 norm or on a grid already. Change the norm first, then the grid."
        )
    bound = certificate.bound * math.sqrt(checks.count("dimension", dimension))
    return replace(certificate, bound=bound, norm=Norm.L1)


def _refuse_objective(certificate: Certificate) -> None:
    if certificate.log_jacobian > 0 or certificate.jacobian_free_rate is not None:
        raise InputError(
            "Objective perturbation (C2) has no additive form: its noise is inside the objective. Use P-ADMM's "
            "Gaussian form for such a release."
        )


def with_spherical_noise(certificate: Certificate) -> Certificate:
    """Return the certificate as it stands behind spherical Laplace noise: at best up to floating point.

    There is no exact sampler for density `exp(-rate ||v||)`; a certificate that is only proved up to solver error
    keeps that weaker label.

    >>> from dpadmm.privacy.certificates import LocalFunction, full_gradient
    >>> with_spherical_noise(full_gradient(LocalFunction(gradient_bound=1, n_records=8))).strength.value
    'certified up to floating point'
    """
    if certificate.strength is Strength.UP_TO_SOLVER_ERROR:
        return certificate
    return certificate.weakened(Strength.UP_TO_FLOATING_POINT)
