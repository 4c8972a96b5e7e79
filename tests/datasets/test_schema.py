"""Encoding: against a directly written reference, every policy, every refusal."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpadmm.datasets.columns import Categorical, Numeric
from dpadmm.datasets.labels import BinaryLabel, RealLabel, ThresholdLabel
from dpadmm.datasets.policies import Layout, Missing, OutOfRange, Unknown
from dpadmm.datasets.schema import Schema, shorten_rows
from dpadmm.errors import InputError

AGE = Numeric("age", 0, 100)
SEX = Categorical("sex", ("F", "M"))
PAY = ThresholdLabel("pay", 1000)
SCHEMA = Schema((AGE, SEX), PAY)


def table(**changes):
    cells = {"age": [0, 75, 40], "sex": ["M", "F", "M"], "pay": [900, 1100, 1000]}
    return pd.DataFrame({**cells, **changes})


def reference(frame, columns, row_norm, constant):
    """Encode row by row, in plain Python."""
    rows = []
    for _, cells in frame.iterrows():
        row = []
        for column in columns:
            value = cells[column.name]
            if hasattr(column, "categories"):
                row += [float(value == category) for category in column.categories]
            else:
                row.append((min(max(value, column.lower), column.upper) - column.lower) / (column.upper - column.lower))
        room = np.sqrt(row_norm**2 - (constant or 0.0) ** 2)
        row = np.array(row) / max(1.0, np.linalg.norm(row) / room)
        rows.append(row if constant is None else np.append(row, constant))
    return np.array(rows)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    ages=st.lists(st.floats(-50, 150), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    row_norm=st.floats(0.1, 10.0),
    share=st.none() | st.floats(0.05, 0.95),
    layout=st.sampled_from(Layout),
)
def test_encode_equals_the_row_by_row_reference_and_keeps_the_norm(ages, seed, row_norm, share, layout):
    rng = np.random.default_rng(seed)
    columns = (AGE, SEX, Categorical("code", (1, 2, 7)), Numeric("cm", -2.5, 0.5))
    frame = pd.DataFrame(
        {
            "cm": rng.uniform(-4, 2, len(ages)),
            "code": rng.choice([1.0, 2.0, 7.0], len(ages)),
            "sex": rng.choice(["F", "M"], len(ages)),
            "age": ages,
            "pay": 1,
        }
    )
    constant = None if share is None else share * row_norm
    encoded = Schema(columns, PAY, row_norm, constant).encode(frame, layout=layout)
    dense = encoded.features.toarray() if sparse.issparse(encoded.features) else encoded.features
    np.testing.assert_allclose(dense, reference(frame, columns, row_norm, constant), rtol=1e-13, atol=1e-15)
    assert np.linalg.norm(dense, axis=1).max() <= row_norm * (1 + 1e-12)


def test_a_row_does_not_depend_on_the_other_rows():
    rows = table(age=[3, 55, 999])
    together = SCHEMA.encode(rows).features
    alone = np.vstack([SCHEMA.encode(rows.iloc[[i]]).features for i in range(3)])
    np.testing.assert_array_equal(together, alone)


def test_the_constant_is_the_same_in_every_row():
    features = SCHEMA.with_constant(0.5).encode(table(age=[0, 100, 100])).features
    assert features[:, -1].tolist() == [0.5, 0.5, 0.5]
    assert np.linalg.norm(features, axis=1) == pytest.approx(1.0)
    assert SCHEMA.with_constant(0.5).feature_names == ("age", "sex=F", "sex=M", "constant")


def test_layout_auto_is_sparse_only_for_wide_one_hot_tables():
    wide = Schema((Categorical("c", tuple(range(40))), AGE), PAY)
    frame = table(c=[0, 39, 5])
    assert sparse.issparse(wide.encode(frame).features)
    assert not sparse.issparse(SCHEMA.encode(frame).features)
    dense = wide.encode(frame, layout=Layout.DENSE).features
    np.testing.assert_array_equal(dense, wide.encode(frame).features.toarray())
    assert sparse.issparse(SCHEMA.encode(frame, layout=Layout.SPARSE).features)


def test_missing_values_are_refused_by_name_or_dropped():
    frame = table(age=[1.0, np.nan, 2.0], sex=["F", "M", None])
    with pytest.raises(InputError, match=r"2 of 3 rows have missing values, in: age \(1\), sex \(1\)"):
        SCHEMA.encode(frame)
    encoded = SCHEMA.encode(frame, missing=Missing.DROP)
    assert encoded.kept.tolist() == [0]
    assert (encoded.report.rows_kept, encoded.report.dropped_missing) == (1, 2)
    with pytest.raises(InputError, match="no row is left"):
        SCHEMA.encode(table(age=[np.nan] * 3), missing=Missing.DROP)


def test_a_missing_label_counts_as_missing_only_when_labels_are_read():
    frame = table(pay=[900, None, 1100])
    assert SCHEMA.encode(frame, missing=Missing.DROP).labels.tolist() == [-1.0, 1.0]
    assert len(SCHEMA.encode_features(frame).kept) == 3
    assert len(SCHEMA.encode_features(frame.drop(columns="pay")).kept) == 3


def test_unlisted_categories_follow_the_policy():
    frame = table(sex=["M", "X", "F"], age=[200, 200, 50])
    with pytest.raises(InputError, match=r"'sex': 1 of 3 rows .* one of 'F', 'M'") as caught:
        SCHEMA.encode(frame)
    assert "X" not in str(caught.value).replace("sex", "")
    dropped = SCHEMA.encode(frame, unknown=Unknown.DROP)
    assert dropped.kept.tolist() == [0, 2]
    assert dropped.report.clipped == (("age", 1),), "the dropped row's cell was never used"
    assert dropped.labels.tolist() == [-1.0, -1.0]
    zeroed = SCHEMA.encode(frame, unknown=Unknown.ZERO)
    assert zeroed.features[1].tolist() == [1.0, 0.0, 0.0]
    assert zeroed.report.zeroed == (("sex", 1),)
    with pytest.raises(InputError, match="No row"):
        SCHEMA.encode(table(sex=["X"] * 3), unknown=Unknown.DROP)


def test_numbers_out_of_range_are_clipped_and_counted_or_refused():
    frame = table(age=[-1, 101, 50])
    encoded = SCHEMA.encode(frame)
    assert encoded.report.clipped == (("age", 2),)
    assert "2 cell(s) of age clipped" in str(encoded.report)
    with pytest.raises(InputError, match=r"'age': 2 of 3 values .* \[0, 100\]"):
        SCHEMA.encode(frame, out_of_range=OutOfRange.ERROR)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"age": [1.0, np.inf, 2.0]}, "'age' holds 1 infinite"),
        ({"age": ["1", "old", "3"]}, r"'age' must hold numbers; 1 of 3 .* row 1"),
        ({"age": pd.to_datetime(["2020-01-01"] * 3)}, "datetime64"),
        ({"age": [1 + 2j, 2, 3]}, "complex128"),
        ({"pay": ["a", "b", "c"]}, "'pay' must hold numbers"),
        ({"pay": [1.0, -np.inf, 2.0]}, "'pay' holds 1 infinite"),
        ({"sex": [["F"], ["M"], ["F"]]}, "'sex' must hold text or whole numbers"),
    ],
)
def test_wrong_cells_are_refused_with_their_column(changes, message):
    with pytest.raises(InputError, match=message):
        SCHEMA.encode(table(**changes))


def test_wrong_tables_are_refused():
    with pytest.raises(InputError, match=r"lacks the column.*'sex'.*among its 2 columns"):
        SCHEMA.encode(table().drop(columns="sex"))
    with pytest.raises(InputError, match="no rows"):
        SCHEMA.encode(table().iloc[:0])
    with pytest.raises(InputError, match="pandas DataFrame, got dict"):
        SCHEMA.encode({"age": [1]})
    with pytest.raises(InputError, match="more than one column named 'age'"):
        SCHEMA.encode(pd.concat([table(), table()[["age"]]], axis=1))


def test_text_numbers_booleans_and_pandas_types_are_understood():
    plain = SCHEMA.encode(table()).features
    np.testing.assert_array_equal(SCHEMA.encode(table(age=["0", "75", "40"])).features, plain)
    typed = table().astype({"age": "Int64", "sex": "category", "pay": "Float64"})
    np.testing.assert_array_equal(SCHEMA.encode(typed).features, plain)
    codes = Schema((Categorical("flag", (0, 1)),), PAY)
    for flags in ([True, False, True], [1, 0, 1], [1.0, 0.0, 1.0], pd.array([1, 0, 1], dtype="Int8")):
        assert codes.encode(table(flag=flags)).features.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(InputError, match="3 of 3 rows hold an unlisted"):
        codes.encode(table(flag=["1", "0", "1"]))


def test_labels_of_each_kind():
    binary = BinaryLabel("y", positive=("yes", "maybe"), negative=("no",))
    assert binary.encode(pd.Series(["no", "maybe", "yes"]), OutOfRange.CLIP)[0].tolist() == [-1.0, 1.0, 1.0]
    with pytest.raises(InputError, match=r"'y': 2 of 3 rows .*\['yes', 'maybe'\].*\['no'\]"):
        binary.encode(pd.Series(["no", "No", "never"]), OutOfRange.CLIP)
    real = Schema((AGE,), RealLabel("pay", 0, 2000)).encode(table(pay=[0, 500, 5000]))
    assert real.labels.tolist() == [-1.0, -0.5, 1.0]
    assert real.report.clipped == (("pay", 1),)
    with pytest.raises(InputError, match="'pay': 1 of 3 values"):
        Schema((AGE,), RealLabel("pay", 0, 2000)).encode(table(pay=[0, 1, 5000]), out_of_range=OutOfRange.ERROR)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Numeric("a", 1, 1), "lower must be less than upper"),
        (lambda: Numeric("a", 0, np.inf), "upper of 'a' must be a finite number"),
        (lambda: Numeric("a", "0", 1), "lower of 'a' must be a finite number"),
        (lambda: Numeric("", 0, 1), "must have a name"),
        (lambda: Categorical("a", ()), "non-empty list"),
        (lambda: Categorical("a", "abc"), "non-empty list"),
        (lambda: Categorical("a", ("x", "x")), "distinct"),
        (lambda: Categorical("a", ("x", 1)), "all text or all whole numbers, got int, str"),
        (lambda: Categorical("a", (True, False)), "got bool"),
        (lambda: Categorical("a", (1.5,)), "got float"),
        (lambda: BinaryLabel("y", ("a",), ("a",)), "distinct"),
        (lambda: BinaryLabel("y", ("a",), (0,)), "got int, str"),
        (lambda: BinaryLabel("y", (), ("a",)), "non-empty list"),
        (lambda: ThresholdLabel("y", np.nan), "threshold of 'y'"),
        (lambda: RealLabel("y", 2, 1), "lower must be less than upper"),
        (lambda: RealLabel("y", -1e308, 1e308), "too large"),
        (lambda: Numeric("a", -1e308, 1e308), "too large"),
        (lambda: Schema((), PAY), "at least one column"),
        (lambda: Schema((AGE, AGE), PAY), "repeated: age"),
        (lambda: Schema((Numeric("pay", 0, 1),), PAY), "repeated: pay"),
        (lambda: Schema((AGE,), PAY, 0.0), "row_norm must be greater than 0"),
        (lambda: Schema((AGE,), PAY, 1.0, 1.0), "constant must lie strictly between 0 and row_norm 1"),
        (lambda: Schema((AGE,), PAY, 1.0, 0.0), "constant must lie strictly"),
    ],
)
def test_contradictory_schemas_are_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_shorten_rows_agrees_for_dense_and_sparse():
    dense = np.random.default_rng(0).normal(size=(20, 5))
    short = shorten_rows(dense, 1.5)
    np.testing.assert_allclose(shorten_rows(sparse.csr_array(dense), 1.5).toarray(), short, rtol=1e-14)
    norms = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), np.minimum(norms, 1.5), rtol=1e-14)


def test_describe_names_every_rule():
    text = SCHEMA.describe()
    for part in ("age: a number from 0 to 100", "sex: one of 'F', 'M'", "pay: +1 above 1000", "norm at most 1"):
        assert part in text
