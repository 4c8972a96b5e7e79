"""Figures about a model that read private records: one noisy number each, accounted and recorded."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from dpadmm import checks
from dpadmm.data.schema import Screening
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import compared, labelled, own_words
from dpadmm.estimators.noisy_sums import Asked, ScoresRowsAlone, measured, noisy_sum
from dpadmm.privacy.certificates.sums import bounded_sum
from dpadmm.privacy.protection import Norm
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.statement import Guarantee

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


def private_accuracy(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    delta: float | None = None,
    groups: Any = None,
    view: str = "eavesdropper",
    colluders: int | None = None,
    records_per_person: int | None = None,
    silos_per_person: int | None = None,
    ledger: Any = None,
    random_state: Any = None,
    scores_rows_alone: bool = False,
) -> PrivateScore:
    """Return the share of correct predictions on private records, with noise (C10).

    The count of correct answers gets exact discrete Laplace noise of pure epsilon, or Gaussian noise for (epsilon,
    delta) if delta is given. The model must not depend on these records but through accounted releases, and must score
    each row by itself: one record then changes one answer, which is what the noise hides.

    Parameters
    ----------
    model: a fitted estimator or a `ReleasedModel` of this package; any other with `predict` only with
        scores_rows_alone=True. A `ReleasedModel` refuses empty and unlisted cells; an estimator does what it was told.
    X, y: the records. epsilon > 0; delta None or in (0, 1).
    ledger: path of the ledger of these records, or an open one; groups: the silo of each record, as the ledger knows
        them. records_per_person, silos_per_person: None takes the ledger's, else 1.
    view: "eavesdropper": whoever has all records puts one noise on the sum. "aggregate": every silo of `groups` adds
        its share of one noise to its own part, and the parts are summed under masks (C12); it needs delta.
    colluders: for "aggregate", how many silos may look together with the coordinator; None takes the ledger's, else 1.
    random_state: not None simulates, with a warning.
    scores_rows_alone: your word that `predict` answers for each row by itself, whatever other rows stand beside it (not
        so if it centres, ranks or clusters the rows it is given). The statement keeps it as an assumption.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=9.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> score = private_accuracy(model, X, y, epsilon=1.0)
    >>> 0 <= score.value <= 1, score.privacy.epsilon <= 1.0, score.privacy.delta
    (True, True, 0.0)
    """
    labels = labels_of(model, X, y)
    people = (view, records_per_person, silos_per_person, colluders)
    model = measured(model)
    asked = Asked.of(model, epsilon, delta, people, ledger, random_state, groups, scores_rows_alone)
    found, wanted = compared_answers(model, X, labels)
    hits = found == wanted
    return _noisy_mean(hits.astype(np.int64) * STEPS, asked, X, labels, "the accuracy")


def private_absolute_error(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    largest: float,
    delta: float | None = None,
    groups: Any = None,
    view: str = "eavesdropper",
    colluders: int | None = None,
    records_per_person: int | None = None,
    silos_per_person: int | None = None,
    ledger: Any = None,
    random_state: Any = None,
    scores_rows_alone: bool = False,
) -> PrivateScore:
    """Return the mean of `min(|prediction - y|, largest)` on private records, with noise (C10).

    largest: public bound > 0 of one record's error, for instance the width of the target's bounds. The others as in
    `private_accuracy`.
    """
    top = checks.positive("largest", largest)
    target = labels_of(model, X, y)
    people = (view, records_per_person, silos_per_person, colluders)
    model = measured(model)
    asked = Asked.of(model, epsilon, delta, people, ledger, random_state, groups, scores_rows_alone)
    found, wanted = compared_answers(model, X, target)
    with own_words(model):
        errors = np.abs(np.asarray(found, dtype=np.float64) - wanted.astype(np.float64))
    if not np.all(np.isfinite(errors)):
        raise InputError(
            "The targets or predictions contain values that are not finite. Replace them with a public constant."
        )
    whole = np.rint(np.minimum(errors / top, 1.0) * STEPS).astype(np.int64)
    score = _noisy_mean(whole, asked, X, target, "the mean absolute error")
    return replace(score, value=score.value * top, standard_error=score.standard_error * top)


def labels_of(model: Any, X: Any, y: Any) -> NDArray[Any]:
    """Return y as a vector, one label for each row of X."""
    if not hasattr(model, "predict"):
        raise InputError(f"model must be a fitted estimator with predict, got {type(model).__name__}.")
    with own_words(model):
        labels = column_or_1d(y)
        if not isinstance(model, ScoresRowsAlone):  # the commands' own take rows that are encoded already
            check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)
        check_consistent_length(X, labels)
    return np.asarray(labels)


def compared_answers(model: Any, X: Any, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return predictions and what they should be; for a table with a schema both as its label means them."""
    if isinstance(model, PrivateLinearModel) and model.has_schema:
        with own_words(model):
            return model.compared(X, labels)[:2]
    if isinstance(model, ReleasedModel) and not model.schema.is_array:
        with own_words(model):
            return compared(model, labelled(model, X, labels, model.schema.label.name), Screening())[:2]
    return _predictions(model, X, labels), labels


def _predictions(model: Any, X: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Return one prediction per record. A column would be compared with every label, and one record count n times."""
    with own_words(model):
        found = np.asarray(model.predict(X))
        if found.shape == (len(labels), 1):
            found = found[:, 0]
        if found.shape != labels.shape:
            raise ValueError(f"predict must return one value per record, {len(labels)} in all, got {found.shape}.")
    return found


def _noisy_mean(whole: NDArray[np.int64], asked: Asked, X: Any, y: NDArray[Any], subject: str) -> PrivateScore:
    """Release the sum of whole steps with noise and return it as a mean.

    At most 2^20 n is exact in a float up to n = 2^33; dividing by a power of two is exact too.
    """
    n = len(whole)
    certificate = bounded_sum(
        n_records=n,
        norm=Norm.L1 if asked.delta is None else Norm.L2,
        records_per_person=asked.protection.records_per_person,
        silos_per_person=asked.protection.silos_per_person,
    )
    parts = np.array([[int(whole[rows].sum()) / STEPS] for rows in asked.parts(n)])
    found = noisy_sum(parts, certificate, asked, X, y, subject)
    value = float(np.clip(found.values.item() / n, 0.0, 1.0))
    return PrivateScore(value=value, standard_error=found.noise_std / n, n_records=n, privacy=found.privacy)
