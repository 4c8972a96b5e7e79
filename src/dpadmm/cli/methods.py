"""`dpadmm methods`: the table of methods, read from the registry."""

from json import dumps

from dpadmm.cli import options


def methods(json: options.Json = False) -> None:
    """List every method: who talks to whom, and what certifies it.

    Example: dpadmm methods
    """
    from rich.console import Console
    from rich.table import Table

    from dpadmm.methods.base import by_name

    abouts = [method.about for method in by_name().values()]
    if json:
        rows = [
            {"name": a.name, "topology": a.topology.value, "certificate": a.certificate, "summary": a.summary}
            for a in abouts
        ]
        Console().print_json(dumps(rows))
        return
    table = Table(title="Methods")
    for column in ("name", "who talks to whom", "certificate", "what it does"):
        table.add_column(column)
    for a in abouts:
        table.add_row(a.name, a.topology.value, a.certificate, a.summary)
    Console().print(table)
