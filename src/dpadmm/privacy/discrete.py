"""The discrete Gaussian against the continuous one (C8).

Secure releases add noise on a grid. With `r = sigma/grid` the exact delta of the discrete Gaussian is a sum where the
continuous one has an integral, over `g(u) = phi(u)(1 - e^(-m(u-a)))` for `u > a = eps/m - m/2`. Euler's summation
formula bounds the difference by `T/(8 r^2)`, `T` the positive variation of `g'`: the kink at `a` gives `m phi(a)`, the
rest at most as much again for a >= 0. In several dimensions and rounds the coordinates are exchanged one at a time, and
the kinks add up to the same `m phi(a)/r^2` with r the smallest ratio. So

    delta_discrete <= delta (1 + T/(8 r^2 delta)),        T = 2 m phi(a) for a >= 0,

about six times the excess really met. The discrete Gaussian also keeps zCDP exactly, which caps it at small r.

Since `d delta/dm = phi(a)` grows with m where a >= 0, the excess is at most what a slightly larger m brings:

    delta_discrete <= delta at m (1 + 1/(4 r^2)),        eps >= m^2/2,

which is how accountants count a Gaussian release on a grid (`gdp_factor`): exact squares still add.
"""

import math

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian

LEAST_RATIO = 2.0**10
"""The least sigma/grid of a secure release."""


def check_grid(sigma_over_grid: float) -> float:
    """Return the ratio if it is fine enough for a secure release, else raise `InputError`."""
    if checks.positive("sigma_over_grid", sigma_over_grid) < LEAST_RATIO:
        raise InputError(
            f"sigma/grid must be at least {LEAST_RATIO:.0f} for a secure release, got {sigma_over_grid:.6g}; use a "
            "finer grid or more noise."
        )
    return float(sigma_over_grid)


def gdp_factor(noise_std: float, grid: float | None) -> float:
    """The factor `1 + grid^2/(4 noise_std^2)` on m that pays for discrete noise; 1 without a grid.

    >>> gdp_factor(1024.0, 1.0) - 1 < 2.4e-7, gdp_factor(1.0, None)
    (True, 1.0)
    """
    return 1.0 if grid is None else 1.0 + (0.5 * grid / checks.positive("noise_std", noise_std)) ** 2


def _log_variation(m: float, eps: float) -> float:
    """Logarithm of a bound of the positive variation of g'."""
    a = eps / m - 0.5 * m
    log_kink = math.log(m) - 0.5 * a * a - 0.5 * math.log(2 * math.pi)
    if a >= 0:
        return math.log(2.0) + log_kink
    # sup |u| phi(u) = 0.242, sup u^2 phi(u) = 0.294; at most three more monotone pieces.
    rest = 3.0 * min(0.242, m * (0.294 + 0.242 * -a))
    return math.log(math.exp(log_kink) + rest)


def discrete_gaussian_excess(sigma_over_grid: float, *, m: float, epsilon: float) -> float:
    """An upper bound of `delta_discrete/delta - 1` at `epsilon`, for composed discrete Gaussians of total `m`.

    >>> discrete_gaussian_excess(1024, m=1.0, epsilon=5.9) < 1e-5
    True
    """
    ratio = checks.positive("sigma_over_grid", sigma_over_grid)
    m, epsilon = checks.positive("m", m), checks.non_negative("epsilon", epsilon)
    log_delta = float(gaussian.log_delta(m, epsilon))
    by_sum = _log_variation(m, epsilon) - math.log(8.0 * ratio * ratio) - log_delta
    by_zcdp = gaussian.zcdp_log_delta(gaussian.rho_of(m), epsilon) - log_delta
    return min(math.exp(min(by_sum, 700.0)), math.expm1(min(by_zcdp, 700.0)))


def inflated_delta(sigma_over_grid: float, *, m: float, epsilon: float) -> float:
    """The delta to report for discrete Gaussian noise: C0's, inflated by the bound of the excess."""
    excess = discrete_gaussian_excess(sigma_over_grid, m=m, epsilon=epsilon)
    return min(1.0, float(gaussian.delta_of_epsilon(m, epsilon)) * (1.0 + excess))
