"""`dpadmm coordinator`: make a coordinator, register the silos' nodes, serve."""

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli.terminal import clear_federation_failures

app = typer.Typer(help="Bring silos together: certificates, registered nodes, a SuperLink.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's directory.")]


@app.command()
def init(
    directory: Directory,
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address that silos will use; may be given several times.")
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="No certificates: plain HTTP, loopback only.")] = False,
) -> None:
    """Make a coordinator: a signing key, a private CA and a server certificate."""
    with clear_federation_failures():
        from dpadmm.engines.flower.coordinator_files import CoordinatorFiles

        key = CoordinatorFiles(directory).create(host or ["127.0.0.1", "localhost"], is_insecure=insecure)
        typer.echo(f'Made {directory}. For the federation file:\ncoordinator = "{key.public}"')
        if not insecure:
            typer.echo(f"Give every silo {directory / 'ca.pem'} (over a channel you trust).")


@app.command()
def register(
    directory: Directory,
    public_key: Annotated[Path, typer.Argument(metavar="NODE.pub", help="The silo's node.pub.")],
    name: Annotated[str, typer.Option(help="The silo's name.")],
) -> None:
    """Let a silo's node connect; the SuperLink must be running."""
    with clear_federation_failures():
        from dpadmm.engines.flower.coordinator_files import CoordinatorFiles

        CoordinatorFiles(directory).control().register(public_key, name)
        typer.echo(f"Registered {name}.")


@app.command()
def run(
    directory: Directory,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 9092,
) -> None:
    """Serve the SuperLink and the server app until interrupted; a SuperLink that dies is started again."""
    with clear_federation_failures():
        from dpadmm.engines.flower.conductor import run_coordinator
        from dpadmm.engines.flower.coordinator_files import CoordinatorFiles

        run_coordinator(CoordinatorFiles(directory), host, port)
