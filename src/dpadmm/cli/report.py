"""`dpadmm report`: the page that a data-protection officer can read."""

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli import options
from dpadmm.cli.declare import takes
from dpadmm.settings import OutputFiles


@takes(page=(OutputFiles, "purpose controller contact force"))
def report(
    model: options.ModelFile,
    page: OutputFiles,
    out: Annotated[Path | None, typer.Option(help="HTML file to write. Default: MODEL.html.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Show what this ledger says now.")] = None,
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
        check_writable(place, may_replace=page.force)
        texts = {name: getattr(page, name) for name in ("purpose", "controller", "contact")}
        released.report(place, spending=spending, name=model.name, **texts)
    if json:
        facts = {"command": "report", "page": place and str(place)}
        print_json(facts | encode(released) | {"spending": encode(spending)})
    else:
        print_line(f"Wrote {place}. Open it in a browser, or print it.")
