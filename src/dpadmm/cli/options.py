"""Options that several commands share: those of a fit with the words of `dpadmm.settings`."""

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli.declare import option_of, takes
from dpadmm.settings import (
    OUTPUT,
    CellRules,
    FitSettings,
    Missing,
    OutOfRange,
    OutputFiles,
    Privacy,
    TableFormat,
    Unlisted,
)

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Tables, one per silo (or one with --split-by): CSV and other text, Parquet, Arrow, Excel.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=OUTPUT)]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file written by `dpadmm fit`, `dpadmm federate` or an estimator.")
]
Epsilon = Annotated[float, option_of(FitSettings, "epsilon")]
Delta = Annotated[float, option_of(FitSettings, "delta")]
SplitBy = Annotated[str | None, option_of(FitSettings, "split_by")]
PersonColumn = Annotated[str | None, option_of(FitSettings, "person")]
ClassWeights = Annotated[list[str] | None, option_of(FitSettings, "class_weight")]
Colluders = Annotated[int | None, option_of(Privacy, "colluders")]
NominalRecords = Annotated[int | None, option_of(Privacy, "nominal_records")]
RecordsPerPerson = Annotated[int | None, option_of(Privacy, "records_per_person")]
SilosPerPerson = Annotated[int | None, option_of(Privacy, "silos_per_person")]
Purpose = Annotated[str, option_of(OutputFiles, "purpose")]
Controller = Annotated[str, option_of(OutputFiles, "controller")]
Contact = Annotated[str, option_of(OutputFiles, "contact")]
MissingWord = Annotated[Missing, option_of(CellRules, "missing")]
UnlistedWord = Annotated[Unlisted, option_of(CellRules, "unlisted")]
OutOfRangeWord = Annotated[OutOfRange, option_of(CellRules, "out_of_range")]


reads_tables = takes(written=TableFormat)
"""Gives a command the options that say how tables are written, as one `TableFormat`."""
