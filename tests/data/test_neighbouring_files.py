"""Whatever one person's row is, all other rows of a file are read the same, bit for bit, or the file is refused."""

import encodings.aliases
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpadmm.data import cells as cell_reading
from dpadmm.data.columns import BinaryLabel, Categorical, Numeric, RealLabel
from dpadmm.data.parquet import ParquetTable
from dpadmm.data.reading import read_file
from dpadmm.errors import InputError
from dpadmm.settings import TableFormat

NAMES = ("n", "m", "c", "y")
SPACES = ("", "", " ", "\u00a0", "\u2009", "\u3000", "\v", "\t", "\x1c")
NUMBERS = {
    "exponents": lambda x: f"{x:.3e}",
    "points": lambda x: f"{x:.2f}",
    "three decimals": lambda x: f"{x:.3f}",
    "commas": lambda x: f"{x:.2f}".replace(".", ","),
    "thousands": lambda x: f"{1000 * x:,.2f}".translate(str.maketrans(",.", ".,")),
    "whole": lambda x: str(round(x)),
    "long": lambda x: f"{x:.17g}",
    "bare": lambda x: f"{x:.1f}".removeprefix("0"),
}
ODD = (
    *("", "NA", "nan", "None", "?", "text", "50,0", "50.0", "5.000e+01", "5,000e+01", "1.234", "1,234", "0.125"),
    *("12.345.678", "1,234.5", "-0", "+5", "1.", ".5", "-", "1-2", "1.2.3", "1e400", "inf", "0x10", "1_000", "\uff11"),
    *(
        "true",
        "False",
        "2020-01-05",
        "05.01.2020",
        "1.5.2020",
        "12:30",
        "a;b",
        "x,y",
        'say "F"',
        "two\nlines",
        "\ufeff",
    ),
    *("9007199254740993", "1" * 400, "01", "1,5", "M\u00fcller", "|"),
)
BROKEN = ('1;"x', "1,2,3,4,5,6", "1", "", "   ", '"', "1\r2", "x\x00y,1", '"a"b,"c,1;2', ',,",', "\u2028", "n;m;c;y")


def readers(names: list[str]) -> list:
    """Return the columns and labels that a schema may have."""
    n, m, c, y = names[:4]
    categories = ("1", "01", "A", "true", "2020-01-05", "1.5")
    return [
        *(Numeric(n, -1e4, 1e4), Numeric(m, 0, 100), Categorical(c, categories), Categorical(m, ("1", "2", "50"))),
        *(BinaryLabel(y, ("yes", "1"), ("no", "0")), RealLabel(n, 0, 10)),
    ]


def rows_read(frame: pd.DataFrame) -> list[bytes]:
    """Return all that is read of each row, as bytes."""
    parts = []
    for each in readers(list(frame.columns)):
        found = each.read(frame[each.name])
        marks = (found.codes, found.missing, found.unlisted, found.outside, found.strange)
        parts += [np.asarray(found.values, dtype=np.float64).view(np.int64), *(np.asarray(m, np.int64) for m in marks)]
    return [row.tobytes() for row in np.column_stack(parts)]


class Pair:
    """Two neighbouring tables, drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        size = draw.choice((1, 2, 3, 5, 8, 300))
        self.number = NUMBERS[draw.choice(list(NUMBERS))]
        rows = [self.row() for _ in range(size)]
        for _ in range(draw.choice((0, 0, 1, 3))):
            draw.choice(rows)[draw.randrange(4)] = self.odd()
        self.at = at = draw.randrange(size)
        changed = list(rows[at])
        changed[draw.randrange(4)] = self.odd()
        change = draw.choice(([changed], [changed], [changed], [self.row()], [], [rows[at], changed]))
        self.after = size - at - 1
        self.tables = (rows, [*rows[:at], *change, *rows[at + 1 :]])
        self.is_broken = draw.random() < 0.25

    def row(self) -> list[str]:
        draw = self.draw
        number = f"{self.number(draw.gauss(0, 5))}{draw.choice(SPACES)}"
        return [
            number,
            self.number(draw.uniform(0, 60)),
            draw.choice(("1", "01", "A", "", "b")),
            draw.choice(("yes", "0")),
        ]

    def odd(self) -> str:
        return f"{self.draw.choice(SPACES)}{self.draw.choice(ODD)}{self.draw.choice(SPACES)}"

    def others(self, table: list) -> list:
        """Return what belongs to everybody else."""
        return [*table[: self.at], *table[len(table) - self.after :]]


def as_text(pair: Pair, place: Path) -> list[pd.DataFrame]:
    """Write both as text in one dialect, and read them."""
    draw = pair.draw
    sep, has_header = draw.choice((",", ";", ";", "\t", "|")), draw.random() < 0.7
    encoding = draw.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"))
    is_quoted, end = draw.random() < 0.3, draw.choice(("\n", "\r\n"))
    stated = encoding.removesuffix("-sig") if encoding == "cp1252" or not has_header else None
    written = TableFormat(
        sep=sep if not has_header or draw.random() < 0.5 else None,
        decimal=draw.choice((None, None, ".", ",")),
        encoding=stated,
        na_values=draw.choice(((), ("?",), ("50", "-9"))),
        header=has_header,
    )

    def line(cells: list[str]) -> str:
        quoted = (f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in cells)
        odd = f'{sep}"\r\n'
        return sep.join(q if is_quoted or set(odd) & set(c) else c for q, c in zip(quoted, cells, strict=True))

    found = []
    for number, table in enumerate(pair.tables):
        lines = [*([line(list(NAMES))] if has_header else []), *map(line, table)]
        if number == 1 and pair.is_broken and len(table) == len(pair.tables[0]):
            lines[pair.at + has_header] = draw.choice(BROKEN)
        place.write_bytes((end.join(lines) + end).encode(encoding, errors="replace"))
        found.append(read_file(place, written).frame)
    return found


def value_of(cell: str) -> object:
    """Return what a program that knows the one cell would store for it."""
    text = cell.strip()
    if text in ("", "true", "False"):
        return {"": None, "true": True, "False": False}[text]
    try:
        number = float(text)
    except ValueError:
        return text
    whole = int(number) if number.is_integer() and abs(number) < 2**62 else None
    return whole if str(whole) == text else number if np.isfinite(number) else text


def frames(pair: Pair) -> list[pd.DataFrame]:
    """Return both tables with the values of their cells."""
    return [
        pd.DataFrame([[value_of(cell) for cell in row] for row in table], columns=list(NAMES), dtype=object)
        for table in pair.tables
    ]


def as_excel(pair: Pair, place: Path) -> list[pd.DataFrame]:
    """Write both as sheets, which store every cell with a type of its own, and read them."""
    found = []
    for frame in frames(pair):
        frame.to_excel(place.with_suffix(".xlsx"), index=False)
        found.append(read_file(place.with_suffix(".xlsx"), TableFormat()).frame)
    return found


def as_stored(pair: Pair, place: Path, *, is_streamed: bool = False) -> list[pd.DataFrame]:
    """Write both as Parquet, with types that fit all cells of a column, and read them."""
    found = []
    for frame in frames(pair):
        for name in NAMES:
            kinds = {type(cell) for cell in frame[name]} - {type(None)}
            if len(kinds - {int, float}) and len(kinds) > 1:
                frame[name] = frame[name].map(str, na_action="ignore")
        frame.infer_objects().to_parquet(place)
        if is_streamed:
            parts = [each for part in ParquetTable.of(place).parts for each in part.frames(list(NAMES))]
            found.append(pd.concat([part.astype(object) for part in parts]) if parts else frame)
        else:
            found.append(read_file(place, TableFormat()).frame)
    return found


def as_streamed(pair: Pair, place: Path) -> list[pd.DataFrame]:
    """As stored, read in batches."""
    return as_stored(pair, place, is_streamed=True)


def compared(seed: int, place: Path, write) -> bool:
    """Return whether both files of a pair could be read; their other rows are then the same."""
    pair = Pair(seed)
    try:
        one, two = write(pair, place)
    except InputError:
        return False
    if min(one.shape[1], two.shape[1]) < len(NAMES):  # as one column, which no schema fits
        return False
    one, two = (rows_read(frame) for frame in (one, two))
    assert pair.others(one) == pair.others(two), f"seed {seed}"
    return True


def all_compared(seeds: range, place: Path, write, monkeypatch) -> float:
    """Return which share of the pairs could be compared."""
    done = 0
    for seed in seeds:
        for name, values in {"_MANY": (1, 3, 200), "_HEAD": (2, 4096)}.items():  # of all ways to read cells
            monkeypatch.setattr(cell_reading, name, values[seed % len(values)])
        done += compared(seed, place, write)
    return done / len(seeds)


def test_other_rows_of_neighbouring_text_files_are_read_the_same(tmp_path, monkeypatch):
    assert all_compared(range(60), tmp_path / "t.csv", as_text, monkeypatch) > 0.5


@pytest.mark.parametrize("write", [as_stored, as_streamed, pytest.param(as_excel, marks=pytest.mark.slow)])
def test_other_rows_of_neighbouring_stored_tables_are_read_the_same(tmp_path, monkeypatch, write):
    """One cell may turn everybody's stored numbers into floats or text: what they say stays the same."""
    if write is as_excel:
        pytest.importorskip("openpyxl", reason="needs the extra dpadmm[excel]")
    assert all_compared(range(40), tmp_path / "t.parquet", write, monkeypatch) > 0.9


@pytest.mark.slow
def test_other_rows_of_two_thousand_neighbouring_text_files_are_read_the_same(tmp_path, monkeypatch):
    assert all_compared(range(1_000, 3_000), tmp_path / "t.csv", as_text, monkeypatch) > 0.5


def test_a_mark_in_one_cell_of_3000_changes_no_other_row(tmp_path):
    """Three decimals with an exponent are no thousands, whatever mark another person's cell has."""
    rng, place = np.random.default_rng(0), tmp_path / "t.csv"
    cells = [f"{value:.3e}" for value in rng.uniform(10, 99, 3_000)]
    found = []
    for own in ("5.000e+01", "50,0", "5.000e+01\u00a0", "50,0\u3000"):
        place.write_text("\n".join(["id;n", *(f"{i};{cell}" for i, cell in enumerate([own, *cells[1:]]))]), "utf-8")
        found.append(Numeric("n", 0, 1e9).read(read_file(place, TableFormat()).frame["n"]).values)
    np.testing.assert_array_equal(found[0][1:], [float(cell) for cell in cells[1:]])
    for each in found:
        np.testing.assert_array_equal(each, found[0])


ESCAPES = ("\x1b(I", "\x1b$B", "\x1b(J", "\x1b$)C", "\x0e", "~{", "+", "+AGE", "\x1b.A\x1bN", "\u00e9", "\u30a2")


def test_in_no_encoding_that_is_allowed_one_cell_changes_how_later_rows_are_decoded():
    later, refused = ",Y\r\nA,N\r\nB,Y\r\n", set()
    for name in sorted(set(encodings.aliases.aliases.values())):
        try:
            TableFormat(encoding=name)
        except InputError:
            refused.add(name)
            continue
        for cell in (*ESCAPES, *map(chr, range(128))):
            with suppress(UnicodeError):  # no such character: the file cannot be written, or is refused as a whole
                assert f"c,y\r\n{cell}{later}".encode(name).decode(name).endswith(later), (name, cell)
    assert {"hz", "utf_7", "iso2022_jp", "iso2022_jp_ext", "iso2022_kr"} <= refused
    assert not {"utf_8", "utf_16", "cp1252", "latin_1", "gb18030", "shift_jis", "big5", "euc_jp"} & refused
