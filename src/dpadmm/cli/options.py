"""Options that several commands share: those of a fit with the help of `dpadmm.settings`."""

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli.declare import option_of
from dpadmm.settings import OUTPUT, FitSettings, Privacy

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Tables, one per silo (or one with --split-by): CSV and other text, Parquet, Arrow, Excel.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=OUTPUT)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file, as `dpadmm fit --out` writes it.")]
Epsilon = Annotated[float, option_of(FitSettings, "epsilon")]
Delta = Annotated[float, option_of(FitSettings, "delta")]
SplitBy = Annotated[str | None, option_of(FitSettings, "split_by")]
ClassWeights = Annotated[list[str] | None, option_of(FitSettings, "class_weight")]
NominalRecords = Annotated[int | None, option_of(Privacy, "nominal_records")]
