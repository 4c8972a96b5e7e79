"""`dpadmm ledger`: read, check and export a ledger, and change its budget. Only `budget` writes to it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm.cli.terminal import cell, json_number, print_json, print_line
from dpadmm.codec import encode
from dpadmm.errors import InputError, without_controls

if TYPE_CHECKING:
    from dpadmm.privacy.ledger import KeptProfile, Ledger, LedgerStatement, RunSpending

app = typer.Typer(help="Read, check and export a privacy ledger; change its budget.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger file.")]
Head = Annotated[str | None, typer.Option(help="A head noted earlier, in full, to be looked for.", metavar="DIGEST")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def _open(path: Path, expected_head: str | None) -> "Ledger":
    from dpadmm.privacy.ledger import open_for_reading

    return open_for_reading(path, expected_head=expected_head)


@app.command()
def show(file: File, expected_head: Head = None, json: Json = False) -> None:
    """Show the budget, what is spent and left, and the releases of every run. Reads no data and changes nothing.

    Example: dpadmm ledger show study.ledger
    """
    with _open(file, expected_head) as ledger:
        statement, runs, profiles = ledger.statement(), ledger.runs(), ledger.profiles()
        if json:
            print_json({"command": "ledger show", **_as_json(statement, runs, profiles)})
        else:
            _print_statement(statement, runs)
            _print_profiles(profiles)


@app.command()
def export(
    file: File,
    out: Annotated[Path, typer.Argument(metavar="OUT.json", help="New file to write; never overwritten.")],
    expected_head: Head = None,
) -> None:
    """Write the statement and every entry as readable JSON, for people without this package.

    Example: dpadmm ledger export study.ledger study.json
    """
    from dpadmm.models.files import check_apart

    check_apart({"OUT.json": out}, [], file)
    with _open(file, expected_head) as ledger:
        if out.exists() or not out.parent.is_dir():
            raise InputError(f"{out} exists already, or its folder does not. Give a new file in an existing folder.")
        ledger.export_json(out)
        print_line(f"Wrote {out} (head {ledger.head}). The key file is not included: protect it like the data.")


@app.command()
def budget(
    file: File,
    epsilon: Annotated[float, typer.Option(help="New budget, > 0.")],
    delta: Annotated[float, typer.Option(help="New delta, in [0, 1); 0 for pure epsilon.")],
    reason: Annotated[str, typer.Option(help="Why; recorded in the ledger for good.")],
    expected_head: Head = None,
) -> None:
    """Change the budget. The change and its reason are recorded; a budget below what is already spent is refused.

    Example: dpadmm ledger budget study.ledger --epsilon 3 --delta 1e-5 --reason "second study approved"
    """
    from dpadmm.privacy.ledger import Budget, Ledger

    wanted = Budget(epsilon=epsilon, delta=delta)
    with Ledger.open(file, expected_head=expected_head) as ledger:
        before = ledger.budget
        ledger.set_budget(wanted, reason=reason)
        typer.echo(
            f"Budget changed from epsilon {before.epsilon:.6g}, delta {before.delta:.3g} to epsilon "
            f"{epsilon:.6g}, delta {delta:.3g}. Head {ledger.head}"
        )


@app.command()
def verify(file: File, expected_head: Head = None) -> None:
    """Check that the ledger is intact, and print its head to note down. Changes nothing.

    Example: dpadmm ledger verify study.ledger
    """
    with _open(file, expected_head) as ledger:
        typer.echo(f"Sound. Head {ledger.verify()}")


def _as_json(
    statement: "LedgerStatement", runs: "tuple[RunSpending, ...]", profiles: "tuple[KeptProfile, ...]"
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "budget": asdict(statement.budget),
        "spent_epsilon": json_number(statement.spent_epsilon),
        "left_epsilon": statement.left_epsilon,
        "releases": statement.releases,
        "refusals": statement.refusals,
        **encode(statement.protection),
        "strength": statement.strength.value,
        "standing": statement.standing,
        "declared": list(statement.declared),
        "holds_adaptively": statement.holds_adaptively,
        "head": statement.head,
        "entries": statement.entries,
        "data_version": statement.version,
        "data_since": statement.version_since,
        "silos": [asdict(silo) | {"spent_epsilon": json_number(silo.spent_epsilon)} for silo in statement.silos],
        "runs": [asdict(run) | {"alone_epsilon": json_number(run.alone_epsilon)} for run in runs],
        "profiles": [{key: value for key, value in encode(kept).items() if key != "data"} for kept in profiles],
    }


def _print_statement(statement: "LedgerStatement", runs: "tuple[RunSpending, ...]") -> None:
    from dataclasses import replace

    from rich.console import Console
    from rich.table import Table

    silos = tuple(replace(each, silo=without_controls(each.silo)) for each in statement.silos)
    declared = tuple(map(without_controls, statement.declared))
    print_line(str(replace(statement, silos=silos, declared=declared)))
    if not runs:
        return
    table = Table(title="Releases by run", title_justify="left")
    versions = ("data",) if statement.version > 1 else ()
    for name in ("run", "algorithm", *versions, "releases", "silos", "epsilon alone", "of it profile", "last"):
        is_text = name in ("run", "algorithm", "last")
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for run in runs:
        profile = "" if run.profile_epsilon is None else f"{run.profile_epsilon:.3g}"
        of_silos = str(run.silos or "in sum")  # one noise that hides all silos together belongs to none of them
        figures = (str(run.releases), of_silos, f"{run.alone_epsilon:.6g}", profile, run.last_time[:19])
        table.add_row(*map(cell, (run.run, run.algorithm, *(str(run.version) for _ in versions), *figures)))
    Console(highlight=False).print(table)


def _print_profiles(profiles: "tuple[KeptProfile, ...]") -> None:
    from rich.console import Console
    from rich.table import Table

    if not profiles:
        return
    table = Table(title="Profiles kept for later fits, at no cost", title_justify="left")
    for name in ("run", "columns", "counts", "records", "noise", "protects"):
        table.add_column(name, justify="left" if name in ("run", "protects") else "right", overflow="fold")
    for kept in profiles:
        protects = f"{kept.protection} from {kept.protection.observer}"
        figures = (str(kept.columns), str(len(kept.counts)), str(kept.records), f"{kept.noise_std:.4g}")
        table.add_row(*map(cell, (kept.run, *figures, protects)))
    Console(highlight=False).print(table)
