"""`dpadmm algorithms`: the table of methods, read from the registry."""

import json

from rich.console import Console
from rich.table import Table

from dpadmm.algorithms.registry import ENTRIES


def show(is_json: bool) -> None:
    """Print every registered method: name, who talks to whom, certificate, one line."""
    console = Console()
    if is_json:
        rows = [
            {"name": e.name, "topology": e.topology.value, "certificate": e.certificate, "summary": e.summary}
            for e in ENTRIES
        ]
        console.print_json(json.dumps(rows))
        return
    table = Table(title="Methods")
    for column in ("name", "who talks to whom", "certificate", "what it does"):
        table.add_column(column)
    for entry in ENTRIES:
        table.add_row(entry.name, entry.topology.value, entry.certificate, entry.summary)
    console.print(table)
