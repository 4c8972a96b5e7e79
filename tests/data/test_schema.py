"""Encoding: against a directly written reference, every policy, every refusal."""

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric, RealLabel, ThresholdLabel
from dpadmm.data.schema import Schema, column_of
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError
from dpadmm.settings import CellRules

AGE = Numeric("age", 0, 100)
SEX = Categorical("sex", ("F", "M"))
PAY = ThresholdLabel("pay", 1000)
SCHEMA = Schema((AGE, SEX), PAY)


def table(**changes):
    cells = {"age": [0, 75, 40], "sex": ["M", "F", "M"], "pay": [900, 1100, 1000]}
    return pd.DataFrame({**cells, **changes})


def encode(schema, frame, **policies):
    return encode_table(schema, frame, "The table", CellRules(**policies))


SAME_CATEGORY = [True, 1, 1.0, np.int8(1), np.float32(1), "1", " 1", "01", "1.0", "true", "True ", Decimal(1)]


@pytest.mark.parametrize("categories", [(0, 1), ("0", "1"), ("00", "01"), ("False", "True"), ("no", "1.0")])
@pytest.mark.parametrize("cell", SAME_CATEGORY, ids=repr)
def test_a_category_is_what_the_cell_says_not_how_it_is_stored(categories, cell):
    found = Categorical("flag", categories).read(pd.Series([cell, "?", None], dtype=object))
    assert found.codes.tolist() == [1, -1, -1]
    assert found.unlisted.tolist() == [False, True, False]
    assert found.missing.tolist() == [False, False, True]


def test_the_text_of_a_category_counts_before_its_number():
    codes = Categorical("code", ("1", "01", "1.0", "7"))
    assert codes.read(pd.Series(["1", "01", "1.0", "001", 1, 1.0, "7.0"], dtype=object)).codes.tolist() == [
        *(0, 1, 2, -1, 0, 0, 3)  # numbers in memory are 1, whether stored as 1 or 1.0
    ]
    days = Categorical("day", ("2017-08-17", "2017-08-18"))
    for cells in (pd.to_datetime(["2017-08-18"]), ["2017-08-18 "], [date(2017, 8, 18)], ["2017-08-18 00:00:00"]):
        assert days.read(pd.Series(cells)).codes.tolist() == [1]


@pytest.mark.parametrize("text", ["NA", "None", " nan ", "NULL", "", None, np.nan, pd.NaT, pd.NA])
def test_a_cell_is_empty_alike_in_every_column_unless_its_text_is_listed(text):
    cells = pd.Series([text, "1"], dtype=object)
    for part in (AGE, Categorical("c", (1, 2)), PAY, BinaryLabel("y", ("1",), ("2",)), RealLabel("y", 0, 2)):
        found = part.read(cells)
        assert found.missing.tolist() == [True, False], part
        assert not (found.unlisted | found.strange).any(), part
    assert Categorical("c", ("NA", "None", "nan", "NULL", "1")).read(pd.Series(["NA", "nan"])).codes.tolist() == [0, 2]


def test_pandas_types_are_understood():
    plain = encode(SCHEMA, table())
    typed = table().astype({"age": "Int64", "sex": "category", "pay": "Float64"})
    for frame in (typed, table(age=["0", "75", "40"]), table().astype(object), table().astype("category")):
        again = encode(SCHEMA, frame)
        np.testing.assert_array_equal(again.features, plain.features)
        np.testing.assert_array_equal(again.labels, plain.labels)


def test_labels_of_each_kind():
    binary = BinaryLabel("y", positive=("yes", "maybe"), negative=("no",))
    found = binary.read(pd.Series(["no", "maybe", "yes", "No"]))
    assert found.values.tolist()[:3] == [-1.0, 1.0, 1.0]
    assert found.unlisted.tolist() == [False, False, False, True]
    real = encode(Schema((AGE,), RealLabel("pay", 0, 2000)), table(pay=[0, 500, 5000]))
    assert real.labels.tolist() == [-1.0, -0.5, 1.0]
    assert real.notes == ("The table, column 'pay': 1 cell outside the bounds, moved to the nearest one",)


def test_describe_names_every_rule():
    text = SCHEMA.describe()
    for part in ("age: a number from 0 to 100", "sex: one of 'F', 'M'", "pay: +1 above 1000", "norm at most 1"):
        assert part in text


def test_a_triple_of_numbers_is_neither_bounds_nor_categories():
    with pytest.raises(InputError, match="pair"):
        column_of("age", (0, 50, 120))
    assert column_of("age", [0, 50, 120]).categories == (0, 50, 120)
