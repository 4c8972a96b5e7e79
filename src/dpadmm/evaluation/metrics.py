"""Noisy counts of a model's scores, and every figure that follows from them, with what noise and bins leave open.

Scores are log-odds (or, for a model without probabilities, plain scores) on an even grid between -limit and +limit;
those beyond are in the outermost bins. Bin j holds `edge_j < score <= edge_{j+1}`, so a threshold of 0 is an edge.

A record is counted once at each resolution: in one of 2, one of 8, one of 32 and one of 128 bins of its class (and
group). Sums over many bins, of which the area under a ROC curve is made, then gather the noise of a few coarse bins,
not of a hundred fine ones. Least squares joins the resolutions: with A the 0/1 matrix from fine bins to all counts,

    x = (A'A)^{-1} A' y,        cov x = sigma^2 (A'A)^{-1}        for the noisy counts y of one class (and group).

Each figure is a smooth function g of the counts x. With gradient d at the noisy counts, its variances are

    noise      d' cov(x) d                    the noise that was added, known exactly
    bins       a score is known up to its bin: counted as if all records of a bin sat at one unknown place of it
    sampling   sum x d^2 - (sum x d)^2/n      other records from the same population

The *noise interval* holds the first two: in 95 of 100 evaluations of these records it covers the exact figure on
them. The *population interval* holds all three and covers the figure of the population they were drawn from.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.codec import decode, encode
from dpadmm.core.model import Guarantee
from dpadmm.errors import InputError
from dpadmm.models.files import check_facts, read_document, sign_facts, write_or_keep
from dpadmm.models.measurement import EvaluatedFigure
from dpadmm.problems.arrays import Floats

RESOLUTIONS = (2, 8, 32, 128)
"""Bins at every resolution; each divides the next."""

BINS = RESOLUTIONS[-1]
WIDTH = sum(RESOLUTIONS)
"""Counts of one class (and group)."""

LOG_ODDS_LIMIT = 8.0
"""Log-odds beyond it are counted as being there: probabilities below 0.00034 and above 0.99966."""


@dataclass(frozen=True)
class ScoreBins:
    """The public grid of scores.

    >>> bins = ScoreBins(8.0)
    >>> bins.edges[:2].tolist(), bins.places(np.array([-99.0, 0.0, 0.01, 99.0])).tolist()
    ([-8.0, -7.875], [0, 63, 64, 127])
    """

    limit: float = LOG_ODDS_LIMIT

    def __post_init__(self) -> None:
        """Refuse an empty grid."""
        checks.positive("limit", self.limit)

    @property
    def edges(self) -> Floats:
        """The 129 ends of the bins; the outermost bins are open."""
        return np.linspace(-self.limit, self.limit, BINS + 1)

    def places(self, scores: Floats) -> NDArray[np.intp]:
        """Return the fine bin of every score."""
        return np.searchsorted(self.edges[1:-1], scores, side="left").astype(np.intp)

    def share_above(self, threshold: float) -> Floats:
        """Return which part of every bin lies above a threshold: 0 or 1, but for the bin that it cuts."""
        edges = self.edges
        return np.clip((edges[1:] - threshold) / (edges[1] - edges[0]), 0.0, 1.0)


def counts_of(places: NDArray[np.intp], blocks: NDArray[np.intp], n_blocks: int) -> Floats:
    """Return the counts (n_blocks WIDTH,) of records in these fine bins, block by block.

    blocks: number of the class (and group) of every record, -1 for one that is counted nowhere.
    """
    kept = blocks >= 0
    where, what = blocks[kept], places[kept]
    parts = [
        np.bincount(where * size + what * size // BINS, minlength=n_blocks * size).reshape(n_blocks, size)
        for size in RESOLUTIONS
    ]
    return np.hstack(parts).ravel().astype(np.float64)


class LeastSquares(NamedTuple):
    """`solve` (BINS, WIDTH) takes a block's counts to its fine bins; `spread` (BINS, BINS) is their covariance for
    noise of deviation 1; `lean` (BINS,) its row sums, by which a block leans when its total is corrected."""

    solve: Floats
    spread: Floats
    lean: Floats


@cache
def least_squares() -> LeastSquares:
    """Return what joins the resolutions; the same for every block."""
    fine = np.arange(BINS)
    table = np.vstack([np.eye(size)[fine * size // BINS].T for size in RESOLUTIONS])
    spread: Floats = np.linalg.inv(table.T @ table).astype(np.float64)
    return LeastSquares(spread @ table.T, spread, spread.sum(axis=1))


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


@dataclass(frozen=True, kw_only=True)
class PrivateConfusion:
    """Noisy counts of records by class and prediction: paid for once, and free to ask.

    counts: (C, C), as they were released: a row for each class, a column for each prediction. right: how many are
    predicted right and how many are not, counted by themselves, since a sum of C cells would carry their noise.
    """

    classes: tuple[Any, ...]
    records: int
    right: tuple[float, float]
    counts: Floats = field(repr=False)
    noise_std: float
    privacy: Guarantee

    def accuracy(self) -> EvaluatedFigure:
        """Return the share of records that are predicted right; both counts determine it, since their sum is public."""
        value = min(max((self.right[0] + self.records - self.right[1]) / (2 * self.records), 0.0), 1.0)
        noise = self.noise_std / math.sqrt(2) / self.records
        return EvaluatedFigure(value, noise, math.sqrt(noise**2 + value * (1 - value) / self.records))

    def count(self, truth: Any, predicted: Any) -> EvaluatedFigure:
        """Return how many records of one class are predicted as another one, or as the same."""
        found = float(self.counts[self._place(truth), self._place(predicted)])
        share = min(max(found / self.records, 0.0), 1.0)
        error = math.sqrt(self.noise_std**2 + self.records * share * (1 - share))
        return EvaluatedFigure(found, self.noise_std, error, 0.0, float(self.records))

    def recall(self, truth: Any) -> EvaluatedFigure:
        """Return the share of a class's records that are predicted right; not visible where noise hides the class."""
        row = self.counts[self._place(truth)]
        total, others = float(row.sum()), len(row) - 1
        if total <= _VISIBLE * self.noise_std * math.sqrt(len(row)):
            return EvaluatedFigure(math.nan, math.nan, math.nan)
        value = min(max(float(row[self._place(truth)]) / total, 0.0), 1.0)
        noise = self.noise_std * math.sqrt((1 - value) ** 2 + others * value**2) / total
        return EvaluatedFigure(value, noise, math.sqrt(noise**2 + value * (1 - value) / total))

    def _place(self, name: Any) -> int:
        if name not in self.classes:
            raise InputError(f"The classes are {', '.join(map(repr, self.classes))}, got another one.")
        return self.classes.index(name)


@dataclass(frozen=True, kw_only=True)
class PrivateEvaluation:
    """Noisy counts of a model's scores by class (and group): paid for once, and free to ask from then on.

    counts: as they were released, block by block: negatives and positives of all records, then of every group; last the
    records that were blanked, if `has_blank`. limit: of the grid of scores. has_probabilities: scores are log-odds.
    by, groups: the public column by whose values records are grouped, and these values; none if they are not.
    model: the run that trained the model. on: which records these were.
    """

    model: str
    label: str
    classes: tuple[str, str]
    records: int
    counts: tuple[float, ...]
    noise_std: float
    privacy: Guarantee
    limit: float
    has_probabilities: bool
    by: str = ""
    groups: tuple[str, ...] = ()
    has_blank: bool = False
    time: str = ""
    on: str = ""

    def __post_init__(self) -> None:
        """Refuse counts that do not fit their cells."""
        wanted = self._blocks * WIDTH + self.has_blank
        if len(self.counts) != wanted or not self.noise_std > 0 or self.records < 1:
            raise InputError(f"An evaluation of {self._blocks} blocks has {wanted} counts, got {len(self.counts)}.")

    @property
    def bins(self) -> ScoreBins:
        """The public grid of scores."""
        return ScoreBins(self.limit)

    @property
    def _blocks(self) -> int:
        return 2 * (1 + len(self.groups))

    @property
    def _shares(self) -> tuple[float, float]:
        """Variance of all records' counts, and covariance of a group's with them, in units of one block's.

        All records are counted by themselves, W, and as the sum of G groups, T. Least squares moves the groups by
        (W - T)/(1 + G) each, and all records to the sum of theirs: variances fall to G/(1 + G) of a block's.
        """
        many = len(self.groups)
        return (many / (1 + many), 1 / (1 + many)) if many else (1.0, 1.0)

    @cached_property
    def _cells(self) -> Floats:
        """Fine counts (1 + groups, 2, BINS) by least squares, all records first, as many as the public number."""
        joined, blocks = least_squares(), np.array(self.counts[: self._blocks * WIDTH]).reshape(self._blocks, -1)
        found = (blocks @ joined.solve.T).reshape(-1, 2, BINS)
        spread, tie = self._shares
        if self.groups:
            found[1:] += (found[0] - found[1:].sum(axis=0)) / (1 + len(self.groups))
            found[0] = found[1:].sum(axis=0)
        surplus = found[0].sum() + math.fsum(self.counts[self._blocks * WIDTH :]) - self.records
        found[0] -= spread * joined.lean * (surplus / self._total)
        found[1:] -= tie * joined.lean * (surplus / self._total)
        return found

    @property
    def _total(self) -> float:
        """Variance of the number of all records before that is corrected, for noise of deviation 1."""
        return 2 * self._shares[0] * float(least_squares().lean.sum()) + self.has_blank

    def _seen(self, group: str | None) -> SeenCounts:
        if group is not None and group not in self.groups:
            known = f"it has {', '.join(self.groups)}" if self.groups else "it was made without groups"
            raise InputError(f"This evaluation has no group {group!r}: {known}.")
        spread, tie = self._shares
        place, tie = (0, spread) if group is None else (1 + self.groups.index(group), tie)
        return SeenCounts(self.bins, self._cells[place], spread, tie, self.noise_std, self.records, self._total)

    def roc_auc(self, group: str | None = None) -> EvaluatedFigure:
        """Return the area under the ROC curve; scores of one bin count as tied."""
        return self._seen(group).auc()

    def log_loss(self, group: str | None = None) -> EvaluatedFigure:
        """Return the mean of -log of the probability given to the true class, log-odds cut at the limit."""
        self._check_probabilities("log-loss")
        return self._seen(group).log_loss()

    def confusion(self, threshold: float | None = None, group: str | None = None) -> Confusion:
        """Return the confusion matrix where records above the threshold are predicted positive.

        threshold: a probability in (0, 1), .5 if left out; a score, 0 if left out, for a model without probabilities.
        """
        return self._seen(group).confusion(*self._cut(threshold))

    def calibration(self, group: str | None = None, parts: int = 10) -> tuple[CalibrationPart, ...]:
        """Return the share of positives among records of similar predictions, in at most so many parts.

        Neighbouring bins are joined until a part holds its share of the records and stands out of the noise.
        """
        self._check_probabilities("calibration")
        return self._seen(group).calibration(checks.count("parts", parts))

    def roc_curve(self, group: str | None = None) -> RocCurve:
        """Return the ROC curve at the edges of the 32 middle bins."""
        return self._seen(group).roc_curve()

    def _cut(self, threshold: float | None) -> tuple[float, float]:
        if not self.has_probabilities:
            score = 0.0 if threshold is None else checks.finite("threshold", threshold)
            return score, score
        chance = 0.5 if threshold is None else checks.open_unit("threshold", threshold)
        return math.log(chance) - math.log1p(-chance), chance

    def _check_probabilities(self, what: str) -> None:
        if not self.has_probabilities:
            raise InputError(f"This model has no probabilities, so there is no {what}. Ask for AUC or confusion.")

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, elsewhere if the place has become unwritable: it is paid for. Return where it is."""
        return write_or_keep(Path(path), sign_facts(encode(self), kind="evaluation"))

    @classmethod
    def load(cls, path: str | Path) -> "PrivateEvaluation":
        """Read a saved evaluation; `InputError` for anything else."""
        place = Path(path)
        facts = check_facts(place, read_document(place, "evaluation"), kind="evaluation")
        found: PrivateEvaluation = decode(cls, facts, str(path))
        return found
