"""The `dpadmm` command: thin typer commands over the library."""

from typing import Annotated

import typer

from dpadmm import __version__
from dpadmm.cli import (
    account,
    audit,
    calibrate,
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
    reproduce,
    schema,
    silo,
)

app = typer.Typer(
    help="Differentially private distributed optimisation by ADMM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(account.app, name="account")
app.add_typer(calibrate.app, name="calibrate")
app.add_typer(ledger.app, name="ledger")
app.add_typer(schema.app, name="schema")
app.add_typer(silo.app, name="silo")
app.add_typer(coordinator.app, name="coordinator")
app.add_typer(federate.app, name="federate")
app.command()(audit.audit)
for command in (
    fit.fit,
    predict.predict,
    evaluate.evaluate,
    export.export,
    plan.plan,
    report.report,
    demo.demo,
    reproduce.reproduce,
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List every method: who talks to whom, and what certifies it."""
    from dpadmm.cli.terminal import clear_failures

    with clear_failures():
        from dpadmm.cli.algorithms import show

        show(is_json=json)
