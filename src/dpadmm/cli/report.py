"""`dpadmm report`: the page that a data-protection officer can read."""

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli import options


def report(
    model: options.ModelFile,
    out: Annotated[Path | None, typer.Option(help="HTML file to write. Default: MODEL.html.")] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Show what this ledger says now. Default: what it said after training.")
    ] = None,
    purpose: options.Purpose = "",
    controller: options.Controller = "",
    contact: options.Contact = "",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: options.Json = False,
) -> None:
    """Write one self-contained HTML page: what was trained on what, who is protected from whom, what it cost.

    With --json, print every fact of the page instead and write nothing (unless --out is given).

    Example: dpadmm report model.json --ledger study.ledger --out report.html
    """
    from dpadmm.cli.terminal import print_json, print_line
    from dpadmm.codec import encode
    from dpadmm.core.model import ReleasedModel
    from dpadmm.models.files import check_apart, check_writable

    place = out if out is not None or json else model.with_suffix(".html")
    check_apart({"--out": place}, [model], ledger)
    released = ReleasedModel.load(model)
    spending = released.spending if ledger is None else released.spending_now(ledger)
    if place is not None:
        check_writable(place, may_replace=force)
        released.report(
            place, spending=spending, name=model.name, purpose=purpose, controller=controller, contact=contact
        )
    if json:
        facts = {"command": "report", "page": place and str(place)}
        print_json(facts | encode(released) | {"spending": encode(spending)})
    else:
        print_line(f"Wrote {place}. Open it in a browser, or print it.")
