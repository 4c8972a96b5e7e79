"""Options that several commands share: strings at the edge, turned into types once, by the functions below."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.errors import InputError, without_controls

if TYPE_CHECKING:
    from dpadmm.networks.graph import Network
    from dpadmm.planning.task import Task
    from dpadmm.privacy.protection import Protection
    from dpadmm.problems.losses import Loss

_CELLS, _PRIVACY, _MODEL, _OUTPUT = "Awkward cells", "Privacy", "Model", "Output"

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="CSV or Parquet tables, one per silo (or one with --split-by).")
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
UnitWord = Annotated[
    Literal["record", "user"] | None,
    typer.Option(
        help="Whose change is hidden: one record, or all records of a silo's user. Default: the ledger's, else record.",
        rich_help_panel=_PRIVACY,
    ),
]
ViewWord = Annotated[
    Literal["eavesdropper", "coordinator", "peer", "public"] | None,
    typer.Option(
        help="From whom: who sees every message is the strictest view. Default: the ledger's, else eavesdropper.",
        rich_help_panel=_PRIVACY,
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
SplitBy = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Make a silo of each value of this column of the one file.")
]
Header = Annotated[
    bool,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file names the columns. Without: column1, column2, ... from the left.",
    ),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", help="Public bounds and categories; draft one with `dpadmm schema init`."),
]
LossWord = Annotated[
    Literal["auto", "logistic", "svm", "huber"],
    typer.Option(help="auto: logistic for two classes, huber for a number.", rich_help_panel=_MODEL),
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
MissingWord = Annotated[
    Literal["error", "fill", "blank"],
    typer.Option(
        help="An empty cell: refuse; fill (typical value, or no category); blank the row.",
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


def print_notes(notes: Iterable[str]) -> None:
    """Tell the data's holder what was done with awkward cells."""
    for note in notes:
        typer.echo(without_controls(f"Note (for the data's holder, not for publication): {note}"), err=True)


@dataclass(frozen=True, kw_only=True)
class TaskWords:
    """What the options say about a task, before the silos are known."""

    epsilon: float
    delta: float
    protection: "Protection"
    loss: str = "auto"
    method: str = "auto"
    topology: str = "auto"
    alpha: float | None = None
    l1_ratio: float = 0.0

    def method_name(self) -> str | None:
        """Return the registry's name of the method, None where the planner chooses."""
        from dpadmm.estimators.validation import method_name

        return method_name(self.method)

    def task(self, sizes: tuple[int, ...], dimension: int, row_norm: float, is_real: bool) -> "Task":
        """Return the task for silos of these sizes; `is_real` says that the target is a number."""
        from dpadmm import checks
        from dpadmm.estimators.validation import penalty_of
        from dpadmm.planning.task import Task
        from dpadmm.privacy.calibration import Target

        epsilon, delta = checks.positive("--epsilon", self.epsilon), checks.open_unit("--delta", self.delta)
        return Task(
            sizes=sizes,
            dimension=dimension,
            loss=loss_of(self.loss, is_real=is_real),
            target=Target(epsilon, delta),
            protection=self.protection,
            network=self._network(len(sizes)),
            regulariser=penalty_of(self.alpha, self.l1_ratio),
            row_norm=row_norm,
        )

    def _network(self, n_silos: int) -> "Network | None":
        from dpadmm.estimators.validation import network_of

        if self.topology != "auto" and n_silos < 2:
            raise InputError(f"--topology {self.topology} needs at least 2 silos, got 1. Leave it out.")
        return network_of(self.topology, n_silos)


def protection_of(
    ledger: Path | None,
    unit: str | None,
    view: str | None,
    records_per_person: int | None,
    silos_per_person: int | None,
) -> "Protection":
    """Return what the options say about people and observers; what they leave out is the ledger's, if it is there."""
    from dpadmm.estimators.bookkeeping import protection_of as kept_in
    from dpadmm.estimators.training import protection_from

    book = ledger if ledger is not None and ledger.exists() else None
    return protection_from(kept_in(book), unit, view, records_per_person, silos_per_person)


def loss_of(word: str, *, is_real: bool) -> "Loss":
    """Return the loss that a word names, if it fits the target."""
    from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge

    losses: dict[str, Loss] = {"logistic": Logistic(), "svm": SmoothedHinge(), "huber": Huber(0.5)}
    chosen = ("huber" if is_real else "logistic") if word == "auto" else word
    if (chosen == "huber") is not is_real:
        kind, fitting = ("a number", "huber") if is_real else ("two classes", "logistic or svm")
        raise InputError(f"--loss {chosen} does not fit: the schema's label has {kind}. Use {fitting}.")
    return losses[chosen]
