"""CellRules treats each row by itself, keeps every row, and names file, row and column of what it refuses."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric, RealLabel
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError
from dpadmm.settings import CellRules

NUMBERS = Numeric("age", 0, 100, typical=40), Numeric("dose", 0, 10)
SCHEMA = Schema(
    (*NUMBERS, Categorical("sex", ("F", "M")), Categorical("ward", (1, 2))),
    BinaryLabel("sick", positive=("yes",), negative=("no",)),
    row_norm=10.0,
    constant=0.5,
)
CLEAN = {"age": ["40", "60"], "dose": ["5", "10"], "sex": ["F", "M"], "ward": ["1", "2"], "sick": ["yes", "no"]}
LENIENT = CellRules(missing="fill", unlisted="zero")
BLANK = CellRules(missing="blank", unlisted="blank")


def table(**changes) -> pd.DataFrame:
    return pd.DataFrame(CLEAN | changes)


def test_out_of_range_is_clipped():
    high = table(age=["40", "250"])
    clipped = encode_table(SCHEMA, high, "a", CellRules())
    assert clipped.features[1, 0] == pytest.approx(0.6)
    assert "1 cell outside the bounds" in clipped.notes[0]


def test_filling_uses_public_values_only():
    """A typical value, else the middle of the bounds; a category becomes none of the listed ones."""
    gaps = table(age=[None, "60"], dose=[None, "10"], sex=["?", "M"], ward=[None, "2"])
    done = encode_table(SCHEMA, gaps, "a", LENIENT)
    np.testing.assert_allclose(done.features[0], [0.0, 0.5, 0, 0, 0, 0, 0.5])
    assert not done.blank.any()


def test_blank_rows_are_counted_but_say_nothing():
    done = encode_table(SCHEMA, table(sick=["yes", None]), "a", LENIENT)
    assert done.blank.tolist() == [False, True]
    np.testing.assert_array_equal(done.features[1], np.zeros(7))
    wide = Schema((Categorical("c", tuple(range(100))),), SCHEMA.label)
    sparse = encode_table(wide, pd.DataFrame({"c": ["1", "999"], "sick": ["no", "no"]}), "a", BLANK)
    np.testing.assert_array_equal(sparse.features.toarray()[1], np.zeros(101))
    real = Schema(SCHEMA.columns, RealLabel("sick", 0, 10))
    done = encode_table(real, table(sick=["10", None]), "a", BLANK)
    assert done.labels.tolist() == [1.0, 0.0]


def test_labels_are_not_needed_to_predict():
    done = encode_table(SCHEMA, table().drop(columns="sick"), "a", CellRules(), is_labelled=False)
    assert done.features.shape == (2, 7)
    assert done.labels.size == 0


cell = st.sampled_from([None, "", "5", "60", "F", "M", "1", "2", "yes", "no", "X", "-7", "1e9", "inf", "abc"])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    rows=st.lists(st.tuples(cell, cell, cell, cell, cell), min_size=2, max_size=5),
    policy=st.sampled_from([LENIENT, BLANK]),
)
def test_a_row_is_encoded_alike_whatever_the_other_rows_are(rows, policy):
    """What makes screening free of privacy cost: one row in, one row out, and no row depends on another."""
    frame = pd.DataFrame(rows, columns=list(CLEAN), dtype=object)
    try:
        whole = encode_table(SCHEMA, frame, "a", policy)
    except InputError:
        return
    assert whole.features.shape[0] == len(rows)
    assert np.linalg.norm(whole.features, axis=1).max() <= SCHEMA.row_norm * (1 + 1e-12)
    good = pd.DataFrame(CLEAN).iloc[:1]
    for i in range(len(rows)):
        alone = encode_table(SCHEMA, pd.concat([frame.iloc[[i]], good], ignore_index=True), "a", policy)
        np.testing.assert_array_equal(alone.features[0], whole.features[i])
        assert alone.labels[0] == whole.labels[i]


ODD = Schema(
    (Categorical("ward", ("1", "01", "2")), Categorical("code", ("9007199254740993", "5")), Numeric("age", 0, 100)),
    BinaryLabel("sick", positive=("1",), negative=("0",)),
)
CELLS = st.sampled_from(
    [1, 2, 5, 2.5, 1.0, None, "1", "01", "x", True, float("nan"), 2**53 + 1, -1, "NA", 10**30, 1 + 0j, 1 + 2j]
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_cell_never_changes_how_anothers_is_read(data):
    """Not even through the column's type: an empty cell makes whole numbers floats, a word objects, 1+2j complex."""
    whole = st.sampled_from([1, 2, 5, 2**53 + 1])
    columns = {name: data.draw(st.lists(whole, min_size=4, max_size=4)) for name in ("ward", "code", "age")}
    columns["sick"] = [1, 0, 1, 0]
    name, cell = data.draw(st.sampled_from([*columns])), data.draw(CELLS)
    lenient = CellRules(missing="blank" if data.draw(st.booleans()) else "fill", unlisted="zero")

    def others(table):
        done = [encode_part(column, pd.DataFrame(table)[column.name]) for column in (*ODD.columns, ODD.label)]
        return [[each[:3].tolist() for each in found] for found in done]

    def encode_part(column, cells):
        found = column.read(cells)
        return found.codes, found.values, found.missing, found.unlisted, found.outside, found.strange

    before = others(columns)
    assert others(columns | {name: [*columns[name][:3], cell]}) == before
    try:
        rows = encode_table(ODD, pd.DataFrame(columns), "t", lenient).features[:3]
        changed = encode_table(ODD, pd.DataFrame(columns | {name: [*columns[name][:3], cell]}), "t", lenient)
    except InputError:
        return  # a strange number refuses the whole table
    np.testing.assert_array_equal(changed.features[:3], rows)
