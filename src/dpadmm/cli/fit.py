"""`dpadmm fit`: a certified private model from the tables of one or several silos."""

import shlex
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpadmm.cli import options
from dpadmm.cli.declare import takes
from dpadmm.cli.terminal import (
    cell,
    print_json,
    print_line,
    print_notes,
    print_reading,
    print_streaming,
    print_warning,
    report_other_place,
    warn_of_no_ledger,
)
from dpadmm.errors import InputError
from dpadmm.settings import FitSettings

if TYPE_CHECKING:
    from dpadmm.core.model import ReleasedModel
    from dpadmm.data.sources import AnyTables
    from dpadmm.estimators.tables import SavedModel, TableFit
    from dpadmm.planner.planner import Plan


@takes(settings=FitSettings)
def fit(files: options.Files, settings: FitSettings, json: options.Json = False) -> None:
    """Train one private model over the tables of one or several silos.

    Everything is checked and planned before the data are used, and the cost is recorded in the ledger before noise is
    drawn. Method, rounds and noise are chosen from public facts: sizes, number of columns, epsilon and delta.

    Example: dpadmm fit north.csv south.csv --schema schema.json --epsilon 1 --delta 1e-5
    """
    with ExitStack() as stack:
        from dpadmm.data.sources import cluster_workers, read_tables
        from dpadmm.estimators.tables import TableFit
        from dpadmm.privacy.protection import Unit

        if settings.schema is None:
            listed = " ".join(map(str, files))
            raise InputError(
                "--schema is needed: public bounds and categories, which are never taken from the data. Draft one with "
                f"`dpadmm schema init {listed} --target {settings.target or 'COLUMN'} --out schema.json`, fill it in, "
                "and add --schema schema.json."
            )
        if settings.out.model is None:
            settings = replace(settings, out=replace(settings.out, model=Path("model.json")))
        training = TableFit.of(settings, files, has_progress=not json)
        protection, split_by = training.settings.protection, settings.split_by
        workers = stack.enter_context(cluster_workers(settings.table.cluster, _warn))
        person = settings.person
        tables = read_tables(files, settings.table, protection, split_by=split_by, person=person, workers=workers)
        if not json:
            print_reading({each.where: each.written for each in tables.values()})
            print_streaming(tables)
        if split_by is not None and protection.unit is not Unit.USER:
            typer.echo(
                f"Note: the {len(tables)} values of {split_by!r} become the public names of the silos, in the model, "
                "the report and the ledger. If they are people, use --unit user: silos are then numbered.",
                err=True,
            )
        _show(training, _run(training, tables, is_json=json), is_json=json)


def _warn(text: str) -> None:
    typer.echo(f"Warning: {text}", err=True)


def _run(training: "TableFit", tables: "AnyTables", *, is_json: bool) -> "SavedModel":
    from rich.console import Console

    prepared = training.read(tables)
    print_notes(prepared.notes)
    with Console(stderr=True, quiet=is_json).status("Planning, on synthetic data of the same shape ...") as status:

        def on_plan(plan: "Plan") -> None:
            status.stop()
            if is_json:
                return
            print_line(f"\n{plan.describe()}\n")
            if training.ledger.path is None and not training.settings.is_simulated:
                warn_of_no_ledger()

        return training.train(prepared, on_plan)


def _show(training: "TableFit", done: "SavedModel", *, is_json: bool) -> None:
    model, place, report, wanted = done.model, done.place, training.options.out.report, training.options.out.model
    assert place is not None
    assert wanted is not None
    if done.unread is not None:
        typer.echo(f"Warning: the model is paid for and saved, but its ledger cannot be read: {done.unread}", err=True)
    if is_json:
        print_json({"command": "fit", "model": str(place), "report": report and str(report)} | model_json(model))
    else:
        print_model(model, place, report)
    if place != wanted:
        report_other_place(wanted, place)
    if not model.guarantee.is_private_release and not is_json:
        print_warning("Simulated noise: this model is NOT a private release. Keep it to yourself.")


def model_json(model: "ReleasedModel") -> dict[str, Any]:
    """Return everything about the model but its curves and schema, with text on what is covered and protected."""
    from dpadmm.codec import encode
    from dpadmm.privacy.protection import covers

    document = encode(model)
    protected = model.guarantee.protection
    text = {"covers": covers("the model"), "protects": str(protected), "observer": protected.observer}
    return text | {key: value for key, value in document.items() if key not in ("history", "schema")}


def print_model(model: "ReleasedModel", place: Path, report: Path | None) -> None:
    """Print the model file, what it cost and whom it protects, what is left in the ledger, and what to do next."""
    from rich.console import Console
    from rich.table import Table

    from dpadmm.checks import plural
    from dpadmm.core.model import DataLocation
    from dpadmm.models.statement import (
        collusion_lines,
        connections_text,
        location_text,
        profile_text,
        records_text,
    )
    from dpadmm.privacy.protection import covers

    guarantee = model.guarantee
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    label = "Certified" if guarantee.is_private_release else "NOT PRIVATE, would cost"
    table.add_row("Model", cell(place))
    table.add_row(
        label, f"[bold]epsilon {guarantee.epsilon:.4g}[/bold], delta {guarantee.delta:.3g} ({guarantee.standing})"
    )
    table.add_row("Protects", f"{guarantee.protection} from {guarantee.protection.observer}")
    for heading, text in collusion_lines(guarantee, in_one_process=model.location is DataLocation.ONE_PLACE):
        table.add_row(heading, text)
    table.add_row("Covers", covers("the model"))
    table.add_row(
        "Trained on", f"{records_text(model)} in {plural(len(model.silos), 'silo')}, {connections_text(model)}"
    )
    if guarantee.profile is not None:
        table.add_row("Profile", profile_text(guarantee.profile))
    table.add_row("Tables", location_text(model))
    if model.spending is not None:
        spent = model.spending
        text = f"epsilon {spent.spent_epsilon:.4g} of {spent.budget_epsilon:.4g} spent in {spent.ledger}"
        table.add_row("Budget", cell(f"{text}; {spent.left_epsilon:.4g} left"))
    if report is None:
        table.add_row("Next", cell(f"dpadmm report {shlex.quote(str(place))}"))
    else:
        table.add_row("Report", cell(report))
        table.add_row("Next", cell(f"dpadmm predict {shlex.quote(str(place))} FILE"))
    Console(highlight=False).print(table)
    if model.aim.value == "inference":
        print_line(f"\n{model.summary()}")
