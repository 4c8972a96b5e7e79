"""`dpadmm demo`: four hospitals train one private breast-cancer model, from CSV files to the report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpadmm import checks
from dpadmm.cli import options
from dpadmm.errors import InputError
from dpadmm.settings import CellRules, FitSettings, OutputFiles, TrainingOptions

if TYPE_CHECKING:
    import pandas as pd

    from dpadmm.core.model import ReleasedModel

PUBLISHED_AUC = 0.99
"""What models without privacy reach on this data set; it is published, so that the signal may be stated."""

_PURPOSE = "to show what one private model over four hospitals costs and how good it is, on published records"
PUBLIC = "the four hospitals' own records: a published data set, so accuracy may be shown"


def demo(
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 1e-5,
    out: Annotated[Path | None, typer.Option(help="New folder for the files. Default: dpadmm-demo, or -2, ...")] = None,
    json: options.Json = False,
) -> None:
    """Train one private breast-cancer model over four hospitals, with secure noise, and write the report.

    Example: dpadmm demo --epsilon 2
    """
    from dpadmm.cli.fit import model_json
    from dpadmm.cli.terminal import print_json

    checks.positive("epsilon", epsilon)
    checks.open_unit("delta", delta)
    folder = _folder(out)
    model, page = _run(folder, epsilon, delta, is_json=json)
    if json:
        print_json({"command": "demo", "folder": str(folder), "report": str(page)} | model_json(model))


def _folder(wanted: Path | None) -> Path:
    if wanted is None:
        numbered = [Path("dpadmm-demo"), *(Path(f"dpadmm-demo-{i}") for i in range(2, 1000))]
        wanted = next(folder for folder in numbered if not folder.exists())
    try:
        wanted.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"The folder {wanted} cannot be made: {error.strerror}. Give a new one with --out.") from error
    return wanted


def _hospitals() -> "list[pd.DataFrame]":
    """Return the raw tables of the four hospitals."""
    import numpy as np
    from sklearn import datasets

    from dpadmm.data.examples import DEAL_SEED, HOSPITAL_SIZES
    from dpadmm.data.partition import by_sizes

    frame = datasets.load_breast_cancer(as_frame=True).frame
    rows = by_sizes(len(frame), HOSPITAL_SIZES, np.random.default_rng(DEAL_SEED))
    return [frame.iloc[members] for members in rows]


def _run(folder: Path, epsilon: float, delta: float, *, is_json: bool) -> "tuple[ReleasedModel, Path]":
    from dataclasses import replace

    from rich.console import Console
    from rich.markup import escape

    from dpadmm.cli.fit import print_model
    from dpadmm.data.examples import BREAST_CANCER_SCHEMA, HOSPITALS
    from dpadmm.data.tables import read_silos
    from dpadmm.estimators.tables import TableFit, budgets_around
    from dpadmm.evaluation.evaluate import public_measurement
    from dpadmm.planner.planner import Plan

    console = Console(highlight=False, quiet=is_json)
    files, page = [folder / f"{name}.csv" for name in HOSPITALS], folder / "report.html"
    for file, frame in zip(files, _hospitals(), strict=True):
        frame.to_csv(file, index=False)
    BREAST_CANCER_SCHEMA.save(folder / "schema.json")
    tables = read_silos(files, None, protection=None)
    sizes = ", ".join(f"{name} {len(table.frame)}" for name, table in tables.items())
    console.print(
        "[bold]Four hospitals, one model.[/bold] They are simulated: this process reads all four tables. For a run "
        f"between machines, see `dpadmm federate`. Tables in {escape(str(folder))}: {sizes} records."
    )
    out = OutputFiles(model=folder / "model.json", title="Breast cancer at four hospitals", purpose=_PURPOSE)
    known, ledger = TrainingOptions(expected_auc=PUBLISHED_AUC, anyway=True), folder / "study.ledger"
    cost = FitSettings(epsilon=epsilon, delta=delta, ledger=ledger, budget=epsilon, out=out, training=known)
    training = TableFit.of(replace(cost, schema=BREAST_CANCER_SCHEMA), has_progress=not is_json)

    def show_plan(plan: Plan) -> None:
        console.print("\n[bold]The plan[/bold], made from public facts only:")
        console.print(plan.describe(), soft_wrap=True, markup=False)

    done = training.train(training.read(tables), show_plan)
    measured = public_measurement(done.model, tables.values(), CellRules(), PUBLIC, "published")
    model = replace(done.model, measurements=(measured,), budgets=tuple(budgets_around(done.plan.task)))
    place = model.save(done.place or folder)
    model.report(page, name=place.name)
    if not is_json:
        console.print("\n[bold]The result[/bold], with secure noise:")
        print_model(model, place, page)
        console.print(
            f"\nAccuracy [bold]{measured.value:.3f}[/bold] on all {measured.records} records (always the majority "
            f"class: {measured.baseline:.3f}). It may be shown because this data set is published. On private records "
            "it would be a release of its own; see `dpadmm evaluate --help`.\n\n[bold]Who is protected from whom:"
            "[/bold] every patient's record, from anyone who sees all messages between the hospitals and the final "
            "model: the other hospitals, an eavesdropper, the public. Not from the patient's own hospital.\n\n"
            f"Open [bold]{escape(str(page))}[/bold] in a browser for the full report."
        )
    return model, page
