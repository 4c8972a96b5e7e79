"""`dpadmm coordinator`: invite silos to a study; or make a coordinator; and serve."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from dpadmm.cli import administration as admin
from dpadmm.cli import options
from dpadmm.cli.declare import takes
from dpadmm.cli.terminal import log_to_terminal, print_line
from dpadmm.settings import Privacy

app = typer.Typer(help="Bring silos together. They connect to one port of the coordinator.", no_args_is_help=True)

_STUDY = "The study"


@app.command()
@takes(privacy=(Privacy, f"{admin.PEOPLE[1]} nominal_records silos_per_person"))
def invite(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's directory; may be a new one.")],
    study: Annotated[str, typer.Option(help="Name of the study, and of its run.", rich_help_panel=_STUDY)],
    silo: Annotated[list[str], typer.Option(help="Name of a silo; repeat for each silo.", rich_help_panel=_STUDY)],
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where silos will reach the coordinator.")],
    schema: Annotated[Path, typer.Option(help="The public schema (JSON) that all silos share.")],
    epsilon: options.Epsilon,
    delta: options.Delta,
    privacy: Privacy,
    view: Annotated[
        Literal["eavesdropper", "aggregate", "public"],
        typer.Option(help="Whom records are protected from; with public, the coordinator adds the noise."),
    ] = "eavesdropper",
    replace: Annotated[bool, typer.Option("--replace", help="Withdraw these silos' invitations and entries.")] = False,
) -> None:
    """Announce a study: write an invitation for each silo, with which it registers and gets the terms.

    The same command again writes the same invitations; another --silo adds a silo.

    Example: dpadmm coordinator invite coordinator --study asthma --silo north --silo south --schema schema.json
    --epsilon 1 --delta 1e-6 --address federation.example.org:9092
    """
    from dpadmm.data.schema import Schema
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.https.client import Address
    from dpadmm.federation.keys import SigningKey
    from dpadmm.federation.studies import Invitation, Studies, check_silos

    Address.parse(address)
    files = CoordinatorFiles(directory)
    is_new = not files.is_made()
    key = SigningKey.new() if is_new else files.key()
    asked = Invitation(
        study=study,
        address=address,
        coordinator=key.public,
        epsilon=epsilon,
        delta=delta,
        schema=Schema.load(schema).to_json(),
        protection=admin.protection_of(view, privacy),
        nominal_records=privacy.nominal_records,
    )
    if is_new:
        check_silos(asked, silo)
        files.create(key)
    with closing(files.open_store()) as store:
        invitations = Studies(store, key).invite(asked, silo, may_replace=replace)
    print_line("Send each owner the silo's invitation. Whoever has it can register in the silo's name:")
    for each in invitations:
        place = files.invitation(study, each.silo)
        each.save(place)
        print_line(f"  {place}")
    print_line(
        f"They join with `dpadmm silo join NAME.invite --data TABLE`.\nHere: `dpadmm coordinator run {directory}`, "
        f"and `dpadmm federate run --study {study} --coordinator {directory} --out model.json --page report.html`."
    )


@app.command()
def init(directory: admin.CoordinatorDirectory) -> None:
    """Make a coordinator: a directory with the key by which silos recognise it.

    Example: dpadmm coordinator init coordinator
    """
    from dpadmm.federation.coordinator_store import CoordinatorFiles

    key = CoordinatorFiles(directory).create()
    typer.echo(f'Made {directory}. For the federation file:\ncoordinator = "{key.public}"')


@app.command()
def run(
    directory: admin.CoordinatorDirectory,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 9092,
) -> None:
    """Serve until interrupted: wait for silos, and drive every run that `dpadmm federate` requests.

    Example: dpadmm coordinator run coordinator --host 0.0.0.0 --port 9092
    """
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.https.processes import StopRequested, StopSignals
    from dpadmm.federation.https.service import LOOK_SECONDS, serve_coordinator

    log_to_terminal()
    files, ending = CoordinatorFiles(directory), StopSignals()
    with serve_coordinator(files, host, port) as service:
        typer.echo(
            f"The coordinator of {directory} listens on {host}, port {port} (TLS 1.3; silos connect, each "
            f"recognised by its key).\nKey {service.key.public}\nTo start a run: `dpadmm federate run --study NAME "
            f"--coordinator {directory}`. Ctrl-C stops the coordinator; runs are kept."
        )
        try:
            while not ending.is_asked:
                service.check_runs()
                ending.sleep(LOOK_SECONDS)
        except StopRequested:
            pass
    typer.echo("Stopped. All runs are kept where they are.")


@app.command()
def rotate_key(
    directory: admin.CoordinatorDirectory, forget: admin.Forget = False, abandon: admin.Abandon = False
) -> None:
    """Give a coordinator a new identity key. Stop its process first. If the command is interrupted, run it again.

    Example: dpadmm coordinator rotate-key coordinator
    """
    from dpadmm.federation.admin.maintenance import rotate_coordinator_key
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.party_directory import exclusive_lock

    files = CoordinatorFiles(directory)
    files.check()
    with exclusive_lock(files.lock, "The coordinator of this directory"):
        change = rotate_coordinator_key(files, is_old_kept=not forget, may_close=abandon)
    typer.echo(
        f'{directory} has a new key. For federation files:\ncoordinator = "{change.key.public}"\n'
        f"{admin.key_change_text(change)}"
        "Now tell the owners of the silos: later terms name the new key. Where policy.toml lists `coordinators`, "
        "add the new key. If the old key may have been stolen, remove it there: silos would still answer whoever "
        "has it in runs that were approved under it."
    )


@app.command()
def status(directory: admin.CoordinatorDirectory, json: options.Json = False, watch: admin.Watch = False) -> None:
    """Show the state of this coordinator: serving, every run, who has joined, who has answered, who is missing.

    Changes nothing, and works whether or not it is serving. Example: dpadmm coordinator status coordinator
    """
    from dpadmm.cli.status_tables import show_status
    from dpadmm.federation.admin.status import coordinator_status

    show_status("coordinator status", lambda: coordinator_status(directory), is_json=json, is_watched=watch)


@app.command()
def doctor(directory: admin.CoordinatorDirectory, json: options.Json = False) -> None:
    """Find out why this coordinator does not work: files, disk, clock, and its port as silos see it.

    Safe while the coordinator is serving. Exit code 1 if anything must be fixed.
    Example: dpadmm coordinator doctor coordinator
    """
    from dpadmm.cli.status_tables import show_findings
    from dpadmm.federation.admin.doctor import examine_coordinator

    show_findings("coordinator doctor", directory, examine_coordinator(directory), is_json=json)
