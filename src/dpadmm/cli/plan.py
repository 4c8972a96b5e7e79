"""`dpadmm plan`: what would be run and what to expect, from public facts, before any data are touched."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm import checks
from dpadmm.cli import options
from dpadmm.cli.terminal import clear_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.cli.training import TaskWords
    from dpadmm.datasets.table_format import TableFormat
    from dpadmm.datasets.tables import SiloTable
    from dpadmm.planning.planner import UtilityPoint
    from dpadmm.planning.task import Task


@options.reads_tables
def plan(
    epsilon: options.Epsilon,
    delta: options.Delta,
    written: "TableFormat",
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="Tables, of which only rows or persons are counted; needs --schema."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="Records of each silo (--unit person: persons), such as 228,171,113,57; instead of files."),
    ] = None,
    dimension: Annotated[int | None, typer.Option(help="Encoded features; instead of --schema.")] = None,
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
    loss: options.LossWord = "auto",
    multi_class: options.MultiClassWord = "auto",
    method: options.MethodWord = "auto",
    topology: options.TopologyWord = "auto",
    alpha: options.Alpha = None,
    l1_ratio: options.L1Ratio = 0.0,
    profile: options.ProfileWord = "auto",
    profile_share: options.ProfileShare = None,
    prevalence: Annotated[
        float | None,
        typer.Option(help="Share of the positive class (the schema's first, listed as positive), if it is public."),
    ] = None,
    curve: Annotated[
        bool, typer.Option("--curve/--no-curve", help="Expected utility against epsilon (takes a little longer).")
    ] = True,
    plot: Annotated[Path | None, typer.Option(help="Write that plot here, .svg or .png.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the plot.")] = False,
    json: options.Json = False,
) -> None:
    """Plan a run: method, rounds, noise per message, expected utility, and when a target is hopeless.

    Uses public facts only: the number of records of each silo, the number of features, epsilon and delta.

    Example: dpadmm plan --sizes 228,171,113,57 --dimension 30 --epsilon 1 --delta 1e-5
    """
    with clear_failures():
        from dpadmm.cli.persons import check_person, unit_of
        from dpadmm.cli.terminal import print_reading
        from dpadmm.cli.training import TaskWords, protection_of
        from dpadmm.datasets.tables import check_split, read_silos
        from dpadmm.planning.task import ProfileRule

        words = TaskWords(
            epsilon=epsilon,
            delta=delta,
            protection=protection_of(
                None, unit_of(unit, person), view, records_per_person, silos_per_person, colluders, neighbours
            ),
            loss=loss,
            multi_class=multi_class,
            method=method,
            topology=topology,
            alpha=alpha,
            l1_ratio=l1_ratio,
            profile=ProfileRule.of(profile, profile_share),
            nominal_records=nominal_records,
        )
        if plot is not None:
            _check_plot(plot, force)
        if schema is not None and split_by is not None:
            from dpadmm.datasets.schema import Schema

            known = Schema.load(schema)
            check_split(split_by, known.columns, known.label)
        if sizes is None:
            check_person(person, None, words.protection, None, split_by)
        elif person is not None:
            raise InputError("--person names a column of the tables; with --sizes of persons, say --unit person.")
        if (sizes is None) is (not files):
            raise InputError(
                "Give the records of each silo as --sizes 228,171,... or the tables themselves, and not both."
            )
        if sizes is not None:
            counts = _stated(sizes, nominal_records)
        else:
            tables = read_silos(files or [], split_by, written)
            if not json:
                print_reading({each.where: each.written for each in tables.values()})
            counts = _counted(tables, person, words)
        task, problems = _task(words, counts, dimension, schema, is_real=predict == "number")
        if prevalence is not None:
            task = replace(task, prevalence=checks.open_unit("--prevalence", prevalence))
        _show(task, words, problems, plot, has_curve=curve or plot is not None, is_json=json)


def _check_plot(plot: Path, force: bool) -> None:
    from dpadmm.reporting.files import check_writable

    if plot.suffix not in (".svg", ".png"):
        raise InputError(f"--plot must end in .svg or .png, got {str(plot)!r}.")
    check_writable(plot, may_replace=force)


def _task(
    words: "TaskWords", counts: tuple[int, ...], dimension: int | None, schema: Path | None, *, is_real: bool
) -> "tuple[Task, int]":
    if (dimension is None) is (schema is None):
        raise InputError("Give the number of encoded features as --dimension D, or --schema FILE, and not both.")
    if schema is None:
        return words.plain_task(counts, dimension or 0, is_real=is_real), 1
    from dpadmm.datasets.schema import Schema

    known = Schema.load(schema)
    return words.task(counts, known), words.problems(known)


def _stated(sizes: str, nominal: int | None) -> tuple[int, ...]:
    counts = _counts(sizes)
    if nominal is not None and sum(counts) != nominal:
        raise InputError(f"--sizes must add up to --nominal-records {nominal}: with add-remove they are nominal, too.")
    return counts


def _counted(tables: "Mapping[str, SiloTable]", person: str | None, words: "TaskWords") -> tuple[int, ...]:
    from dpadmm.cli.persons import persons_of
    from dpadmm.planning.task import nominal_sizes

    if person is not None:
        whose = persons_of(tables, person)
        whose.check_silos(words.protection.silos_per_person)  # `fit` would refuse them
        if words.nominal_records is None:
            return tuple(own.people.persons for own in whose.rows())
    if words.nominal_records is not None:
        return nominal_sizes(words.nominal_records, len(tables))
    return tuple(len(table.frame) for table in tables.values())


def _counts(sizes: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in sizes.split(","))
    except ValueError as error:
        raise InputError(f"--sizes takes whole numbers with commas, such as 228,171,113; got {sizes!r}.") from error


def _show(
    task: "Task", words: "TaskWords", problems: int, plot: Path | None, *, has_curve: bool, is_json: bool
) -> None:
    from dpadmm.cli.terminal import print_json, print_line
    from dpadmm.planning.planner import plan as make_plan
    from dpadmm.planning.planner import utility_curve
    from dpadmm.reporting.utility_plot import epsilons_around

    method = words.method_name()
    made = make_plan(task, method=method, problems=problems)
    points: tuple[UtilityPoint, ...] = ()
    if has_curve:
        points = utility_curve(task, epsilons_around(task.target.epsilon), method, problems)
    if plot is not None:
        from dpadmm.reporting.utility_plot import draw_utility

        draw_utility(points, task.target.epsilon, plot)
    if is_json:
        listed = [
            {"epsilon": p.epsilon, "method": p.method, "is_hopeless": p.is_hopeless} | p.expected.as_json()
            for p in points
        ]
        print_json({"command": "plan", "plot": plot and str(plot), "curve": listed} | made.as_json())
        return
    print_line(made.describe())
    if points:
        _print_curve(points, task.target.epsilon)
    if plot is not None:
        print_line(f"Wrote {plot}.")


def _print_curve(points: "tuple[UtilityPoint, ...]", epsilon: float) -> None:
    from rich.console import Console

    from dpadmm.reporting.utility_plot import terminal_curve

    Console(highlight=False).print(terminal_curve(points, epsilon))
