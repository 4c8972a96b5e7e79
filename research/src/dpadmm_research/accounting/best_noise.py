"""The noise that serves best at a given cost, and the largest rates of objective perturbation that a budget allows."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm.errors import InputError
from dpadmm.privacy.accounting import PureTarget, calibrate_laplace
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.releases import objective_epsilon


def largest_rate(rounds: Sequence[Certificate], unit_rates: NDArray[np.float64], epsilon: float) -> float:
    """Return the largest c for which rates `c unit_rates` cost at most `epsilon` together (C2).

    The cost is `c sum(unit bound)` plus the Jacobian term of every round whose rate is below its free rate, so it falls
    at each such point: the pieces are tried from the largest rates down.
    """
    bounds = np.array([c.bound for c in rounds])
    jacobians = np.array([c.log_jacobian for c in rounds])
    free = np.array([math.inf if c.jacobian_free_rate is None else c.jacobian_free_rate for c in rounds])
    slope, usable, turns = float(bounds @ unit_rates), epsilon * (1 - 1e-12), free / unit_rates
    for low in [*np.unique(turns[np.isfinite(turns)])[::-1].tolist(), 0.0]:
        found = (usable - float(jacobians[turns > low].sum())) / slope
        if found <= 0 or found < low:
            continue
        cost = math.fsum(objective_epsilon(c, found * u) for c, u in zip(rounds, unit_rates.tolist(), strict=True))
        if cost <= epsilon:
            return found
    raise InputError(
        f"an epsilon of {epsilon:.6g} does not cover the Jacobian ratio of {len(rounds)} rounds; it must be above "
        f"{jacobians.sum():.6g}: raise epsilon, use fewer rounds, or raise the penalty."
    )


def optimal_gaussian_shape(bounds: ArrayLike, weights: ArrayLike = 1.0) -> NDArray[np.float64]:
    """Return the relative stds that minimise `sum w_k s_k^2` at a fixed m: `s_k^2` prop. to `bound_k/sqrt(w_k)` (C0).

    weights: all greater than 0.
    """
    return np.asarray(np.sqrt(np.asarray(bounds) / np.sqrt(weights)), dtype=np.float64)


def optimal_pure_rates(bounds: ArrayLike, weights: ArrayLike, epsilon: float) -> NDArray[np.float64]:
    """Return the rates that minimise `sum w_k/rate_k^2` at `sum rate_k bound_k <= epsilon`.

    They are in proportion to `(w_k/bound_k)^(1/3)`. bounds, weights: all greater than 0.
    """
    return calibrate_laplace(PureTarget(epsilon), bounds, np.cbrt(np.asarray(bounds) / weights))
