"""`dpadmm fit`: a certified private model from the tables of one or several silos."""

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm.cli import options
from dpadmm.cli.terminal import (
    cell,
    clear_failures,
    print_json,
    print_line,
    print_notes,
    print_reading,
    print_streaming,
    print_warning,
    say_elsewhere,
)
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.data.table_format import TableFormat
    from dpadmm.front.sources import AnyTables
    from dpadmm.front.training import Trained, Training
    from dpadmm.reporting.model import ReleasedModel

_OUTPUT, _PRIVACY = "Output", "Privacy"
_NO_LEDGER = (
    "Warning: no ledger, so nothing records what is spent on these data.\n"
    "         Keep one with --ledger FILE --budget EPSILON.\n"
)


@options.reads_tables
def fit(
    files: options.Files,
    epsilon: options.Epsilon,
    delta: options.Delta,
    written: "TableFormat",
    schema: options.SchemaFile = None,
    target: Annotated[str | None, typer.Option(help="Column to predict; must be the label of the schema.")] = None,
    split_by: options.SplitBy = None,
    person: options.PersonColumn = None,
    keep: options.Keep = None,
    out: Annotated[Path, typer.Option(help="Model file to write, .json or .npz.", rich_help_panel=_OUTPUT)] = Path(
        "model.json"
    ),
    report: Annotated[
        Path | None, typer.Option(help="Also write the HTML report here.", rich_help_panel=_OUTPUT)
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.", rich_help_panel=_OUTPUT)] = None,
    purpose: options.Purpose = "",
    controller: options.Controller = "",
    contact: options.Contact = "",
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger that records what is spent on these data and enforces their budget.", rich_help_panel=_PRIVACY
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="For a new ledger: the most epsilon these data may ever spend.", rich_help_panel=_PRIVACY),
    ] = None,
    unit: options.UnitWord = None,
    view: options.ViewWord = None,
    colluders: options.Colluders = None,
    records_per_person: options.RecordsPerPerson = None,
    silos_per_person: options.SilosPerPerson = None,
    neighbours: options.NeighboursWord = None,
    nominal_records: options.NominalRecords = None,
    aim: options.AimWord = "prediction",
    prevalence: options.Prevalence = None,
    expected_auc: options.ExpectedAUC = None,
    expected_r2: options.ExpectedR2 = None,
    loss: options.LossWord = "auto",
    multi_class: options.MultiClassWord = "auto",
    class_weight: options.ClassWeights = None,
    method: options.MethodWord = "auto",
    topology: options.TopologyWord = "auto",
    alpha: options.Alpha = None,
    l1_ratio: options.L1Ratio = 0.0,
    profile: options.ProfileWord = "auto",
    profile_share: options.ProfileShare = None,
    missing: options.MissingWord = "error",
    unlisted: options.UnlistedWord = "error",
    out_of_range: options.OutOfRangeWord = "clip",
    stream: options.Stream = None,
    cluster: options.Cluster = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Train even if the planner expects no useful model or intervals.")
    ] = False,
    simulate: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", help="Use seeded noise. The result is not a private release.", rich_help_panel=_PRIVACY
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.", rich_help_panel=_OUTPUT)] = False,
    json: options.Json = False,
) -> None:
    """Train one private model over the tables of one or several silos.

    Everything is checked and planned before the data are used, and the cost is recorded in the ledger before noise is
    drawn. Method, rounds and noise are chosen from public facts: sizes, number of columns, epsilon and delta.

    Example: dpadmm fit north.csv south.csv --schema schema.json --epsilon 1 --delta 1e-5
    """
    with clear_failures(), ExitStack() as stack:
        from dpadmm.data.schema import Screening
        from dpadmm.estimators.wishes import Books
        from dpadmm.front.asked import TaskWords, protection_of
        from dpadmm.front.passes import cluster_workers
        from dpadmm.front.sources import Streaming
        from dpadmm.front.training import Training
        from dpadmm.planner.task import ProfileRule
        from dpadmm.privacy.protection import Unit
        from dpadmm.problems.aims import aim_of
        from dpadmm.reporting.facts import Accountability
        from dpadmm.reporting.files import check_apart

        check_apart({"out": out, "report": report}, [*files, schema], ledger)
        words = TaskWords(
            epsilon=epsilon,
            delta=delta,
            protection=protection_of(
                ledger,
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
            class_weight=options.weights_of(class_weight),
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
        training = Training(
            schema=_schema(schema, target, files),
            words=words,
            screening=Screening.of(missing, unlisted, out_of_range),
            books=Books(path=ledger, budget=budget),
            out=out,
            report=report,
            about=Accountability(purpose=purpose, controller=controller, contact=contact),
            title=title,
            split_by=split_by,
            person=person,
            keep=keep,
            seed=simulate,
            may_replace=force,
            is_hopeless_allowed=anyway,
            has_progress=not json,
        )
        training.check_words()
        workers = stack.enter_context(cluster_workers(cluster, _warn))
        streaming = Streaming.of(stream, written, split_by=split_by, person=person, workers=workers)
        tables = streaming.tables(files, split_by, written, words.protection)
        if not json:
            print_reading({each.where: each.written for each in tables.values()})
            print_streaming(tables)
        if split_by is not None and words.protection.unit is not Unit.USER:
            typer.echo(
                f"Note: the {len(tables)} values of {split_by!r} become the public names of the silos, in the model, "
                "the report and the ledger. If they are people, use --unit user: silos are then numbered.",
                err=True,
            )
        _show(training, _run(training, tables, is_json=json), is_json=json)


def _warn(words: str) -> None:
    typer.echo(f"Warning: {words}", err=True)


def _schema(path: Path | None, target: str | None, files: list[Path]) -> Any:
    from dpadmm.data.schema import Schema

    if path is None:
        listed = " ".join(map(str, files))
        raise InputError(
            "--schema is needed: public bounds and categories, which are never taken from the data. Draft one with "
            f"`dpadmm schema init {listed} --target {target or 'COLUMN'} --out schema.json`, fill it in, and add "
            "--schema schema.json."
        )
    schema = Schema.load(path)
    if target is not None and target != schema.label.name:
        raise InputError(f"--target is {target!r}, but {path} predicts {schema.label.name!r}. Make them agree.")
    return schema


def _run(training: "Training", tables: "AnyTables", *, is_json: bool) -> "Trained":
    from rich.console import Console

    prepared = training.check(tables)
    print_notes(prepared.notes)
    with Console(stderr=True, quiet=is_json).status("Planning, on synthetic data of the same shape ..."):
        plan = training.plan(prepared)
    if not is_json:
        print_line(f"\n{plan.describe()}\n")
    if training.books.path is None and training.seed is None and not is_json:
        typer.echo(_NO_LEDGER, err=True)
    return training.carry_out(prepared, plan)


def _show(training: "Training", done: "Trained", *, is_json: bool) -> None:
    model, place, report, wanted = done.model, done.place, training.report, training.out
    assert place is not None
    assert wanted is not None
    if done.unread is not None:
        typer.echo(f"Warning: the model is paid for and saved, but its ledger cannot be read: {done.unread}", err=True)
    if is_json:
        print_json({"command": "fit", "model": str(place), "report": report and str(report)} | model_json(model))
    else:
        print_model(model, place, report)
    if place != wanted:
        say_elsewhere(wanted, place)
    if not model.guarantee.is_private_release and not is_json:
        print_warning("Simulated noise: this model is NOT a private release. Keep it to yourself.")


def model_json(model: "ReleasedModel") -> dict[str, Any]:
    """Return everything about the model but its curves and schema, with what is covered and protected in words."""
    from dpadmm.codec import encode
    from dpadmm.privacy.protection import covers

    document = encode(model)
    protected = model.guarantee.protection
    words = {"covers": covers("the model"), "protects": str(protected), "observer": protected.observer}
    return words | {key: value for key, value in document.items() if key not in ("noise", "history", "schema")}


def print_model(model: "ReleasedModel", place: Path, report: Path | None) -> None:
    """Print the model file, what it cost and whom it protects, what is left in the ledger, and what to do next."""
    from rich.console import Console
    from rich.table import Table

    from dpadmm.checks import plural
    from dpadmm.privacy.protection import covers

    said = model.guarantee
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    label = "Certified" if said.is_private_release else "NOT PRIVATE, would cost"
    table.add_row("Model", cell(place))
    table.add_row(label, f"[bold]epsilon {said.epsilon:.4g}[/bold], delta {said.delta:.3g} ({said.standing})")
    table.add_row("Protects", f"{said.protection} from {said.protection.observer}")
    for heading, words in model.collusion_lines:
        table.add_row(heading, words)
    table.add_row("Covers", covers("the model"))
    table.add_row("Trained on", f"{model.records_words} in {plural(len(model.silos), 'silo')}, {model.wiring.words}")
    if said.profile is not None:
        table.add_row("Profile", cell(said.profile))
    table.add_row("Tables", model.custody.words(len(model.silos)))
    if model.spending is not None:
        spent = model.spending
        words = f"epsilon {spent.spent_epsilon:.4g} of {spent.budget_epsilon:.4g} spent in {spent.ledger}"
        table.add_row("Budget", cell(f"{words}; {spent.left_epsilon:.4g} left"))
    if report is None:
        table.add_row("Next", cell(f"dpadmm report {shlex.quote(str(place))}"))
    else:
        table.add_row("Report", cell(report))
        table.add_row("Next", cell(f"dpadmm predict {shlex.quote(str(place))} FILE"))
    Console(highlight=False).print(table)
    if model.aim.wants_intervals:
        print_line(f"\n{model.summary()}")
