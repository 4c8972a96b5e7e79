"""`dpadmm predict`: predictions of a saved model, with the names of the table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm.cli import options
from dpadmm.cli.declare import option_of, takes
from dpadmm.cli.terminal import print_reading
from dpadmm.errors import InputError
from dpadmm.settings import CellRules, EvaluationSettings, TableFormat

if TYPE_CHECKING:
    from collections.abc import Sequence


@takes(written=TableFormat, cells=CellRules)
def predict(
    model: options.ModelFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows to predict: a table of any format.")],
    written: TableFormat,
    cells: CellRules,
    out: Annotated[Path | None, typer.Option(help="CSV file to write. Default: print the predictions.")] = None,
    id_columns: Annotated[
        list[str] | None, typer.Option("--id", metavar="COLUMN", help="Copy this column too.")
    ] = None,
    threshold: Annotated[float | None, option_of(EvaluationSettings, "threshold")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: options.Json = False,
) -> None:
    """Predict the label of every row. The label column is not needed and not read.

    Predictions come from the released model, so they cost no further privacy. They are in the order of the rows; --id
    adds a column that says whose they are.

    Example: dpadmm predict model.json new.csv --id patient --out predictions.csv
    """
    import pandas as pd

    from dpadmm.cli.terminal import print_json, print_line
    from dpadmm.core.model import ReleasedModel
    from dpadmm.data.reading import read_file
    from dpadmm.models.files import check_apart, check_writable, write_file
    from dpadmm.models.predict import predict_from_scores, probabilities_from_scores, score_rows

    check_apart({"--out": out}, [model, file])
    released = ReleasedModel.load(model)
    if out is not None:
        check_writable(out, may_replace=force)
    label, own = released.schema.label, id_columns or []
    read = read_file(file, written)
    if not json:
        print_reading({str(file): read.written})
    kept = _kept(file, read.written, own)
    scores = score_rows(released, read.frame, where=str(file), screening=cells)
    table = pd.DataFrame({label.name: predict_from_scores(released, scores, threshold)})
    if released.has_probabilities:
        chances, classes = probabilities_from_scores(released, scores), label.classes
        names = ["probability"] if len(classes) == 2 else [f"probability of {name}" for name in classes]
        table[names] = chances[:, -len(names) :]
    if set(own) & set(table.columns):
        raise InputError("--id names a column that the predictions also contain. Rename it in the file.")
    table = pd.concat([kept, table], axis=1)
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


def _kept(file: Path, written: TableFormat, names: "Sequence[str]") -> Any:
    """Return the columns that say whose a row is, as they stand in the file: an identifier is no number."""
    from dataclasses import replace

    import pandas as pd

    from dpadmm.data.reading import read_file
    from dpadmm.data.tables import check_present

    if not names:
        return pd.DataFrame()
    is_text = written.sep is not None
    frame = read_file(file, replace(written, decimal="." if is_text else None, na_values=())).frame
    check_present(str(file), names, list(frame.columns))
    return frame[list(names)].astype("string")
