"""`dpadmm algorithms`: the table of methods, read from the registry."""

import json

from rich.console import Console
from rich.table import Table

from dpadmm.methods.method import by_name


def show(is_json: bool) -> None:
    """Print every registered method: name, who talks to whom, certificate, one line."""
    console, abouts = Console(), [method.about for method in by_name().values()]
    if is_json:
        rows = [
            {"name": a.name, "topology": a.topology.value, "certificate": a.certificate, "summary": a.summary}
            for a in abouts
        ]
        console.print_json(json.dumps(rows))
        return
    table = Table(title="Methods")
    for column in ("name", "who talks to whom", "certificate", "what it does"):
        table.add_column(column)
    for a in abouts:
        table.add_row(a.name, a.topology.value, a.certificate, a.summary)
    console.print(table)
