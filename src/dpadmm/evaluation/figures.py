"""Figures from noisy counts of scores: each with what the noise, the bins and the sampling of records leave open.

Each figure is a smooth function g of the counts x. With gradient d at the noisy counts, its variances are

    noise      d' cov(x) d                    the noise that was added, known exactly
    bins       a score is known up to its bin: counted as if all records of a bin sat at one unknown place of it
    sampling   sum x d^2 - (sum x d)^2/n      other records from the same population

The *noise interval* holds the first two: in 95 of 100 evaluations of these records it covers the exact figure on
them. The *population interval* holds all three and covers the figure of the population they were drawn from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpadmm.evaluation.score_bins import BINS, RESOLUTIONS, ScoreBins, least_squares
from dpadmm.models.measurement import EvaluatedFigure
from dpadmm.problems.arrays import Floats

_VISIBLE = 4.0  # deviations of noise by which what a figure is divided by must exceed 0
_STEPS = 16  # per bin, where a function of the score is averaged over it


@dataclass(frozen=True)
class Confusion:
    """How many records of each class were predicted as what, at one threshold, and the rates that follow."""

    threshold: float
    true_positives: EvaluatedFigure
    false_positives: EvaluatedFigure
    false_negatives: EvaluatedFigure
    true_negatives: EvaluatedFigure
    accuracy: EvaluatedFigure
    sensitivity: EvaluatedFigure
    specificity: EvaluatedFigure
    precision: EvaluatedFigure


@dataclass(frozen=True)
class CalibrationPart:
    """Records with predicted probabilities from `low` to `high`: their mean prediction, and the share of positives."""

    low: float
    high: float
    predicted: float
    observed: EvaluatedFigure
    records: float


@dataclass(frozen=True)
class RocCurve:
    """Both rates at every threshold, from the highest down, with the deviation that the noise gives them."""

    thresholds: Floats
    false_positive_rate: Floats
    true_positive_rate: Floats
    false_positive_error: Floats
    true_positive_error: Floats


_ALL = np.ones((2, BINS))
_NEGATIVES, _POSITIVES = np.repeat([[1.0], [0.0]], BINS, axis=1), np.repeat([[0.0], [1.0]], BINS, axis=1)


@dataclass(frozen=True)
class SeenCounts:
    """The counts x (2, BINS) of one group or of all: negatives, positives.

    For noise of deviation 1: spread: variance of x, in units of one block's; tie: its covariance with the counts of all
    records; total: variance of the number of all records, before that is corrected to `records`.
    """

    bins: ScoreBins
    x: Floats
    spread: float
    tie: float
    noise_std: float
    records: int
    total: float

    def noise_variance(self, d: Floats) -> float:
        """Return d' cov(x) d, the correction of the total counted."""
        joined = least_squares()
        spread = self.spread * float(((d @ joined.spread) * d).sum())
        lean = self.tie * float((d @ joined.lean).sum())
        return self.noise_std**2 * max(spread - lean**2 / self.total, 0.0)

    def figure(self, value: float, d: Floats, bins: float, least: float, most: float) -> EvaluatedFigure:
        """Return the figure with gradient d; bins: the variance for what is not known within bins."""
        noise = self.noise_variance(d) + bins
        sampling = float((self.x * d**2).sum() - (self.x * d).sum() ** 2 / self.records)
        error = math.sqrt(noise + max(sampling, 0.0))
        return EvaluatedFigure(min(max(value, least), most), math.sqrt(noise), error, least, most)

    def is_visible(self, weights: Floats) -> bool:
        """Whether the records of these weights stand out of the noise, so that something may be divided by them."""
        return float((weights * self.x).sum()) > _VISIBLE * math.sqrt(self.noise_variance(weights))

    def count(self, weights: Floats, spread: Floats) -> EvaluatedFigure:
        """Return the number of records of these weights."""
        value, most = float((weights * self.x).sum()), float(self.records)
        return self.figure(value, weights, float(((self.x * spread) ** 2).sum()), 0.0, most)

    def ratio(self, above: Floats, below: Floats, spread: Floats, most: float = 1.0) -> EvaluatedFigure:
        """Return `above x / below x`; spread: deviation of a record's weight above within its bin."""
        if not self.is_visible(below):
            return EvaluatedFigure(math.nan, math.nan, math.nan, 0.0, most)
        whole = float((below * self.x).sum())
        value = float((above * self.x).sum()) / whole
        bins = float(((self.x * spread) ** 2).sum()) / whole**2
        return self.figure(value, (above - value * below) / whole, bins, 0.0, most)

    def auc(self) -> EvaluatedFigure:
        """Return the area under the ROC curve; the order of the two classes within a bin may be any, bin by bin."""
        if not (self.is_visible(_NEGATIVES) and self.is_visible(_POSITIVES)):
            return EvaluatedFigure(math.nan, math.nan, math.nan)
        negatives, positives = self.x
        below = (np.cumsum(negatives) - negatives / 2) / negatives.sum()
        above = 1 - (np.cumsum(positives) - positives / 2) / positives.sum()
        value = float(positives @ below) / float(positives.sum())
        d = np.stack([(above - value) / negatives.sum(), (below - value) / positives.sum()])
        tied = negatives * positives / (negatives.sum() * positives.sum())
        return self.figure(value, d, float((tied**2).sum()) / 12, 0.0, 1.0)

    def log_loss(self) -> EvaluatedFigure:
        """Return the mean of -log of the probability given to the true class."""
        edges = self.bins.edges
        inside = edges[:-1, None] + (edges[1] - edges[0]) * (np.arange(_STEPS) + 0.5) / _STEPS
        losses = np.stack([np.logaddexp(0.0, inside).mean(axis=1), np.logaddexp(0.0, -inside).mean(axis=1)])
        spread = np.abs(np.diff(np.stack([np.logaddexp(0.0, edges), np.logaddexp(0.0, -edges)]), axis=1))
        return self.ratio(losses, _ALL, spread / math.sqrt(12), most=self.bins.limit + 1)

    def confusion(self, cut: float, threshold: float) -> Confusion:
        """Return what is predicted as what where scores above `cut` are predicted positive; `threshold` names it."""
        above, none = self.bins.share_above(cut), np.zeros(BINS)
        found, missed = np.stack([none, above]), np.stack([none, 1 - above])
        alarms, passed = np.stack([above, none]), np.stack([1 - above, none])
        edge = np.sqrt(above * (1 - above))
        of_positives, of_negatives = np.stack([none, edge]), np.stack([edge, none])
        return Confusion(
            threshold,
            self.count(found, of_positives),
            self.count(alarms, of_negatives),
            self.count(missed, of_positives),
            self.count(passed, of_negatives),
            self.ratio(found + passed, _ALL, of_positives + of_negatives),
            self.ratio(found, _POSITIVES, of_positives),
            self.ratio(passed, _NEGATIVES, of_negatives),
            self.ratio(found, found + alarms, of_positives + of_negatives),
        )

    def roc_curve(self) -> RocCurve:
        """Return the ROC curve at the edges of the 32 middle bins."""
        edges, none = self.bins.edges[:: BINS // RESOLUTIONS[-2]][::-1], np.zeros((2, BINS))
        rates = []
        for edge in edges:
            above = self.bins.share_above(float(edge))
            rates.append([self.ratio(above * of, of, none) for of in (_NEGATIVES, _POSITIVES)])
        values = np.array([[(rate.value, rate.noise_error) for rate in pair] for pair in rates])
        return RocCurve(edges, values[:, 0, 0], values[:, 1, 0], values[:, 0, 1], values[:, 1, 1])

    def calibration(self, parts: int) -> tuple[CalibrationPart, ...]:
        """Return the parts from the lowest predictions to the highest."""
        edges = self.bins.edges
        middle = 1 / (1 + np.exp(-(edges[1:] + edges[:-1]) / 2))
        ends = self._ends(parts)
        found = []
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            inside = np.zeros(BINS)
            inside[start:end] = 1.0
            weights = np.maximum(self.x.sum(axis=0), 0.0) * inside
            low, high = (0.0 if start == 0 else _chance(edges[start])), (1.0 if end == BINS else _chance(edges[end]))
            observed = self.ratio(_POSITIVES * inside, _ALL * inside, np.zeros((2, BINS)))
            predicted = float(weights @ middle / weights.sum()) if weights.sum() > 0 else (low + high) / 2
            found.append(CalibrationPart(low, high, predicted, observed, float((self.x * inside).sum())))
        return tuple(found)

    def _ends(self, parts: int) -> Sequence[int]:
        """Return where parts end: each is visible and has its share of the records; what is left joins the last."""
        ends, start, wanted = [], 0, float(self.x.sum()) / parts
        for end in range(1, BINS + 1):
            inside = np.zeros((2, BINS))
            inside[:, start:end] = 1.0
            mass = float((self.x * inside).sum())
            if mass >= wanted and mass > 2 * _VISIBLE * math.sqrt(self.noise_variance(inside)):
                ends.append(end)
                start = end
        return [*ends[:-1], BINS]


def _chance(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))
