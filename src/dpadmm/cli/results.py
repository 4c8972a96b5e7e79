"""A trained model on the terminal: a short table, and the same as JSON."""

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dpadmm.cli.figures import cell
from dpadmm.privacy.protection import covers
from dpadmm.reporting.codec import encode
from dpadmm.reporting.facts import SavedModel


def model_json(model: SavedModel) -> dict[str, Any]:
    """Return everything about the model but its curves and schema, with what is covered and protected in words."""
    document = encode(model)
    words = {"covers": covers("the model"), "protects": str(model.guarantee.protected)}
    return words | {key: value for key, value in document.items() if key not in ("noise", "history", "schema")}


def print_model(model: SavedModel, place: Path, report: Path | None) -> None:
    """Print what was released, for whom it is safe, and what to do next."""
    said, console = model.guarantee, Console(highlight=False)
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    label = "Certified" if said.is_release else "NOT PRIVATE, would cost"
    table.add_row(label, f"[bold]epsilon {said.epsilon:.4g}[/bold], delta {said.delta:.3g} ({said.strength})")
    table.add_row("Protects", f"{said.protected} from the {said.view}")
    table.add_row("Covers", covers("the model"))
    table.add_row("Trained on", f"{model.records} records in {len(model.silos)} silo(s), {model.wiring.words}")
    table.add_row("Tables", model.custody.words(len(model.silos)))
    if model.spending is not None:
        spent = model.spending
        table.add_row(
            "Budget", cell(f"epsilon {spent.spent_epsilon:.4g} of {spent.budget_epsilon:.4g} spent in {spent.ledger}")
        )
    elif said.is_release:
        words = "no ledger: nothing remembers what these data have spent. Keep one: --ledger FILE --budget EPSILON"
        table.add_row("Budget", words)
    table.add_row("Model", cell(place))
    table.add_row(
        "Report", cell(report if report is not None else f"make one: dpadmm report {shlex.quote(str(place))}")
    )
    console.print(table)
