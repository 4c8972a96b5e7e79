"""`dpadmm evaluate`: how good a model is, on data declared public or by an accounted private figure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import options
from dpadmm.cli.terminal import clear_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.data.cells import Screened
    from dpadmm.data.persons import Persons
    from dpadmm.data.reading import TableFormat
    from dpadmm.data.schema import Screening
    from dpadmm.data.tables import SiloTable
    from dpadmm.estimators.confusion import PrivateConfusion
    from dpadmm.estimators.ledger_file import LedgerFile
    from dpadmm.estimators.resolved import ResolvedSettings
    from dpadmm.reporting.measurement import Measurement
    from dpadmm.reporting.model import ReleasedModel


class Declared(Enum):
    """What a person may declare about public data, word for word as it is recorded."""

    HELD_OUT = "held-out"
    PUBLISHED = "published"


DECLARATIONS = {
    Declared.HELD_OUT: "Declared by the evaluator: none of these rows was used to train the model.",
    Declared.PUBLISHED: "Declared by the evaluator: all of these rows are published, including any training rows.",
}


_NO_LEDGER = (
    "Warning: no ledger, so nothing records what is spent on these data.\n"
    "         Keep one with --ledger FILE --budget EPSILON.\n"
)


_ERROR = "mean absolute error (half ranges)"
_OWN_RECORDS = "These records have trained the model, by their ledger: others may be predicted less well."


@options.reads_tables
def evaluate(
    model: options.ModelFile,
    written: "TableFormat",
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Tables, one per silo (or one with --split-by): CSV and other text, Parquet, Arrow, Excel.",
        ),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(
            metavar="WHY", help="Declare these data public, and say why. The figures are then exact and cost nothing."
        ),
    ] = None,
    declare: Annotated[
        Declared | None,
        typer.Option(
            help="With --public: held-out (no row was used for training) or published (all rows are public). Recorded "
            "in the model file."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="For private data: what all figures together may spend, > 0.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="With --epsilon: probability that the epsilon bound fails, in (0, 1).")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="With --epsilon: the ledger of these data. With --public: the ledger of the training data."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="For a new ledger: the most epsilon these data may ever spend.")
    ] = None,
    split_by: options.SplitBy = None,
    person: options.PersonColumn = None,
    view: Annotated[
        Literal["eavesdropper", "aggregate"],
        typer.Option(
            help="With --epsilon: whom it is protected from. aggregate sees only sums of masked counts (one file per "
            "silo)."
        ),
    ] = "eavesdropper",
    colluders: options.Colluders = None,
    records_per_person: options.RecordsPerPerson = None,
    silos_per_person: options.SilosPerPerson = None,
    missing: options.MissingWord = "error",
    unlisted: options.UnlistedWord = "error",
    out_of_range: options.OutOfRangeWord = "clip",
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Record the figures in the model file, for the report.")
    ] = True,
    threshold: Annotated[
        float | None,
        typer.Option(help="Two classes: predict the positive class above this probability. Default: 0.5."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Also show figures by group: a column whose categories the schema lists."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw ROC and calibration curves, .svg or .png.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the private evaluation, .json. Default: a new file next to the model."),
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Show figures of an earlier private evaluation: reads no data, costs nothing.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: options.Json = False,
) -> None:
    """Measure how good a model is: accuracy, AUC, log-loss and calibration, or R^2 and mean absolute error.

    A figure computed from private records is a release of its own. So either declare the data public (--public WHY), or
    spend --epsilon and --delta, recorded in --ledger. For two classes this buys noisy counts of scores once; they are
    kept in a file, and all further questions to that file (--from) are free. For more it buys a confusion matrix.

    Training records may only be measured the second way, with their own ledger. So --public also needs --declare, which
    is recorded in the model file and its report. With the ledger of the training data (--ledger), training tables are
    recognised and refused.

    Example: dpadmm evaluate model.json new.csv --epsilon 0.2 --delta 1e-6 --ledger new.ledger --budget 1 --by sex
    """
    with clear_failures():
        from dpadmm.cli.evaluation import Questions, evaluate_privately, keep, measurement_of, show
        from dpadmm.cli.scoring import labelled_rows
        from dpadmm.cli.terminal import print_json, print_line, print_reading
        from dpadmm.codec import encode
        from dpadmm.data.schema import Screening
        from dpadmm.data.tables import check_split, read_silos
        from dpadmm.estimators.ledger_file import LedgerFile
        from dpadmm.estimators.noisy_sums import check_sizes, check_unit
        from dpadmm.estimators.resolved import ResolvedSettings, protection_from, unit_of
        from dpadmm.front.planning import check_person, persons_of
        from dpadmm.privacy.protection import Protection
        from dpadmm.reporting.files import check_apart, check_writable
        from dpadmm.reporting.model import ReleasedModel
        from dpadmm.settings import FitSettings

        asked = Questions(threshold, by, plot, out)
        if earlier is not None:
            if files or (public, epsilon, delta, ledger, budget, by, out, person) != (None,) * 8:
                raise InputError("--from shows an earlier evaluation. Leave out data, budgets, --by and --out.")
            asked.ask_again(model, earlier, may_replace=force, is_json=json)
            return
        _check_basis(public, declare, epsilon, delta, ledger, budget)
        if public is not None and person is not None:
            raise InputError("--person is for private data (--epsilon); in public data nobody has to be protected.")
        saved, evaluation, matrix, paths = ReleasedModel.load(model), None, None, files or []
        if record:
            check_writable(model, may_replace=True)
        outputs = {"MODEL": model if record else None, "plot": plot, "out": out}
        check_apart(outputs, paths if record else [*paths, model], ledger)
        asked.check(saved, is_private=public is None, may_replace=force)
        check_split(split_by, saved.schema.columns, saved.schema.label)
        policies, books = Screening.of(missing, unlisted, out_of_range), LedgerFile(path=ledger, budget=budget)
        if public is not None:
            protection = Protection(silos_per_person=silos_per_person or 1)
        else:
            books.check(epsilon or 0.0)
            counts = (records_per_person, silos_per_person, colluders)
            unit = unit_of(None, has_persons=person is not None)
            protection = protection_from(books.protection, unit, view, *counts)
            if person is None:
                is_counted = records_per_person is not None or (ledger is not None and ledger.exists())
                check_unit(protection, saved.guarantee.protection.unit, is_counted=is_counted)
            elif saved.schema.label.is_real:
                raise InputError("--person is for models of classes. Nothing was spent. Give one row per person.")
            check_sizes(protection)
            check_person(person, None, protection, None, split_by)
        tables = read_silos(paths, split_by, written, protection=protection)
        if not json:
            print_reading({each.where: each.written for each in tables.values()})
        if public is not None:
            _check_apart(saved, tables, ledger)
            said = DECLARATIONS[declare] if declare is not None else ""
            found = public_measurement(saved, labelled_rows(saved, tables.values(), policies), public, said)
        else:
            if ledger is None and not json:
                typer.echo(_NO_LEDGER, err=True)
            persons = None if person is None else persons_of(tables, person)
            budgeted = FitSettings(epsilon=epsilon or 0.0, delta=delta or 0.0)
            words = ResolvedSettings(settings=budgeted, protection=protection)
            if persons is not None:
                persons.check_silos(protection.silos_per_person)
            if asked.fit(saved):
                evaluation = keep(evaluate_privately(saved, tables, policies, words, books, by, persons), model, asked)
                found = measurement_of(evaluation.figures, is_recorded=ledger is not None)
            else:
                found, matrix = _private(saved, tables, policies, words, books, persons)
            found = replace(found, declaration=_trained_on(saved, ledger))
        place = replace(saved, measurements=(*saved.measurements, found)).save(model) if record else None
        head = {"command": "evaluate", "recorded_in": place and str(place)} | encode(found)
        if evaluation is not None:
            show(evaluation, asked, head if json else None)
        elif json:
            counted = {} if matrix is None else {"classes": matrix.classes, "confusion": matrix.counts.tolist()}
            print_json(head | counted)
        else:
            print_line(_words(found))
            if matrix is not None:
                print_line(_matrix_words(matrix))
        if found.epsilon and found.declaration and not json:
            print_line(found.declaration)


def _check_basis(
    public: str | None,
    declare: Declared | None,
    epsilon: float | None,
    delta: float | None,
    ledger: Path | None,
    budget: float | None,
) -> None:
    if public is not None and epsilon is not None:
        raise InputError(
            "--public and --epsilon exclude each other: either the data are public, or the figures cost epsilon."
        )
    if public is None and epsilon is None:
        raise InputError(
            'Add --public "WHY" if the data are not private, or --epsilon E --delta D for noisy figures of private '
            "data."
        )
    if epsilon is not None and delta is None:
        raise InputError("--epsilon needs --delta as well, for instance --delta 1e-6.")
    if epsilon is not None and declare is not None:
        raise InputError("--declare is for --public; figures that cost epsilon need no declaration. Leave it out.")
    if public is None:
        return
    if not public.strip():
        raise InputError('--public needs a reason, for instance --public "published by the registry in 2020".')
    if (budget, delta) != (None, None):
        raise InputError("--budget and --delta are for --epsilon; public data spend nothing. Leave them out.")
    if declare is None:
        raise InputError(
            "Exact figures of training records would reveal something about them. With --public, add --declare "
            "held-out (no row was used for training) or --declare published (all rows are published). The declaration "
            "is recorded."
        )
    if declare is Declared.PUBLISHED and ledger is not None:
        raise InputError("Published rows need no ledger. Leave out --ledger, or declare them held-out.")


def _check_apart(model: "ReleasedModel", tables: "Mapping[str, SiloTable]", ledger: Path | None) -> None:
    """Refuse tables that the training ledger knows as its own, split or not; it knows no other parts and orders."""
    from dpadmm.core.dataset import ledger_columns
    from dpadmm.privacy.ledger import open_for_reading

    if ledger is None:
        return
    if model.has_ledgers_of_silos:
        model.verify(ledger=ledger)
    elif model.spending is None:
        raise InputError(
            "The model was trained without a ledger, so there is none to compare with. Leave out --ledger."
        )
    with open_for_reading(ledger) as book:
        if model.spending is not None and not book.has_head(model.spending.head):
            raise InputError(f"{ledger} is not the ledger that the model was trained with ({model.spending.ledger}).")
        if any(book.is_about(ledger_columns(each)) for each in _arrangements(model, tables)):
            raise InputError(
                "These are training records: they are in the ledger. Exact figures would not be covered by the budget. "
                "Measure them with --epsilon and --delta."
            )


def _arrangements(model: "ReleasedModel", tables: "Mapping[str, SiloTable]") -> "Iterator[Mapping[str, SiloTable]]":
    """Yield the tables as they came, put together, and split by any column that names the silos of the training."""
    import pandas as pd

    from dpadmm.data.tables import SiloTable

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


def public_measurement(model: "ReleasedModel", rows: "Screened", why: str, apart: str) -> "Measurement":
    """Return the exact score on data that are declared public, with the reason, and how they relate to the training."""
    from dpadmm.cli.scoring import public_score
    from dpadmm.reporting.measurement import Basis, Measurement
    from dpadmm.reporting.outcome import now

    score = public_score(model, rows)
    return Measurement(
        score=score.name,
        value=score.value,
        records=int((~rows.blank).sum()),
        on=why.strip(),
        basis=Basis.PUBLIC,
        epsilon=0.0,
        delta=0.0,
        time=now(),
        baseline=score.baseline,
        declaration=apart,
        others=score.others,
    )


def _private(
    model: "ReleasedModel",
    tables: "Mapping[str, SiloTable]",
    screening: "Screening",
    words: "ResolvedSettings",
    books: "LedgerFile",
    persons: "Persons | None",
) -> "tuple[Measurement, PrivateConfusion | None]":
    """Return the figure of a number, or the accuracy of several classes with the matrix that was bought."""
    import numpy as np

    from dpadmm.cli.evaluation import counted_tables, what_is_counted
    from dpadmm.cli.scoring import labelled_rows, private_error, private_matrix
    from dpadmm.core.dataset import ledger_columns
    from dpadmm.reporting.measurement import Basis, Measurement, OtherFigure
    from dpadmm.reporting.outcome import now

    counted = counted_tables(tables, persons)
    rows = labelled_rows(model, counted, screening)
    groups = np.repeat(np.arange(len(counted)), [table.rows for table in counted])
    matrix = None
    with books.open(lambda _: ledger_columns(tables, persons), words.target.delta, words.protection) as ledger:
        if model.schema.label.is_real:
            error = private_error(model, rows, words, ledger, groups)
            name, value, noise, privacy = _ERROR, error.value, error.standard_error, error.privacy
        else:
            matrix = private_matrix(model, rows, words, ledger, groups)
            name, value, noise = "accuracy", matrix.accuracy().value, matrix.accuracy().noise_error
            privacy = matrix.privacy
    recalls = {} if matrix is None else {each: matrix.recall(each) for each in matrix.classes}
    found = Measurement(
        score=name,
        value=value,
        records=len(rows.labels),
        on=what_is_counted(words, books),
        basis=Basis.ACCOUNTED,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        time=now(),
        uncertainty=noise,
        others=tuple(
            OtherFigure(f"recall of {each}", figure.value, figure.noise_error)
            for each, figure in recalls.items()
            if figure.is_visible
        ),
        is_recorded=books.path is not None,
    )
    return found, matrix


def _trained_on(model: "ReleasedModel", ledger: Path | None) -> str:
    """Say that the records measured have trained the model, where their ledger shows that; else nothing."""
    from dpadmm.privacy.ledger import open_for_reading

    if ledger is None or model.spending is None or not ledger.exists():
        return ""
    with open_for_reading(ledger) as book:
        return _OWN_RECORDS if book.has_head(model.spending.head) else ""


def _words(found: "Measurement") -> str:
    from dpadmm.reporting.measurement import OtherFigure

    base = "" if found.baseline is None else f"; the best constant prediction has {found.baseline:.4f}"
    others = "".join(f"; {each}" for each in found.others)
    cost = f", cost epsilon {found.epsilon:.4g} at delta {found.delta:.3g}" if found.epsilon else ""
    figure = str(OtherFigure(found.score, found.value, found.uncertainty))
    noise = " (noise)" if "+-" in figure else ""
    return f"{figure}{noise} on {found.records} records ({found.on}){base}{others}{cost}."


def _matrix_words(matrix: "PrivateConfusion") -> str:
    """Return the matrix as a table: a row for each class, a column for each prediction."""
    names, reach = [str(each) for each in matrix.classes], 1.96 * matrix.noise_std
    wide = max(8, *(len(name) + 2 for name in names))
    rows = zip(names, matrix.counts.tolist(), strict=True)
    return "\n".join(
        [
            f"Records of each class (rows) by prediction (columns), each +- {reach:.0f} by noise (95 %):",
            " " * wide + "".join(f"{name:>{wide}}" for name in names),
            *(f"{name:<{wide}}" + "".join(f"{count:>{wide}.0f}" for count in row) for name, row in rows),
        ]
    )
