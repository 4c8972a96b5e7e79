"""`dpadmm federate`: draft the terms of a federation, run them, or rehearse on this machine."""

import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm.cli import options
from dpadmm.cli.declare import takes, weights_of
from dpadmm.cli.terminal import print_line, report_other_place
from dpadmm.settings import CellRules, TableFormat

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.data.schema import Schema
    from dpadmm.federation.coordinator import Progress
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.outcome import FederationOutcome
    from dpadmm.federation.studies import Studies
    from dpadmm.federation.terms import Terms


app = typer.Typer(help="Draft the terms of a federation, run them, or rehearse on this machine.", no_args_is_help=True)

Out = Annotated[Path | None, typer.Option(help="Write the model, .json or .npz.")]
Page = Annotated[Path | None, typer.Option(help="Write the report as one HTML page.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


@app.command()
def draft(
    entries: Annotated[list[Path], typer.Argument(metavar="ENTRY...", help="The silos' entries, NAME.entry.")],
    schema: Annotated[Path, typer.Option(help="The public schema that all silos were made with.")],
    epsilon: options.Epsilon,
    delta: options.Delta,
    coordinator: Annotated[Path, typer.Option(help="The coordinator's directory; may be new.")] = Path("coordinator"),
    name: Annotated[str, typer.Option(help="Name of the run; every run needs a new one.")] = "federation",
    nominal_records: options.NominalRecords = None,
    class_weight: options.ClassWeights = None,
    out: Annotated[Path, typer.Option(help="Write the terms here.")] = Path("federation.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace that file.")] = False,
) -> None:
    """Write the whole federation file. The planner chooses method, rounds, step sizes, encoding and masks.

    Example: dpadmm federate draft north.entry south.entry --schema schema.json --epsilon 1 --delta 1e-6
    """
    from dpadmm.data.schema import Schema
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.policy import SiloEntry
    from dpadmm.federation.terms import write_federation
    from dpadmm.models.files import check_apart, check_writable
    from dpadmm.planner.drafting import draft as make_draft
    from dpadmm.privacy.accounting import Target

    check_apart({"--out": out}, [*entries, schema])
    check_writable(out, may_replace=force)
    target, found, public = Target(epsilon, delta), [SiloEntry.load(path) for path in entries], Schema.load(schema)
    weights, files = weights_of(class_weight), CoordinatorFiles(coordinator)
    made = make_draft(found, public, target, nominal_records=nominal_records, class_weight=weights)
    key = files.key() if files.is_made() else files.create()
    terms = made.terms(name, key.public)
    write_federation(out, terms)
    print_line(f"{made}\n\nWrote the terms to {out}, digest {terms.digest}.")
    print_line(
        f"Send it to every silo, whose owner runs:\n  dpadmm silo approve DIR {out.name}\n"
        f"  dpadmm silo run DIR --coordinator HOST:PORT\nHere, run:\n  dpadmm coordinator run {coordinator}\n"
        f"  dpadmm federate run {out} --coordinator {coordinator}"
    )


@app.command()
def run(
    federation: Annotated[Path | None, typer.Argument(metavar="[FEDERATION.toml]", help="The approved terms.")] = None,
    study: Annotated[str | None, typer.Option(help="Instead: a study, whose terms are drafted here.")] = None,
    coordinator: Annotated[Path | None, typer.Option(help="The coordinator's directory.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Offer the drafted terms of a study without being asked.")] = False,
    schema: Annotated[Path | None, typer.Option(help="The approved schema, for --out and --page.")] = None,
    class_weight: options.ClassWeights = None,
    out: Out = None,
    page: Page = None,
    force: Force = False,
) -> None:
    """Run approved terms to their end, or continue where they stopped: progress, the model, each silo's cost.

    Example: dpadmm federate run federation.toml --coordinator coordinator --schema schema.json --out model.json
    """
    from dpadmm.data.schema import Schema
    from dpadmm.errors import InputError
    from dpadmm.federation.terms import read_federation

    if (federation is None) == (study is None):
        raise InputError("Give a FEDERATION.toml or a --study. To rehearse here, use `dpadmm federate rehearse`.")
    weights = weights_of(class_weight)
    if weights is not None and federation is not None:
        raise InputError("The terms say what records count. Leave out --class-weight, or draft other terms.")
    if (out, page) != (None, None) and federation is not None and schema is None:
        raise InputError("Model and report name the columns. Add --schema FILE, the schema that the silos approved.")
    _check_places(out, page, [federation, schema], force=force)
    if coordinator is None:
        raise InputError("Give the coordinator's directory: --coordinator DIR.")
    if federation is None:
        terms, public = _study_terms(str(study), coordinator, weights, is_asked=not yes)
    else:
        terms, public = read_federation(federation), Schema.load(schema) if schema else None
    outcome = _run(terms, coordinator, public)
    _show_outcome(outcome)
    if public is not None:
        _write(outcome, public, out, page, is_rehearsal=False)


@app.command()
@takes(written=TableFormat, cells=CellRules)
def rehearse(
    written: TableFormat,
    cells: CellRules,
    silos: Annotated[int, typer.Option(help="Number of silos.")] = 2,
    data: Annotated[Path | None, typer.Option(help="A table to split among the silos. Default: breast cancer.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Its public schema.")] = None,
    split_by: options.SplitBy = None,
    rounds: Annotated[int, typer.Option(help="Rounds of P-ADMM.")] = 10,
    epsilon: Annotated[float, typer.Option(help="Epsilon at delta 1e-5.")] = 1.0,
    class_weight: options.ClassWeights = None,
    out: Out = None,
    page: Page = None,
    force: Force = False,
) -> None:
    """Run a federation on this machine, each silo in a process of its own, over TLS and with test noise.

    Example: dpadmm federate rehearse --silos 4 --page report.html
    """
    from dpadmm.federation.admin.rehearsal import rehearsal_tables

    weights = weights_of(class_weight)
    _check_places(out, page, [data, schema], force=force)
    tables, public = rehearsal_tables(silos, data, schema, split_by, written=written, screening=cells)
    outcome = _rehearse(tables, public, rounds, epsilon, weights, cells)
    _show_outcome(outcome)
    _write(outcome, public, out, page, is_rehearsal=True)


def _check_places(out: Path | None, page: Path | None, read: "list[Path | None]", *, force: bool) -> None:
    """Refuse files that could not be written after the run, which is paid for."""
    from dpadmm.models.files import check_apart, check_suffix, check_writable

    if out is not None:
        check_suffix(out)
    check_apart({"--out": out, "--page": page}, read)
    for place in (out, page):
        if place is not None:
            check_writable(place, may_replace=force)


def _run(terms: "Terms", coordinator: Path, schema: "Schema | None") -> "FederationOutcome":
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.https.service import request_run
    from dpadmm.models.federated import check_schema

    if schema is not None:
        check_schema(terms, schema)  # before the run, which is paid for
    try:
        return request_run(CoordinatorFiles(coordinator), terms, _show)
    except KeyboardInterrupt:
        note = "the run goes on while the coordinator is serving; the same command shows it again"
        raise KeyboardInterrupt(note) from None


def _study_terms(
    name: str, coordinator: Path, weights: dict[str, float] | None, *, is_asked: bool
) -> "tuple[Terms, Schema | None]":
    """Return terms and schema of a study; wait for its silos and draft the terms where there are none yet."""
    from dpadmm.errors import InputError
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.studies import Studies
    from dpadmm.planner.drafting import draft as make_draft

    files, key = CoordinatorFiles(coordinator), CoordinatorFiles(coordinator).key()
    with closing(files.open_store()) as store:
        studies = Studies(store, key)
        announced, terms = studies.announced(name), studies.drafted(name)
        if terms is None:
            if announced.coordinator != key.public:
                raise InputError(
                    f"The invitations to {name!r} name an earlier key of this coordinator, so no silo would accept its "
                    "terms. Announce a new study: `dpadmm coordinator invite`."
                )
            _wait_for_silos(studies, name, files)
            print_line("All silos have registered. Drafting the terms, which takes up to a few minutes ...")
            made = make_draft(
                studies.entries(name),
                announced.table,
                announced.target,
                nominal_records=announced.nominal_records,
                class_weight=weights,
            )
            print_line(str(made))
            if is_asked:
                typer.confirm("Offer these terms to the silos?", abort=True)
            terms = made.terms(name, key.public)
            studies.publish(name, terms)
            print_line(f"The terms are drafted, digest {terms.digest}. Every owner now sees them and approves.")
        return terms, announced.table


def _wait_for_silos(studies: "Studies", name: str, files: "CoordinatorFiles") -> None:
    from dpadmm.federation.party_directory import is_held

    printed: list[str] | None = None
    if not is_held(files.lock):
        print_line(f"The coordinator is not serving yet: run `dpadmm coordinator run {files.directory}`.")
    while absent := studies.absent(name):
        if absent != printed:
            print_line(f"waiting for {', '.join(absent)} to register (`dpadmm silo join`)")
            printed = absent
        time.sleep(1.0)


def _rehearse(
    tables: "dict[str, pd.DataFrame]",
    schema: "Schema",
    rounds: int,
    epsilon: float,
    weights: dict[str, float] | None,
    screening: CellRules,
) -> "FederationOutcome":
    """Run P-ADMM among these silos; rows are encoded as the planner would."""
    from dpadmm.core.task import TableShape, Task
    from dpadmm.data.columns import label_shares
    from dpadmm.data.profile import ProfileForm
    from dpadmm.federation.admin import rehearsal
    from dpadmm.federation.https.processes import ended_by_signals
    from dpadmm.methods.p_admm import PADMM
    from dpadmm.planner.candidates import form_of, profile_share
    from dpadmm.privacy.accounting import Target
    from dpadmm.problems.losses import Logistic

    shares = label_shares(schema.label, weights)
    policy = partial(rehearsal.rehearsal_policy, screening=screening)
    typer.echo(f"Rehearsal with {len(tables)} silos on this machine, over TLS, with test noise: not a private release.")
    with ended_by_signals(), tempfile.TemporaryDirectory(prefix="dpadmm-rehearsal-") as place:
        sizes, shape = tuple(map(len, tables.values())), TableShape.of(ProfileForm(schema.columns))
        target = Target(epsilon, rehearsal.DELTA)
        task = Task(sizes=sizes, dimension=schema.dimension, loss=Logistic(), target=target, table=shape)
        share = profile_share(task, PADMM)
        clip_radius = form_of(task, PADMM, share).clip_radius or 0.0
        terms = rehearsal.p_admm_terms(
            schema, rounds, epsilon, clip_radius=clip_radius, profile_share=share, class_weights=shares
        )
        made = rehearsal.prepare_rehearsal(Path(place), tables, schema, terms, policy, (2 * epsilon, rehearsal.DELTA))
        with rehearsal.run_rehearsal(made):
            return made.federate(_show)


def _show(progress: "Progress") -> None:
    spent = ", ".join(f"{name} {epsilon:.4g}" for name, epsilon in progress.epsilon)
    waiting = f"; waiting for {', '.join(progress.waiting_for)}" if progress.waiting_for else ""
    where = f"round {progress.round}/{progress.rounds}" if progress.round >= 0 else "round 0, the column profile"
    typer.echo(f"{where}{waiting}; epsilon: {spent}")


def _show_outcome(outcome: "FederationOutcome") -> None:

    observer = outcome.terms.plan.account().protection.observer
    kind = "private release" if outcome.terms.is_secure else "REHEARSAL, not a private release"
    typer.echo(f"\nDone after {outcome.rounds} rounds ({kind}).")
    nominal = "" if outcome.terms.has_public_sizes else "nominally "
    for silo, cost in zip(outcome.terms.participants, outcome.costs, strict=True):
        typer.echo(
            f"  {silo.name}: {nominal}{silo.records} records, {cost.releases} releases, epsilon {cost.epsilon:.6g} at "
            f"delta {cost.delta:.3g} ({cost.certificate}, {cost.strength}, against {observer})"
        )
    if outcome.seconds_per_round:
        typer.echo(f"  {sum(outcome.seconds_per_round) / len(outcome.seconds_per_round):.2f} seconds per round")


def _write(
    outcome: "FederationOutcome", schema: "Schema", out: Path | None, page: Path | None, *, is_rehearsal: bool
) -> None:
    from dpadmm.core.model import DataLocation
    from dpadmm.models.federated import federation_model

    model = federation_model(outcome, schema, DataLocation.ONE_PLACE if is_rehearsal else DataLocation.FEDERATED)
    place = None if out is None else model.save(out)
    if place is not None:
        print_line(f"Wrote the model to {place}.")
    if page is not None:
        model.report(page, name=None if place is None else place.name)
        print_line(f"Wrote the report to {page}.")
    if out is not None and place is not None and place != out:
        report_other_place(out, place)
