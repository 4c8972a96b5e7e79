"""Error rates against each other: what an attack reached, and what a certified curve allows."""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.privacy.curves import Curve
from dpadmm.problems.arrays import Floats


def operating_points(scores_p: ArrayLike, scores_q: ArrayLike, points: int = 200) -> tuple[Floats, Floats]:
    """Return false positive and false negative rates over thresholds, from (0, 1) to (1, 0); observed, not bounds.

    >>> fpr, fnr = operating_points([1.0, 2.0], [0.0, 1.5])
    >>> tuple(fpr.tolist()), tuple(fnr.tolist())
    ((0.0, 0.0, 0.5, 0.5, 1.0), (1.0, 0.5, 0.5, 0.0, 0.0))
    """
    p, q = (np.sort(np.asarray(scores, dtype=np.float64)) for scores in (scores_p, scores_q))
    values = np.unique(np.concatenate([p, q]))[::-1]
    if values.size > checks.count("points", points, least=2):
        values = values[np.linspace(0, values.size - 1, points).astype(np.int64)]
    thresholds = np.append(values, -math.inf)  # "above" the greatest score: nobody; above -inf: everybody
    fpr = 1 - np.searchsorted(q, thresholds, side="right") / q.size
    fnr = np.searchsorted(p, thresholds, side="right") / p.size
    return fpr, fnr


def certified_tradeoff(curve: Curve, fpr: ArrayLike, epsilons: int = 200) -> Floats:
    """Return the least false negative rate that a privacy curve allows at each false positive rate.

        f(a) = max over eps of  max( 1 - delta(eps) - e^eps a,  e^-eps (1 - delta(eps) - a),  0 )

    The maximum is over a grid of epsilons, so the result is a lower bound of the certified one, and valid.

    >>> from dpadmm.privacy.curves import PureCurve
    >>> certified_tradeoff(PureCurve(1.0), [0.0, 0.5]).round(3).tolist()
    [1.0, 0.184]
    """
    rates = np.asarray(fpr, dtype=np.float64)
    top = _reach(curve)
    grid = np.linspace(0.0, top, checks.count("epsilons", epsilons, least=2))
    rest = 1 - np.array([curve.delta(float(eps)) for eps in grid])
    steep = rest[:, None] - np.exp(grid)[:, None] * rates
    flat = np.exp(-grid)[:, None] * (rest[:, None] - rates)
    return np.maximum(np.maximum(steep, flat).max(axis=0), 0.0)


def _reach(curve: Curve) -> float:
    """Return an epsilon beyond which the curve has nothing to say."""
    for delta in (0.0, 1e-9, 1e-6, 1e-3):
        epsilon = curve.epsilon(delta)
        if math.isfinite(epsilon):
            return max(epsilon, 1e-6)
    return 0.0
