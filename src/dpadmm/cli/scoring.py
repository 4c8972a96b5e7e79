"""How often a model is right: exactly, on public records, or by a noisy figure that is paid for."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from dpadmm.data.cells import Screened
from dpadmm.data.schema import Screening
from dpadmm.data.tables import SiloTable
from dpadmm.errors import InputError
from dpadmm.estimators.confusion import PrivateConfusion, buy_confusion, encoded_classes
from dpadmm.estimators.metrics import PrivateScore, private_absolute_error
from dpadmm.estimators.noisy_sums import Asked, ScoresRowsAlone
from dpadmm.estimators.notices import NoLedgerWarning
from dpadmm.estimators.resolved import ResolvedSettings
from dpadmm.privacy.ledger import ConfirmedLedger
from dpadmm.problems.arrays import Floats, Ints, Matrix
from dpadmm.problems.losses import log_loss_of
from dpadmm.problems.silos import stacked
from dpadmm.reporting.measurement import OtherFigure
from dpadmm.reporting.model import ReleasedModel


@dataclass(frozen=True)
class EncodedAnswers(ScoresRowsAlone):
    """The model on rows that are read already; `predict` gives labels as they are encoded."""

    model: ReleasedModel

    def predict(self, features: Matrix) -> Floats:
        """Return -1 or +1 (the number of the class, if there are more), or a number in [-1, 1]."""
        return self.model.rows.encoded_answers(self.model.rows.scores(self.model.weights, features))


def labelled_rows(model: ReleasedModel, tables: Iterable[SiloTable], screening: Screening) -> Screened:
    """Return the rows of all tables, one after the other, as the model reads them."""
    parts = [model.rows.read(table.frame, table.where, screening, is_labelled=True) for table in tables]
    features = stacked([part.features for part in parts])
    labels, blank = np.concatenate([part.labels for part in parts]), np.concatenate([part.blank for part in parts])
    return Screened(features, labels, blank, ())


@dataclass(frozen=True)
class ExactScore:
    """A figure on given records, with that of the best constant answer, and further figures."""

    name: str
    value: float
    baseline: float
    others: tuple[OtherFigure, ...] = ()


def public_score(model: ReleasedModel, rows: Screened) -> ExactScore:
    """Return accuracy, or R^2 for a number; reads every label, so the data must be public. Blank rows are left out."""
    kept = ~rows.blank
    labels, found = rows.labels[kept], EncodedAnswers(model).predict(rows.features)[kept]
    if not model.schema.label.is_real:
        counts = np.unique(labels, return_counts=True)[1]
        scores = model.rows.scores(model.weights, rows.features)[kept]
        others = _ranked(model, scores, labels) if model.rows.problems == 1 and len(counts) == 2 else ()
        return ExactScore("accuracy", float((found == labels).mean()), float(counts.max() / len(labels)), others)
    spread = float(((labels - labels.mean()) ** 2).sum())
    if spread == 0:
        raise InputError("R^2 needs labels that differ; all labels of these rows are equal.")
    return ExactScore("R^2", 1 - float(((labels - found) ** 2).sum()) / spread, 0.0)


def _ranked(model: ReleasedModel, scores: Floats, labels: Floats) -> tuple[OtherFigure, ...]:
    """Return AUC and, if there are probabilities, log-loss of two classes."""
    from sklearn.metrics import roc_auc_score  # late: slow to load

    linked = model.linked
    ranks = scores[:, 0] if linked is None else linked.log_odds(scores[:, 0])
    area = OtherFigure("AUC", float(roc_auc_score(labels, ranks)))
    if linked is None:
        return (area,)
    return area, OtherFigure("log-loss", float(log_loss_of(linked, scores[:, 0], labels).mean()))


@contextmanager
def without_python_words() -> Iterator[None]:
    """Keep Python's words about a missing ledger off the terminal: the commands have options for it, and say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLedgerWarning)
        yield


@without_python_words()
def private_error(
    model: ReleasedModel, rows: Screened, words: ResolvedSettings, ledger: ConfirmedLedger | None, groups: Ints
) -> PrivateScore:
    """Return a noisy mean absolute error in units of half the target's range. groups: the silo of each row."""
    hidden = words.protection
    return private_absolute_error(
        EncodedAnswers(model),
        rows.features,
        rows.labels,
        words.target.epsilon,
        largest=2.0,
        delta=words.target.delta,
        groups=groups,
        view=hidden.view.value,
        colluders=hidden.colluders,
        records_per_person=hidden.records_per_person,
        silos_per_person=hidden.silos_per_person,
        ledger=ledger,
    )


@without_python_words()
def private_matrix(
    model: ReleasedModel, rows: Screened, words: ResolvedSettings, ledger: ConfirmedLedger | None, groups: Ints
) -> PrivateConfusion:
    """Return a noisy confusion matrix of several classes. groups: the silo of each row; blank rows are wrong.

    Where persons are protected, the rows are one of each person in a silo.
    """
    hidden, answers = words.protection, EncodedAnswers(model)
    people = (hidden.view.value, hidden.records_per_person, hidden.silos_per_person, hidden.colluders)
    asked = Asked.of(
        answers, words.target.epsilon, words.target.delta, people, ledger, None, groups, False, hidden.unit
    )
    found = np.where(rows.blank, np.nan, answers.predict(rows.features))
    names = tuple(model.schema.label.classes)
    bought = buy_confusion(found, rows.labels, encoded_classes(names), asked, rows.features, rows.labels)
    return replace(bought, classes=names)
