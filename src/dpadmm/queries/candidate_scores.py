"""Several models on the same rows, of which one is chosen by noisy scores (C15).

All models that are compared are made of reserved releases, and so are the scores; the choice follows from these alone
(`docs/proofs/c15.md`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_expit

from dpadmm.core.spec import ReleaseFacts, RunSpec, plan_sum
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import NoisePlan, vector_on_grid
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sums import score_differences
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import AnyLoss, LabelKind, LinkedLoss, Loss, Poisson, Softmax
from dpadmm.problems.silos import Silos

SCORES = MessageKind("scores")
"""Where the scores get their noise."""

STEP = 2.0**-20
"""What a record adds to a score is a whole multiple of this, so that sums are exact."""

_WORST = 50.0  # losses beyond it are as bad as can be: infinities cannot be compared
_WITHIN = 1 - 2.0**-20  # so that no rounding makes a vector longer than its bound


@dataclass(frozen=True, eq=False)
class Comparison:
    """The noisy scores (candidates,) by which one was chosen, the lowest being the best, and the noise in them."""

    chosen: int
    scores: Floats
    noise_std: float


@dataclass(frozen=True, eq=False, kw_only=True)
class CandidateScores:
    """How much worse each candidate's model does on a record than all do on average, summed over the records.

    runs: of the candidates, at least two, with the loss of each. score_bound: the norm to which a record's differences
    are shortened. target: what the comparison alone may spend.
    """

    runs: tuple[RunSpec, ...] = field(repr=False)
    losses: tuple[AnyLoss, ...]
    score_bound: float
    target: Target

    name: ClassVar[str] = "scores"
    kind: ClassVar[MessageKind] = SCORES

    @property
    def reads(self) -> tuple[RunSpec, ...]:
        """The runs of all candidates."""
        return self.runs

    @property
    def round(self) -> int:
        """The one after the last of all runs."""
        return 1 + max(run.setting.rounds for run in self.runs)

    def noise_plan(self, facts: ReleaseFacts, is_secure: bool) -> NoisePlan:
        """Return the releases of the scores."""
        certify = partial(
            score_differences,
            score_bound=self.score_bound,
            protection=facts.protection,
            is_noise_shared=facts.is_pooled,
        )
        on_grid = partial(vector_on_grid, dimension=len(self.runs), shares=facts.shares)
        return plan_sum(SCORES, self.round, self.target, facts, certify, on_grid, is_secure=is_secure)

    def values(self, source: Any, released: Mapping[str, Any]) -> Floats:
        """Return every silo's sums, (silos, candidates)."""
        models = [np.array([done.model(run.output)[:, 0] for done in released[run.name]]) for run in self.runs]
        return score_sums(
            self.losses, [each for each in source.silos if isinstance(each, Silos)], models, self.score_bound
        )

    def read(self, noisy: Floats, noise_std: float, released: Mapping[str, Any]) -> Comparison:
        """Choose the candidate with the lowest score."""
        return Comparison(int(np.argmin(noisy)), noisy, noise_std)


def score_sums(
    losses: Sequence[AnyLoss], silos: Sequence[Silos], models: Sequence[Floats], score_bound: float
) -> Floats:
    """Return every silo's sums (silos, candidates) of how much worse each model does than all do on average.

    silos: one per problem, with its labels. models: of each candidate (problems, d). A record's differences are
    shortened to norm `score_bound`, weighted as in training, and cut to multiples of `STEP` towards zero, so that no
    norm grows (C15).
    """
    labels = silos[0].labels if len(silos) == 1 else np.stack([each.labels for each in silos]).argmax(axis=0)
    columns = []
    for loss, own in zip(losses, models, strict=True):
        weights = own.reshape(loss.n_classes, -1) if isinstance(loss, Softmax) else own
        scores = np.asarray(silos[0].features @ weights.T)
        if silos[0].base_scores is not None:
            scores = scores + silos[0].base_scores[:, None]
        columns.append(record_losses(loss, scores, labels.astype(np.float64)))
    vectors = shorten(np.column_stack(columns), score_bound)
    if silos[0].weights is not None:
        vectors *= silos[0].weights[:, None]
    steps = np.trunc(vectors / STEP).astype(np.int64)
    offsets = silos[0].offsets
    return np.array([steps[a:b].sum(axis=0) for a, b in pairwise(offsets.tolist())]) * STEP


def shorten(losses: Floats, score_bound: float) -> Floats:
    """Return each record's losses (n, K) less their mean, shortened to norm `score_bound`.

    >>> shorten(np.array([[0.1, 0.3], [9.0, 1.0]]), 0.5).round(4).tolist()
    [[-0.1, 0.1], [0.3536, -0.3536]]
    """
    finite = np.clip(np.nan_to_num(losses, nan=_WORST), 0.0, _WORST)
    vectors = finite - finite.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(vectors, axis=1)
    factors = np.minimum(1.0, score_bound * _WITHIN / np.maximum(norms, np.finfo(float).tiny))
    return np.asarray(vectors * factors[:, None])


def record_losses(loss: AnyLoss, scores: Floats, labels: Floats) -> Floats:
    """Return how badly the scores (n, problems) predict each of the labels (n,), lower being better.

    Where the fitted loss has a link: the log-loss of the probabilities that it gives. Numbers: the absolute error, in
    the units of the encoded target. Else 1 for a wrong class and 0 for a right one.

    labels: -1/+1 for one score a record, the numbers of classes for several; or encoded numbers.

    >>> from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
    >>> scores, labels = np.array([[2.0], [0.5]]), np.array([1.0, -1.0])
    >>> [record_losses(each, scores, labels).round(3).tolist() for each in (Logistic(), SmoothedHinge(), Huber(1.0))]
    [[0.127, 0.974], [0.0, 1.0], [1.0, 1.5]]
    """
    if isinstance(loss, Softmax):
        logs = loss.log_probabilities(scores)
        return np.asarray(-logs[np.arange(len(labels)), labels.astype(np.intp)])
    if isinstance(loss, Poisson):
        expected = np.exp(np.minimum(scores[:, 0], math.log(loss.ceiling)))
        return np.abs(2 * expected / loss.ceiling - 1 - labels)
    if loss.target is LabelKind.REALS:
        return np.abs(scores[:, 0] - labels)
    if scores.shape[1] > 1:
        return _against_rest(loss, scores, labels.astype(np.intp))
    margins = scores[:, 0] * labels
    if isinstance(loss, LinkedLoss):
        return np.asarray(-log_expit(loss.log_odds(margins)))
    return (margins <= 0).astype(np.float64)


def _against_rest(loss: Loss, scores: Floats, codes: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Floats:
    """Return the losses of one model for each class, whose probabilities are scaled to sum to 1."""
    places = np.arange(len(codes))
    if not isinstance(loss, LinkedLoss):
        return (scores.argmax(axis=1) != codes).astype(np.float64)
    logs = log_expit(loss.log_odds(scores))
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - logs[places, codes])
