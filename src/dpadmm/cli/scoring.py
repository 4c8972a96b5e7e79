"""A saved model at work: scores, predictions in the table's own words, and how often they are right."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from dpadmm.cli.options import TaskWords
from dpadmm.datasets.columns import Label, RealLabel
from dpadmm.datasets.tables import Screening, encode_table
from dpadmm.errors import InputError
from dpadmm.estimators.metrics import PrivateScore, ScoresRowsAlone, private_absolute_error, private_accuracy
from dpadmm.estimators.notices import NoLedgerWarning
from dpadmm.privacy.ledger import ConfirmedLedger
from dpadmm.problems.arrays import Floats, Matrix
from dpadmm.problems.silos import Silos
from dpadmm.reporting.facts import SavedModel


@dataclass(frozen=True)
class Scorer(ScoresRowsAlone):
    """The model on encoded rows, as estimators look at it: `predict` gives encoded labels."""

    weights: Floats
    is_real: bool

    @classmethod
    def of(cls, model: SavedModel) -> "Scorer":
        """Return the scorer of a saved model."""
        return cls(np.array(model.coefficients), model.schema.label.is_real)

    def scores(self, features: Matrix) -> Floats:
        """Return features times weights."""
        return np.asarray(features @ self.weights)

    def predict(self, features: Matrix) -> Floats:
        """Return -1 or +1, or a number in [-1, 1]."""
        scores = self.scores(features)
        return np.clip(scores, -1.0, 1.0) if self.is_real else np.where(scores > 0, 1.0, -1.0)


def predictions(model: SavedModel, frame: pd.DataFrame, where: str, screening: Screening) -> pd.DataFrame:
    """Return one row per row of the table: the prediction and, for logistic regression, its probability.

    A blanked row gets an empty prediction.
    """
    screened = encode_table(model.schema, frame, where, screening, is_labelled=False)
    scores = Scorer.of(model).scores(screened.features)
    table = pd.DataFrame({model.schema.label.name: _worded(model.schema.label, scores)})
    if model.loss.startswith("logistic"):
        table["probability"] = expit(scores)
    table[screened.blank] = None
    return table


def _worded(label: Label, scores: Floats) -> NDArray[np.object_]:
    if isinstance(label, RealLabel):
        return label.decode(scores).astype(object)
    return np.array(label.classes, dtype=object)[(scores > 0).astype(np.intp)]


@dataclass(frozen=True)
class Score:
    """A figure on given records, with that of the best constant answer."""

    name: str
    value: float
    baseline: float


def public_score(model: SavedModel, silos: Silos, blank: NDArray[np.bool_]) -> Score:
    """Return accuracy, or R^2 for a number; reads every label, so the data must be public. Blank rows are left out."""
    labels, found = silos.labels[~blank], Scorer.of(model).predict(silos.features)[~blank]
    if not model.schema.label.is_real:
        share = float((labels > 0).mean())
        return Score("accuracy", float((found == labels).mean()), max(share, 1 - share))
    spread = float(((labels - labels.mean()) ** 2).sum())
    if spread == 0:
        raise InputError("R^2 needs labels that differ; all labels of these rows are equal.")
    return Score("R^2", 1 - float(((labels - found) ** 2).sum()) / spread, 0.0)


@contextmanager
def _without_python_words() -> Iterator[None]:
    """Keep Python's words about a missing ledger off the terminal: the commands have options for it, and say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLedgerWarning)
        yield


@_without_python_words()
def private_score(
    model: SavedModel, silos: Silos, words: TaskWords, ledger: ConfirmedLedger | None
) -> tuple[str, PrivateScore]:
    """Return a noisy figure and its name: accuracy, or the mean absolute error in units of half the target's range."""
    scorer = Scorer.of(model)
    if not scorer.is_real:
        return "accuracy", private_accuracy(
            scorer,
            silos.features,
            silos.labels,
            words.epsilon,
            delta=words.delta,
            max_records_per_person=words.protection.records_per_person,
            max_silos_per_person=words.protection.silos_per_person,
            ledger=ledger,
        )
    return "mean absolute error (half ranges)", private_absolute_error(
        scorer,
        silos.features,
        silos.labels,
        words.epsilon,
        largest=2.0,
        delta=words.delta,
        max_records_per_person=words.protection.records_per_person,
        max_silos_per_person=words.protection.silos_per_person,
        ledger=ledger,
    )
