"""Options that several commands share: strings at the edge."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from dpadmm.errors import InputError

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
        help="Probability that the epsilon bound fails, in (0, 1), well below 1 / records.",
        rich_help_panel=_PRIVACY,
    ),
]
UnitWord = Annotated[
    Literal["record", "person", "user"] | None,
    typer.Option(
        help="What is protected: one record, a person with all their rows (see --person), or a user with all records "
        "of a silo. Default: person with --person, else the ledger's, else record.",
        rich_help_panel=_PRIVACY,
    ),
]
ViewWord = Annotated[
    Literal["eavesdropper", "coordinator", "peer", "public", "aggregate"] | None,
    typer.Option(
        help="Whom it is protected from. The strictest: eavesdropper, who sees every message; aggregate sees only sums "
        "of masked messages. Default: the ledger's, else eavesdropper.",
        rich_help_panel=_PRIVACY,
    ),
]
Colluders = Annotated[
    int | None,
    typer.Option(
        help="With --view aggregate: how many silos may collude with the coordinator. Default: the ledger's, else 1.",
        rich_help_panel=_PRIVACY,
    ),
]
NeighboursWord = Annotated[
    Literal["replace-one", "add-remove"] | None,
    typer.Option(
        help="Neighbouring data sets: one record replaced (sizes are public), or one added or removed (sizes are "
        "secret). Default: the ledger's, else replace-one.",
        rich_help_panel=_PRIVACY,
    ),
]
NominalRecords = Annotated[
    int | None,
    typer.Option(
        help="With add-remove: a public number to use in place of the secret number of records.",
        rich_help_panel=_PRIVACY,
    ),
]
RecordsPerPerson = Annotated[
    int | None,
    typer.Option(
        help="Most records that one person has in a silo. Default: the ledger's, else 1.", rich_help_panel=_PRIVACY
    ),
]
SilosPerPerson = Annotated[
    int | None,
    typer.Option(
        help="Most silos in which one person has records. Default: the ledger's, else 1.", rich_help_panel=_PRIVACY
    ),
]
PersonColumn = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="COLUMN",
        help="Column that says which person a row belongs to. Each person is then protected with all their rows, "
        "which together count as one record.",
        rich_help_panel=_PRIVACY,
    ),
]
Keep = Annotated[
    int | None,
    typer.Option(
        help="With --person: use at most this many rows of a person in each silo (the first ones). Default: all. "
        "The guarantee is the same either way.",
        rich_help_panel=_PRIVACY,
    ),
]
SplitBy = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Split the one file into silos by the values of this column.")
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file written by `dpadmm fit`, `dpadmm federate` or an estimator.")
]
_ABOUT = "For the readers of the report"
Purpose = Annotated[str, typer.Option(help="Why the data are processed.", rich_help_panel=_ABOUT)]
Controller = Annotated[str, typer.Option(help="Who is responsible for the processing.", rich_help_panel=_ABOUT)]
Contact = Annotated[str, typer.Option(help="Whom to ask, such as a data-protection officer.", rich_help_panel=_ABOUT)]
SchemaFile = Annotated[
    Path | None,
    typer.Option(
        "--schema", help="Schema file with public bounds and categories; draft one with `dpadmm schema init`."
    ),
]
Prevalence = Annotated[
    float | None,
    typer.Option(help="Share of the positive class, if it is public; plans are then for it.", rich_help_panel=_MODEL),
]
ExpectedAUC = Annotated[
    float | None,
    typer.Option(
        "--expected-auc",
        help="AUC that a model without privacy is thought to reach, if known from elsewhere; the forecast is for it.",
        rich_help_panel=_MODEL,
    ),
]
ExpectedR2 = Annotated[
    float | None,
    typer.Option(
        "--expected-r2", help="As --expected-auc, if the target is a number: its R^2.", rich_help_panel=_MODEL
    ),
]
AimWord = Annotated[
    Literal["prediction", "inference"],
    typer.Option(
        help="inference: ordinary logistic coefficients with confidence intervals, for a part of the budget.",
        rich_help_panel=_MODEL,
    ),
]
LossWord = Annotated[
    Literal["auto", "logistic", "svm", "huber"],
    typer.Option(help="Loss to minimise. auto: logistic for classes, huber for a number.", rich_help_panel=_MODEL),
]
MultiClassWord = Annotated[
    Literal["auto", "softmax", "one-vs-rest"],
    typer.Option(
        "--multi-class",
        help="For three or more classes: one softmax model, or one per class. auto: what simulations expect more of.",
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
    str, typer.Option("--method", help="Method: auto, or a name from `dpadmm algorithms`.", rich_help_panel=_MODEL)
]
TopologyWord = Annotated[
    Literal["auto", "complete", "ring", "path", "star"],
    typer.Option(help="Which silos talk to each other, for methods without a coordinator.", rich_help_panel=_MODEL),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        help="Weight of the penalty, >= 0. Default: a small ridge, chosen by the planner.", rich_help_panel=_MODEL
    ),
]
L1Ratio = Annotated[
    float,
    typer.Option(help="Share of the L1 norm in the penalty: 0 is ridge, 1 is lasso.", rich_help_panel=_MODEL),
]
ProfileWord = Annotated[
    Literal["auto", "off"],
    typer.Option(
        help="Column profile (noisy counts of the columns, for a small part of the budget): auto, where it pays; or "
        "off.",
        rich_help_panel=_MODEL,
    ),
]
ProfileShare = Annotated[
    float | None,
    typer.Option(
        help="Share of the squared budget m^2 for the column profile, in (0, 1). Default: chosen by the planner.",
        rich_help_panel=_MODEL,
    ),
]
MissingWord = Annotated[
    Literal["error", "fill", "blank"],
    typer.Option(
        help="Missing value: refuse it (error), fill in the column's centre, or blank the row.",
        rich_help_panel=_CELLS,
    ),
]
UnlistedWord = Annotated[
    Literal["error", "zero", "blank"],
    typer.Option(
        help="Category that the schema does not list: refuse it (error), encode it as no category (zero), or blank the "
        "row.",
        rich_help_panel=_CELLS,
    ),
]
OutOfRangeWord = Annotated[
    Literal["clip", "error"],
    typer.Option(
        help="Number outside its bounds: move it to the nearest bound (clip), or refuse it (error).",
        rich_help_panel=_CELLS,
    ),
]


def _option(default: Any, kind: Any, *names: str, **words: Any) -> inspect.Parameter:
    annotation = Annotated[kind, typer.Option(*names, rich_help_panel=_TABLES, **words)]
    name = names[0].removeprefix("--").split("/")[0].replace("-", "_")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_MARK = "Decimal mark of text files, . or , (1.234,5). Default: a point; between semicolons, the mark of each cell."
_HEADER = "Whether the first line names the columns. Without a header they are column1, column2, ..."
_WRITTEN = (
    _option(None, str | None, "--sep", help="Separator of text files: , ; | or tab. Default: that of the header."),
    _option(None, str | None, "--decimal", help=_MARK),
    _option(None, str | None, "--encoding", help="Encoding of text files, such as cp1252. Default: utf-8."),
    _option(None, list[str] | None, "--na-values", metavar="WORD", help="Word for a missing value; may be repeated."),
    _option(None, bool | None, "--header/--no-header", help=_HEADER),
)


Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read Parquet files in passes, in little memory. Left out, files of more than 1 GB of cells are.",
    ),
]


Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Let the workers of a Dask cluster read the Parquet files: tcp://HOST:PORT or tls://HOST:PORT of its "
        "scheduler. They must see the same files. Same model; docs/cluster.md.",
    ),
]


def reads_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how tables are written; it takes them as one value, `written`."""
    given = inspect.signature(command)
    own = [each for each in given.parameters.values() if each.name != "written"]

    @wraps(command)
    def with_options(**values: Any) -> None:
        from dpadmm.cli.terminal import clear_failures

        with clear_failures():
            from dpadmm.data.table_format import TableFormat

            written = TableFormat.of(**{each.name: values.pop(each.name) for each in _WRITTEN})
        command(**values, written=written)

    listed = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + list(_WRITTEN)
    with_options.__signature__ = given.replace(parameters=listed)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in listed}
    return with_options


def weights_of(words: list[str] | None) -> dict[str, float] | None:
    """Return the classes' weights that `--class-weight` gives, None without any."""
    found: dict[str, float] = {}
    for word in words or ():
        name, _, number = word.rpartition("=")
        if name.strip() in found:
            raise InputError(f"--class-weight names {name.strip()!r} twice. Give each class one weight.")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"--class-weight takes CLASS=NUMBER, such as late=2; got {word!r}.") from None
    return found or None
