"""The `dpadmm` command: thin typer commands over the library."""

import inspect
import re
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperArgument, TyperGroup
from typer.models import ArgumentInfo

from dpadmm import __version__
from dpadmm.cli import (
    coordinator,
    demo,
    evaluate,
    export,
    federate,
    fit,
    ledger,
    plan,
    predict,
    report,
    schema,
    silo,
    summary,
)

RESEARCH = ("account", "audit", "calibrate", "reproduce")
"""Commands that dpadmm-research adds."""


def added() -> dict[str, EntryPoint]:
    """Return the commands that other installed distributions add, by name."""
    return {each.name: each for each in entry_points(group="dpadmm.commands")}


class Commands(TyperGroup):
    """All commands, with those that other distributions add by the entry point `dpadmm.commands`.

    A word that is none of an option's is answered with the nearest one that is.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *sorted(added())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; those of other distributions are imported when they are asked for."""
        found = super().get_command(ctx, cmd_name)
        if found is None and (entry := added().get(cmd_name)) is not None:
            found = typer.main.get_command(entry.load())
            found.name = cmd_name
        if found is None and cmd_name in RESEARCH:
            ctx.fail(f"`dpadmm {cmd_name}` is part of dpadmm-research. In a checkout, run: pip install ./research")
        if found is not None:
            _restore_argument_help(found)
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as problem:
            # Its words alone are the same in all versions of typer, but for what they may begin with.
            given = re.search(r"'(.*)' is not one of (.*)", problem.message)
            if given is None:
                raise
            from dpadmm.checks import nearest

            choices = re.findall("'(.*?)'", given[2])
            told = f"{given[0]}{nearest(given[1], choices)}"
            raise typer.BadParameter(told, problem.ctx, problem.param, problem.param_hint) from problem


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
app.add_typer(ledger.app, name="ledger")
app.add_typer(schema.app, name="schema")
app.add_typer(silo.app, name="silo")
app.add_typer(coordinator.app, name="coordinator")
app.add_typer(federate.app, name="federate")
for command in (
    fit.fit,
    predict.predict,
    evaluate.evaluate,
    export.export,
    plan.plan,
    report.report,
    summary.summary,
    demo.demo,
):
    app.command()(command)


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


@app.command()
def algorithms(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List every method: who talks to whom, and what certifies it.

    Example: dpadmm algorithms
    """
    from dpadmm.cli.terminal import clear_failures

    with clear_failures():
        from dpadmm.cli.algorithms import show

        show(is_json=json)
