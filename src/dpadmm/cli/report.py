"""`dpadmm report`: the page that a data-protection officer can read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm.cli import options
from dpadmm.cli.failures import clear_failures
from dpadmm.cli.predict import Model

if TYPE_CHECKING:
    from dpadmm.reporting.facts import SavedModel


def report(
    model: Model,
    out: Annotated[Path | None, typer.Option(help="HTML file to write; MODEL.html if left out.")] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Show what this ledger says now; else what it said when trained.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the page.")] = False,
    json: options.Json = False,
) -> None:
    """Write one self-contained HTML page: what was trained on what, who is protected from whom, what it cost.

    With --json, print every fact of the page instead and write nothing (unless --out is given).
    """
    with clear_failures():
        from dpadmm.cli.figures import print_json, print_line
        from dpadmm.reporting.codec import encode
        from dpadmm.reporting.model_file import check_writable, load_model, write_file
        from dpadmm.reporting.outcome import spending_of
        from dpadmm.reporting.page import report_page
        from dpadmm.reporting.places import check_apart

        place = out if out is not None or json else model.with_suffix(".html")
        check_apart({"--out": place}, [model], ledger)
        saved = load_model(model)
        spending = saved.spending
        if ledger is not None:
            from dpadmm.privacy.ledger import open_for_reading

            _check_ledger(saved, ledger)
            with open_for_reading(ledger) as book:
                spending = spending_of(book, ledger.name)
        if place is not None:
            check_writable(place, may_replace=force)
            write_file(place, report_page(saved, spending, model.name).encode(errors="replace"))
        if json:
            facts = {"command": "report", "page": place and str(place)}
            print_json(facts | encode(saved) | {"spending": encode(spending)})
        else:
            print_line(f"Wrote {place}: open it in a browser, or print it.")


def _check_ledger(model: "SavedModel", ledger: Path) -> None:
    """Refuse a ledger that does not know the training of this model, which would show what other data have spent."""
    from dpadmm.errors import InputError, LedgerError
    from dpadmm.privacy.ledger import open_for_reading

    head = None if model.spending is None else model.spending.head
    with open_for_reading(ledger) as book:  # its own faults come first, in their own words
        is_known = head is not None or model.run in {run.run for run in book.runs()}
    try:
        with open_for_reading(ledger, expected_head=head):
            pass
    except LedgerError:
        is_known = False
    if not is_known:
        raise InputError(
            f"This is not the ledger the model was trained with, or an older copy of it: {ledger} does not contain "
            "what was recorded then. Give that ledger, or leave --ledger out."
        )
