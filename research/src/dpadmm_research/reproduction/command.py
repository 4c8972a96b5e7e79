"""`dpadmm reproduce`: the papers' figures and the scoreboard, one command each.

The figures are imported when the command runs, so that `dpadmm --help` stays fast.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm import checks
from dpadmm.cli.terminal import report_failures
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm_research.reproduction.figure import Order

_SCOREBOARD = "scoreboard"

app = typer.Typer(add_completion=False)


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Figures, such as p-admm/fig1; p-admm or scoreboard stands for all of its figures."),
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the figures.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All figures and the scoreboard.")] = False,
    runs: Annotated[int | None, typer.Option(help="Number of noisy runs. Default: as in the paper.")] = None,
    accounting: Annotated[
        str, typer.Option(help="How noise is calibrated: claimed (by the paper), certified (by proof) or both.")
    ] = "both",
    out: Annotated[Path, typer.Option(help="Folder for the results; finished parts in it are kept.")] = Path(
        "reproduction"
    ),
    toy: Annotated[bool, typer.Option("--toy", help="Toy size, to try it out in seconds.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the noise.")] = 0,
    jobs: Annotated[int, typer.Option(help="Number of processes.")] = 2,
    docs: Annotated[
        Path | None, typer.Option(help="Also write the pages of this documentation folder (with --all, or scoreboard).")
    ] = None,
) -> None:
    """Reproduce the papers' figures, claimed and certified side by side.

    Examples: dpadmm reproduce p-admm/fig1; dpadmm reproduce scoreboard --docs docs
    """
    with report_failures():
        if show_list:
            _show_list()
            return
        if everything == bool(names):
            raise InputError(
                "Name the figures to reproduce, or give --all; `dpadmm reproduce --list` shows the names.",
                setting="figure",
            )
        if docs is not None and not everything and names != [_SCOREBOARD]:
            raise InputError(
                f"The pages need every figure. With --docs, give --all, or {_SCOREBOARD!r} for its page alone.",
                setting="docs",
            )
        if docs is not None and (toy or runs is not None or accounting != "both"):
            raise InputError(
                "The pages show the papers' sizes and runs, claimed and certified. Leave out --toy, --runs and "
                "--accounting.",
                setting="docs",
            )
        checks.count("--jobs", jobs)
        _run(names or [], _order(toy, runs, accounting, seed), out, jobs, docs)


def _show_list() -> None:
    from rich.console import Console
    from rich.table import Table

    from dpadmm_research.reproduction.registry import FIGURES

    table = Table(title="Figures")
    for column in ("name", "what"):
        table.add_column(column)
    for figure in FIGURES.values():
        table.add_row(figure.name, figure.title)
    Console().print(table)


def _order(is_toy: bool, runs: int | None, accounting: str, seed: int) -> "Order":
    from dpadmm_research.reproduction.figure import Accounting, Order, Size

    try:
        chosen = Accounting(accounting)
    except ValueError:
        known = ", ".join(each.value for each in Accounting)
        meant = checks.nearest(accounting, known.split(", "))
        raise InputError(
            f"--accounting must be one of {known}, got {accounting!r}.{meant}", setting="accounting"
        ) from None
    return Order(Size.TOY if is_toy else Size.FULL, runs, chosen, seed)


def _run(names: list[str], order: "Order", out: Path, jobs: int, docs: Path | None) -> None:
    from rich.console import Console

    from dpadmm_research.comparison.adult import adult
    from dpadmm_research.reproduction.pages import write_pages
    from dpadmm_research.reproduction.registry import FIGURES
    from dpadmm_research.reproduction.runner import named
    from dpadmm_research.reproduction.runner import reproduce as compute

    if docs is not None and adult(order).is_invented:
        raise InputError(
            "The pages show the real Adult table, which was not found. Set DPADMM_DATA to its folder.",
            setting="DPADMM_DATA",
        )
    outcome = compute(names or list(FIGURES), order, out, processes=jobs, console=Console(stderr=True))
    for file in outcome.files:
        if file.suffix == ".md":
            typer.echo(f"{file.parent}: {file.name}, plots, numbers, settings")
    if docs is not None:
        write_pages(out, docs, named(names or list(FIGURES)))
        typer.echo(f"{docs}: scoreboard.md and reproduction/ written")
    typer.echo(
        f"{outcome.computed} parts computed, {outcome.found} found finished; {outcome.wall_seconds:.0f} s "
        f"({outcome.processor_seconds:.0f} s of processor time in all parts)."
    )
