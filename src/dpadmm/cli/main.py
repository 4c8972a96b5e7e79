"""The `dpadmm` command: thin typer commands over the library."""

from typing import Annotated

import typer

from dpadmm import __version__
from dpadmm.cli import account, calibrate, ledger
from dpadmm.cli.failures import clear_failures

app = typer.Typer(
    help="Differentially private distributed optimisation by ADMM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(account.app, name="account")
app.add_typer(calibrate.app, name="calibrate")
app.add_typer(ledger.app, name="ledger")


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
    from dpadmm.cli.algorithms import show

    show(is_json=json)


@app.command()
def demo(
    mu: Annotated[float, typer.Option(help="Ridge strength, > 0.")] = 0.01,
    rounds: Annotated[int, typer.Option(help="Most rounds of either method.")] = 300,
) -> None:
    """Train one breast-cancer model over four hospitals, through a coordinator and over a ring of peers."""
    from dpadmm.cli.demo import show

    with clear_failures():
        show(mu=mu, rounds=rounds)
