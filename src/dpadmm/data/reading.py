"""Files of tables: text in any dialect, Parquet, Arrow and Excel, each cell as it stands there.

How a text file is written (what stands between its cells, its decimal mark, its encoding) follows from what is stated,
from the header line, which is public, or is a fixed default; no other line is looked at. So one person's cell never
decides how another's is read: a cell that does not fit is refused by itself.

The first line of a text file without a header is somebody's record, and the readers' own complaints quote cells. So
messages name file, row and column, never a name or a value that was found there: messages travel to logs.
"""

import codecs
import csv
import gzip
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpadmm.checks import option_name
from dpadmm.data.cells import listed_cells
from dpadmm.data.schema import numbered_names
from dpadmm.errors import InputError, raise_alone
from dpadmm.settings import TableFormat

TEXT_FILES = (".csv", ".tsv", ".txt", ".data", ".csv.gz", ".tsv.gz", ".txt.gz", ".data.gz")
"""How the names of text files end."""

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_DECIMALS = {".": "decimal point", ",": "decimal comma"}
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HEAD = 2**20  # characters in which a header ends

_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+")
_WITH_COMMA = re.compile(r"([+-]?)([1-9][0-9]{0,2}(?:\.[0-9]{3})+|[0-9]*),([0-9]*)((?:[eE][+-]?[0-9]+)?)")
_EITHER_MARK = re.compile(r"[+-]?[1-9][0-9]{0,2}\.[0-9]{3}")


def is_text_file(path: str | Path) -> bool:
    """Return whether a file's name says that it is a text file, so that it may lack a header."""
    return str(path).lower().endswith(TEXT_FILES)


def describe_format(written: TableFormat) -> str:
    """Say how a file is read.

    >>> describe_format(TableFormat(sep="tab", na_values=["?"]))
    "tabs, header, '?' for a missing value"
    """
    sep = None if written.sep is None else _SEPARATORS.get(written.sep, f"{written.sep!r} between cells")
    decimal = "decimal comma or point" if written.sep == ";" else None
    decimal = decimal if written.decimal is None else _DECIMALS[written.decimal]
    gaps = ", ".join(map(repr, written.na_values))
    parts = (sep, decimal, written.encoding, "header" if written.has_header else "no header")
    return ", ".join(part for part in (*parts, gaps and f"{gaps} for a missing value") if part)


def read_text(path: Path, asked: TableFormat) -> tuple[str, TableFormat]:
    """Return what a text file says, and its format: as stated, as its header line shows, or by default.

    Where there is no header, the first line is somebody's record, and nothing is taken from it.
    """
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        stored = file.read()
    marks = _MARKS if asked.has_header else {}
    encoding = asked.encoding or next((name for mark, name in marks.items() if stored.startswith(mark)), "utf-8")
    text = stored.decode(encoding).removeprefix("\ufeff")
    sep = asked.sep or ("\t" if ".tsv" in path.name.lower() else _separator(path, text) if asked.has_header else ",")
    _check_quotes(path, text, sep)
    decimal = asked.decimal or (None if sep == ";" else ".")
    return text, replace(asked, sep=sep, encoding=encoding, decimal=decimal)


def _separator(path: Path, text: str) -> str:
    """Return what separates the cells of the header line."""
    found = [sep for sep in _SEPARATORS if _header_cells(text[:_HEAD], sep) > 1]
    if len(found) > 1:
        candidates = " or ".join(_SEPARATORS[sep] for sep in found)
        raise InputError(
            f"{path}: its first line could be cells between {candidates}. Say which with {option_name('sep')}, for "
            f"instance {option_name('sep', 'tab' if found[0] == chr(9) else found[0])}."
        )
    return found[0] if found else ","


def _header_cells(text: str, sep: str) -> int:
    """Return how many cells the header has if this separates them; 0 if some quotation mark then encloses none."""
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True)
        header = next((line for line in lines if line), [])
        return 0 if any('"' in cell for cell in header) else len(header)
    except csv.Error:  # a cell without an end: the reader will say so
        return 0


def _check_quotes(path: Path, text: str, sep: str) -> None:
    """Refuse quotation marks that do not enclose a whole cell: what they open would end in another person's row.

    Where all of them enclose cells, an even number has been read wherever a row ends. So a row with one too many leaves
    an odd number in the file, which is refused, and never just joins other rows.
    """
    if '"' not in text:
        return
    ends = rf"[{re.escape(sep)}\r\n]"
    enclosed = re.compile(rf'(?:^|{ends}) *"[^"]*+(?:""[^"]*+)*+"(?= *(?:{ends}|\Z))')
    if '"' not in enclosed.sub("", text):
        return
    first = enclosed.sub(lambda found: found[0].replace('"', " "), text).index('"')
    raise InputError(
        f"{path}, line {text.count(chr(10), 0, first) + 1}: a quotation mark is not closed or does not enclose a whole "
        "cell. Put the whole cell in quotation marks and double those inside it, or remove them."
    )


def with_point(text: str) -> str:
    """Return a number that is written with a decimal comma as one with a point, and other text as it is.

    >>> with_point("-1.234,56"), with_point("1.234"), with_point("1.5"), with_point("5.583e+01"), with_point("a,b")
    ('-1234.56', '1234', '1.5', '5.583e+01', 'a,b')
    """
    number = text.strip()
    if _THOUSANDS.fullmatch(number):
        return number.replace(".", "")
    found = _WITH_COMMA.fullmatch(number)
    if found is None or not (found[2] or found[3]):
        return text
    sign, whole, decimals, exponent = found.groups()
    return f"{sign}{whole.replace('.', '')}{f'.{decimals}' if decimals else ''}{exponent}"


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


_ANY = TableFormat()


@dataclass(frozen=True)
class ReadTable:
    """What a file holds, and how it was read. Cells of text files are text, so that what they mean is the schema's to
    say; missing where nothing stands.
    """

    frame: pd.DataFrame = field(repr=False)
    written: TableFormat


def read_file(path: Path, asked: TableFormat = _ANY) -> ReadTable:
    """Read one file. Columns without a header are called column1, column2, ... from left to right."""
    if path.is_dir():
        raise InputError(
            f"{path} is a folder. `fit` and `plan` read a folder of Parquet files as one silo; here give a file."
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
        frame = _read_excel(path, asked.has_header) if name.endswith(EXCEL) else _read_stored(path)
    else:
        endings = ", ".join((*TEXT_FILES[:4], *PARQUET, *_ARROW, *EXCEL))
        raise InputError(f"{path} must end in {endings} (or .csv.gz). Save the table in one of these formats.")
    frame.columns = name_columns(str(path), frame.columns)
    for place in range(frame.shape[1]) if asked.na_values else ():
        cells = frame.iloc[:, place]
        is_empty = listed_cells(cells, asked.na_values).codes >= 0
        if is_empty.any():
            frame.isetitem(place, cells.astype(object).mask(is_empty))
    return ReadTable(frame, written)


def is_parquet(path: Path) -> bool:
    """Return whether this is a Parquet file by its name, or a folder of such files."""
    return path.is_dir() or path.name.lower().endswith(PARQUET)


def name_columns(where: str, found: Sequence[Any]) -> list[str]:
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
    option = option_name("header", False)
    return f"If the first line is a record, not a header, use {option}: the columns are then column1, column2, ..."


def may_lack_header(path: str | Path) -> bool:
    """Return whether the first line of such a file may be a record."""
    return is_text_file(path) or str(path).lower().endswith(EXCEL)


def check_stored(path: Path, asked: TableFormat) -> None:
    """Refuse settings of text for a file that knows its cells."""
    text_settings = {"sep": asked.sep, "decimal": asked.decimal, "encoding": asked.encoding}
    given = [option_name(name) for name, value in text_settings.items() if value is not None]
    if not asked.has_header and not may_lack_header(path):
        given.append(option_name("header", False))
    if given:
        raise InputError(f"{', '.join(given)}: only for text files such as CSV. Leave out for {path}.")


def _read_text(path: Path, asked: TableFormat) -> tuple[pd.DataFrame, TableFormat]:
    """Return a text file's cells, numbers with a decimal point, and how they were written."""
    text, written = call_reader(path, "text", lambda: read_text(path, asked))

    def read(**options: Any) -> pd.DataFrame:
        lines = io.StringIO(text, newline="")
        return call_reader(path, "text", lambda: pd.read_csv(lines, sep=written.sep, **_AS_TEXT, **options))

    first = read(header=None, nrows=1)
    names = name_columns(str(path), first.iloc[0] if written.has_header else numbered_names(first.shape[1]))
    frame = read(header=0 if written.has_header else None, names=names, na_values=[""])
    if written.decimal != ".":
        places = enumerate(frame.columns, start=1)
        frame = pd.DataFrame(
            {name: _with_points(frame[name], written, f"{path}, column {place}") for place, name in places}
        )
    return frame, written


def _with_points(cells: pd.Series, written: TableFormat, where: str) -> pd.Series:
    """Return the cells of a column, each with a decimal point; without a stated mark, refuse one that either fits."""
    places, texts = pd.factorize(cells)
    unclear = [place for place, text in enumerate(texts) if _EITHER_MARK.fullmatch(text.strip())]
    if unclear and written.decimal is None:
        row = int(np.flatnonzero(np.isin(places, unclear))[0]) + 1
        raise InputError(
            f"{where}, row {row}: the cell is a number with a decimal comma and another with a decimal point. Say "
            f"{option_name('decimal', ',')} (1.234,5 is then 1234.5, and 1.234 is 1234) or "
            f"{option_name('decimal', '.')} "
            "(1.234 is then a little more than 1). (Rows are counted from 1, without the header.)"
        )
    found = np.array([*map(with_point, texts), None], dtype=object)
    return pd.Series(found[places], index=cells.index, dtype=cells.dtype)


def _read_stored(path: Path) -> pd.DataFrame:
    is_parquet = path.name.lower().endswith(PARQUET)
    kind, read = ("Parquet", pd.read_parquet) if is_parquet else ("Arrow", _read_arrow)
    return call_reader(path, kind, lambda: read(path)).reset_index(drop=True)


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
    options: dict[str, Any] = {"dtype": object, "keep_default_na": False, "na_values": [""]}
    try:
        sheets = call_reader(path, "Excel", lambda: pd.read_excel(path, sheet_name=None, header=None, **options))
    except ImportError:
        raise_alone(
            InputError(
                f"{path} is an Excel file. Reading it needs dpadmm[excel], an extra of this package that is not "
                "installed. Install it (pip install '.[excel]' in a checkout), or save the table as CSV or Parquet."
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
    return full[0].iloc[1:].reset_index(drop=True).set_axis(name_columns(str(path), names), axis=1)


def call_reader(path: Path, kind: str, read: Callable[[], Any]) -> Any:
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
                f"instance {option_name('encoding', 'cp1252')} (Windows, western Europe), or save the file as UTF-8."
            )
        )
    except pd.errors.EmptyDataError:
        raise_alone(InputError(f"{path} is empty. It needs a header line and at least one row."))
    except _BAD_FILE as problem:
        line = _LINE.search(str(problem))
        if isinstance(problem, OSError) and problem.strerror:
            why = f"{problem.strerror}."
        elif kind != "text":
            why = "it is damaged, has another format, or contains types that pandas does not know. Write it again."
        else:  # of the complaint itself, only the number of a line may be shown
            why = (
                f"{f'near line {line[1]}' if line else 'somewhere'}, a row has more cells than the first line, a "
                "quotation mark is not closed, or the file is damaged. Give every row as many cells as the first line, "
                "put text with the separator inside in quotation marks, or give the separator with "
                f"{option_name('sep')}."
            )
        raise_alone(InputError(f"{path} cannot be read as {kind}: {why}"))
