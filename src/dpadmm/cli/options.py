"""Options that several commands share: those of a fit with the words of `dpadmm.settings`."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dpadmm.cli.declare import option_of, takes
from dpadmm.settings import OUTPUT, CellRules, FitSettings, OutputFiles, Privacy, TextFormat

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
MissingWord = Annotated[Literal["error", "fill", "blank"], option_of(CellRules, "missing")]
UnlistedWord = Annotated[Literal["error", "zero", "blank"], option_of(CellRules, "unlisted")]
OutOfRangeWord = Annotated[Literal["clip", "error"], option_of(CellRules, "out_of_range")]


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how tables are written; it takes them as one `TableFormat`, `written`."""

    @wraps(command)
    def with_format(*, written: TextFormat, **values: Any) -> None:
        from dpadmm.cli.terminal import clear_failures
        from dpadmm.data.reading import TableFormat

        with clear_failures():
            found = TableFormat.of(**vars(written))
        command(**values, written=found)

    return takes(written=TextFormat)(with_format)
