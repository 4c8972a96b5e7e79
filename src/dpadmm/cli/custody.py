"""`dpadmm silo new-data`, `silo rotate-key` and `coordinator rotate-key`: what changes while nobody serves."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.cli import options
from dpadmm.cli.terminal import clear_federation_failures, print_notes

if TYPE_CHECKING:
    from dpadmm.data.table_format import TableFormat
    from dpadmm.federation.admin.custody import DataChange, KeyChange
    from dpadmm.federation.agreement import Agreement
    from dpadmm.federation.policy import Policy
    from dpadmm.federation.silo import Silo

Abandon = Annotated[
    bool, typer.Option("--abandon", help="End runs that are not finished, for good; what they spent stays spent.")
]
Forget = Annotated[bool, typer.Option("--forget", help="Destroy the old key instead of keeping it aside.")]
SiloDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="The silo's directory.")]
_AS_BEFORE = "Default: as the policy says."


def add_to_silo(app: typer.Typer) -> None:
    """Add the commands of a silo's owner."""
    app.command("new-data")(new_data)
    app.command("rotate-key")(rotate_silo_key)


def add_to_coordinator(app: typer.Typer) -> None:
    """Add the command of a coordinator's owner."""
    app.command("rotate-key")(rotate_coordinator_key)


@options.reads_tables
def new_data(
    directory: SiloDirectory,
    written: "TableFormat",
    data: Annotated[Path, typer.Option(help="The new version of the private table.")],
    missing: Annotated[
        Literal["error", "fill", "blank"] | None, typer.Option(help=f"Missing value. {_AS_BEFORE}")
    ] = None,
    unlisted: Annotated[
        Literal["error", "zero", "blank"] | None,
        typer.Option(help=f"Category that the schema does not list. {_AS_BEFORE}"),
    ] = None,
    out_of_range: Annotated[
        Literal["clip", "error"] | None, typer.Option(help=f"Number outside its bounds. {_AS_BEFORE}")
    ] = None,
    abandon: Abandon = False,
) -> None:
    """Continue with a changed table: a new version of the data, under the same key, ledger and budget.

    The table is read like the earlier one, unless an option says otherwise. What was spent on earlier versions still
    counts. Stop the silo's process first. If the command is interrupted, run it again.

    Example: dpadmm silo new-data clinic --data patients-2027.csv
    """
    with clear_federation_failures():
        from dataclasses import replace

        from dpadmm.data.schema import Screening
        from dpadmm.federation.admin.custody import change_data
        from dpadmm.federation.locks import sole
        from dpadmm.federation.policy import Policy
        from dpadmm.federation.silo_files import SiloFiles

        files = SiloFiles(directory)
        files.check()
        with sole(files.lock, "This silo"):
            policy = Policy.load(files.policy)
            now = policy.screening
            policy = replace(
                policy,
                data=str(data.resolve()),
                written=_read_next(written, policy.written, data),
                screening=Screening.of(
                    missing or now.missing.value, unlisted or now.unlisted.value, out_of_range or now.out_of_range.value
                ),
            )
            change = change_data(files, policy, may_close=abandon)
        print_notes(change.notes)
        typer.echo(_data_words(change, policy, files.entry))


def _read_next(said: "TableFormat", earlier: "TableFormat", data: Path) -> "TableFormat":
    """Return how a new table is read: as the earlier one, where nothing else is said and it is of the same kind."""
    from dpadmm.data.table_format import is_text_file

    return said.over(earlier if is_text_file(data) else earlier.stored())


def rotate_silo_key(directory: SiloDirectory, forget: Forget = False, abandon: Abandon = False) -> None:
    """Give a silo a new identity key; ledger, budget, data and rules stay.

    Wait until the coordinator says that its runs are done, and stop the silo's process first. If the command is
    interrupted, run it again.

    Example: dpadmm silo rotate-key clinic
    """
    with clear_federation_failures():
        from dpadmm.federation.admin.custody import rotate_silo_key as rotate
        from dpadmm.federation.keys import fingerprint
        from dpadmm.federation.locks import sole
        from dpadmm.federation.silo_files import SiloFiles

        files = SiloFiles(directory)
        files.check()
        with sole(files.lock, "This silo"):
            change = rotate(files, is_old_kept=not forget, may_close=abandon)
        typer.echo(
            f'{directory} has a new key.\nkey = "{change.key.public}"\n'
            f"Fingerprint, for the other owners but not through the coordinator: {fingerprint(change.key.public)}\n"
            f"{_kept_words(change)}{_closed_words(change.closed)}{_unfit_words(change.unfit, 'name the old key')}"
            f"Now send {files.entry} to whoever drafts the terms. Tell the other owners the new fingerprint: those who "
            "confirmed the old one confirm the new one with the next terms (`dpadmm silo approve --peer`) and must "
            "refuse terms that name the old key. Make a new backup of the directory: an earlier one has only the old "
            "key, and does not know what is spent from now on."
        )


def rotate_coordinator_key(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The coordinator's directory.")],
    forget: Forget = False,
    abandon: Abandon = False,
) -> None:
    """Give a coordinator a new identity key. Stop its process first. If the command is interrupted, run it again.

    Example: dpadmm coordinator rotate-key coordinator
    """
    with clear_federation_failures():
        from dpadmm.federation.admin.custody import rotate_coordinator_key as rotate
        from dpadmm.federation.coordinator_files import CoordinatorFiles
        from dpadmm.federation.locks import sole

        files = CoordinatorFiles(directory)
        files.check()
        with sole(files.lock, "The coordinator of this directory"):
            change = rotate(files, is_old_kept=not forget, may_close=abandon)
        typer.echo(
            f'{directory} has a new key. For federation files:\ncoordinator = "{change.key.public}"\n'
            f"{_kept_words(change)}{_closed_words(change.closed)}"
            "Now tell the owners of the silos: later terms name the new key. Where policy.toml lists `coordinators`, "
            "add the new key. If the old key may have been stolen, remove it there: silos would still answer whoever "
            "has it in runs that were approved under it."
        )


def left_words(silo: "Silo") -> str:
    """Say what is left of a silo's budget."""
    from dpadmm.privacy.ledger import open_for_reading

    with open_for_reading(silo.files.ledger(silo.policy.noise)) as ledger:
        stated = ledger.statement()
    left = f"Left in this silo's ledger: epsilon {stated.left_epsilon:.6g} at delta {stated.budget.delta:.3g}"
    # without this an approval of more than what is left looks like a fault
    together = " (runs are composed, so their epsilons do not simply add up)" * (stated.spent_epsilon > 0)
    return left + together


def room_words(silo: "Silo", agreement: "Agreement") -> str:
    """Say what is left of a silo's budget, and which other runs may spend it: approval reserves nothing."""
    from dpadmm.federation.admin.custody import open_runs

    others = [each for each in open_runs(silo) if each.agreement.digest != agreement.digest]
    lines = [left_words(silo)]
    if others:
        lines.append(
            "None of it is reserved. Other runs that are approved and not finished, with what each would still cost:"
        )
        lines += [f"  {each.agreement.run!r}: epsilon {each.epsilon:.6g}" for each in others]
    return "\n".join(lines)


def _data_words(change: "DataChange", policy: "Policy", entry: Path) -> str:
    said = change.statement
    begun = "now uses" if change.is_new else "already uses"
    records = "" if change.records is None else f": {change.records} records"
    return (
        f"{policy.name} {begun} version {said.version} of its data, {policy.data}{records}.\n"
        f"Spent on all versions: epsilon {said.spent_epsilon:.6g} of {said.budget.epsilon:.6g}; left "
        f"{said.left_epsilon:.6g}.\n"
        f"{_closed_words(change.closed)}{_unfit_words(change.unfit, 'state another number of records')}"
        f"Now send {entry} to whoever drafts the terms. Note the ledger's head: {said.head}"
    )


def _kept_words(change: "KeyChange") -> str:
    if change.kept is None:
        return "The old key is destroyed here; copies of the directory still contain it.\n"
    return f"The old key is kept in {change.kept}, only to show what it has signed.\n"


def _closed_words(runs: tuple[str, ...]) -> str:
    return f"Ended for good: {', '.join(map(repr, runs))}.\n" if runs else ""


def _unfit_words(runs: tuple[str, ...], why: str) -> str:
    return (
        f"Approved runs that can no longer be joined, because their terms {why}: {', '.join(map(repr, runs))}.\n"
        if runs
        else ""
    )
