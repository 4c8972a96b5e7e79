"""Lower bounds on a Renyi divergence from runs, for claims that are stated in Renyi terms.

By Young's inequality, for every function f >= 0 of what is seen and every order > 1,

    exp( (order - 1) D_order(P || Q) )  >=  order E_P[ f ] - (order - 1) E_Q[ f^(order/(order-1)) ],

with equality for `f = (dP/dQ)^(order - 1)`. The right side is a mean, so runs bound it; and where the runs of the two
worlds share their noise it is the mean of one paired quantity whose spread is far smaller than that of its parts.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats

_FEWEST_RUNS = 100


@dataclass(frozen=True)
class RenyiEstimate:
    """A lower bound on D_order(P || Q), wrong with probability at most `1 - confidence`, from so many paired runs."""

    divergence_lower: float
    order: float
    confidence: float
    runs: int

    def refutes(self, divergence: float) -> bool:
        """Say whether a promise of this divergence at this order is refuted."""
        return self.divergence_lower > divergence


def renyi_bound(
    log_ratio_p: ArrayLike, log_ratio_q: ArrayLike, order: float, confidence: float = 0.95
) -> RenyiEstimate:
    """Return a lower bound on D_order(P || Q) from log likelihood ratios ln dP/dQ, right or wrong.

    Parameters
    ----------
    log_ratio_p, log_ratio_q: the attacker's log ratios of runs in P and in Q, equally many (at least 100); the r-th of
        each may share their noise, different r must be independent. Wrong ratios weaken the bound, no more.
    order: > 1. confidence: in (0, 1).

    The ratios are cut off at what the first tenth of the runs shows, which the bound then leaves out. The rest is an
    empirical Bernstein bound (Maurer and Pontil 2009, Theorem 4) on the mean of a bounded quantity.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal(20_000)
    >>> ratio = lambda y: 0.5 * y - 0.125  # N(0.5, 1) against N(0, 1): D_2 = 0.25
    >>> 0.2 < renyi_bound(ratio(x + 0.5), ratio(x), order=2.0).divergence_lower < 0.25
    True
    """
    p, q = (np.asarray(values, dtype=np.float64) for values in (log_ratio_p, log_ratio_q))
    if p.ndim != 1 or p.shape != q.shape or p.size < _FEWEST_RUNS:
        raise InputError(
            f"Give two flat lists of at least {_FEWEST_RUNS} paired runs, got {p.shape} and {q.shape}.", setting="runs"
        )
    if np.isnan(p).any() or np.isnan(q).any():
        raise InputError("Some log ratios are NaN. Score every run with a number.", setting="ratios")
    if checks.finite("order", order) <= 1:
        raise InputError(f"order must be greater than 1, got {order!r}.", setting="order")
    level = 1 - checks.open_unit("confidence", confidence)
    pilot = p.size // 10
    low, high = _cut(p[:pilot], q[:pilot])
    p, q = np.clip(p[pilot:], low, high), np.clip(q[pilot:], low, high)
    values = order * np.exp((order - 1) * p) - (order - 1) * np.exp(order * q)
    reach = order * (math.exp((order - 1) * high) - math.exp((order - 1) * low)) + (order - 1) * (
        math.exp(order * high) - math.exp(order * low)
    )
    n, log = values.size, math.log(2 / level)
    margin = math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 7 * reach * log / (3 * (n - 1))
    least = float(values.mean()) - margin
    bound = math.log(least) / (order - 1) if least > 1 else 0.0
    return RenyiEstimate(bound, order, confidence, n)


def _cut(p: Floats, q: Floats) -> tuple[float, float]:
    """Where to cut the ratios: at their extremes, pulled in until the range no longer dwarfs the spread."""
    both = np.concatenate([p, q])
    edge = 3.0 / math.sqrt(both.size)
    low, high = (float(v) for v in np.quantile(both, (edge / 10, 1 - edge / 10)))
    return min(low, 0.0), max(high, 0.0)
