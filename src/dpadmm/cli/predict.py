"""`dpadmm predict`: predictions of a saved model, in the words of the table."""

from pathlib import Path
from typing import Annotated

import typer

from dpadmm.cli import options
from dpadmm.cli.terminal import clear_failures


def predict(
    model: options.ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows to predict, CSV or Parquet.")],
    out: Annotated[Path | None, typer.Option(help="CSV file to write; else they are printed.")] = None,
    header: options.Header = True,
    missing: options.MissingWord = "error",
    unlisted: options.UnlistedWord = "error",
    out_of_range: options.OutOfRangeWord = "clip",
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    json: options.Json = False,
) -> None:
    """Predict the label of every row. The label's column is not needed and not read.

    Predictions follow from the released model, so they cost the training records nothing.
    """
    with clear_failures():
        import pandas as pd

        from dpadmm.cli.terminal import print_json, print_line
        from dpadmm.datasets.schema import Screening
        from dpadmm.datasets.tables import read_table
        from dpadmm.reporting.files import check_apart, check_writable, write_file
        from dpadmm.reporting.model import ReleasedModel

        check_apart({"--out": out}, [model, file])
        released = ReleasedModel.load(model)
        if out is not None:
            check_writable(out, may_replace=force)
        policies = Screening.of(missing, unlisted, out_of_range)
        scores = released.scores(read_table(file, has_header=header), where=str(file), screening=policies)
        table = pd.DataFrame({released.schema.label.name: released.answers(scores)})
        if released.has_probabilities:
            chances, classes = released.probabilities(scores), released.schema.label.classes
            names = ["probability"] if len(classes) == 2 else [f"probability of {name}" for name in classes]
            table[names] = chances[:, -len(names) :]
        text = table.to_csv(index=False)
        if out is not None:
            write_file(out, text.encode())
        if json:
            plain = table.astype(object).where(table.notna(), None)
            columns = {name: plain[name].tolist() for name in plain.columns}
            print_json({"command": "predict", "rows": len(table), "out": out and str(out), "predictions": columns})
        elif out is None:
            typer.echo(text, nl=False)
        else:
            print_line(f"Wrote {len(table)} predictions to {out}.")
