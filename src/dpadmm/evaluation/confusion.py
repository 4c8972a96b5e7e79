"""A private confusion matrix: which class is predicted as which, of any number of classes, in one release of counts."""

import math
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.core.model import Guarantee, ReleasedModel
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.evaluation.release import CountedRows, FigureRequest, chosen_model, first_rows, release_counts
from dpadmm.evaluation.score import labels_of, predictions_and_labels
from dpadmm.models.measurement import EvaluatedFigure
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.ledger import Ledger
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.settings import Privacy

_VISIBLE = 4.0  # deviations of noise by which what a share is divided by must exceed 0


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
        """Return the share of records that are predicted right; both counts tell it, since their sum is public."""
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


def private_confusion(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    delta: float,
    groups: Any = None,
    persons: Any = None,
    view: str = "eavesdropper",
    privacy: Privacy | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    random_state: Any = None,
) -> PrivateConfusion:
    """Return the confusion matrix of a classifier on private records, with noise (C10).

    A record is one count in two histograms, right or wrong and the matrix, so that no cell's noise grows with the
    number of classes. For two classes `private_evaluation` tells more.

    Parameters
    ----------
    model: a fitted classifier of this package, a search that was fitted, or a `ReleasedModel`. persons: as in
        `private_evaluation`. The others as in `private_score`.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(9.0, 1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> found = private_confusion(model, X, y, epsilon=1.0, delta=1e-6)
    >>> found.accuracy().value > 0.7, found.counts.shape, found.privacy.epsilon <= 1.0
    (True, (2, 2), True)
    """
    model = chosen_model(model)
    if not isinstance(model, PrivateLinearModel | ReleasedModel):
        raise InputError(
            f"private_confusion takes a classifier of this package or its ReleasedModel, got {type(model).__name__}."
        )
    schema = (model.released_ if isinstance(model, PrivateLinearModel) else model).schema
    classes = tuple(schema.label.classes)
    if not classes:
        raise InputError("A confusion matrix is for classes, but this model predicts a number.")
    labels, target = labels_of(model, X, y), Target(epsilon, delta)
    request = FigureRequest.of(model, target, view, privacy, ledger, random_state, has_persons=persons is not None)
    found, wanted = predictions_and_labels(model, X, labels)
    rows, kept = first_rows(X, labels, groups, persons, request.protection)
    # Where the labels are a column of a table, predictions and labels are encoded; else they are the classes.
    known = classes if schema.is_array else encoded_classes(classes)
    return release_confusion(found[kept], wanted[kept], known, classes, request, rows)


def encoded_classes(classes: tuple[Any, ...]) -> tuple[float, ...]:
    """Return what the classes of a schema's label are in encoded labels: -1 and +1, or numbers from 0.

    >>> encoded_classes(("no", "yes")), encoded_classes(("A", "B", "C"))
    ((-1.0, 1.0), (0.0, 1.0, 2.0))
    """
    return (-1.0, 1.0) if len(classes) == 2 else tuple(float(place) for place in range(len(classes)))


def release_confusion(
    found: NDArray[Any],
    wanted: NDArray[Any],
    known: tuple[Any, ...],
    classes: tuple[Any, ...],
    request: FigureRequest,
    rows: CountedRows,
) -> PrivateConfusion:
    """Release the counts of predictions by class; known: the classes as predictions and labels have them.

    A record whose prediction or label is no class, since it was blanked, is wrong, and in no cell of the matrix.
    """
    places, number = {name: place for place, name in enumerate(known)}, len(known)
    truths, answers = (np.array([places.get(each, -1) for each in part.tolist()]) for part in (wanted, found))
    is_right = (truths == answers) & (truths >= 0)
    cells = np.where((truths < 0) | (answers < 0), -1, number * truths + answers)

    def counts(part: Ints) -> Floats:
        matrix = np.bincount(cells[part][cells[part] >= 0], minlength=number**2)
        return np.concatenate([[is_right[part].sum(), (~is_right[part]).sum()], matrix]).astype(np.float64)

    drawn = release_counts(counts, 2, request, rows, "the confusion matrix")
    return PrivateConfusion(
        classes=classes,
        records=rows.n,
        right=(float(drawn.values[0]), float(drawn.values[1])),
        counts=drawn.values[2:].reshape(number, number),
        noise_std=drawn.noise_std,
        privacy=drawn.privacy,
    )
