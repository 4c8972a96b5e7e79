"""`dpadmm evaluate`: how good a model is, on data declared public or by an accounted private figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm.cli import options
from dpadmm.cli.declare import takes
from dpadmm.cli.terminal import (
    print_json,
    print_line,
    print_reading,
    report_other_place,
    warn_of_no_ledger,
)
from dpadmm.errors import InputError
from dpadmm.settings import CellRules, EvaluationSettings, Privacy, TableFormat

if TYPE_CHECKING:
    from dpadmm.data.tables import SiloTable


@takes(
    settings=EvaluationSettings,
    privacy=(Privacy, "records_per_person silos_per_person colluders"),
    cells=CellRules,
    table=TableFormat,
)
def evaluate(
    model: options.ModelFile,
    settings: EvaluationSettings,
    privacy: Privacy,
    cells: CellRules,
    table: TableFormat,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Tables, one per silo (or one with --split-by): CSV and other text, Parquet, Arrow, Excel.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure how good a model is: accuracy, AUC, log-loss and calibration, or R^2 and mean absolute error.

    A figure computed from private records is a release of its own. So either declare the data public (--public WHY), or
    spend --epsilon and --delta, recorded in --ledger. For two classes this releases noisy counts of scores once; they
    are kept in a file, and all further questions to that file (--from) are free. For more classes it releases a
    confusion matrix.

    Training records may only be measured the second way, with their own ledger. So --public also needs --declare, which
    is recorded in the model file and its report. With the ledger of the training data (--ledger), training tables are
    recognised and refused.

    Example: dpadmm evaluate model.json new.csv --epsilon 0.2 --delta 1e-6 --ledger new.ledger --budget 1 --by sex
    """
    from dpadmm.evaluation import evaluate as evaluation

    if settings.earlier is not None and files:
        raise InputError("--from reads no data. Leave out the tables.")

    def show_reading(tables: "Mapping[str, SiloTable]") -> None:
        if not json:
            print_reading({each.where: each.written for each in tables.values()})
            if settings.public is None and settings.ledger is None:
                warn_of_no_ledger()

    found = evaluation.evaluate(model, files or [], settings, privacy, cells, table, on_tables=show_reading)
    if json:
        drawn = {"plot": settings.plot and str(settings.plot)} if found.counts is not None else {}
        print_json({"command": "evaluate"} | evaluation.json_of(found, settings.threshold) | drawn)
    else:
        print_line(evaluation.text_of(found, settings.threshold))
        if settings.plot is not None:
            print_line(f"Drew {settings.plot}.")
    if found.place is not None and found.wanted is not None and found.place != found.wanted:
        report_other_place(found.wanted, found.place)
