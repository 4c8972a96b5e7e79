"""From attack scores to lower bounds on epsilon that hold at a stated confidence.

An attacker scores every run: high scores speak for world P, low ones for its neighbour Q. A threshold turns scores into
guesses, guesses into error rates, and error rates that are too small for a promise refute it:

    tpr <= e^eps fpr + delta,        tnr <= e^eps fnr + delta                                   (epsilon, delta)
    tpr - fpr <= delta(0)                                                                       any privacy curve
    (tpr + tnr)/2 <= Phi(m/2)                                                                   m-GDP

Each bound is wrong with probability at most `1 - confidence`, whatever the scores are: a poor attack makes it small,
never false. The threshold is chosen on runs that the bound does not use, so that nothing has to be paid for the search.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.curves import Curve, epsilon_of_delta
from dpadmm.problems.arrays import Floats

LEAST_CONFIDENCE = 0.76
"""Below it the step from two error rates to one binomial is not proved (see `advantage_bound`)."""

_FEWEST_RUNS = 20
_MOST_THRESHOLDS = 500
_SHARE_OF_BOTH = 0.9  # of the error probability; "both wrong" is rare and needs little of it
_DIGITS = 9  # scores closer than 1e-9 of their range are one score: rounding must not look like evidence


class How(Enum):
    """What a bound assumes about the mechanism."""

    CLOPPER_PEARSON = "Clopper-Pearson on both error rates; assumes nothing"
    GDP = "advantage of the guesses; assumes that the trade-off curve is Gaussian"
    FAMILY = "advantage of the guesses; assumes the trade-off curve of the same releases at some noise level"


class Guess(Enum):
    """Which of the two inequalities a bound rests on."""

    HIGH = "scores above the threshold betray P"
    LOW = "scores at or below the threshold betray Q"


@dataclass(frozen=True)
class Estimate:
    """A lower bound on epsilon at `delta`, wrong with probability at most `1 - confidence`.

    true_positives of `runs` runs of P, and false_positives of as many of Q, scored above `threshold`: the runs that the
    bound rests on. `m_lower` is the bound on the GDP parameter (None unless `how` is GDP); `guess` says which error
    rates were used (None: both together).
    """

    epsilon_lower: float
    delta: float
    confidence: float
    how: How
    threshold: float
    true_positives: int
    false_positives: int
    runs: int
    m_lower: float | None = None
    guess: Guess | None = None

    @property
    def tpr(self) -> float:
        """Observed share of P's runs that scored above the threshold."""
        return self.true_positives / self.runs

    @property
    def fpr(self) -> float:
        """Observed share of Q's runs that scored above the threshold."""
        return self.false_positives / self.runs

    def refutes(self, epsilon: float) -> bool:
        """Return whether a promise of this epsilon (at the same delta) is refuted."""
        return self.epsilon_lower > epsilon


def clopper_pearson_bound(
    scores_p: ArrayLike, scores_q: ArrayLike, delta: float = 0.0, confidence: float = 0.95
) -> Estimate:
    """Return a lower bound on epsilon for any mechanism, from error rates at one threshold.

    eps >= ln( (tpr - delta) / fpr )  or  ln( (tnr - delta) / fnr ),  each rate at its Clopper-Pearson limit with half
    of the error probability; runs may be paired. Threshold and inequality are chosen on the first third of the runs,
    the bound is computed on the rest.

    Parameters: scores of independent runs in worlds P and Q, at least 20 each (the surplus of the longer one is left
    out); delta in [0, 1); confidence in [0.76, 1).

    >>> rng = np.random.default_rng(0)
    >>> found = clopper_pearson_bound(rng.laplace(1.0, size=40_000), rng.laplace(0.0, size=40_000))
    >>> 0.9 < found.epsilon_lower <= 1.0
    True
    """
    p, q = _checked(scores_p, scores_q)
    level = (1 - checked_confidence(confidence)) / 2
    _delta(delta)
    pilot_size = p.size // 3
    pilot, rest = (p[:pilot_size], q[:pilot_size]), (p[pilot_size:], q[pilot_size:])
    thresholds = _candidates(*pilot)
    n, above = rest[0].size, [_counts_above(part, thresholds) for part in pilot]
    # The pilot's own limits, not those of the larger sample: they keep away from thresholds it knows too little about.
    high = _log_ratio(above[0], above[1], pilot_size, delta, level)
    low = _log_ratio(pilot_size - above[1], pilot_size - above[0], pilot_size, delta, level)
    guess = Guess.HIGH if high.max() >= low.max() else Guess.LOW
    threshold = float(thresholds[int(np.argmax(high if guess is Guess.HIGH else low))])
    tp, fp = (int(np.count_nonzero(part > threshold)) for part in rest)
    hits, errors = (tp, fp) if guess is Guess.HIGH else (n - fp, n - tp)
    bound = float(_log_ratio(np.array([hits]), np.array([errors]), n, delta, level)[0])
    return Estimate(max(0.0, bound), delta, confidence, How.CLOPPER_PEARSON, threshold, tp, fp, n, guess=guess)


def gdp_bound(
    scores_p: ArrayLike,
    scores_q: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    threshold: float | None = None,
    is_paired: bool = False,
) -> Estimate:
    """Return a lower bound on epsilon for a mechanism whose trade-off curve is that of m-GDP, and on m itself.

        (1 + advantage)/2 <= Phi(m/2)   =>   m >= 2 Phi^-1((1 + a)/2),      eps >= eps(m, delta) by C0,

    with `a` the bound of `advantage_bound`; parameters as there, delta in (0, 1).

    >>> rng = np.random.default_rng(0)
    >>> found = gdp_bound(rng.normal(0.5, size=40_000), rng.normal(0.0, size=40_000), delta=1e-5)
    >>> 0.45 < found.m_lower <= 0.5
    True
    """
    checks.open_unit("delta", delta)
    found = advantage_bound(scores_p, scores_q, confidence, threshold, is_paired)
    m = max(0.0, 2 * float(ndtri((1 + found.advantage_lower) / 2)))
    return Estimate(
        epsilon_of_delta(m, delta),
        delta,
        confidence,
        How.GDP,
        found.threshold,
        found.true_positives,
        found.false_positives,
        found.runs,
        m_lower=m,
    )


Family = Callable[[float], Curve]
"""The privacy curve of the same releases with all noise multiplied by a factor."""

_FACTORS = (1 / 16, 256.0)
_STEPS, _CLOSE = 40, 1e-3  # of the search; how near the curve's advantage must come to the one found


def _log_advantage(family: Family, log_factor: float) -> float:
    return math.log(max(family(math.exp(log_factor)).delta(0.0), 1e-300))


def family_bound(advantage: "Advantage", delta: float, family: Family) -> Estimate:
    """Return a lower bound on epsilon for a mechanism that differs from a known one by its level of noise alone.

    The factor is sought at which the curve allows no more than the advantage found, `delta_f(0) <= a`; the bound is the
    epsilon of that curve. Rare events decide about epsilon at a small delta, and no number of runs shows them; what is
    common shows the level of the noise, and that decides about the rare ones. (For Gaussian curves: `gdp_bound`.)

    >>> found = Advantage(0.38, 0.95, 0.0, 700, 300, 1000)
    >>> from dpadmm.privacy.curves import GaussianCurve
    >>> round(family_bound(found, 1e-5, lambda factor: GaussianCurve(1.0 / factor)).epsilon_lower, 2)
    4.33
    """
    low, high = (math.log(factor) for factor in _FACTORS)
    at_high = _log_advantage(family, high)
    goal = math.log(advantage.advantage_lower) if advantage.advantage_lower > 0 else -math.inf
    if goal <= at_high:
        epsilon = 0.0
    else:
        at_low = _log_advantage(family, low)
        for number in range(_STEPS):
            # Nearly a power law: a straight line on these scales, and a halving now and then.
            part = (at_low - goal) / (at_low - at_high) if number % 3 else 0.5
            middle = low + min(max(part, 0.02), 0.98) * (high - low)
            found = _log_advantage(family, middle)
            if found > goal:
                low, at_low = middle, found
            else:
                high, at_high = middle, found
            if goal - at_high < _CLOSE:
                break
        epsilon = family(math.exp(high)).epsilon(delta)
    return Estimate(
        epsilon,
        delta,
        advantage.confidence,
        How.FAMILY,
        advantage.threshold,
        advantage.true_positives,
        advantage.false_positives,
        advantage.runs,
    )


@dataclass(frozen=True)
class Advantage:
    """A lower bound on `tpr - fpr`, wrong with probability at most `1 - confidence`; counts as in `Estimate`.

    No mechanism with privacy curve delta(eps) allows an advantage above delta(0).
    """

    advantage_lower: float
    confidence: float
    threshold: float
    true_positives: int
    false_positives: int
    runs: int


def advantage_bound(
    scores_p: ArrayLike,
    scores_q: ArrayLike,
    confidence: float = 0.95,
    threshold: float | None = None,
    is_paired: bool = False,
) -> Advantage:
    """Return a lower bound on the attacker's advantage `tpr - fpr`, for any mechanism.

    Independent runs: of n in each world, S are guessed right, with probabilities that average to (1 + advantage)/2.
    Among sums of independent trials with this mean the binomial has the heaviest upper tail (Hoeffding 1956), so one
    Clopper-Pearson limit of S out of 2n bounds it.
    Paired runs: run i of P and run i of Q share their randomness in any way, pairs are independent. The advantage is
    the probability that both are guessed right less the probability that both are guessed wrong; each gets its
    limit. With common noise both are rare, and the bound is much tighter.

    Parameters: scores of at least 20 runs in each world; confidence in [0.76, 1). threshold: fixed in advance, such as
    0 for likelihood ratios; None takes the most accurate one on a tenth of the runs (at least 10), which the bound
    then leaves out.
    """
    p, q = _checked(scores_p, scores_q)
    level = 1 - checked_confidence(confidence)
    if threshold is None:
        pilot = max(10, p.size // 10)
        threshold = _most_accurate(p[:pilot], q[:pilot])
        p, q = p[pilot:], q[pilot:]
    n, is_hit, is_miss = p.size, p > threshold, q > threshold
    tp, fp = int(np.count_nonzero(is_hit)), int(np.count_nonzero(is_miss))
    if is_paired:
        both, neither = np.count_nonzero(is_hit & ~is_miss), np.count_nonzero(~is_hit & is_miss)
        surely = _lower_limit(np.array([both]), n, _SHARE_OF_BOTH * level)
        at_most = 1 - _lower_limit(np.array([n - neither]), n, (1 - _SHARE_OF_BOTH) * level)
        advantage = float((surely - at_most)[0])
    else:
        advantage = 2 * float(_lower_limit(np.array([tp + n - fp]), 2 * n, level)[0]) - 1
    return Advantage(max(0.0, advantage), confidence, threshold, tp, fp, n)


Estimator = Callable[[ArrayLike, ArrayLike, float, float], Estimate]
"""(scores_p, scores_q, delta, confidence) -> Estimate."""


def _log_ratio(hits: Floats, errors: Floats, n: int, delta: float, level: float) -> Floats:
    """Return `ln((hit rate at its lower limit - delta) / (error rate at its upper limit))`, -inf where it is none."""
    rate = _lower_limit(hits, n, level) - delta
    error = 1 - _lower_limit(n - np.asarray(errors), n, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rate > 0, np.log(np.maximum(rate, 0)) - np.log(error), -math.inf)


def _lower_limit(successes: Floats, n: int, level: float) -> Floats:
    """Return the Clopper-Pearson lower limits of success rates, wrong with probability `level` each."""
    k = np.clip(np.asarray(successes, dtype=np.float64), 0, n)
    safe = np.maximum(k, 1e-12)
    return np.where(k > 0, betaincinv(safe, n - k + 1, level), 0.0)


def _candidates(p: Floats, q: Floats) -> Floats:
    """Return thresholds between neighbouring scores, evenly by rank, with both extremes and their surroundings."""
    values = np.unique(np.concatenate([p, q]))
    if values.size == 1:
        return values
    between = values[:-1] + (values[1:] - values[:-1]) / 2
    if between.size > _MOST_THRESHOLDS:
        # Half of them evenly by rank, half crowding towards either end, where rare events are.
        even = np.linspace(0, between.size - 1, _MOST_THRESHOLDS // 2)
        ends = np.geomspace(1, between.size, _MOST_THRESHOLDS // 4) - 1
        places = np.unique(np.concatenate([even, ends, between.size - 1 - ends]).astype(np.int64))
        between = between[places]
    return between


def _counts_above(scores: Floats, thresholds: Floats) -> Floats:
    return (scores.size - np.searchsorted(np.sort(scores), thresholds, side="right")).astype(np.float64)


def _most_accurate(p: Floats, q: Floats) -> float:
    thresholds = _candidates(p, q)
    right = _counts_above(p, thresholds) - _counts_above(q, thresholds)
    return float(thresholds[int(np.argmax(right))])


def _checked(scores_p: ArrayLike, scores_q: ArrayLike) -> tuple[Floats, Floats]:
    """Return both lists equally long; scores that differ by rounding only are made equal."""
    p, q = (np.asarray(scores, dtype=np.float64) for scores in (scores_p, scores_q))
    if p.ndim != 1 or q.ndim != 1 or min(p.size, q.size) < _FEWEST_RUNS:
        raise InputError(
            f"An estimate needs the scores of at least {_FEWEST_RUNS} runs in each world as flat lists, got shapes "
            f"{p.shape} and {q.shape}. Use more runs.",
            setting="runs",
        )
    if np.isnan(p).any() or np.isnan(q).any():
        raise InputError(
            "Some scores are NaN, so runs cannot be ranked. Score every run with a number.", setting="scores"
        )
    n = min(p.size, q.size)
    both = np.clip(np.concatenate([p[:n], q[:n]]), -1e150, 1e150)
    middle = np.quantile(both, (0.25, 0.75))
    step = max(float(middle[1] - middle[0]), float(np.abs(middle).max()), 1e-300) * 10.0**-_DIGITS
    both = np.where(np.abs(both) < 1e15 * step, np.rint(both / step) * step, both)
    return both[:n], both[n:]


def checked_confidence(confidence: float) -> float:
    """Return the confidence if the bounds are proved for it."""
    if not LEAST_CONFIDENCE <= checks.finite("confidence", confidence) < 1:
        raise InputError(
            f"confidence must be at least {LEAST_CONFIDENCE} and below 1, got {confidence!r}.", setting="confidence"
        )
    return float(confidence)


def _delta(delta: float) -> None:
    if not 0 <= checks.finite("delta", delta) < 1:
        raise InputError(f"delta must be at least 0 and below 1, got {delta!r}.", setting="delta")
