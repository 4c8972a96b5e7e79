"""`dpadmm silo`: join a study; or make a silo, show it, approve a federation; serve, and look after it."""

import json as json_text
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import administration as admin
from dpadmm.cli import options
from dpadmm.cli.declare import takes
from dpadmm.cli.terminal import (
    log_to_terminal,
    print_line,
    print_notes,
    print_reading,
    print_warning,
)
from dpadmm.settings import CellRules, Missing, OutOfRange, Privacy, TableFormat, Unlisted

if TYPE_CHECKING:
    from dpadmm.federation.admin.joining import InvitedSilo
    from dpadmm.federation.silo import Silo
    from dpadmm.federation.studies import Invitation
    from dpadmm.federation.terms import Terms

app = typer.Typer(help="Take part in a federation with data that stay here.", no_args_is_help=True)

_AS_BEFORE = "Default: as the policy says."

SiloView = Literal["eavesdropper", "aggregate"]


@app.command()
@takes(privacy=admin.PEOPLE, written=TableFormat, cells=CellRules)
def init(
    directory: admin.SiloDirectory,
    privacy: Privacy,
    written: TableFormat,
    cells: CellRules,
    data: Annotated[Path, typer.Option(help="The private table: CSV or other text, Parquet, Arrow, Excel.")],
    schema: Annotated[Path, typer.Option(help="The public schema (JSON) that all silos share.")],
    budget_epsilon: Annotated[float, typer.Option(help="The most epsilon these data may ever spend, > 0.")],
    delta: Annotated[float, typer.Option(help="The delta of the budget, in [0, 1).")],
    name: Annotated[str | None, typer.Option(help="Name in federations. Default: the directory's name.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="Method that may run; may be repeated.")] = None,
    coordinator: Annotated[list[str] | None, typer.Option(help="Key of one that is allowed; repeatable.")] = None,
    least_noise: admin.LeastNoise = 0.0,
    trust_coordinator: admin.TrustCoordinator = False,
    view: Annotated[SiloView, typer.Option(help="Whom the budget protects from.")] = "eavesdropper",
) -> None:
    """Make a silo: policy, keys, ledger and state in a new directory.

    Example: dpadmm silo init clinic --data patients.csv --schema schema.json --budget-epsilon 3 --delta 1e-6
    """
    from dpadmm.errors import InputError
    from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED, Policy
    from dpadmm.federation.silo import Silo
    from dpadmm.federation.silo_directory import SiloDirectory

    is_summed = view == "aggregate"
    if trust_coordinator and is_summed:
        raise InputError(
            "A trusted coordinator sees more than sums: choose either --trust-coordinator or the view aggregate."
        )
    policy = Policy(
        name=name or directory.resolve().name,
        data=str(data.resolve()),
        schema=str(schema.resolve()),
        methods=tuple(allow or (FULLY_CERTIFIED + SUMMED * is_summed)),
        coordinators=tuple(coordinator or ()),
        least_noise=least_noise,
        screening=cells,
        protection=admin.protection_of("public" if trust_coordinator else view, privacy),
        written=written,
    )
    files = SiloDirectory(directory)
    records = files.create(policy, budget_epsilon, delta)
    print_reading({str(data): records.written})
    print_notes(records.cells.notes)
    typer.echo(
        f"Made {directory}. Edit policy.toml to change its rules. Send {files.entry} to whoever drafts the terms "
        "(`dpadmm federate draft`). For a federation file written by hand:"
    )
    with closing(Silo(directory)) as silo:
        _print_participant(silo)


def _print_participant(silo: "Silo") -> None:
    from dpadmm.data.schema import Schema
    from dpadmm.federation.keys import fingerprint
    from dpadmm.federation.silo_directory import counted_columns

    is_public, schema = silo.policy.protection.relation.has_public_sizes, Schema.load(silo.files.schema)
    records = f"records = {silo.records}" if is_public else "# records = its part of the agreed nominal number"
    counted = counted_columns(schema, 0.1)
    numbers = f"n_numeric = {counted.n_numeric}, n_categorical = {counted.n_categorical}, size = {counted.size}"
    typer.echo(
        f"\n[[participants]]\nname = {json_text.dumps(silo.policy.name, ensure_ascii=False)}\n"
        f'{records}\nkey = "{silo.public_key}"\n# schema = "{schema.digest}"\n'
        f"# dimension = {schema.dimension}; with a [profile] also: {numbers}\n\n"
        f"Fingerprint, for the other owners but not through the coordinator: {fingerprint(silo.public_key)}"
    )


@app.command()
def show(
    directory: admin.SiloDirectory, log: Annotated[bool, typer.Option("--log", help="Show the silo's log.")] = False
) -> None:
    """Show what the coordinator needs to know about this silo, its ledger, and with --log its log.

    Example: dpadmm silo show clinic --log
    """
    from dpadmm.federation.silo import Silo

    with closing(Silo(directory)) as silo:
        _print_participant(silo)
        typer.echo(f"\n{silo.ledger.statement()}")
        for entry in silo.store.log() if log else ():
            typer.echo(f"{entry.time}  {entry.event}: {entry.detail}")


@app.command()
def approve(
    directory: admin.SiloDirectory,
    federation: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="The terms that all have.")],
    peer: admin.Peers = None,
    yes: admin.Yes = False,
) -> None:
    """Show the terms of a federation and what they cost this silo, and approve them.

    Example: dpadmm silo approve clinic federation.toml
    """
    from dpadmm.cli.approval import approve_terms
    from dpadmm.federation.silo import Silo
    from dpadmm.federation.terms import read_federation

    with closing(Silo(directory)) as silo:
        approve_terms(silo, read_federation(federation), peer or (), is_asked=not yes)


@app.command()
def run(
    directory: admin.SiloDirectory,
    coordinator: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Default: as in the invitation.")] = None,
) -> None:
    """Serve this silo until interrupted: dial the coordinator, answer approved, signed requests and nothing else.

    Example: dpadmm silo run clinic --coordinator federation.example.org:9092
    """
    from dpadmm.federation.https.client import run_silo
    from dpadmm.federation.silo_directory import SiloDirectory

    files = SiloDirectory(directory)
    files.check()
    address = coordinator or files.read_address()
    log_to_terminal()
    run_silo(directory, address)


@app.command()
@takes(written=TableFormat, cells=CellRules)
def join(
    written: TableFormat,
    cells: CellRules,
    invitation: Annotated[Path, typer.Argument(metavar="INVITE", help="The invitation that the coordinator sent.")],
    directory: Annotated[Path | None, typer.Argument(metavar="DIR", help="Default: the silo's name.")] = None,
    data: Annotated[Path | None, typer.Option(help="For a new silo: the private table.")] = None,
    budget_epsilon: Annotated[float | None, typer.Option(help="Most epsilon ever. Default: the command asks.")] = None,
    least_noise: admin.LeastNoise = 0.0,
    trust_coordinator: admin.TrustCoordinator = False,
    peer: admin.Peers = None,
    yes: admin.Yes = False,
    serve: Annotated[bool, typer.Option("--run/--no-run", help="Serve the run once it is approved.")] = True,
) -> None:
    """Join a study, step by step: make the silo, register, compare fingerprints, see the cost, approve, and serve.

    The command may be interrupted at any time; run it again to continue.

    Example: dpadmm silo join clinic.invite --data patients.csv
    """
    from dpadmm.cli.approval import remaining_budget_text
    from dpadmm.federation.admin import joining
    from dpadmm.federation.keys import fingerprint
    from dpadmm.federation.silo import Silo
    from dpadmm.federation.silo_directory import SiloDirectory
    from dpadmm.federation.studies import Invitation

    asked = Invitation.load(invitation)
    files = SiloDirectory(Path(asked.silo) if directory is None else directory)
    _show_study(asked)
    if not files.is_made():
        rules = joining.OwnerRules(
            data=data or Path(typer.prompt("The private table (text, Parquet, Arrow or Excel)")),
            budget_epsilon=typer.prompt("The most epsilon these data may ever spend", type=float, default=asked.epsilon)
            if budget_epsilon is None
            else budget_epsilon,
            screening=cells,
            written=written,
            least_noise=least_noise,
            trusts_coordinator=trust_coordinator,
        )
        records = joining.create_silo(asked, files.directory, rules)
        print_notes(records.cells.notes)
        print_reading({str(rules.data): records.written})
        text = "keys, ledger, policy.toml with its rules, schema.json with the public bounds"
        print_line(f"Made {files.directory}: {text}.")
    elif data is not None or budget_epsilon is not None:
        text = "its own table, budget and rules apply, not those given here"
        print_line(f"{files.directory} exists already: {text}.")
    with closing(Silo(files.directory)) as silo:
        joining.check_silo(asked, silo)
        print_line(remaining_budget_text(silo))
        invited = joining.InvitedSilo(asked, silo)
        joining.retry_until_reached(invited.register, print_line)
        print_line(
            f"Fingerprint of {silo.policy.name}: {fingerprint(silo.public_key)}\n"
            "Read it to the other owners by telephone or face to face, not through the coordinator.\n"
            "Registered. Waiting for the terms, which are drafted when all silos have registered ..."
        )
        _approve(invited, joining.wait_for_terms(invited, print_line), peer or [], is_asked=not yes)
        files.address.write_text(asked.address + "\n", encoding="utf-8")  # not before: it may serve another
    _serve(files.directory, is_wanted=serve)


def _show_study(asked: "Invitation") -> None:
    """Say what is asked of the silo, before anything is made."""
    from dpadmm.federation.keys import fingerprint

    protection = asked.protection
    print_line(
        f"Study {asked.study!r} invites {asked.silo}\n"
        f"  coordinator  {asked.address}, fingerprint {fingerprint(asked.coordinator)}\n"
        f"  asks for     epsilon {asked.epsilon:g} at delta {asked.delta:g} from every record here, for one run\n"
        f"  protects     {protection}, from {protection.observer}\n"
        f"  columns      {len(asked.table.columns)} and the label {asked.table.label.name!r}, with public bounds"
    )


def _approve(invited: "InvitedSilo", terms: "Terms", reported: list[str], *, is_asked: bool) -> None:
    """Compare fingerprints where that matters, show the terms and their cost, and approve them on the owner's word."""
    from dpadmm.cli.approval import approve_terms

    approved = invited.silo.store.all_terms()
    if terms.digest in [each.digest for each in approved]:
        print_line(f"The terms of run {terms.run!r} are approved already.")
        return
    if (terms.run, terms.coordinator) in [(each.run, each.coordinator) for each in approved]:
        print_warning("Other terms of this study were approved here before. Whatever is run of either costs budget.")
        is_asked = True
    approve_terms(invited.silo, terms, reported, is_asked=is_asked, invited=invited)


def _serve(directory: Path, *, is_wanted: bool) -> None:
    from dpadmm.federation.https.client import run_silo
    from dpadmm.federation.party_directory import is_held
    from dpadmm.federation.silo_directory import SiloDirectory

    files = SiloDirectory(directory)
    if is_held(files.lock):
        print_line("Another process is already serving this silo and will take up the run.")
    elif not is_wanted:
        print_line(f"Serve it with `dpadmm silo run {directory}`.")
    else:
        print_line("Serving until Ctrl-C. To serve later or as a service, use `dpadmm silo run`.")
        log_to_terminal()
        run_silo(directory, files.read_address())


@app.command()
@takes(written=TableFormat)
def new_data(
    directory: admin.SiloDirectory,
    written: TableFormat,
    data: Annotated[Path, typer.Option(help="The new version of the private table.")],
    missing: Annotated[Missing | None, typer.Option(help=f"Missing value. {_AS_BEFORE}")] = None,
    unlisted: Annotated[Unlisted | None, typer.Option(help=f"Unlisted category. {_AS_BEFORE}")] = None,
    out_of_range: Annotated[OutOfRange | None, typer.Option(help=f"Number out of bounds. {_AS_BEFORE}")] = None,
    abandon: admin.Abandon = False,
) -> None:
    """Continue with a changed table: a new version of the data, under the same key, ledger and budget.

    The table is read like the earlier one, unless an option says otherwise. What was spent on older versions still
    counts. Stop the silo's process first. If the command is interrupted, run it again.

    Example: dpadmm silo new-data clinic --data patients-2027.csv
    """
    from dataclasses import replace

    from dpadmm.data.reading import is_text_file
    from dpadmm.federation.admin.maintenance import change_data
    from dpadmm.federation.party_directory import exclusive_lock
    from dpadmm.federation.policy import Policy
    from dpadmm.federation.silo_directory import SiloDirectory

    files = SiloDirectory(directory)
    files.check()
    with exclusive_lock(files.lock, "This silo"):
        policy = Policy.load(files.policy)
        now = policy.screening
        rules = CellRules(
            missing=missing or now.missing,
            unlisted=unlisted or now.unlisted,
            out_of_range=out_of_range or now.out_of_range,
        )
        # As the earlier table, where nothing else is stated and it is of the same kind.
        stated = policy.written
        if not is_text_file(data):  # other files know their cells
            stated = replace(stated, sep=None, decimal=None, encoding=None)
        open_ones = {name: value for name, value in vars(stated).items() if getattr(written, name) in (None, ())}
        written = replace(written, **open_ones)
        policy = replace(policy, data=str(data.resolve()), written=written, screening=rules)
        change = change_data(files, policy, may_close=abandon)
    statement = change.statement
    print_notes(change.notes)
    typer.echo(
        f"{policy.name} {'now uses' if change.is_new else 'already uses'} version {statement.version} of its data, "
        f"{policy.data}{'' if change.records is None else f': {change.records} records'}.\n"
        f"Spent on all versions: epsilon {statement.spent_epsilon:.6g} of {statement.budget.epsilon:.6g}; left "
        f"{statement.left_epsilon:.6g}.\n"
        f"{admin.closed_runs_text(change.closed)}"
        f"{admin.lost_runs_text(change.unfit, 'state another number of records')}"
        f"Now send {files.entry} to whoever drafts the terms. Note the ledger's head: {statement.head}"
    )


@app.command()
def rotate_key(directory: admin.SiloDirectory, forget: admin.Forget = False, abandon: admin.Abandon = False) -> None:
    """Give a silo a new identity key; ledger, budget, data and rules stay.

    Wait until the coordinator says that its runs are done, and stop the silo's process first. If the command is
    interrupted, run it again.

    Example: dpadmm silo rotate-key clinic
    """
    from dpadmm.federation.admin.maintenance import rotate_silo_key
    from dpadmm.federation.keys import fingerprint
    from dpadmm.federation.party_directory import exclusive_lock
    from dpadmm.federation.silo_directory import SiloDirectory

    files = SiloDirectory(directory)
    files.check()
    with exclusive_lock(files.lock, "This silo"):
        change = rotate_silo_key(files, is_old_kept=not forget, may_close=abandon)
    typer.echo(
        f'{directory} has a new key.\nkey = "{change.key.public}"\n'
        f"Fingerprint, for the other owners but not through the coordinator: {fingerprint(change.key.public)}\n"
        f"{admin.key_change_text(change)}{admin.lost_runs_text(change.unfit, 'name the old key')}"
        f"Now send {files.entry} to whoever drafts the terms. Tell the other owners the new fingerprint: those who "
        "confirmed the old one confirm the new one with the next terms (`dpadmm silo approve --peer`) and must "
        "refuse terms that name the old key. Make a new backup of the directory: an earlier one has only the old "
        "key, and does not know what is spent from now on."
    )


@app.command()
def status(
    directory: admin.SiloDirectory,
    json: options.Json = False,
    watch: admin.Watch = False,
) -> None:
    """Show the state of this silo: serving, connected, what is spent and left, every run, the latest refusals.

    Changes nothing, and works whether or not the silo is serving. Example: dpadmm silo status clinic --watch
    """
    from dpadmm.cli.status_tables import show_status
    from dpadmm.federation.admin.status import silo_status

    show_status("silo status", lambda: silo_status(directory), is_json=json, is_watched=watch)


@app.command()
def doctor(
    directory: admin.SiloDirectory,
    coordinator: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Default: the last coordinator.")] = None,
    json: options.Json = False,
) -> None:
    """Find out why this silo does not work: files, table, ledger, disk, clock, and the connection to the coordinator.

    Reads the table. Safe while the silo is serving. Exit code 1 if anything must be fixed.
    Example: dpadmm silo doctor clinic --coordinator federation.example.org:9092
    """
    from dpadmm.cli.status_tables import show_findings
    from dpadmm.federation.admin.doctor import examine_silo

    show_findings("silo doctor", directory, examine_silo(directory, coordinator), is_json=json)
