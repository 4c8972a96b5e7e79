"""`dpadmm plan`: what would be run and what to expect, from public facts, before any data are touched."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import options
from dpadmm.cli.terminal import clear_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.datasets.table_format import TableFormat
    from dpadmm.planning.plan import Plan
    from dpadmm.planning.planner import UtilityPoint
    from dpadmm.planning.task import Task
    from dpadmm.reporting.planner_page import Planner


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
        Path | None, typer.Option(help="Write the plot of utility against epsilon here, .svg or .png.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            help="Write an HTML page here, with sliders for budget, silos and records (takes up to a minute)."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: options.Json = False,
) -> None:
    """Plan a run: method, rounds, noise, expected utility, and a warning if no useful model can be expected.

    Only public facts are used: the number of records in each silo, the number of features, epsilon and delta.

    Example: dpadmm plan --sizes 228,171,113,57 --dimension 30 --epsilon 1 --delta 1e-5
    """
    with clear_failures():
        from dpadmm.cli.terminal import print_reading
        from dpadmm.datasets.schema import Schema
        from dpadmm.datasets.tables import check_split
        from dpadmm.front.asked import TaskWords, check_person, counts_of, protection_of, task_of
        from dpadmm.front.sources import Streaming
        from dpadmm.planning.planner import plan as make_plan
        from dpadmm.planning.task import ProfileRule
        from dpadmm.problems.aims import aim_of
        from dpadmm.reporting.planner_page import Planner

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
            _check_place("--plot", plot, (".svg", ".png"), force)
        if page is not None:
            _check_place("--page", page, (".html",), force)
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

        def made(sizes: tuple[int, ...]) -> "Task":
            return task_of(words, sizes, dimension, known, is_real=predict == "number")

        first = make_plan(made(counts), method=words.method_name(), problems=words.problems(known))
        words = words.settled(first, known)
        planner = Planner(made, words.method_name(), words.problems(known))
        if page is not None:
            _write_page(page, made(counts), planner, is_quiet=json)
        has_curve = plot is not None or (curve and page is None)
        _show(first, made(counts), planner, Outputs(plot, page), has_curve=has_curve, is_json=json)


def _check_place(name: str, place: Path, suffixes: tuple[str, ...], force: bool) -> None:
    from dpadmm.reporting.files import check_writable

    if place.suffix not in suffixes:
        raise InputError(f"{name} must end in {' or '.join(suffixes)}, got {str(place)!r}.")
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


def _write_page(page: Path, task: "Task", planner: "Planner", *, is_quiet: bool) -> None:
    """Make all plans of the page, then write it: whoever interrupts has no page, and nothing half done."""
    from dpadmm.engines.local import progress_bar
    from dpadmm.reporting.files import write_file
    from dpadmm.reporting.planner_page import Axes, planner_page, settings

    axes = Axes.around(task)
    with progress_bar("planning", axes.number, is_wanted=not is_quiet) as tick:
        found = tuple(settings(axes, planner, tick))
    title = f"A private model over {task.n_silos} silo{'s' * (task.n_silos > 1)}"
    write_file(page, planner_page(axes, found, task, title).encode())


@dataclass(frozen=True)
class Outputs:
    """Where plot and page were asked for."""

    plot: Path | None
    page: Path | None


def _show(made: "Plan", task: "Task", planner: "Planner", written: Outputs, *, has_curve: bool, is_json: bool) -> None:
    from dpadmm.cli.terminal import print_json, print_line
    from dpadmm.planning.planner import utility_curve
    from dpadmm.reporting.utility_plot import epsilons_around

    points: tuple[UtilityPoint, ...] = ()
    if has_curve:
        points = utility_curve(task, epsilons_around(task.target.epsilon), planner.method, planner.problems)
    if written.plot is not None:
        from dpadmm.reporting.utility_plot import draw_utility

        draw_utility(points, task.target.epsilon, written.plot)
    if is_json:
        listed = [
            {"epsilon": p.epsilon, "method": p.method, "is_hopeless": p.is_hopeless} | p.expected.as_json()
            for p in points
        ]
        places = {"plot": written.plot and str(written.plot), "page": written.page and str(written.page)}
        print_json({"command": "plan", **places, "curve": listed} | made.as_json())
        return
    print_line(made.describe())
    if points:
        print_line("")
        _print_curve(points, task.target.epsilon)
    for place in (written.plot, written.page):
        if place is not None:
            print_line(f"Wrote {place}.")


def _print_curve(points: "tuple[UtilityPoint, ...]", epsilon: float) -> None:
    from rich.console import Console

    from dpadmm.reporting.utility_plot import terminal_curve

    Console(highlight=False).print(terminal_curve(points, epsilon))
