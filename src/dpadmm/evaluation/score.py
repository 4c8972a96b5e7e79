"""How often a model is right, or how far off it is on average: one noisy number, accounted and recorded."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from dpadmm import checks
from dpadmm.core.model import Guarantee, ReleasedModel
from dpadmm.data.schema import Screening
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import compared, labelled, own_words, silo_columns
from dpadmm.evaluation.release import CountedRows, FigureRequest, chosen_model, release_sum
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.ledger import Ledger
from dpadmm.problems.arrays import Floats
from dpadmm.settings import Privacy

STEPS = 2**20
"""Values between 0 and 1 are rounded to this many steps and added as integers, so that no float rounding leaks."""


@dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """A noisy mean: `value` in its possible range, the noise's standard deviation, and what it cost.

    `standard_error` is that of the noise alone, a public number; the sampling error of n records comes on top.
    """

    value: float
    standard_error: float
    n_records: int
    privacy: Guarantee

    def __str__(self) -> str:
        """Return the figure with its noise."""
        return f"{self.value:.4f} +- {self.standard_error:.4f} (noise), {self.n_records} records"


def private_score(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    largest: float | None = None,
    delta: float | None = None,
    groups: Any = None,
    view: str = "eavesdropper",
    privacy: Privacy | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    random_state: Any = None,
    scores_rows_alone: bool = False,
) -> PrivateScore:
    """Return the share of correct predictions, or the mean absolute error, on private records, with noise (C10).

    The sum gets exact discrete Laplace noise of pure epsilon, or Gaussian noise for (epsilon, delta) if delta is given.
    The model must not depend on these records but through accounted releases, and must score each row by itself: one
    record then changes one answer, which is what the noise hides.

    Parameters
    ----------
    model: a fitted estimator or a `ReleasedModel` of this package; any other with `predict` only with
        scores_rows_alone=True. A `ReleasedModel` refuses empty and unlisted cells; an estimator does what it was told.
    X, y: the records. epsilon > 0; delta None or in (0, 1).
    largest: None scores classes. For a number, a public bound > 0 of one record's error, for instance the width of the
        target's bounds; the score is then the mean of `min(|prediction - y|, largest)`.
    ledger: path of the ledger of these records, or an open one; groups: the silo of each record, as the ledger knows
        them. privacy: records_per_person and silos_per_person, where None takes the ledger's, else 1; colluders.
    view: "eavesdropper": whoever has all records puts one noise on the sum. "aggregate": every silo of `groups` adds
        its share of one noise to its own part, and the parts are summed under masks (C12); it needs delta. In
        `privacy`, colluders says how many silos may look together with the coordinator; None takes the ledger's, else
        1.
    random_state: not None simulates, with a warning.
    scores_rows_alone: your word that `predict` answers for each row by itself, whatever other rows stand beside it (not
        so if it centres, ranks or clusters the rows it is given). The statement keeps it as an assumption.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=9.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> score = private_score(model, X, y, epsilon=1.0)
    >>> 0 <= score.value <= 1, score.privacy.epsilon <= 1.0, score.privacy.delta
    (True, True, 0.0)
    """
    most = None if largest is None else checks.positive("largest", largest)
    labels = labels_of(model, X, y)
    model = chosen_model(model)
    target = PureTarget(epsilon) if delta is None else Target(epsilon, delta)
    request = FigureRequest.of(model, target, view, privacy, ledger, random_state, scores_rows_alone=scores_rows_alone)
    found, wanted = predictions_and_labels(model, X, labels)
    rows = CountedRows(len(labels), groups, silo_columns(X, labels, groups))
    if most is None:
        return release_mean((found == wanted).astype(np.float64), 1.0, request, rows, "the accuracy")
    with own_words(model):
        errors = np.abs(np.asarray(found, dtype=np.float64) - wanted.astype(np.float64))
    return release_mean(errors, most, request, rows, "the mean absolute error")


def release_mean(values: Floats, most: float, request: FigureRequest, rows: CountedRows, subject: str) -> PrivateScore:
    """Release the mean of `min(value, most)` of values >= 0 (n,)."""
    if not np.all(np.isfinite(values)):
        raise InputError(
            "The targets or predictions contain values that are not finite. Replace them with a public constant."
        )
    whole = np.rint(np.minimum(values / most, 1.0) * STEPS).astype(np.int64)
    found = release_sum(whole, 1 / STEPS, request, rows, subject)
    value = float(np.clip(found.values.item() / rows.n, 0.0, 1.0)) * most
    return PrivateScore(
        value=value, standard_error=found.noise_std / rows.n * most, n_records=rows.n, privacy=found.privacy
    )


def labels_of(model: Any, X: Any, y: Any) -> NDArray[Any]:
    """Return y as a vector, one label for each row of X."""
    if not hasattr(model, "predict"):
        raise InputError(f"model must be a fitted estimator with predict, got {type(model).__name__}.")
    with own_words(model):
        labels = column_or_1d(y)
        check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)
        check_consistent_length(X, labels)
    return np.asarray(labels)


def predictions_and_labels(model: Any, X: Any, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return predictions and what they should be; for a table with a schema both as its label means them."""
    with own_words(model):
        if isinstance(model, PrivateLinearModel) and model.has_schema:
            return model.compared(X, labels)[:2]
        if isinstance(model, ReleasedModel) and not model.schema.is_array:
            return compared(model, labelled(model, X, labels, model.schema.label.name), Screening())[:2]
        found = np.asarray(model.predict(X))
        if found.shape == (len(labels), 1):  # compared with every label, one record would count n times
            found = found[:, 0]
        if found.shape != labels.shape:
            raise ValueError(f"predict must return one value per record, {len(labels)} in all, got {found.shape}.")
        return found, labels
