"""Files of tables: text in any dialect, Parquet, Arrow and Excel, each cell as it stands there.

The first line of a text file without a header is somebody's record, and the readers' own complaints quote cells. So
messages name file, row and column, never a name or a value that was found there: messages travel to logs.
"""

import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpadmm.checks import setting
from dpadmm.data.cells import listed_cells
from dpadmm.data.schema import numbered_names
from dpadmm.data.table_format import TEXT_FILES, TableFormat, fits_both_marks, is_text_file, read_text, with_point
from dpadmm.errors import InputError, raise_alone

UNNAMED = "unnamed column "
"""How the columns of a file without a name are called, before their number."""

EXCEL = (".xlsx", ".xlsm")
"""How the names of Excel files end."""

PARQUET = (".parquet", ".pq")
"""How the names of Parquet files end."""

_ARROW = (".arrow", ".feather")
_BAD_FILE = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, AttributeError),
    *(zlib.error, zipfile.BadZipFile, SyntaxError, pd.errors.ParserError, pd.errors.ParserWarning),
)
_AS_TEXT = {"skipinitialspace": True, "index_col": False, "dtype": str, "keep_default_na": False}
_LINE = re.compile(r"(?:line|row) (\d+)")


@dataclass(frozen=True)
class ReadTable:
    """What a file holds, and how it was read. Cells of text files are text, so that what they mean is the schema's to
    say; missing where nothing stands.
    """

    frame: pd.DataFrame = field(repr=False)
    written: TableFormat


def read_file(path: Path, asked: TableFormat) -> ReadTable:
    """Read one file. Columns without a header are called column1, column2, ... from left to right."""
    if path.is_dir():
        raise InputError(
            f"{path} is a folder. `fit` and `plan` read a folder of Parquet files as one silo; here give one of its "
            "files."
        )
    if not path.is_file():
        raise InputError(
            f"{path} does not exist or is not a file. Give the path of a CSV, Parquet, Arrow or Excel file."
        )
    name, written = path.name.lower(), asked
    if is_text_file(name):
        frame, written = _read_text(path, asked)
    elif name.endswith((*PARQUET, *_ARROW, *EXCEL)):
        check_stored(path, asked)
        frame = _read_excel(path, asked.is_headed) if name.endswith(EXCEL) else _read_stored(path)
    else:
        endings = ", ".join((*TEXT_FILES[:4], *PARQUET, *_ARROW, *EXCEL))
        raise InputError(f"{path} must end in {endings} (or .csv.gz). Save the table in one of these formats.")
    frame.columns = checked_names(str(path), frame.columns)
    for place in range(frame.shape[1]) if asked.na_values else ():
        cells = frame.iloc[:, place]
        is_empty = listed_cells(cells, asked.na_values).codes >= 0
        if is_empty.any():
            frame.isetitem(place, cells.astype(object).mask(is_empty))
    return ReadTable(frame, written)


def is_parquet(path: Path) -> bool:
    """Return whether this is a Parquet file by its name, or a folder of such files."""
    return path.is_dir() or path.name.lower().endswith(PARQUET)


def checked_names(where: str, found: Sequence[Any]) -> list[str]:
    """Return the names as text; columns without a name, such as a stored index, are numbered."""
    names = [str(name).strip() or f"{UNNAMED}{place}" for place, name in enumerate(found, start=1)]
    if len(set(names)) < len(names):
        raise InputError(
            f"{where} has {len(names)} columns but {len(set(names))} different names: some columns have the same "
            f"name. Rename all but one of each.{' ' + no_header() if may_lack_header(where) else ''}"
        )
    return names


def no_header() -> str:
    """Say what to do where the first line is a record."""
    return (
        f"If the first line is a record, not a header, use {setting('header', False)}: the columns are then "
        "column1, column2, ..."
    )


def may_lack_header(path: str | Path) -> bool:
    """Return whether the first line of such a file may be a record."""
    return is_text_file(path) or str(path).lower().endswith(EXCEL)


def check_stored(path: Path, asked: TableFormat) -> None:
    """Refuse words about text for a file that knows its cells."""
    words = {"sep": asked.sep, "decimal": asked.decimal, "encoding": asked.encoding}
    given = [setting(name) for name, value in words.items() if value is not None]
    if not asked.is_headed and not may_lack_header(path):
        given.append(setting("header", False))
    if given:
        raise InputError(f"{', '.join(given)}: only for text files such as CSV. Leave out for {path}.")


def _read_text(path: Path, asked: TableFormat) -> tuple[pd.DataFrame, TableFormat]:
    """Return a text file's cells, numbers with a decimal point, and how they were written."""
    text, written = quietly(path, "text", lambda: read_text(path, asked))

    def read(**words: Any) -> pd.DataFrame:
        lines = io.StringIO(text, newline="")
        return quietly(path, "text", lambda: pd.read_csv(lines, sep=written.sep, **_AS_TEXT, **words))

    first = read(header=None, nrows=1)
    names = checked_names(str(path), first.iloc[0] if written.is_headed else numbered_names(first.shape[1]))
    frame = read(header=0 if written.is_headed else None, names=names, na_values=[""])
    if written.decimal != ".":
        places = enumerate(frame.columns, start=1)
        frame = pd.DataFrame(
            {name: _with_points(frame[name], written, f"{path}, column {place}") for place, name in places}
        )
    return frame, written


def _with_points(cells: pd.Series, written: TableFormat, where: str) -> pd.Series:
    """Return the cells of a column, each with a decimal point; without a stated mark, refuse one that either fits."""
    places, texts = pd.factorize(cells)
    unclear = [place for place, text in enumerate(texts) if written.decimal is None and fits_both_marks(text)]
    if unclear:
        row = int(np.flatnonzero(np.isin(places, unclear))[0]) + 1
        raise InputError(
            f"{where}, row {row}: the cell is a number with a decimal comma and another with a decimal point. Say "
            f"{setting('decimal', ',')} (1.234,5 is then 1234.5, and 1.234 is 1234) or {setting('decimal', '.')} "
            "(1.234 is then a little more than 1). (Rows are counted from 1, without the header.)"
        )
    found = np.array([*map(with_point, texts), None], dtype=object)
    return pd.Series(found[places], index=cells.index, dtype=cells.dtype)


def _read_stored(path: Path) -> pd.DataFrame:
    is_parquet = path.name.lower().endswith(PARQUET)
    kind, read = ("Parquet", pd.read_parquet) if is_parquet else ("Arrow", _read_arrow)
    return quietly(path, kind, lambda: read(path)).reset_index(drop=True)


def _read_arrow(path: Path) -> pd.DataFrame:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        try:
            table = pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:  # written as a stream
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()
        return table.to_pandas()


def _read_excel(path: Path, has_header: bool) -> pd.DataFrame:
    """Return the one sheet that holds something; names are taken from its first row, as they stand there."""
    words: dict[str, Any] = {"dtype": object, "keep_default_na": False, "na_values": [""]}
    try:
        sheets = quietly(path, "Excel", lambda: pd.read_excel(path, sheet_name=None, header=None, **words))
    except ImportError:
        raise_alone(
            InputError(
                f"{path} is an Excel file. Reading it needs dpadmm[excel], an extra of this package that is not "
                "installed. Install it (pip install '.[excel]' in a checkout), or save the table as CSV or "
                "Parquet."
            )
        )
    full = [sheet for sheet in sheets.values() if sheet.size]
    if len(full) != 1:
        raise InputError(
            f"{path} has {len(full)} sheets that are not empty. Save the one with the table as a file of its own."
        )
    if not has_header:
        return full[0].set_axis(numbered_names(full[0].shape[1]), axis=1)
    names = full[0].iloc[0].map(lambda name: "" if pd.isna(name) else name)
    return full[0].iloc[1:].reset_index(drop=True).set_axis(checked_names(str(path), names), axis=1)


def quietly(path: Path, kind: str, read: Callable[[], Any]) -> Any:
    """Read; a complaint of the reader becomes one of ours, since its own may quote cells."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pd.errors.ParserWarning)  # it would drop cells of rows that are too long
            return read()
    except (InputError, ImportError, MemoryError):
        raise
    except UnicodeError:
        raise_alone(
            InputError(
                f"{path} is not text in the encoding used to read it (UTF-8 unless stated). Give another one, for "
                f"instance {setting('encoding', 'cp1252')} (Windows, western Europe), or save the file as UTF-8."
            )
        )
    except pd.errors.EmptyDataError:
        raise_alone(InputError(f"{path} is empty. It needs a header line and at least one row."))
    except _BAD_FILE as problem:
        raise_alone(InputError(f"{path} cannot be read as {kind}: {_reason(problem, kind)}"))


def _reason(problem: BaseException, kind: str) -> str:
    """Return what went wrong, in words that hold nothing of the file but the number of a line."""
    if isinstance(problem, OSError) and problem.strerror:
        return f"{problem.strerror}."
    if kind != "text":
        return "it is damaged, has another format, or contains types that pandas does not know. Write it again."
    line = _LINE.search(str(problem))
    where = f"near line {line[1]}" if line else "somewhere"
    return (
        f"{where}, a row has more cells than the first line, a quotation mark is not closed, or the file is "
        "damaged. Give every row as many cells as the first line, put text that contains the separator in "
        f"quotation marks, or give the separator with {setting('sep')}."
    )
