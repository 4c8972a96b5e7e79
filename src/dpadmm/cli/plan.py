"""`dpadmm plan`: what would be run and what to expect, from public facts, before any data are touched."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import options
from dpadmm.cli.declare import takes
from dpadmm.errors import InputError
from dpadmm.settings import FitSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from dpadmm.planner.planner import Plan
    from dpadmm.planner.utility import UtilityPoint


_SETTINGS = (
    "epsilon delta schema split_by person view aim method alpha privacy table training "
    "-keep -stream -scratch -cluster -anyway"
)
_BAR = 10  # so that the table is whole on a terminal of 80 columns


@takes(settings=(FitSettings, _SETTINGS))
def plan(
    settings: FitSettings,
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE...]", help="Tables, to be counted.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Instead of tables: records of each silo, as 228,171,57.")] = None,
    dimension: Annotated[int | None, typer.Option(help="Number of encoded features, instead of --schema.")] = None,
    predict: Annotated[Literal["classes", "number"], typer.Option(help="Without a schema: the target.")] = "classes",
    curve: Annotated[bool, typer.Option("--curve/--no-curve", help="Show expected utility against epsilon.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw expected utility against epsilon, .svg or .png.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: options.Json = False,
) -> None:
    """Plan a run: method, rounds, noise, expected utility, and a warning if no useful model can be expected.

    Only public facts are used: the number of records in each silo, the number of features, epsilon and delta.

    Example: dpadmm plan --sizes 228,171,113,57 --dimension 30 --epsilon 1 --delta 1e-5
    """
    from dpadmm.cli.terminal import print_reading
    from dpadmm.data.schema import Schema
    from dpadmm.estimators.tables import PublicFacts
    from dpadmm.models.files import check_writable

    if plot is not None:
        if plot.suffix not in (".svg", ".png"):
            raise InputError(f"--plot must end in .svg or .png, got {str(plot)!r}.")
        check_writable(plot, may_replace=force)
    facts = PublicFacts.of(
        settings,
        files or None,
        None if sizes is None else _counts(sizes),
        dimension,
        None if settings.schema is None else Schema.load(settings.schema),
        is_real=predict == "number",
        on_tables=lambda tables: (
            None if json else print_reading({each.where: each.written for each in tables.values()})
        ),
    )
    made, epsilon = facts.plan(), settings.epsilon
    points: Sequence[UtilityPoint] = ()
    if curve or plot is not None:
        points = facts.curve(made, all_signals=plot is not None)
    if plot is not None:
        from dpadmm.report.figures import draw_utility

        draw_utility(points, epsilon, plot)
    _show(made, points, plot, epsilon, is_json=json)


def _counts(sizes: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in sizes.split(","))
    except ValueError as error:
        raise InputError(
            f"--sizes takes whole numbers separated by commas, such as 228,171,113; got {sizes!r}."
        ) from error


def _show(made: "Plan", points: "Sequence[UtilityPoint]", plot: Path | None, epsilon: float, *, is_json: bool) -> None:
    from dpadmm.cli.terminal import print_json, print_line

    if is_json:
        listed = [
            {"epsilon": p.epsilon, "method": p.method, "is_hopeless": p.is_hopeless} | p.expected.as_json()
            for p in points
        ]
        print_json({"command": "plan", "plot": plot and str(plot), "curve": listed} | made.as_json())
        return
    print_line(made.describe())
    if points:
        from rich.console import Console

        print_line("")
        Console(highlight=False).print(_table(points, epsilon))
    if plot is not None:
        print_line(f"Wrote {plot}.")


def _table(points: "Sequence[UtilityPoint]", epsilon: float) -> "Table":
    """Return a table with one bar per epsilon, from having learned nothing to the model without noise."""
    from rich.table import Table
    from rich.text import Text

    score, judged = points[0].expected.score.value, points[0].expected.judged
    table = Table(
        title=f"Expected {score} against epsilon, if a model without privacy reaches {judged.non_private:g}",
        title_justify="left",
        caption="simulated on synthetic data; learned: share of what a model without noise learns, by the loss",
        caption_justify="left",
    )
    table.add_column("epsilon", justify="right")
    table.add_column(score, justify="right")
    table.add_column("learned", no_wrap=True, min_width=_BAR)
    table.add_column("method", overflow="fold")
    for point in points:
        style = "bold" if point.epsilon == epsilon else "dim" if point.is_hopeless else ""
        filled = round(_BAR * point.expected.judged.learned)
        bar = Text("█" * filled + "·" * (_BAR - filled))
        texts = f"{point.method} (hopeless)" if point.is_hopeless else point.method
        table.add_row(f"{point.epsilon:g}", point.expected.judged.range, bar, texts, style=style)
    return table
