"""Options that several commands share: strings at the edge."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

_CELLS, _PRIVACY, _MODEL, _OUTPUT, _TABLES = "Awkward cells", "Privacy", "Model", "Output", "How tables are written"

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Tables, one per silo (or one with --split-by): CSV and other text, Parquet, Arrow, Excel.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", rich_help_panel=_OUTPUT)]
Epsilon = Annotated[float, typer.Option(help="Privacy budget of this run, > 0.", rich_help_panel=_PRIVACY)]
Delta = Annotated[
    float,
    typer.Option(
        help="Chance of a worse loss, in (0, 1), well below 1 / records. No default suits every data set.",
        rich_help_panel=_PRIVACY,
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Write the log there, in 5 files of 10 MB at most, not to stderr."),
]
UnitWord = Annotated[
    Literal["record", "person", "user"] | None,
    typer.Option(
        help="Whose change is hidden: one record, a person with all their rows (see --person), or all records of a "
        "silo's user. Default: person with --person, else the ledger's, else record.",
        rich_help_panel=_PRIVACY,
    ),
]
ViewWord = Annotated[
    Literal["eavesdropper", "coordinator", "peer", "public", "aggregate"] | None,
    typer.Option(
        help="From whom: who sees every message is the strictest view; aggregate: who sees nothing but sums, of masked "
        "messages. Default: the ledger's, else eavesdropper.",
        rich_help_panel=_PRIVACY,
    ),
]
Colluders = Annotated[
    int | None,
    typer.Option(
        help="With --view aggregate: how many silos may look together with the coordinator; every silo that looks "
        "counts. Default: the ledger's, else 1.",
        rich_help_panel=_PRIVACY,
    ),
]
NeighboursWord = Annotated[
    Literal["replace-one", "add-remove"] | None,
    typer.Option(
        help="Neighbouring data: a record replaced (sizes are public), or added or removed (sizes are secret). "
        "Default: the ledger's, else replace-one.",
        rich_help_panel=_PRIVACY,
    ),
]
NominalRecords = Annotated[
    int | None,
    typer.Option(
        help="With add-remove: the public number that stands for that of all records.", rich_help_panel=_PRIVACY
    ),
]
RecordsPerPerson = Annotated[
    int | None,
    typer.Option(help="Most records of one person in a silo. Default: the ledger's, else 1.", rich_help_panel=_PRIVACY),
]
SilosPerPerson = Annotated[
    int | None,
    typer.Option(help="Most silos with the same person. Default: the ledger's, else 1.", rich_help_panel=_PRIVACY),
]
PersonColumn = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="COLUMN",
        help="Column that tells whose a row is, where people have several: each is protected with all their rows, "
        "which count one together.",
        rich_help_panel=_PRIVACY,
    ),
]
Keep = Annotated[
    int | None,
    typer.Option(
        help="With --person: use the first so many rows of a person in a silo; default: all. Changes no guarantee.",
        rich_help_panel=_PRIVACY,
    ),
]
SplitBy = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Make a silo of each value of this column of the one file.")
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model of `dpadmm fit`, of `dpadmm federate` or of an estimator.")
]
_ABOUT = "For the report's reader"
Purpose = Annotated[str, typer.Option(help="Why the data are processed.", rich_help_panel=_ABOUT)]
Controller = Annotated[str, typer.Option(help="Who answers for the processing.", rich_help_panel=_ABOUT)]
Contact = Annotated[str, typer.Option(help="Whom to ask, such as a data-protection officer.", rich_help_panel=_ABOUT)]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", help="Public bounds and categories; draft one with `dpadmm schema init`."),
]
LossWord = Annotated[
    Literal["auto", "logistic", "svm", "huber"],
    typer.Option(help="auto: logistic for classes, huber for a number.", rich_help_panel=_MODEL),
]
MultiClassWord = Annotated[
    Literal["auto", "softmax", "one-vs-rest"],
    typer.Option(
        "--multi-class",
        help="More than two classes: one softmax model, or one for each class. auto: softmax where it is certified.",
        rich_help_panel=_MODEL,
    ),
]
ClassWeights = Annotated[
    list[str] | None,
    typer.Option(
        "--class-weight",
        metavar="CLASS=WEIGHT",
        help="Count records of this class by a public weight, 1 if not named; may be repeated.",
        rich_help_panel=_MODEL,
    ),
]
MethodWord = Annotated[
    str, typer.Option("--method", help="auto, or a name from `dpadmm algorithms`.", rich_help_panel=_MODEL)
]
TopologyWord = Annotated[
    Literal["auto", "complete", "ring", "path", "star"],
    typer.Option(help="Which silos talk, for methods of peers.", rich_help_panel=_MODEL),
]
Alpha = Annotated[
    float | None,
    typer.Option(help="Weight of your own penalty, >= 0; else the planner adds a small ridge.", rich_help_panel=_MODEL),
]
L1Ratio = Annotated[
    float, typer.Option(help="Share of the penalty that is |w|_1: 0 ridge, 1 lasso.", rich_help_panel=_MODEL)
]
ProfileWord = Annotated[
    Literal["auto", "off"],
    typer.Option(
        help="Count columns first, with noise, for a small part of the budget where that pays; or never.",
        rich_help_panel=_MODEL,
    ),
]
ProfileShare = Annotated[
    float | None,
    typer.Option(help="Its part of the squared budget m^2, in (0, 1); else the planner's.", rich_help_panel=_MODEL),
]
MissingWord = Annotated[
    Literal["error", "fill", "blank"],
    typer.Option(
        help="An empty cell: refuse; fill (the column's centre); blank the row.",
        rich_help_panel=_CELLS,
    ),
]
UnlistedWord = Annotated[
    Literal["error", "zero", "blank"],
    typer.Option(
        help="A category that is not listed: refuse; zero (no category); blank the row.", rich_help_panel=_CELLS
    ),
]
OutOfRangeWord = Annotated[
    Literal["clip", "error"],
    typer.Option(help="A number outside its bounds: move it to the nearest bound; refuse.", rich_help_panel=_CELLS),
]


def _option(default: Any, kind: Any, *names: str, **words: Any) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*names, rich_help_panel=_TABLES, **words)]
    name = names[0].removeprefix("--").split("/")[0].replace("-", "_")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_HEADER = "Whether the first line names the columns. Without: column1, column2, ... from the left."
_WRITTEN = (
    _option(None, str | None, "--sep", help="Between cells of text: , ; | tab. Default: as the file shows."),
    _option(None, str | None, "--decimal", help="Decimal mark of text, . or , (then dots between thousands)."),
    _option(None, str | None, "--encoding", help="Of text, such as cp1252. Default: utf-8, or as its mark says."),
    _option(None, list[str] | None, "--na-values", metavar="WORD", help="Stands for an empty cell; may be repeated."),
    _option(None, bool | None, "--header/--no-header", help=_HEADER),
)


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how tables are written; it takes them as one value, `written`."""
    given = inspect.signature(command)
    own = [each for each in given.parameters.values() if each.name != "written"]

    @wraps(command)
    def with_options(**values: Any) -> None:
        from dpadmm.cli.terminal import clear_failures

        with clear_failures():
            from dpadmm.datasets.table_format import TableFormat

            written = TableFormat.of(**{each.name: values.pop(each.name) for each in _WRITTEN})
        command(**values, written=written)

    listed = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + list(_WRITTEN)
    with_options.__signature__ = given.replace(parameters=listed)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in listed}
    return with_options
