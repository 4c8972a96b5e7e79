"""`dpadmm export`: a model for programs that do not know this package."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dpadmm.cli import options
from dpadmm.errors import InputError


def export(
    model: options.ModelFile,
    to: Annotated[Path, typer.Option(metavar="FILE", help=".joblib: a scikit-learn pipeline; .json: plain numbers.")],
    missing: Annotated[Literal["error", "fill"], typer.Option(help="With .joblib: for a missing value.")] = "error",
    unlisted: Annotated[
        Literal["error", "zero"], typer.Option(help="With .joblib: for an unlisted category.")
    ] = "error",
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: options.Json = False,
) -> None:
    """Write a model for use without this package: a scikit-learn pipeline, or JSON for any language.

    Both predict what the model predicts. The model is already released, so this costs no further privacy.

    Example: dpadmm export model.json --to pipeline.joblib --missing fill
    """
    import io

    from dpadmm.cli.terminal import print_json, print_line
    from dpadmm.core.model import ReleasedModel
    from dpadmm.models.files import check_apart, check_writable, write_file
    from dpadmm.settings import CellRules

    if to.suffix not in (".joblib", ".json"):
        raise InputError(f"--to must end in .joblib (a scikit-learn pipeline) or .json, got {str(to)!r}.")
    if to.suffix == ".json" and (missing, unlisted) != ("error", "error"):
        raise InputError("--missing and --unlisted are for .joblib. Whoever reads the JSON decides about such cells.")
    check_apart({"--to": to}, [model])
    released = ReleasedModel.load(model)
    check_writable(to, may_replace=force)
    if to.suffix == ".json":
        content = released.to_plain_json().encode()
    else:
        import joblib

        buffer = io.BytesIO()
        joblib.dump(released.to_sklearn(cells=CellRules(missing=missing, unlisted=unlisted)), buffer)
        content = buffer.getvalue()
    write_file(to, content)
    if json:
        print_json({"command": "export", "file": str(to)})
    else:
        print_line(f"Wrote {to}. It can be used without dpadmm.")
