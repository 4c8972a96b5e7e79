"""`dpadmm schema`: draft a schema from names and types, and check one that was filled in."""

from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpadmm.checks import plural
from dpadmm.cli import options
from dpadmm.cli.declare import takes
from dpadmm.cli.terminal import print_json, print_line, print_notes, print_reading
from dpadmm.errors import InputError, without_controls
from dpadmm.settings import CellRules, TableFormat

if TYPE_CHECKING:
    from dpadmm.data.schema import Schema

TargetKindName = Literal["classes", "several-classes", "number"]

app = typer.Typer(help="Draft and check a schema: public bounds and categories.", no_args_is_help=True)


@app.command()
@takes(written=TableFormat)
def init(
    files: options.Files,
    target: Annotated[str, typer.Option(help="Column to predict.")],
    written: TableFormat,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: print the draft.")] = None,
    predict: Annotated[TargetKindName, typer.Option(help="The target: two classes, more, or a number.")] = "classes",
    leave_out: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out.")] = None,
    split_by: options.SplitBy = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: options.Json = False,
) -> None:
    """Draft a schema with placeholders, from names and types of the columns; no value is shown.

    The draft is private until you have read it: names come from the files, and in text files a column is what nine in
    ten of its cells are. Fill in the placeholders from public knowledge (an age lies between 0 and 120), correct or
    delete columns, then run `dpadmm schema check`.

    The names come from the first line of the files. A line without the target, or with names that look like values,
    may be somebody's record: it is refused, and nothing of it is shown. If it is a record, use --no-header.

    Example: dpadmm schema init north.csv south.csv --target sick --leave-out patient --out schema.json
    """
    from dpadmm.data.draft import ColumnType, TargetKind, column_types, common_types, draft_schema
    from dpadmm.data.schema import unfilled
    from dpadmm.models.files import check_apart, check_writable, write_file

    check_apart({"--out": out}, files)
    if out is not None:
        check_writable(out, may_replace=force)
    found = {str(file): column_types(file, written) for file in files}
    if not json:
        print_reading({file: read for file, (_, read) in found.items()})
    apart = {*(leave_out or []), *([split_by] if split_by is not None else [])}
    types = common_types({file: types for file, (types, _) in found.items()}, apart)
    draft = draft_schema(types, target, TargetKind(predict))
    text, left = dumps(draft, indent=2, ensure_ascii=False), unfilled(draft)
    typer.echo("The draft is derived from the data, so it is private until you have read it.", err=True)
    if written.has_header:
        typer.echo(
            f"The {len(types)} column names in the draft come from the files (in text files, the first line).\n"
            "Before you share the draft, make sure that this line is a header, not somebody's record.",
            err=True,
        )
    left_out = [name for name, kind in types.items() if kind is ColumnType.OTHER and name != target]
    if left_out:
        typer.echo(
            "Left out, because they contain neither numbers nor text (but dates, lists, ...): "
            f"{', '.join(map(repr, left_out))}. To use one, store it as numbers or text.",
            err=True,
        )
    if out is not None:
        write_file(out, f"{text}\n".encode())
    if json:
        print_json({"command": "schema init", "out": out and str(out), "schema": draft, "to_fill_in": left})
    elif out is None:
        typer.echo(text)
    else:
        print_line(
            f"Wrote {out} with {plural(len(left), 'placeholder')} to fill in from public knowledge, not from the data."
        )


@app.command()
@takes(written=TableFormat, cells=CellRules)
def check(
    schema: Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema file.")],
    written: TableFormat,
    cells: CellRules,
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE...]", help="Tables to check.")] = None,
    split_by: options.SplitBy = None,
    json: options.Json = False,
) -> None:
    """Show what a schema allows, or what still has to be filled in. With tables: check whether each can be used.

    Example: dpadmm schema check schema.json north.csv south.csv --missing fill
    """
    from dpadmm.data.schema import Schema

    filled = Schema.load(schema)
    sizes = {}
    if files:
        from dpadmm.data.tables import check_split

        check_split(split_by, filled)
        sizes = _checked_sizes(filled, files, split_by, written, cells, is_quiet=json)
    if json:
        found = {"features": list(filled.feature_names), "dimension": filled.dimension, "silos": sizes}
        print_json({"command": "schema check", "schema": loads(filled.to_json())} | found)
        return
    print_line(filled.describe())
    typer.echo(f"{filled.dimension} features after encoding.")
    for name, size in sizes.items():
        print_line(f"{without_controls(name)}: {size} rows can be used.")


def _checked_sizes(
    schema: "Schema",
    files: list[Path],
    split_by: str | None,
    written: TableFormat,
    screening: CellRules,
    *,
    is_quiet: bool,
) -> dict[str, int]:
    """Return how many rows of each silo can be used; check all tables before any is refused."""
    from dpadmm.data.tables import SiloTable, read_silos, silo_names

    tables: dict[str, SiloTable] = {}
    sizes: dict[str, int] = {}
    faults: list[str] = []
    notes: list[str] = []
    if split_by is not None:  # the values of this column may be names of people, so they are counted and not shown
        parts = read_silos(files, split_by, written, protection=None)
        tables = {f"silo {i}": part for i, part in enumerate(parts.values(), start=1)}
    for name, file in zip(silo_names(files), files, strict=True) if split_by is None else ():
        try:
            (tables[name],) = read_silos([file], None, written, protection=None).values()
        except InputError as problem:
            faults.append(str(problem))
    if not is_quiet:
        print_reading({each.where: each.written for each in tables.values()})
    for name, table in tables.items():
        try:
            cells = table.screened(schema, screening)
        except InputError as problem:
            faults.append(str(problem))
        else:
            sizes[name] = cells.number
            notes += cells.notes
    print_notes(notes)
    if len(faults) > 1:
        number = plural(len(sizes) + len(faults), "table")
        lines = [line for fault in faults for line in fault.splitlines()[fault.count("\n") > 0 :]]  # without headings
        raise InputError("\n".join([f"{len(faults)} of {number} cannot be used:", *lines]))
    if faults:
        raise InputError(faults[0])
    return sizes
