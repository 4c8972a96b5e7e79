"""A private evaluation: noisy counts of scores, paid for once, and every figure that follows from them for free."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dpadmm import checks
from dpadmm.codec import decode, encode
from dpadmm.core.model import Guarantee
from dpadmm.errors import InputError
from dpadmm.evaluation.figures import CalibrationPart, Confusion, RocCurve, SeenCounts
from dpadmm.evaluation.score_bins import BINS, WIDTH, ScoreBins, least_squares
from dpadmm.files import parse_json, read_bytes
from dpadmm.models.files import digest_of, write_or_keep
from dpadmm.models.measurement import EvaluatedFigure
from dpadmm.problems.arrays import Floats

FORMAT, VERSION = "dpadmm-evaluation", 1


@dataclass(frozen=True, kw_only=True)
class PrivateEvaluation:
    """Noisy counts of a model's scores by class (and group): paid for once, and free to ask from then on.

    counts: as they were released, block by block: negatives and positives of all records, then of every group; last the
    records that were blanked, if `has_blank`. limit: of the grid of scores. has_probabilities: scores are log-odds.
    by, groups: the public column by whose values records are told apart, and these values; none if they are not.
    model: the run that trained the model. on: which records these were, in words.
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
        facts = encode(self)
        whole = {"format": FORMAT, "version": VERSION, "digest": digest_of(facts), "evaluation": facts}
        return write_or_keep(Path(path), json.dumps(whole, indent=1, allow_nan=False).encode())

    @classmethod
    def load(cls, path: str | Path) -> "PrivateEvaluation":
        """Read a saved evaluation; `InputError` for anything else."""
        try:
            whole = parse_json(read_bytes(Path(path)))
        except InputError as problem:
            raise InputError(
                f"{path} cannot be read as an evaluation: {problem}. Give a file that `dpadmm evaluate` wrote."
            ) from problem
        if not isinstance(whole, dict) or (whole.get("format"), whole.get("version")) != (FORMAT, VERSION):
            raise InputError(f"{path} is not an evaluation of this package. Give a file that `dpadmm evaluate` wrote.")
        if whole.get("digest") != digest_of(whole.get("evaluation")):
            raise InputError(f"{path} is damaged or was edited: its digest does not match. Restore it from a copy.")
        found: PrivateEvaluation = decode(cls, whole["evaluation"], str(path))
        return found
