"""How good a saved model is on tables: exactly where the data are public, else by noisy figures that are accounted.

`evaluate` measures; `text_of` and `json_of` say what was found.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm import checks
from dpadmm.checks import option_name
from dpadmm.codec import encode
from dpadmm.core.budget import LedgerFile
from dpadmm.core.dataset import ledger_columns
from dpadmm.core.model import DataLocation, ReleasedModel
from dpadmm.data.persons import Persons
from dpadmm.data.tables import Screened, SiloTable, check_split, read_silos
from dpadmm.errors import InputError
from dpadmm.estimators.notices import NoLedgerWarning
from dpadmm.estimators.tables import check_person, persons_of
from dpadmm.evaluation.metrics import PrivateConfusion, PrivateEvaluation
from dpadmm.evaluation.private import (
    CountedRows,
    FigureRequest,
    ScoredRows,
    encoded_classes,
    group_column,
    release_confusion,
    release_evaluation,
    release_mean,
    warn_of_figure,
)
from dpadmm.models.build import now
from dpadmm.models.files import check_apart, check_writable
from dpadmm.models.measurement import DEVIATIONS, Basis, EvaluatedFigure, Measurement, OtherFigure
from dpadmm.models.predict import encode_predictions, read_rows
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.ledger import open_for_reading
from dpadmm.privacy.protection import Protection
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import log_loss_of
from dpadmm.problems.silos import stack_rows
from dpadmm.settings import CellRules, EvaluationSettings, Privacy, TableFormat

_DECLARED = {
    "held-out": "Declared by the evaluator: none of these rows was used to train the model.",
    "published": "Declared by the evaluator: all of these rows are published, including any training rows.",
}
_OWN_RECORDS = "These records have trained the model, by their ledger: others may be predicted less well."
_ERROR = "mean absolute error (half ranges)"
_ANY = TableFormat()
_MOST_ERROR = 2.0  # of a prediction, where labels are encoded from -1 to 1


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was measured, and where it is kept.

    measurement: what the model's file keeps of it; None where an earlier evaluation is asked again. counts, matrix:
    what was released. place: of the counts; wanted: where they were to be, if it could be written.
    """

    measurement: Measurement | None = None
    counts: PrivateEvaluation | None = None
    matrix: PrivateConfusion | None = None
    place: Path | None = None
    wanted: Path | None = None
    recorded_in: Path | None = None


def evaluate(
    path: Path,
    files: Sequence[Path],
    settings: EvaluationSettings,
    privacy: Privacy,
    cells: CellRules,
    table: TableFormat = _ANY,
    *,
    on_tables: Callable[[Mapping[str, SiloTable]], None] = lambda _: None,
) -> Evaluation:
    """Measure a model on tables; what could not be answered or written is refused before anything is spent.

    What was paid for is written before anything else is done with it. on_tables: shows the tables as they were read.
    """
    model = ReleasedModel.load(path)
    if settings.earlier is not None:
        found = _load_earlier(model, path, settings)
    else:
        if settings.record:
            check_writable(path, may_replace=True)
        outputs = {"MODEL": path if settings.record else None, "plot": settings.plot, "out": settings.out}
        check_apart(outputs, files if settings.record else [*files, path], settings.ledger)
        _check_questions(model, settings)
        check_split(settings.split_by, model.schema)
        request = _request_of(model, settings, privacy) if settings.public is None else None
        people = request.protection if request else Protection(silos_per_person=privacy.silos_per_person or 1)
        tables = read_silos(files, settings.split_by, table, protection=people)
        on_tables(tables)
        if request is None:
            _check_not_trained_on(model, tables, settings.ledger)
            why, declared = settings.public, settings.declare
            found = Evaluation(measurement=public_measurement(model, tables.values(), cells, why, declared))
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoLedgerWarning)  # the command has options for it, and says so
                found = _measure_privately(model, path, tables, settings, cells, request)
        if settings.record and found.measurement is not None:
            kept = replace(model, measurements=(*model.measurements, found.measurement))
            found = replace(found, recorded_in=kept.save(path))
    if settings.plot is not None and found.counts is not None:
        from dpadmm.evaluation.plot import draw_evaluation  # late: slow to load

        draw_evaluation(found.counts, settings.plot)
    return found


def _request_of(model: ReleasedModel, settings: EvaluationSettings, privacy: Privacy) -> FigureRequest:
    """Return what noisy figures may spend, and whom they protect."""
    ledger = LedgerFile(path=settings.ledger, budget=settings.budget)
    ledger.check(settings.epsilon or 0.0)
    has_persons, target = settings.person is not None, Target(settings.epsilon or 0.0, settings.delta or 0.0)
    if has_persons and model.schema.label.is_real:
        raise InputError(
            f"{option_name('person')} is for models of classes. Nothing was spent. Give one row per person."
        )
    request = FigureRequest.of(model, target, settings.view, privacy, ledger, has_persons=has_persons)
    check_person(settings.person, None, request.protection, None, settings.split_by)
    return request


def _load_earlier(model: ReleasedModel, path: Path, settings: EvaluationSettings) -> Evaluation:
    """Answer from an evaluation that was released before; reads no data and costs nothing."""
    assert settings.earlier is not None
    found = PrivateEvaluation.load(settings.earlier)
    if found.model != model.run:
        raise InputError(
            f"{settings.earlier} is an evaluation of another model, not of {path}. Give the model that was evaluated."
        )
    check_apart({"plot": settings.plot}, [path, settings.earlier])
    _check_questions(model, settings)
    return Evaluation(counts=found, place=settings.earlier, wanted=settings.earlier)


def _measure_privately(
    model: ReleasedModel,
    path: Path,
    tables: Mapping[str, SiloTable],
    settings: EvaluationSettings,
    cells: CellRules,
    request: FigureRequest,
) -> Evaluation:
    """Read the rows, of persons the first in each silo; record, and draw."""
    declaration = _trained_on(model, settings.ledger)
    persons, counted = None, list(tables.values())
    if settings.person is not None:
        persons = persons_of(tables, settings.person)
        persons.check_silos(request.protection.silos_per_person)
        counted = first_of_each(tables, persons)
    silos = [name for name, table in zip(tables, counted, strict=True) for _ in range(table.rows)]
    rows = CountedRows(len(silos), silos, lambda _: ledger_columns(tables, persons))
    warn_of_figure(request, rows)
    kind, counts, matrix, place, wanted = model.schema.label, None, None, None, None
    if has_counts(model):
        parts = [(table.frame, table.where) for table in counted]
        scored = ScoredRows.of(model, parts, cells, settings.by)
        counts = release_evaluation(scored, request, rows, request.describe())
        wanted = settings.out or _new_place(path)
        place, found, privacy = counts.save(wanted), accuracy_of(counts), counts.privacy
    else:
        read = labelled_rows(model, counted, cells)
        answers = encode_predictions(model, np.asarray(read.features @ model.weights.T))
        if kind.is_real:
            errors = np.abs(answers - read.labels)
            error = release_mean(errors, _MOST_ERROR, request, rows, "the mean absolute error")
            found, privacy = (OtherFigure(_ERROR, error.value, error.standard_error), ()), error.privacy
        else:
            names, answers = tuple(kind.classes), np.where(read.blank, np.nan, answers)
            matrix = release_confusion(answers, read.labels, encoded_classes(names), names, request, rows)
            found, privacy = _recalls_of(matrix), matrix.privacy
    figure, others = found
    measured = Measurement(
        score=figure.score,
        value=figure.value,
        records=rows.n,
        on=request.describe(),
        basis=Basis.ACCOUNTED,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        time=now(),
        uncertainty=figure.uncertainty,
        others=others,
        declaration=declaration,
        is_recorded=request.ledger.is_wanted,
    )
    return Evaluation(measurement=measured, counts=counts, matrix=matrix, place=place, wanted=wanted)


def has_counts(model: ReleasedModel) -> bool:
    """Whether scores of this model can be counted: it has one for two classes."""
    return not model.schema.label.is_real and model.n_scores == 1


def _check_questions(model: ReleasedModel, settings: EvaluationSettings) -> None:
    """Refuse what the model cannot answer, and places that cannot be written."""
    strange = settings.stated("threshold", "by", "plot", "out")
    if strange and not has_counts(model):
        raise InputError(f"{option_name(strange[0])} is for models of two classes. Leave it out.")
    if settings.threshold is not None and model.has_probabilities:
        checks.open_unit("threshold", settings.threshold)
    if settings.by is not None:
        group_column(model, settings.by)
    for place in (settings.plot, settings.out):
        if place is not None:
            check_writable(place, may_replace=settings.force)


def public_measurement(
    model: ReleasedModel, tables: Iterable[SiloTable], screening: CellRules, why: str | None, declared: str | None
) -> Measurement:
    """Return accuracy, or R^2 for a number, of data that are public; reads every label. Blank rows are left out.

    why: they are public. declared: how they relate to the training, `held-out` or `published`.
    """
    rows = labelled_rows(model, tables, screening)
    kept = ~rows.blank
    scores, labels = np.asarray(rows.features @ model.weights.T)[kept], rows.labels[kept]
    found = encode_predictions(model, scores)
    others: tuple[OtherFigure, ...] = ()
    if model.schema.label.is_real:
        spread = float(((labels - labels.mean()) ** 2).sum())
        if spread == 0:
            raise InputError("R^2 needs labels that differ; all labels of these rows are equal.")
        name, value, baseline = "R^2", 1 - float(((labels - found) ** 2).sum()) / spread, 0.0
    else:
        counts = np.unique(labels, return_counts=True)[1]
        name, value, baseline = "accuracy", float((found == labels).mean()), float(counts.max() / len(labels))
        if has_counts(model) and len(counts) == 2:
            others = _ranked(model, scores[:, 0], labels)
    return Measurement(
        score=name,
        value=value,
        records=len(labels),
        on=(why or "").strip(),
        basis=Basis.PUBLIC,
        epsilon=0.0,
        delta=0.0,
        time=now(),
        baseline=baseline,
        declaration=_DECLARED[declared or "held-out"],
        others=others,
    )


def _ranked(model: ReleasedModel, scores: Floats, labels: Floats) -> tuple[OtherFigure, ...]:
    """Return AUC and, if there are probabilities, log-loss of two classes."""
    from sklearn.metrics import roc_auc_score  # late: slow to load

    linked = model.linked
    if linked is None:
        return (OtherFigure("AUC", float(roc_auc_score(labels, scores))),)
    area = float(roc_auc_score(labels, linked.log_odds(scores)))
    return OtherFigure("AUC", area), OtherFigure("log-loss", float(log_loss_of(linked, scores, labels).mean()))


def labelled_rows(model: ReleasedModel, tables: Iterable[SiloTable], screening: CellRules) -> Screened:
    """Return the rows of all tables, one after the other, as the model reads them."""
    parts = [read_rows(model, table.frame, table.where, screening, is_labelled=True) for table in tables]
    labels, blank = np.concatenate([part.labels for part in parts]), np.concatenate([part.blank for part in parts])
    return Screened(stack_rows([part.features for part in parts]), labels, blank, ())


def first_of_each(tables: Mapping[str, SiloTable], persons: Persons) -> list[SiloTable]:
    """Return the first row of each person in each silo."""
    kept = zip(tables.values(), replace(persons, keep=1).rows(), strict=True)
    return [replace(table, frame=table.frame.iloc[own.kept]) for table, own in kept]


def _new_place(model: Path) -> Path:
    """Return a new name beside the model's, so that no evaluation that was paid for is replaced."""
    names = (model.with_suffix(f".evaluation{number}.json") for number in ("", *(f"-{k}" for k in range(2, 10**6))))
    return next(name for name in names if not name.exists())


def accuracy_of(found: PrivateEvaluation) -> tuple[OtherFigure, tuple[OtherFigure, ...]]:
    """Return the accuracy, and beside it AUC and log-loss, as far as they are visible.

    A log-loss that noise leaves open is left out; an AUC is marked as open.
    """
    accuracy, others = found.confusion().accuracy, {"AUC": found.roc_auc()}
    if found.has_probabilities:
        others["log-loss"] = found.log_loss()
    seen = {name: each for name, each in others.items() if each.is_determined or (each.is_visible and name == "AUC")}
    first = (accuracy.value, accuracy.noise_error) if accuracy.is_visible else (0.5, 0.5)
    return OtherFigure("accuracy", *first), tuple(OtherFigure(n, e.value, e.noise_error) for n, e in seen.items())


def _recalls_of(found: PrivateConfusion) -> tuple[OtherFigure, tuple[OtherFigure, ...]]:
    """Return the accuracy, and beside it the recalls that are visible."""
    accuracy, recalls = found.accuracy(), {each: found.recall(each) for each in found.classes}
    seen = {f"recall of {name}": each for name, each in recalls.items() if each.is_visible}
    others = tuple(OtherFigure(name, each.value, each.noise_error) for name, each in seen.items())
    return OtherFigure("accuracy", accuracy.value, accuracy.noise_error), others


def _trained_on(model: ReleasedModel, ledger: Path | None) -> str:
    """Say that the records measured have trained the model, where their ledger shows that; else nothing."""
    if ledger is None or model.spending is None or not ledger.exists():
        return ""
    with open_for_reading(ledger) as opened:
        return _OWN_RECORDS if opened.has_head(model.spending.head) else ""


def _check_not_trained_on(model: ReleasedModel, tables: Mapping[str, SiloTable], ledger: Path | None) -> None:
    """Refuse tables that the training ledger knows as its own, split or not; it knows no other parts and orders."""
    if ledger is None:
        return
    if model.location is DataLocation.FEDERATED:
        model.verify(ledger=ledger)
    elif model.spending is None:
        raise InputError(
            "The model was trained without a ledger, so there is none to compare with. Leave out "
            f"{option_name('ledger')}."
        )
    with open_for_reading(ledger) as opened:
        if model.spending is not None and not opened.has_head(model.spending.head):
            raise InputError(f"{ledger} is not the ledger that the model was trained with ({model.spending.ledger}).")
        if any(opened.is_about(ledger_columns(each)) for each in _arrangements(model, tables)):
            raise InputError(
                "These are training records: they are in the ledger. Exact figures would not be covered by the budget. "
                f"Measure them with {option_name('epsilon')} and {option_name('delta')}."
            )


def _arrangements(model: ReleasedModel, tables: Mapping[str, SiloTable]) -> Iterator[Mapping[str, SiloTable]]:
    """Yield the tables as they came, put together, and split by any column that names the silos of the training."""
    import pandas as pd

    yield tables
    frames = [table.frame for table in tables.values()]
    where = next(iter(tables.values())).where
    if len(frames) > 1:  # parts of one file keep its numbers of rows
        yield {"": SiloTable(pd.concat(frames).sort_index(kind="stable"), where)}
    names = {silo.name for silo in model.silos}
    for frame in frames if len(names) > 1 else []:
        for column in frame.columns:
            texts = frame[column].astype(str).str.strip()
            if names <= set(texts):
                yield {name: SiloTable(frame[texts == name].drop(columns=column), where) for name in names}


_HEADER = f"{'':24}{'value':>9}  {'noise interval':>19}  {'population interval':>21}"
_INTERVALS = (
    "The noise interval covers the exact figure of these records; the population\n"
    "interval that of the population they were drawn from (95 % confidence each)."
)


def text_of(found: Evaluation, threshold: float | None) -> str:
    """Return the figures as text."""
    measured, parts = found.measurement, []
    if found.counts is not None:
        parts = [_counts_text(found.counts, threshold), f"Saved in {found.place}."]
        parts.append("Further questions to that file are free: use --from.")
    elif measured is not None:
        parts = [_measurement_text(measured)]
    if found.matrix is not None:
        parts.append(_matrix_text(found.matrix))
    if measured is not None and measured.epsilon and measured.declaration:
        parts.append(measured.declaration)
    return "\n".join(parts)


def json_of(found: Evaluation, threshold: float | None) -> dict[str, Any]:
    """Return what was measured as plain values."""
    record: dict[str, Any] = {"epsilon": 0.0}
    if found.measurement is not None:
        record = {"recorded_in": found.recorded_in and str(found.recorded_in)} | encode(found.measurement)
    if found.counts is not None:
        record |= {"evaluation": str(found.place), "figures": figures_json(found.counts, threshold)}
    if found.matrix is not None:
        record |= {"classes": found.matrix.classes, "confusion": found.matrix.counts.tolist()}
    return record


def _measurement_text(found: Measurement) -> str:
    base = "" if found.baseline is None else f"; the best constant prediction has {found.baseline:.4f}"
    others = "".join(f"; {each}" for each in found.others)
    cost = f", cost epsilon {found.epsilon:.4g} at delta {found.delta:.3g}" if found.epsilon else ""
    figure = str(OtherFigure(found.score, found.value, found.uncertainty))
    noise = " (noise)" if "+-" in figure else ""
    return f"{figure}{noise} on {found.records} records ({found.on}){base}{others}{cost}."


def _matrix_text(matrix: PrivateConfusion) -> str:
    """Return the matrix as a table: a row for each class, a column for each prediction."""
    names = [str(each) for each in matrix.classes]
    wide = max(8, *(len(name) + 2 for name in names))
    rows = zip(names, matrix.counts.tolist(), strict=True)
    return "\n".join(
        [
            "Records of each class (rows) by prediction (columns), each "
            f"+- {DEVIATIONS * matrix.noise_std:.0f} by noise (95 %):",
            " " * wide + "".join(f"{name:>{wide}}" for name in names),
            *(f"{name:<{wide}}" + "".join(f"{count:>{wide}.0f}" for count in row) for name, row in rows),
        ]
    )


def _counts_text(found: PrivateEvaluation, threshold: float | None) -> str:
    """Return the table, group by group, the confusion matrix and the calibration of all records."""
    cost = found.privacy
    lines = [
        f"{found.records} {cost.protection.counted}{cost.protection.counting_note}, "
        f"cost: epsilon {cost.epsilon:.4g} at delta {cost.delta:.3g}.",
        *([f"({found.on})"] if found.on else []),
        "",
        _HEADER,
        *_table(figures_of(found, threshold, None)),
    ]
    for group in found.groups:
        lines += ["", f"{found.by} = {group}", *_table(figures_of(found, threshold, group))]
    at, (no, yes), what = found.confusion(threshold), found.classes, "score"
    if found.has_probabilities:
        what = "probability"
    lines += ["", f"Predicted {yes!r} above a {what} of {at.threshold:g}, else {no!r} (records)"]
    for name in ("true_positives", "false_positives", "false_negatives", "true_negatives"):
        lines.append(f"  {name.replace('_', ' '):22}{_cells(getattr(at, name), 0)}")
    if found.has_probabilities:
        lines += ["", "Share of positives by predicted probability"]
        for part in found.calibration():
            name = f"{part.low:.3f}-{part.high:.3f}, mean {part.predicted:.3f}"
            lines.append(f"  {name:22}{_cells(part.observed, 3)[2 if part.observed.is_visible else 0 :]}")
    return "\n".join([*lines, "", _INTERVALS])


def _table(figures: Mapping[str, EvaluatedFigure]) -> list[str]:
    return [f"  {name:22}{_cells(each) if each.is_determined else f'  {each}'}" for name, each in figures.items()]


def _cells(figure: EvaluatedFigure, digits: int = 4) -> str:
    if not figure.is_visible:
        return "  not visible above the noise"
    noise, population = (
        f"{low:.{digits}f} to {high:.{digits}f}" for low, high in (figure.noise_interval, figure.population_interval)
    )
    return f"{figure.value:9.{digits}f}  {noise:>19}  {population:>21}"


def figures_of(found: PrivateEvaluation, threshold: float | None, group: str | None) -> dict[str, EvaluatedFigure]:
    """Return the figures of one group, or of all records, by their names."""
    at = found.confusion(threshold, group)
    figures = {"AUC": found.roc_auc(group)}
    if found.has_probabilities:
        figures["log-loss"] = found.log_loss(group)
    for name in ("accuracy", "sensitivity", "specificity", "precision"):
        figures[f"{name} at {at.threshold:g}"] = getattr(at, name)
    return figures


def figures_json(found: PrivateEvaluation, threshold: float | None) -> dict[str, Any]:
    """Return every figure with both intervals, of all records and of every group."""

    def one(group: str | None) -> dict[str, Any]:
        at = found.confusion(threshold, group)
        counts = {name: each.as_json() for name, each in vars(at).items() if name != "threshold"}
        record: dict[str, Any] = {
            "roc_auc": found.roc_auc(group).as_json(),
            "confusion": {"threshold": at.threshold} | counts,
        }
        if found.has_probabilities:
            record["log_loss"] = found.log_loss(group).as_json()
            record["calibration"] = [
                vars(part) | {"observed": part.observed.as_json()} for part in found.calibration(group)
            ]
        return record

    return one(None) | {"by": found.by or None, "groups": {group: one(group) for group in found.groups}}
