"""A table is the same data in every dialect and format; a cell that could be read in two ways is refused."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.data.cells import numbers_of
from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.reading import describe_format, read_file
from dpadmm.data.schema import Schema
from dpadmm.data.tables import cells_for_ledger, encode_table, split_table
from dpadmm.privacy.ledger import SiloColumns
from dpadmm.settings import CellRules, TableFormat

SCHEMA = Schema(
    (Numeric("amount", -1e6, 1e6), Numeric("age", 0, 120), Categorical("kind, of; case", ("F", "a;b", "None", "x,y"))),
    BinaryLabel("sick", positive=("yes",), negative=("no",)),
)
LENIENT = CellRules(missing="fill", unlisted="zero")
NAMES = [column.name for column in (*SCHEMA.columns, SCHEMA.label)]


def german(value: float) -> str:
    return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-99_999_999, 99_999_999).map(lambda cents: cents / 100)),
        st.one_of(st.none(), st.integers(0, 130)),
        st.sampled_from(["F", "a;b", "None", "x,y", "other", "", 'say "F"']),
        st.sampled_from(["yes", "no"]),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(
    rows=rows,
    sep=st.sampled_from([",", ";", "\t", "|", "~"]),
    decimal=st.sampled_from([".", ","]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    gap=st.sampled_from(["", "?", "-9", "n/a"]),
    has_header=st.booleans(),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_a_table_is_the_same_in_every_dialect(tmp_path_factory, rows, sep, decimal, encoding, gap, has_header, quoting):
    """Written by Python's own csv module, with the dialect stated."""
    place = tmp_path_factory.getbasetemp() / "dialect.csv"
    number = german if decimal == "," else lambda value: f"{value:.2f}"
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=sep, quoting=quoting)
    writer.writerows([NAMES] if has_header else [])
    writer.writerows(
        [gap if a is None else number(a), gap if b is None else str(b), c or gap, label] for a, b, c, label in rows
    )
    place.write_bytes(text.getvalue().encode(encoding))
    stated = TableFormat(
        sep=sep,
        decimal=decimal,
        encoding=encoding.removesuffix("-sig"),
        na_values=(gap,) if gap else (),
        header=has_header,
    )
    read = read_file(place, stated).frame
    assert len(read) == len(rows)
    plain = pd.DataFrame([[a, b, c or None, d] for a, b, c, d in rows], columns=NAMES, dtype=object)
    one = encode_table(SCHEMA, read.set_axis(NAMES, axis=1), "t", LENIENT)
    two = encode_table(SCHEMA, plain, "t", LENIENT)
    np.testing.assert_array_equal(one.features, two.features)
    np.testing.assert_array_equal(one.labels, two.labels)


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("age,sex\n41,F\n", "commas, decimal point, utf-8, header"),
        ("age;sex\n41;F\n", "semicolons, decimal comma or point, utf-8, header"),
        ("age;pay\n41;-1.234,56\n", "semicolons, decimal comma or point, utf-8, header"),
        ("age\tpay\n41\t1,5\n", "tabs, decimal point, utf-8, header"),
        ("age|sex\n41|F\n", "bars, decimal point, utf-8, header"),
        ("age\n41\n", "commas, decimal point, utf-8, header"),
        ('"age, in years";sex\n41;F\n', "semicolons, decimal comma or point, utf-8, header"),
        ('sex,"age; in years"\nF,41\n', "commas, decimal point, utf-8, header"),
        ("\ufeffage;sex\n41;F\n", "semicolons, decimal comma or point, utf-8, header"),
    ],
)
def test_what_is_not_stated_is_in_the_header_line_and_said(tmp_path, text, description):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    read = read_file(tmp_path / "t.csv", TableFormat())
    assert describe_format(read.written) == description
    again = read_file(tmp_path / "t.csv", read.written)  # as a silo does that keeps it
    pd.testing.assert_frame_equal(read.frame, again.frame)
    assert again.written == read.written


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("1,5;2,5;3\n1,5;2,5;3\n", {"sep": ";"}),
        ("pay, net;sex\n1,5;F\n2;M\n", {"sep": ";"}),
        ("a;pay\n1;0,5\n2;1.234\n", {"decimal": ","}),
        ("a;b\nM\xfcller;1\n", {"encoding": "latin-1"}),
        ('n,t\n1, "x" \n2,"y"', {}),
    ],
)
def test_what_could_be_read_in_two_ways_is_read_as_stated(tmp_path, text, stated):
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    assert len(read_file(tmp_path / "t.csv", TableFormat(**stated)).frame)


def test_between_semicolons_every_cell_has_the_mark_that_it_is_written_with(tmp_path):
    """Unless the mark is stated; with commas only, 3,075 is no thousands, and exponents and 0 are not grouped."""
    cells = ["3,075", "1.5", "-1.234,5", "0.125", "5.583e+01", "5,583e+01", "2.345.678", "1,234.5", "7\u2009"]
    (tmp_path / "t.csv").write_text("\n".join(["a;n", *(f"1;{cell}" for cell in cells)]), encoding="utf-8")
    found = [3.075, 1.5, -1234.5, 0.125, 55.83, 55.83, 2345678.0, np.nan, 7.0]
    np.testing.assert_array_equal(numbers_of(read_file(tmp_path / "t.csv").frame["n"]), found)


def test_the_first_record_of_a_file_without_a_header_says_nothing_about_the_others(tmp_path):
    """Neither separator nor encoding, which are then stated or the default."""
    (tmp_path / "t.csv").write_text("1;x\n2;y\n")
    assert read_file(tmp_path / "t.csv", TableFormat(header=False)).frame.shape == (2, 1)
    assert read_file(tmp_path / "t.csv", TableFormat(header=False, sep=";")).frame.shape == (2, 2)
    (tmp_path / "t.csv").write_bytes("1,x\n2,y\n".encode("utf-16"))
    assert read_file(tmp_path / "t.csv", TableFormat(header=False, encoding="utf-16")).frame.shape == (2, 2)


def test_texts_that_stand_for_empty_cells(tmp_path):
    """None and NA are empty where nothing lists them; a stated word is empty wherever it stands, as text or number."""
    (tmp_path / "t.csv").write_text("kind,n\nNone,1\nNA,-9\n?,-9.0\nF,NA\n")
    listed, plain = Categorical("kind", ("None", "NA", "F")), Categorical("kind", ("F",))
    frame = read_file(tmp_path / "t.csv").frame
    assert listed.read(frame["kind"]).codes.tolist() == [0, 1, -1, 2]
    assert plain.read(frame["kind"]).missing.tolist() == [True, True, False, False]
    stated = read_file(tmp_path / "t.csv", TableFormat(na_values=["?", "-9", "NA"])).frame
    assert listed.read(stated["kind"]).missing.tolist() == [False, True, True, False]
    assert Numeric("n", 0, 9).read(stated["n"]).missing.tolist() == [False, True, True, True]
    assert Numeric("n", -99, 9).read(frame["n"]).missing.tolist() == [False, False, False, True]
    numbers = pd.DataFrame({"n": [1, -9, 2**53 + 1]})
    numbers.to_parquet(tmp_path / "t.parquet")
    kept = read_file(tmp_path / "t.parquet", TableFormat(na_values=("-9",))).frame["n"]
    assert kept.isna().tolist() == [False, True, False]
    assert kept.iloc[2] == 2**53 + 1


def test_a_ledger_knows_a_text_file_as_pandas_reads_it(tmp_path):
    """Whether None is a category is the schema's to say; the data are the same."""
    (tmp_path / "t.csv").write_text("kind,n\nNone,1\nF,NA\n")
    own = SiloColumns.of_frame("t", cells_for_ledger(read_file(tmp_path / "t.csv").frame, tmp_path / "t.csv"))
    assert own.digests == SiloColumns.of_frame("t", pd.read_csv(tmp_path / "t.csv")).digests
    (tmp_path / "g.csv").write_text("kind;n\nF;1.234,5\nM;2,5\n")
    own = SiloColumns.of_frame("t", cells_for_ledger(read_file(tmp_path / "g.csv").frame, tmp_path / "g.csv"))
    german = pd.read_csv(tmp_path / "g.csv", sep=";", decimal=",", thousands=".")
    assert own.digests == SiloColumns.of_frame("t", german).digests


def test_arrow_files_and_streams(tmp_path):
    import pyarrow as pa

    frame = pd.DataFrame({"age": [41, 50], "sex": ["F", None]})
    frame.to_feather(tmp_path / "t.feather")
    table = pa.Table.from_pandas(frame)
    for name, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        with new(tmp_path / f"{name}.arrow", table.schema) as out:
            out.write_table(table)
    for name in ("t.feather", "file.arrow", "stream.arrow"):
        pd.testing.assert_frame_equal(read_file(tmp_path / name).frame, frame)


def test_excel_files(tmp_path):
    pytest.importorskip("openpyxl", reason="needs the extra dpadmm[excel]")
    frame = pd.DataFrame(
        {"amount": [1.5, None], "age": [41, 50], "sick": ["yes", "no"], "kind, of; case": ["None", "F"]}
    )
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    one, two = (
        encode_table(SCHEMA, each, "t", CellRules(missing="fill"))
        for each in (read_file(tmp_path / "t.xlsx").frame, frame.astype(object))
    )
    np.testing.assert_array_equal(one.features, two.features)
    frame.to_excel(tmp_path / "bare.xlsx", index=False, header=False)
    bare = read_file(tmp_path / "bare.xlsx", TableFormat(header=False)).frame
    assert bare.columns.tolist() == ["column1", "column2", "column3", "column4"]
    assert bare["column2"].tolist() == [41, 50]


def test_a_header_alone_is_a_table_without_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a;b\n")
    for written in (TableFormat(), TableFormat(decimal=",", na_values=("?",))):
        assert read_file(tmp_path / "t.csv", written).frame.columns.tolist() == ["a", "b"]


def test_names_and_listed_values_are_stripped_as_cells_are():
    padded = Categorical(" sex ", (" F", "M "))
    assert (padded.name, padded.categories) == ("sex", ("F", "M"))
    schema = Schema((padded,), BinaryLabel("sick", positive=("yes ",), negative=("no",)), constant=None)
    done = encode_table(schema, pd.DataFrame({"sex ": ["M", " F "], " sick": [" yes", "no"]}))
    assert done.features.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert done.labels.tolist() == [1.0, -1.0]


def test_silos_are_called_what_the_cells_say():
    """7 is 7 also where a cell of another person has turned the numbers of all into decimals or text."""
    for cells in ([7, 8, 7], [7.0, 8.0, 7.0], ["7", " 8", "7 "]):
        parts = split_table(pd.DataFrame({"town": cells, "n": [1, 2, 3]}), "town", "t")
        assert {name: part["n"].tolist() for name, part in parts.items()} == {"7": [1, 3], "8": [2]}
