"""The `dpadmm` command: thin typer commands over the library."""

import inspect
import re
from functools import wraps
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from dpadmm import __version__
from dpadmm.cli.terminal import remember_options, report_failures

TRAIN, BUDGET, MACHINES, EVIDENCE = "Train and use a model", "Budget", "Between machines", "Research"
COMMANDS = {
    "demo": (TRAIN, "Train one private breast-cancer model over four hospitals, and write the report."),
    "schema": (TRAIN, "Draft and check the public schema of tables."),
    "plan": (TRAIN, "Plan a run: method, rounds, noise, expected utility, and a warning if it is hopeless."),
    "fit": (TRAIN, "Train one private model over the tables of one or several silos."),
    "predict": (TRAIN, "Predict the rows of a table."),
    "evaluate": (TRAIN, "Measure a model on public data, or on private data for a stated epsilon."),
    "summary": (TRAIN, "Show a model's coefficients, with confidence intervals where it has them."),
    "report": (TRAIN, "Write the report on a model as one HTML page."),
    "export": (TRAIN, "Export a model for programs without dpadmm."),
    "methods": (TRAIN, "List every method: who talks to whom, and what certifies it."),
    "ledger": (BUDGET, "What was spent on data, and what is left."),
    "silo": (MACHINES, "Keep a silo, and answer a coordinator."),
    "coordinator": (MACHINES, "Invite silos to a study, and serve its runs."),
    "federate": (MACHINES, "Draft the terms of a run, run it, or rehearse it."),
}
"""Panel and one line of every command; the module of the same name is imported when the command is asked for."""

RESEARCH = ("account", "audit", "calibrate", "reproduce")
"""Commands that dpadmm-research adds."""


def added_commands() -> dict[str, EntryPoint]:
    """Return the commands that other installed distributions add, by name."""
    return {each.name: each for each in entry_points(group="dpadmm.commands")}


class Commands(TyperGroup):
    """All commands, with those that other distributions add by the entry point `dpadmm.commands`.

    A word that is none of an option's is answered with the nearest one that is.
    """

    is_listing = False

    def __init__(self, **options: Any) -> None:
        """Know the names, among which the nearest is suggested."""
        super().__init__(**options)
        self.commands: Any = dict.fromkeys(COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*COMMANDS, *sorted(added_commands())]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List all commands without importing ours."""
        self.is_listing = True
        super().format_help(ctx, formatter)
        self.is_listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, which is imported when it is asked for."""
        if cmd_name in COMMANDS:
            panel, line = COMMANDS[cmd_name]
            if self.is_listing:
                return TyperCommand(cmd_name, help=line, rich_help_panel=panel)
            found = _imported(cmd_name)
        elif cmd_name in added_commands():
            found = typer.main.get_command(added_commands()[cmd_name].load())
            found.rich_help_panel = EVIDENCE  # type: ignore[attr-defined]
        elif cmd_name in RESEARCH:
            ctx.fail(f"`dpadmm {cmd_name}` is part of dpadmm-research. In a checkout, run: pip install ./research")
        else:
            return None
        found.name = cmd_name
        _restore_argument_help(found)
        remember_options(found)
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as problem:
            # Its text alone is the same in all versions of typer, but for what they may begin with.
            given = re.search(r"'(.*)' is not one of (.*)", problem.message)
            if given is None:
                raise
            from dpadmm.checks import nearest

            choices = re.findall("'(.*?)'", given[2])
            reported = f"{given[0]}{nearest(given[1], choices)}"
            raise typer.BadParameter(reported, problem.ctx, problem.param, problem.param_hint) from problem


def _imported(name: str) -> Any:
    """Return a command, or group of commands, of the module of its name."""
    module, holder = import_module(f"dpadmm.cli.{name}"), typer.Typer(add_completion=False)
    holder.callback()(lambda: None)  # so that a command stays one of several
    if hasattr(module, "app"):
        holder.add_typer(module.app, name=name)
    else:
        holder.command(name)(getattr(module, name))
    found = typer.main.get_group(holder).commands[name]
    for each in getattr(found, "commands", {name: found}).values():
        each.callback = _failing_clearly(each.callback, needs_extra=COMMANDS[name][0] == MACHINES)
    return found


def _failing_clearly(act: Any, *, needs_extra: bool) -> Any:
    """Return what a command does, which ends as `clear_failures` says; that an extra lacks is said before anything."""

    @wraps(act)
    def run(*args: Any, **values: Any) -> None:
        with report_failures():
            if needs_extra:
                from dpadmm.federation.keys import need_extra

                need_extra()
            act(*args, **values)

    return run


def _restore_argument_help(command: Any) -> None:
    """Set the help of positional arguments: click from 8.5 on clears what typer up to 0.20 has set."""
    for each in getattr(command, "commands", {}).values():
        _restore_argument_help(each)
    stated = {} if command.callback is None else inspect.signature(command.callback).parameters
    for param in command.params:
        if isinstance(param, TyperArgument) and param.help is None:
            about = get_args(stated[param.name].annotation)[1:]
            param.help = next((each.help for each in about if isinstance(each, ArgumentInfo)), None)


app = typer.Typer(
    cls=Commands,
    help="Differentially private distributed optimisation by ADMM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpadmm {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train one model over data that may not be pooled."""
