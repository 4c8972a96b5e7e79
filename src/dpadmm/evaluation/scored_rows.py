"""The release of a private evaluation: counts of scores, accounted once, from which all figures follow."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.checks import shown
from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import Categorical
from dpadmm.data.schema import Screening
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import labelled, own_words
from dpadmm.evaluation.release import CountedRows, FigureRequest, chosen_model, first_rows, release_counts
from dpadmm.evaluation.score import labels_of
from dpadmm.evaluation.score_bins import LOG_ODDS_LIMIT, RESOLUTIONS, ScoreBins, counts_of
from dpadmm.evaluation.score_counts import PrivateEvaluation
from dpadmm.models.build import now
from dpadmm.models.predict import read_rows
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.ledger import Ledger
from dpadmm.problems.arrays import Floats
from dpadmm.settings import Privacy

NONE_LISTED = "none of them"
"""The group of records whose cell is empty or not listed, where such cells are let through."""


@dataclass(frozen=True)
class ScoredRows:
    """Scores and labels -1/+1 of records, which were blanked, and the number of each record's group.

    is_screened: rows may have been blanked, or be in no listed group; known before the rows are looked at.
    """

    model: ReleasedModel
    scores: Floats = field(repr=False)
    labels: Floats = field(repr=False)
    blank: NDArray[np.bool_] = field(repr=False)
    by: str = ""
    values: tuple[str, ...] = ()
    group: NDArray[np.intp] | None = field(default=None, repr=False)
    is_screened: bool = False

    @classmethod
    def of(
        cls, model: ReleasedModel, tables: Sequence[tuple[Any, str]], screening: Screening, by: str | None
    ) -> "ScoredRows":
        """Return the rows of labelled tables, each with its name for messages, as the model reads them."""
        check_two_classes(model)
        column = None if by is None else group_column(model, by)
        read = [read_rows(model, table, where, screening, is_labelled=True) for table, where in tables]
        scores = np.concatenate([np.asarray(part.features @ model.weights.T)[:, 0] for part in read])
        codes = None if column is None else np.concatenate([column.read(t[column.name]).codes for t, _ in tables])
        return cls(
            model,
            scores if model.linked is None else model.linked.log_odds(scores),
            np.concatenate([part.labels for part in read]),
            np.concatenate([part.blank for part in read]),
            by or "",
            () if column is None else tuple(map(str, column.categories)),
            codes,
            screening != Screening(out_of_range=screening.out_of_range),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that are told apart."""
        return (*self.values, NONE_LISTED) if self.values and self.is_screened else self.values

    @property
    def bins(self) -> ScoreBins:
        """The grid: of log-odds, or as far as a score can reach, by the norms of the model and of an encoded row."""
        if self.model.has_probabilities:
            return ScoreBins(LOG_ODDS_LIMIT)
        return ScoreBins(float(np.linalg.norm(self.model.weights)) * self.model.encoding.row_norm or 1.0)

    @property
    def histograms(self) -> int:
        """In how many histograms a record is counted: all resolutions, and once more with its group."""
        return len(RESOLUTIONS) * (2 if self.values else 1)

    def take(self, kept: NDArray[np.int64]) -> "ScoredRows":
        """Return some of the rows."""
        group = None if self.group is None else self.group[kept]
        return replace(self, scores=self.scores[kept], labels=self.labels[kept], blank=self.blank[kept], group=group)

    def counts(self, rows: NDArray[np.int64]) -> Floats:
        """Return the counts of these records: of both classes, of both in every group, of blank ones."""
        places, classes = self.bins.places(self.scores[rows]), (self.labels[rows] > 0).astype(np.intp)
        is_blank, parts = self.blank[rows], []
        parts.append(counts_of(places, np.where(is_blank, -1, classes), 2))
        if self.group is not None:
            group = np.where(self.group[rows] < 0, len(self.values), self.group[rows])
            parts.append(counts_of(places, np.where(is_blank, -1, 2 * group + classes), 2 * len(self.groups)))
        if self.is_screened:
            parts.append(np.array([float(is_blank.sum())]))
        return np.concatenate(parts)


def check_two_classes(model: ReleasedModel) -> None:
    """Refuse models whose predictions are numbers, or one of more than two classes."""
    if model.schema.label.is_real or model.n_scores > 1:
        raise InputError(
            "Private evaluations are for models of two classes. Use private_confusion for more classes, "
            "private_score for a number."
        )


def group_column(model: ReleasedModel, by: str) -> Categorical:
    """Return the column that tells groups apart; its values must be listed, so that they are public."""
    listed = [each for each in model.schema.columns if isinstance(each, Categorical)]
    found = next((each for each in listed if each.name == by), None)
    if found is None:
        known = ", ".join(each.name for each in listed) or "none"
        raise InputError(f"Groups need a column whose categories the schema lists ({known}), got {shown(by)}.")
    return found


def private_evaluation(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    delta: float,
    by: str | None = None,
    groups: Any = None,
    persons: Any = None,
    view: str = "eavesdropper",
    privacy: Privacy | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    random_state: Any = None,
) -> PrivateEvaluation:
    """Return noisy counts of a model's scores on private records: AUC, log-loss, calibration and more, paid once (C10).

    Parameters
    ----------
    model: a fitted classifier of this package or a `ReleasedModel`, of two classes.
    X, y: the records. epsilon > 0; delta in (0, 1).
    by: a column whose values the model's schema lists; all figures are then also had for each of them. Noise grows by
        at most sqrt(2) for that, however many groups there are.
    persons: (n,), the person of each row, where people have several: each is protected with all their rows, and counted
        by the first of them in a silo. The others as in `private_score`.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 1))
    >>> y = (X[:, 0] + rng.normal(0, 0.5, 2000) > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=9.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> found = private_evaluation(model, X, y, epsilon=1.0, delta=1e-6)
    >>> found.roc_auc().value > 0.8, found.log_loss().is_visible, found.privacy.epsilon <= 1.0
    (True, True, True)
    """
    model = chosen_model(model)
    if not isinstance(model, PrivateLinearModel | ReleasedModel):
        raise InputError(
            f"private_evaluation takes a classifier of this package or its ReleasedModel, got {type(model).__name__}."
        )
    target = Target(epsilon, delta)
    request = FigureRequest.of(model, target, view, privacy, ledger, random_state, has_persons=persons is not None)
    scored, labels = _scored(model, X, y, by), labels_of(model, X, y)
    rows, kept = first_rows(X, labels, groups, persons, request.protection)
    return release_evaluation(scored.take(kept), request, rows)


def release_evaluation(
    scored: ScoredRows, request: FigureRequest, rows: CountedRows, on: str = ""
) -> PrivateEvaluation:
    """Release the counts of scores. on: which records these are, in words."""
    found = release_counts(scored.counts, scored.histograms, request, rows, "the evaluation")
    label = scored.model.schema.label
    negative, positive = map(str, label.classes)
    return PrivateEvaluation(
        model=scored.model.run,
        label=label.name,
        classes=(negative, positive),
        records=rows.n,
        counts=tuple(found.values.tolist()),
        noise_std=found.noise_std,
        privacy=found.privacy,
        limit=scored.bins.limit,
        has_probabilities=scored.model.has_probabilities,
        by=scored.by,
        groups=scored.groups,
        has_blank=scored.is_screened,
        time=now(),
        on=on,
    )


def _scored(model: Any, X: Any, y: Any, by: str | None) -> ScoredRows:
    """Return the rows as the model scores them."""
    released = model.released_ if isinstance(model, PrivateLinearModel) else model
    check_two_classes(released)
    if not released.schema.is_array:
        screening = model.screening if isinstance(model, PrivateLinearModel) else Screening()
        with own_words(model):
            table = labelled(model, X, y, released.schema.label.name)
            return ScoredRows.of(released, [(table, "X")], screening, by)
    if by is not None:
        raise InputError("by= names a column of a schema; this model was trained on an array of numbers.")
    labels = labels_of(model, X, y)
    with own_words(model):
        scores = np.asarray(model.decision_function(X), dtype=np.float64)
        known = np.asarray(released.schema.label.classes)
        if not np.isin(labels, known).all():
            raise InputError("y contains labels that are not classes of the model.")
    scores = scores if released.linked is None else released.linked.log_odds(scores)
    return ScoredRows(released, scores, np.where(labels == known[1], 1.0, -1.0), np.zeros(len(labels), dtype=bool))
