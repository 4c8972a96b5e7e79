"""`dpadmm silo`: join a study; or make a silo, show it, approve a federation, serve."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import custody, joining, operations, options
from dpadmm.cli.terminal import clear_federation_failures, log_to_terminal, print_notes, print_reading

if TYPE_CHECKING:
    from dpadmm.data.table_format import TableFormat

app = typer.Typer(help="Take part in a federation with data that stay here.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The silo's directory.")]


@app.command()
@options.reads_tables
def init(
    directory: Directory,
    written: "TableFormat",
    data: Annotated[Path, typer.Option(help="The private table: CSV or other text, Parquet, Arrow, Excel.")],
    schema: Annotated[Path, typer.Option(help="The public schema (JSON) that all silos share.")],
    budget_epsilon: Annotated[float, typer.Option(help="The most epsilon these data may ever spend, > 0.")],
    delta: Annotated[float, typer.Option(help="The delta of the budget, in [0, 1).")],
    name: Annotated[str | None, typer.Option(help="Name in federations. Default: the directory's name.")] = None,
    allow: Annotated[list[str] | None, typer.Option(help="Method that may run; may be repeated.")] = None,
    coordinator: Annotated[
        list[str] | None,
        typer.Option(help="Public key of an allowed coordinator; may be repeated. Default: those approved."),
    ] = None,
    least_noise: Annotated[float, typer.Option(help="Lowest noise/sensitivity allowed in any single release.")] = 0.0,
    trust_coordinator: Annotated[
        bool, typer.Option("--trust-coordinator", help="Allow messages without noise to the coordinator, who adds it.")
    ] = False,
    missing: options.MissingWord = "error",
    unlisted: options.UnlistedWord = "error",
    out_of_range: options.OutOfRangeWord = "clip",
    records_per_person: Annotated[int, typer.Option(help="Most records that one person has in a silo.")] = 1,
    view: Annotated[
        str,
        typer.Option(
            help="Whom the budget protects from: eavesdropper, or aggregate, who sees only sums of masked messages."
        ),
    ] = "eavesdropper",
    colluders: Annotated[
        int | None,
        typer.Option(help="With --view aggregate: how many silos may collude with the coordinator. Default: 1."),
    ] = None,
    neighbours: Annotated[
        Literal["replace-one", "add-remove"],
        typer.Option(help="Neighbouring data sets: one record replaced, or one added or removed (sizes are secret)."),
    ] = "replace-one",
) -> None:
    """Make a silo: policy, keys, ledger and state in a new directory.

    Example: dpadmm silo init clinic --data patients.csv --schema schema.json --budget-epsilon 3 --delta 1e-6
    """
    with clear_federation_failures():
        from dpadmm.data.schema import Screening
        from dpadmm.federation.policy import FULLY_CERTIFIED, SUMMED, Policy
        from dpadmm.federation.silo_files import SiloFiles
        from dpadmm.privacy.protection import relation_of

        is_summed = _is_summed(view, colluders)
        policy = Policy(
            name=name or directory.resolve().name,
            data=str(data.resolve()),
            schema=str(schema.resolve()),
            methods=tuple(allow or (FULLY_CERTIFIED + SUMMED * is_summed)),
            coordinators=tuple(coordinator or ()),
            least_noise=least_noise,
            trusts_coordinator=trust_coordinator,
            screening=Screening.of(missing, unlisted, out_of_range),
            records_per_person=records_per_person,
            relation=relation_of(neighbours),
            written=written,
            colluders=1 if colluders is None else colluders,
        )
        files = SiloFiles(directory)
        records = files.create(policy, budget_epsilon, delta, is_summed=is_summed)
        print_reading({str(data): records.written})
        print_notes(records.notes)
        typer.echo(
            f"Made {directory}. Edit policy.toml to change its rules. Send {files.entry} to whoever drafts the terms "
            "(`dpadmm federate draft`). For a federation file written by hand:"
        )
        _print_participant(directory)


@app.command()
def show(
    directory: Directory, log: Annotated[bool, typer.Option("--log", help="Show the silo's log.")] = False
) -> None:
    """Show what the coordinator needs to know about this silo, its ledger, and with --log its log.

    Example: dpadmm silo show clinic --log
    """
    with clear_federation_failures():
        from dpadmm.federation.silo import Silo
        from dpadmm.privacy.ledger import open_for_reading

        _print_participant(directory)
        silo = Silo(directory)
        with open_for_reading(silo.files.ledger(silo.policy.noise)) as ledger:
            typer.echo(f"\n{ledger.statement()}")
        if log:
            for entry in silo.log():
                typer.echo(f"{entry.time}  {entry.event}: {entry.detail}")
        silo.close()


@app.command()
def approve(
    directory: Directory,
    federation: Annotated[
        Path, typer.Argument(metavar="FEDERATION.toml", help="The terms that all participants have.")
    ],
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FINGERPRINT",
            help="Fingerprint of a participant, as its owner told you (not through the coordinator); may be repeated.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve the terms without being asked.")] = False,
) -> None:
    """Show the terms of a federation and what they cost this silo, and approve them.

    Example: dpadmm silo approve clinic federation.toml
    """
    with clear_federation_failures():
        from dpadmm.cli.approval import confirm, show_cost, show_terms
        from dpadmm.federation.agreement import read_federation
        from dpadmm.federation.silo import Silo

        silo, agreement = Silo(directory), read_federation(federation)
        for told in peer or ():
            confirm(silo, agreement, told)
        show_terms(silo, agreement)
        show_cost(silo, agreement)
        silo.check_terms(agreement)
        if not yes:
            typer.confirm("Approve these terms?", abort=True)
        silo.approve(agreement)
        silo.close()
        typer.echo("Approved.")


@app.command()
def run(
    directory: Directory,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where the coordinator listens. Default: as in the invitation."),
    ] = None,
) -> None:
    """Serve this silo until interrupted: dial the coordinator, answer approved, signed requests and nothing else.

    Example: dpadmm silo run clinic --coordinator federation.example.org:9092
    """
    with clear_federation_failures():
        from dpadmm.federation.https.line import run_silo
        from dpadmm.federation.silo_files import SiloFiles

        files = SiloFiles(directory)
        files.check()
        address = coordinator or files.read_address()
        log_to_terminal()
        run_silo(directory, address)


app.command()(joining.join)


def _is_summed(view: str, colluders: int | None) -> bool:
    from dpadmm.errors import InputError
    from dpadmm.privacy.protection import View

    if view not in (View.EAVESDROPPER.value, View.AGGREGATE.value):
        raise InputError(f"--view must be eavesdropper or aggregate, got {view!r}.")
    if colluders is not None and view != View.AGGREGATE.value:
        raise InputError("--colluders is for --view aggregate, in which silos see only sums. Leave it out.")
    return view == View.AGGREGATE.value


def _print_participant(directory: Path) -> None:
    from dpadmm.data.schema import Schema
    from dpadmm.federation.columns import profile_terms
    from dpadmm.federation.keys import fingerprint
    from dpadmm.federation.silo import Silo

    silo = Silo(directory)
    is_public = silo.policy.relation.has_public_sizes
    records = f"records = {silo.records}" if is_public else "# records = its part of the agreed nominal number"
    typer.echo(
        f"\n[[participants]]\nname = {json.dumps(silo.policy.name, ensure_ascii=False)}\n"
        f'{records}\nkey = "{silo.public_key}"'
    )
    schema = Schema.load(silo.files.schema)
    typer.echo(f'# schema = "{schema.digest}"')
    numbers = ", ".join(f"{name} = {number}" for name, number in profile_terms(schema).items())
    typer.echo(f"# dimension = {schema.dimension}; with a profile_share also: {numbers}")
    typer.echo(f"\nFingerprint, for the other owners but not through the coordinator: {fingerprint(silo.public_key)}")
    silo.close()


custody.add_to_silo(app)
operations.add_to_silo(app)
