"""`dpadmm plan`: what would be run and what to expect, from public facts, before any data are touched."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import options
from dpadmm.cli.terminal import clear_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from dpadmm.data.table_format import TableFormat
    from dpadmm.planner.plan import Plan
    from dpadmm.planner.planner import UtilityPoint


_BAR = 10  # so that the table is whole on a terminal of 80 columns


@options.reads_tables
def plan(
    epsilon: options.Epsilon,
    delta: options.Delta,
    written: "TableFormat",
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="Tables. Only their rows or persons are counted. Needs --schema."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="Records (or persons) of each silo, such as 228,171,113,57, instead of files."),
    ] = None,
    dimension: Annotated[int | None, typer.Option(help="Number of encoded features, instead of --schema.")] = None,
    schema: options.SchemaFile = None,
    split_by: options.SplitBy = None,
    person: options.PersonColumn = None,
    predict: Annotated[
        Literal["classes", "number"], typer.Option(help="Without a schema: what the target is.")
    ] = "classes",
    unit: options.UnitWord = None,
    view: options.ViewWord = None,
    colluders: options.Colluders = None,
    records_per_person: options.RecordsPerPerson = None,
    silos_per_person: options.SilosPerPerson = None,
    neighbours: options.NeighboursWord = None,
    nominal_records: options.NominalRecords = None,
    aim: options.AimWord = "prediction",
    loss: options.LossWord = "auto",
    multi_class: options.MultiClassWord = "auto",
    method: options.MethodWord = "auto",
    topology: options.TopologyWord = "auto",
    alpha: options.Alpha = None,
    l1_ratio: options.L1Ratio = 0.0,
    profile: options.ProfileWord = "auto",
    profile_share: options.ProfileShare = None,
    prevalence: options.Prevalence = None,
    expected_auc: options.ExpectedAUC = None,
    expected_r2: options.ExpectedR2 = None,
    curve: Annotated[
        bool, typer.Option("--curve/--no-curve", help="Show expected utility against epsilon (takes a little longer).")
    ] = True,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw what remains of weak, moderate and strong signals against epsilon, as .svg or .png."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: options.Json = False,
) -> None:
    """Plan a run: method, rounds, noise, expected utility, and a warning if no useful model can be expected.

    Only public facts are used: the number of records in each silo, the number of features, epsilon and delta.

    Example: dpadmm plan --sizes 228,171,113,57 --dimension 30 --epsilon 1 --delta 1e-5
    """
    with clear_failures():
        from dpadmm.cli.terminal import print_reading
        from dpadmm.data.schema import Schema
        from dpadmm.data.tables import check_split
        from dpadmm.front.asked import TaskWords, check_person, counts_of, protection_of, task_of
        from dpadmm.front.sources import Streaming
        from dpadmm.planner.planner import epsilons_around, utility_curve
        from dpadmm.planner.planner import plan as make_plan
        from dpadmm.planner.task import ProfileRule
        from dpadmm.problems.aims import aim_of

        words = TaskWords(
            epsilon=epsilon,
            delta=delta,
            protection=protection_of(
                None,
                unit,
                view,
                records_per_person,
                silos_per_person,
                colluders,
                neighbours,
                has_persons=person is not None,
            ),
            loss=loss,
            multi_class=multi_class,
            method=method,
            topology=topology,
            alpha=alpha,
            l1_ratio=l1_ratio,
            profile=ProfileRule.of(profile, profile_share),
            nominal_records=nominal_records,
            aim=aim_of(aim),
            prevalence=prevalence,
            expected_auc=expected_auc,
            expected_r2=expected_r2,
        )
        if plot is not None:
            _check_plot(plot, force)
        known = None if schema is None else Schema.load(schema)
        if known is not None:
            check_split(split_by, known.columns, known.label)
        if sizes is None:
            check_person(person, None, words.protection, None, split_by)
        elif person is not None:
            raise InputError("--person names a column of the tables. With --sizes, use --unit person instead.")
        if (sizes is None) is (not files):
            raise InputError(
                "Give either the records of each silo (--sizes 228,171,...) or the tables themselves, not both."
            )
        if sizes is not None:
            counts = _stated(sizes, nominal_records)
        else:
            streaming = Streaming.of(None, written, split_by=split_by, person=person)
            tables = streaming.tables(files or [], split_by, written, words.protection)
            if not json:
                print_reading({each.where: each.written for each in tables.values()})
            counts = counts_of(tables, person, words)
        is_real = predict == "number"
        task = task_of(words, counts, dimension, known, is_real=is_real)
        made = make_plan(task, method=words.method_name(), problems=words.problems(known))
        points: tuple[UtilityPoint, ...] = ()
        if curve or plot is not None:
            words = words.settled(made, known)
            task = task_of(words, counts, dimension, known, is_real=is_real)
            epsilons, problems = epsilons_around(epsilon), words.problems(known)
            points = utility_curve(task, epsilons, words.method_name(), problems, all_signals=plot is not None)
        if plot is not None:
            from dpadmm.reporting.figures import draw_utility

            draw_utility(points, epsilon, plot)
        _show(made, points, plot, epsilon, is_json=json)


def _check_plot(place: Path, force: bool) -> None:
    from dpadmm.reporting.files import check_writable

    if place.suffix not in (".svg", ".png"):
        raise InputError(f"--plot must end in .svg or .png, got {str(place)!r}.")
    check_writable(place, may_replace=force)


def _stated(sizes: str, nominal: int | None) -> tuple[int, ...]:
    counts = _counts(sizes)
    if nominal is not None and sum(counts) != nominal:
        raise InputError(f"--sizes must add up to --nominal-records {nominal}: with add-remove, sizes are nominal too.")
    return counts


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
        words = f"{point.method} (hopeless)" if point.is_hopeless else point.method
        table.add_row(f"{point.epsilon:g}", point.expected.judged.range, bar, words, style=style)
    return table
