"""How a table is written in a text file: what stands between its cells, its decimal mark, its encoding, its header.

What is not stated is found out from the structure of the file, and whoever reads says what was found. Where a file
could be read in two ways, the option is asked for: a guess could make one person's cell change how all others are read.
"""

import codecs
import csv
import gzip
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from dpadmm.checks import setting, shown
from dpadmm.errors import InputError

TEXT_FILES = (".csv", ".tsv", ".txt", ".data", ".csv.gz", ".tsv.gz", ".txt.gz", ".data.gz")
"""How the names of text files end."""

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_DECIMALS = {".": "decimal point", ",": "decimal comma"}
_NAMED = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "point": "."}
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HEAD, _LINES = 2**20, 50  # bytes and lines by which a separator is found

_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_GROUPED = re.compile(rf"([+-]?)((?:[0-9]{{1,3}}(?:\.[0-9]{{3}})+|[0-9]+)?)(?:,([0-9]*))?({_EXPONENT})")
_EITHER_WAY = r"^\s*[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}\s*$"


def _one_way(mark: str, other: str) -> str:
    """Return the pattern of numbers in which `mark` can only stand before decimals."""
    thousands = rf"[0-9]{{1,3}}({other}[0-9]{{3}})+{mark}[0-9]*"
    no_group_after, none_before = rf"[0-9]*{mark}([0-9]{{1,2}}|[0-9]{{4,}})", rf"(0[0-9]*|[0-9]{{4,}}){mark}[0-9]+"
    return rf"^\s*[+-]?({thousands}|{no_group_after}|{none_before}){_EXPONENT}\s*$"


_COMMA, _POINT = _one_way(",", r"\."), _one_way(r"\.", ",")


def is_text_file(path: str | Path) -> bool:
    """Return whether a file's name says that it is a text file, so that it may lack a header."""
    return str(path).lower().endswith(TEXT_FILES)


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    r"""What is known about how a table is written; None where the file is to tell.

    sep: the one character between cells. decimal: "." or ",", with which dots may stand between thousands.
    na_values: what stands for an empty cell, beside nothing at all and the usual words. has_header: whether the first
    line names the columns; else they are column1, column2, ...

    >>> TableFormat.of(sep="tab", na_values=["?"]).describe()
    "tabs, header, '?' for a missing value"
    """

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na_values: tuple[str, ...] = ()
    has_header: bool | None = None

    def __post_init__(self) -> None:
        """Refuse what no file is written in."""
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n' or self.sep.isalnum()):
            raise InputError(
                f"The separator must be one character between cells, such as , or ; (or the word tab); got "
                f"{shown(self.sep)}."
            )
        if self.decimal is not None and self.decimal not in _DECIMALS:
            raise InputError(f"The decimal mark must be . or , (a point or a comma), got {shown(self.decimal)}.")
        if self.sep is not None and self.sep == self.decimal == ".":
            raise InputError("The separator and the decimal mark cannot both be a point. Change one of them.")
        if not isinstance(self.na_values, tuple) or not all(isinstance(word, str) for word in self.na_values):
            raise InputError(f"na_values must be a list of words, got {shown(self.na_values)}.")
        if self.has_header not in (None, True, False):
            raise InputError(f"has_header must be true or false, without quotes; got {shown(self.has_header)}.")
        _check_encoding(self.encoding)

    @classmethod
    def of(
        cls,
        sep: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        na_values: Sequence[str] | None = None,
        header: bool | None = None,
    ) -> "TableFormat":
        """Return what options say."""
        return cls(
            sep=sep if sep is None else _NAMED.get(sep, sep),
            decimal=decimal if decimal is None else _NAMED.get(decimal, decimal),
            encoding=encoding,
            na_values=tuple(na_values or ()),
            has_header=header,
        )

    @property
    def is_headed(self) -> bool:
        """Whether the first line names the columns, which it does unless told otherwise."""
        return self.has_header is not False

    def over(self, earlier: "TableFormat") -> "TableFormat":
        """Return this format, with what it leaves open as it was earlier."""
        kept = {each.name: getattr(earlier, each.name) for each in fields(self)}
        return replace(self, **{name: value for name, value in kept.items() if getattr(self, name) in (None, ())})

    def stored(self) -> "TableFormat":
        """Return what is left of it for a file that is no text: Parquet knows its cells."""
        return TableFormat(na_values=self.na_values, has_header=self.has_header)

    def record(self) -> dict[str, Any]:
        """Return what is known as plain values by name."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        known = {name: value for name, value in plain.items() if value not in (None, ())}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}

    @classmethod
    def taken_from(cls, plain: dict[str, Any]) -> "TableFormat":
        """Return what `record` wrote, and take it out of the plain values."""
        words = {each.name: plain.pop(each.name) for each in fields(cls) if each.name in plain}
        listed = words.get("na_values", [])
        return cls(**words | {"na_values": tuple(listed) if isinstance(listed, list) else listed})

    def describe(self) -> str:
        """Say in words how a file is read."""
        sep = None if self.sep is None else _SEPARATORS.get(self.sep, f"{self.sep!r} between cells")
        decimal = None if self.decimal is None else _DECIMALS[self.decimal]
        words = ", ".join(map(repr, self.na_values))
        parts = (sep, decimal, self.encoding, "header" if self.is_headed else "no header")
        return ", ".join(part for part in (*parts, words and f"{words} for a missing value") if part)


def _check_encoding(name: str | None) -> None:
    try:
        if name is not None:
            "".encode(name)
    except (LookupError, TypeError, ValueError) as problem:
        raise InputError(f"There is no text encoding {shown(name)}; common ones: utf-8, cp1252, latin-1.") from problem


def earlier_format(path: str) -> TableFormat:
    """Return how a file was read before formats could be stated; what was kept from then does not say it."""
    sep = "\t" if ".tsv" in path.lower() else ","
    return TableFormat(sep=sep, decimal=".", encoding="utf-8") if is_text_file(path) else TableFormat()


def settled(path: Path, asked: TableFormat) -> TableFormat:
    """Return the format with encoding and separator, as they are stated or as the first lines of the file show."""
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        head = file.read(_HEAD)
    encoding = asked.encoding or next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")
    sep = asked.sep or ("\t" if ".tsv" in path.name.lower() else _separator(path, head, encoding))
    return replace(asked, sep=sep, encoding=encoding)


def _separator(path: Path, head: bytes, encoding: str) -> str:
    """Return what separates the first line's cells; where that could be several, the one that all lines agree on."""
    text = head.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")
    if len(head) == _HEAD and "\n" in text:
        text = text[: text.rindex("\n")]  # the last line may have been cut
    cells = {sep: _cells_per_line(text, sep) for sep in _SEPARATORS}
    found = [sep for sep, numbers in cells.items() if numbers and numbers[0] > 1]
    alike = [sep for sep in found if len(set(cells[sep])) == 1] if len(found) > 1 else found
    if found and len(alike) != 1:
        words = " or ".join(_SEPARATORS[sep] for sep in found)
        raise InputError(
            f"{path}: its first lines could be cells between {words}. Say which with {setting('sep')}, for "
            f"instance {setting('sep', 'tab' if found[0] == chr(9) else found[0])}."
        )
    return alike[0] if alike else ","


def _cells_per_line(text: str, sep: str) -> list[int]:
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True)
        return [len(line) for line in islice(lines, _LINES) if line]
    except csv.Error:  # a cell without an end: the reader will say so
        return []


def decimal_of(path: Path, columns: Sequence[Any]) -> str:
    """Return the decimal mark of text cells, an array of each column's, where none is stated.

    Whole numbers fit both marks, 1,5 and 1.5 one of them, 1.234 and 1,234 either: thousands or thousandths. So that no
    person's cell decides about another's, the mark is found only where all cells that have one agree.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = [pa.array(cells, pa.large_string()) for cells in columns]
    has_comma, has_point, has_either = (
        any(pc.any(pc.match_substring_regex(array, pattern)).as_py() for array in arrays)
        for pattern in (_COMMA, _POINT, _EITHER_WAY)
    )
    if has_either or (has_comma and has_point):
        what = (
            "some cells have a decimal comma and some a decimal point"
            if has_comma and has_point
            else "some cells are ambiguous (1.234 could be 1234 or a little more than 1)"
        )
        raise InputError(
            f"{path}: {what}. Say {setting('decimal', ',')} (1.234,5 is then 1234.5, and 1.234 is 1234) or "
            f"{setting('decimal', '.')} (1.234 is "
            "then a little more than 1)."
        )
    return "," if has_comma else "."


def with_point(text: str) -> str:
    """Return a number that is written with a decimal comma as one with a point, and other text as it is.

    >>> with_point("-1.234,56"), with_point("1.234"), with_point("1.5"), with_point("a,b")
    ('-1234.56', '1234', '1.5', 'a,b')
    """
    found = _GROUPED.fullmatch(text.strip())
    if found is None or not (found[2] or found[3]):
        return text
    sign, whole, decimals, exponent = found.groups()
    return f"{sign}{whole.replace('.', '')}{f'.{decimals}' if decimals else ''}{exponent}"
