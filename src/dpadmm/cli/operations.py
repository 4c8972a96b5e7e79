"""What administrators of a federation do: `status` and `doctor` of `dpadmm silo` and `dpadmm coordinator`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm.cli.terminal import clear_federation_failures, print_json, print_line

if TYPE_CHECKING:
    from dpadmm.federation.admin.checkups import Checkup

WATCH_SECONDS = 2.0
"""How often a screen that is watched is drawn anew."""

Silo = Annotated[Path, typer.Argument(metavar="DIR", help="The silo's directory.")]
Coordinator = Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's directory.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Watch = Annotated[bool, typer.Option("--watch", help="Refresh the screen until Ctrl-C.")]


def add_to_silo(app: typer.Typer) -> None:
    """Let `dpadmm silo` have these commands."""
    app.command("status")(silo_status)
    app.command("doctor")(silo_doctor)


def add_to_coordinator(app: typer.Typer) -> None:
    """Let `dpadmm coordinator` have these commands."""
    app.command("status")(coordinator_status)
    app.command("doctor")(coordinator_doctor)


def silo_status(
    directory: Silo,
    json: Json = False,
    watch: Watch = False,
    check_data: Annotated[
        bool, typer.Option("--check-data", help="Read the table, and compare it with the ledger.")
    ] = False,
) -> None:
    """Show the state of this silo: serving, connected, what is spent and left, every run, the latest refusals.

    Changes nothing, and works whether or not the silo is serving. Example: dpadmm silo status clinic --watch
    """
    with clear_federation_failures():
        from dpadmm.federation.admin.screens import silo_screen
        from dpadmm.federation.admin.silo_status import silo_status as status_of

        if json:
            told = status_of(directory, is_data_checked=check_data).document()
            print_json({"command": "silo status", **told})
            return
        _show(lambda width: silo_screen(status_of(directory, is_data_checked=check_data), width), is_watched=watch)


def coordinator_status(directory: Coordinator, json: Json = False, watch: Watch = False) -> None:
    """Show the state of this coordinator: serving, every run, who has joined, who has answered, who is missing.

    Changes nothing, and works whether or not it is serving. Example: dpadmm coordinator status coordinator
    """
    with clear_federation_failures():
        from dpadmm.federation.admin.coordinator_status import coordinator_status as status_of
        from dpadmm.federation.admin.screens import coordinator_screen

        if json:
            print_json({"command": "coordinator status", **status_of(directory).document()})
            return
        _show(lambda width: coordinator_screen(status_of(directory), width), is_watched=watch)


def _show(draw: Callable[[int], list[str]], *, is_watched: bool) -> None:
    """Print a screen, or draw it until Ctrl-C and leave the last one."""
    import time

    def drawn() -> str:
        return "\n".join(draw(_width()))

    if not is_watched:
        print_line(drawn())
        return
    from rich.live import Live
    from rich.text import Text

    try:
        with Live(Text(drawn()), screen=True, auto_refresh=False) as live:
            while True:
                live.update(Text(drawn()), refresh=True)
                time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        print_line(drawn())


def _width() -> int:
    import shutil

    from dpadmm.federation.admin.screens import WIDTH

    return shutil.get_terminal_size((WIDTH, 24)).columns


def silo_doctor(
    directory: Silo,
    coordinator: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where the coordinator listens. Default: where the silo last connected."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Find out why this silo does not work: files, table, ledger, disk, clock, and the connection to the coordinator.

    Reads the table. Safe while the silo is serving. Exit code 1 if anything must be fixed.
    Example: dpadmm silo doctor clinic --coordinator federation.example.org:9092
    """
    with clear_federation_failures():
        from dpadmm.federation.admin.silo_doctor import examine_silo

        _tell("silo doctor", directory, examine_silo(directory, coordinator), is_json=json)


def coordinator_doctor(directory: Coordinator, json: Json = False) -> None:
    """Find out why this coordinator does not work: files, disk, clock, and its port as silos see it.

    Safe while the coordinator is serving. Exit code 1 if anything must be fixed.
    Example: dpadmm coordinator doctor coordinator
    """
    with clear_federation_failures():
        from dpadmm.federation.admin.coordinator_doctor import examine_coordinator

        _tell("coordinator doctor", directory, examine_coordinator(directory), is_json=json)


def _tell(command: str, directory: Path, found: "list[Checkup]", *, is_json: bool) -> None:
    """Print findings; end with exit code 1 where there is a problem."""
    from dpadmm.federation.admin.checkups import document, has_problem
    from dpadmm.federation.admin.screens import checkup_screen

    if is_json:
        print_json({"command": command, "directory": str(directory.absolute()), **document(found)})
    else:
        print_line("\n".join(checkup_screen(found, _width())))
    if has_problem(found):
        raise typer.Exit(1)
