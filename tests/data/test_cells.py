"""Columns are read by their distinct cells, many at a time, and every cell means what it means alone."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from dpadmm.data import cells
from dpadmm.data.cells import is_empty, listed_cells, number_cells, numbers_of

ODD = [
    *("1e5", "+5", ".5", "5.", "-.5", "-", ".", "1.2.3", "--1", "1-2", "\uff11\uff12", "1_000", "inf", "-inf", "nan"),
    *(" 7 ", "0x10", "9" * 400, "-0", "00012", "True", "false ", "", "  ", "NA", "1,5", "a\ud800", "0." + "1" * 40),
    *("1.7976931348623157e308", "9007199254740993", "123456789012345678901234567890.5", "4.9e-324"),
]


def alone(text: str) -> float:
    """What one cell means, by Python's own reading of numbers."""
    plain = text.strip()
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", plain):
        return float(plain)
    return {"true": 1.0, "false": 0.0}.get(plain.lower(), math.nan)


@pytest.mark.parametrize("odd", [[], ODD, ["1.2.3"], ["x", None]], ids=["plain", "odd", "no number", "word and gap"])
@pytest.mark.parametrize("kind", [object, "str"])
@pytest.mark.parametrize("repeats", [1, 30], ids=["all differ", "few differ"])
def test_many_cells_mean_what_each_means_alone(odd, kind, repeats):
    rng = np.random.default_rng(3)
    written = [repr(each) for each in rng.normal(0, 10 ** rng.uniform(-5, 5, 5000)).tolist()][: 5000 // repeats]
    if kind == "str":
        odd = [text for text in odd if text is None or text.isprintable()]  # pandas' own text is Unicode
    texts = [*written, *odd] * repeats
    found = numbers_of(pd.Series(texts, dtype=kind))
    expected = np.array([math.nan if text is None else alone(text) for text in texts])
    np.testing.assert_array_equal(found, expected)
    read = number_cells(pd.Series(texts, dtype=kind), 0.5, -10.0, 10.0)
    empty = [text is None or text.strip() in cells.EMPTY_TEXTS for text in texts]
    assert read.missing.tolist() == empty
    assert read.strange.tolist() == [not gap and not math.isfinite(n) for gap, n in zip(empty, expected, strict=True)]
    np.testing.assert_array_equal(read.values, np.clip(np.where(np.isfinite(expected), expected, 0.5), -10, 10))


def test_types_of_one_column_are_distinguished_where_they_are_mixed():
    mixed = pd.Series([1, True, 1.0, "1", "True", None, pd.Timestamp("2020-01-01")], dtype=object)
    assert listed_cells(mixed, ("1", "True", "2020-01-01")).codes.tolist() == [0, 1, 0, 0, 1, -1, 2]
    days = pd.Series(pd.to_datetime(["2020-01-01", None, "2020-01-02"]))
    assert listed_cells(days, ("2020-01-02", "2020-01-01")).codes.tolist() == [1, -1, 0]
    kinds = pd.Series(["b", None, "a", "b"], dtype="category")
    assert listed_cells(kinds, ("a", "b")).codes.tolist() == [1, -1, 0, 1]
    assert is_empty(kinds).tolist() == [False, True, False, False]
    whole = pd.Series([3, None, 1], dtype="Int64")
    assert listed_cells(whole, (1, 3)).codes.tolist() == [1, -1, 0]
    assert number_cells(whole, 0.0, 0.0, 9.0).values.tolist() == [3.0, 0.0, 1.0]
