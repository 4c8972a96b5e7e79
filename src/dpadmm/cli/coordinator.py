"""`dpadmm coordinator`: invite silos to a study; or make a coordinator; and serve."""

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli import custody, joining, operations
from dpadmm.cli.terminal import clear_federation_failures, log_to_terminal

app = typer.Typer(help="Bring silos together. They connect to one port of the coordinator.", no_args_is_help=True)

app.command()(joining.invite)

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's directory.")]


@app.command()
def init(directory: Directory) -> None:
    """Make a coordinator: a directory with the key by which silos recognise it.

    Example: dpadmm coordinator init coordinator
    """
    with clear_federation_failures():
        from dpadmm.federation.coordinator_files import CoordinatorFiles

        key = CoordinatorFiles(directory).create()
        typer.echo(f'Made {directory}. For the federation file:\ncoordinator = "{key.public}"')


@app.command()
def run(
    directory: Directory,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all addresses of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 9092,
) -> None:
    """Serve until interrupted: wait for silos, and drive every run that `dpadmm federate` requests.

    Example: dpadmm coordinator run coordinator --host 0.0.0.0 --port 9092
    """
    with clear_federation_failures():
        from dpadmm.federation.admin.invitations import Studies
        from dpadmm.federation.coordinator_files import CoordinatorFiles
        from dpadmm.federation.https.processes import Ended, EndSignals
        from dpadmm.federation.https.service import LOOK_SECONDS, serving

        log_to_terminal()
        files, ending = CoordinatorFiles(directory), EndSignals()
        with serving(files, host, port, Studies(files)) as service:
            typer.echo(
                f"The coordinator of {directory} listens on {host}, port {port} (TLS 1.3; silos connect, each "
                f"recognised by its key).\nKey {service.key.public}\nTo start a run: `dpadmm federate --study NAME "
                f"--coordinator {directory}`. Ctrl-C stops the coordinator; runs are kept."
            )
            try:
                while not ending.is_asked:
                    service.look()
                    ending.sleep(LOOK_SECONDS)
            except Ended:
                pass
        typer.echo("Stopped. All runs are kept where they are.")


custody.add_to_coordinator(app)
operations.add_to_coordinator(app)
