"""The public map from rows and targets to the unit ball and [-1, 1]."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric, RealLabel
from dpadmm.data.encoding import CONSTANT, RowEncoding
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos, row_squares
from dpadmm.settings import CellRules

finite = st.floats(-1e300, 1e300)
few = settings(max_examples=60, deadline=None, derandomize=True)


OWN = {"row_norm": [None, 1e-3, 2.0, 1e8], "bounds": [None, (-2.0, 5.0), ([0, -1, -1e9], [1, 1, 1e9])]}


def dense(rows):
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


@few
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.just(3)), elements=finite),
    st.sampled_from(OWN["bounds"]),
    st.sampled_from(OWN["row_norm"]),
    st.booleans(),
)
def test_every_row_has_norm_at_most_one(X, bounds, row_norm, has_intercept):
    rows = RowEncoding.of_numbers(3, bounds, row_norm, has_intercept)
    encoded = rows.encode(X)
    assert encoded.shape == (len(X), rows.dimension)
    assert np.linalg.norm(encoded, axis=1).max() <= 1 + 1e-12
    if has_intercept:
        assert np.all(encoded[:, -1] == CONSTANT)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_row_of_any_size_leaves_sums_finite_where_rows_keep_their_length(kind):
    """Of numbers without bounds, too: who could make a sum infinite by one row would be seen by everybody."""
    rows = replace(RowEncoding.of_numbers(3, None, 1.0), keeps_length=True)
    table = kind(np.array([[1.7e308, -1.7e308, 0.0], [1e155, 1e160, -1e170], [3.0, 0.0, 4.0]]))
    encoded = rows.encode(table)
    assert np.sqrt(row_squares(encoded)).max() <= rows.reach[0] * 1.01
    assert dense(encoded)[2, :3] == pytest.approx(rows.share * np.array([3.0, 0.0, 4.0]))
    silos = Silos.from_parts([encoded], [np.ones(3)], 1.0, weighs_long_rows=True)
    for loss in (Logistic(), Huber(3.0)):
        risk, point = EmpiricalRisk(silos, loss), np.full(4, 1e6)
        for each in (risk.gradient(point[None, :, None]), risk.hessian(0, point), risk.score_products(0, point)):
            assert np.linalg.norm(each) <= max(1.0, loss.slope_bound) ** 2


@few
@given(
    hnp.arrays(np.float64, (4, 3), elements=st.floats(-2, 2)),
    st.sampled_from([None, (-2.0, 5.0), (-3.0, 3.0)]),
    st.booleans(),
)
def test_decoded_weights_score_rows_that_are_not_shortened_like_encoded_ones(X, bounds, has_intercept):
    rows = RowEncoding.of_numbers(3, bounds, 200.0, has_intercept)
    weights = np.arange(1.0, rows.dimension + 1)
    coef, intercept = rows.decode(weights)
    np.testing.assert_allclose(X @ coef + intercept, rows.encode(X) @ weights, rtol=1e-9, atol=1e-9)


@few
@given(
    hnp.arrays(np.float64, (5, 3), elements=st.sampled_from([0.0, -7.0, 0.3, 2.5])),
    st.sampled_from([None, (-2.0, 2.0), (-2.0, 5.0), (1.0, 9.0), (-1e3, 1e-3)]),
    st.booleans(),
)
def test_sparse_rows_are_encoded_as_dense_ones_and_stay_sparse(X, bounds, is_usual):
    if bounds is not None and is_usual:
        rows = RowEncoding.of(
            [Numeric(f"x{j}", *bounds).usual_scale() for j in range(3)], clip_radius=0.6, constant=0.3
        )
    else:
        rows = RowEncoding.of_numbers(3, bounds, 1.5)
    got = rows.encode(sparse.csr_array(X))
    assert not isinstance(got, np.ndarray)
    np.testing.assert_allclose(dense(got), rows.encode(X), rtol=1e-12, atol=1e-15)
    assert np.sqrt(row_squares(got)).max() <= 1 + 1e-12


def test_one_row_does_not_depend_on_another():
    rows = RowEncoding.of_numbers(2, row_norm=1.0)
    X = np.array([[0.1, 0.2], [30.0, 40.0]])
    np.testing.assert_array_equal(rows.encode(X)[:1], rows.encode(X[:1]))


def test_rows_within_the_bounds_keep_their_shape():
    rows = RowEncoding.of_numbers(2, (0.0, 10.0), np.sqrt(2), has_intercept=False)
    X = np.array([[5.0, 5.0], [10.0, 0.0]])
    np.testing.assert_allclose(rows.encode(X), [[0.0, 0.0], [1 / np.sqrt(2), -1 / np.sqrt(2)]])


def test_without_bounds_rows_are_divided_by_the_root_of_their_width():
    rows = RowEncoding.of_numbers(4, has_intercept=False)
    np.testing.assert_allclose(rows.encode(np.array([[1.0, 1, 1, 1], [5.0, 5, 5, 5]])), np.full((2, 4), 0.5))


TABLE = Schema(
    (
        Numeric("age", 0, 100),
        Categorical("ward", tuple("abcdefghij")),
        Numeric("pay", -1e6, 1e6, typical=2e3),
        Categorical("sex", ("F", "M")),
    ),
    BinaryLabel("sick", positive=("yes",), negative=("no",)),
    constant=0.3,
)
CELLS = {
    "age": st.sampled_from(["0", "100", "31.5", "500", None]),
    "ward": st.sampled_from([*"abj", "z", None]),
    "pay": st.sampled_from(["2000", "-1e6", "1e6", "0", None]),
    "sex": st.sampled_from(["F", "M", None]),
}


def by_hand(schema, encoding, row, is_blank):
    """One row, written out feature by feature, without any of the encoder's shortcuts."""
    v, place = [], 0
    for column in schema.columns:
        cell = row[column.name]
        if isinstance(column, Numeric):
            x = encoding.empty[place] if cell is None else min(max(float(cell), column.lower), column.upper)
            v.append((x - encoding.centre[place]) / encoding.scale[place])
            place += 1
            continue
        for category in column.categories:
            is_none = cell not in column.categories
            v.append(0.0 if is_none else float(cell == category) - encoding.centre[place])
            place += 1
    v = np.array(v)
    v *= min(1.0, encoding.radius / max(np.linalg.norm(v), 1e-300)) / encoding.radius
    k = schema.constant or 0.0
    whole = np.array([*(np.sqrt(schema.row_norm**2 - k**2) * v), *([] if schema.constant is None else [k])])
    return np.zeros_like(whole) if is_blank else whole


@few
@given(
    st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=6),
    st.sampled_from([None, 0.2, 0.6, 3.0]),
    st.sampled_from([(1.0, 0.3), (2.5, None), (0.1, 0.05)]),
    st.sampled_from(["fill", "blank"]),
    st.booleans(),
)
def test_a_table_is_encoded_cell_by_cell(rows, clip_radius, norms, missing, is_wide):
    schema = replace(TABLE, row_norm=norms[0], constant=norms[1])
    if is_wide:  # wide tables stay sparse, centred ones as well
        country = Categorical("country", tuple(f"c{i}" for i in range(60)))
        schema, rows = replace(schema, columns=(*schema.columns, country)), [{**row, "country": "c7"} for row in rows]
    encoding = schema.by_bounds() if clip_radius is None else schema.encoding(clip_radius)
    frame = pd.DataFrame([{**row, "sick": "yes"} for row in rows], dtype=object)
    screening = CellRules(missing=missing, unlisted="zero")
    if missing == "blank" and all(None in row.values() for row in rows):
        return
    done = encode_table(schema, frame, "t", screening, encoding=encoding)
    assert is_wide is not isinstance(done.features, np.ndarray)
    wanted = [by_hand(schema, encoding, row, missing == "blank" and None in row.values()) for row in rows]
    np.testing.assert_allclose(dense(done.features), wanted, rtol=1e-11, atol=1e-14)
    assert np.sqrt(row_squares(done.features)).max() <= schema.row_norm * (1 + 1e-12)


def test_the_public_default_is_that_of_the_specification():
    encoding = TABLE.encoding(0.6)
    assert encoding.centre[0] == 30.0
    assert encoding.scale[0] == 15.0
    assert encoding.centre[1:11] == (0.1,) * 10
    assert encoding.scale[1:11] == (1.0,) * 10
    assert encoding.centre[11] == 2e3  # the typical value that was stated
    assert encoding.radius == pytest.approx(0.6 * np.sqrt(2 + 10 * 0.1 * 0.9 + 2 * 0.25))
    assert encoding.empty == encoding.centre


def test_the_constant_is_counted_in_the_norm():
    """Added after the rows were brought to norm 1, it would make them 4.4 % longer than the certificates think."""
    encoding = replace(TABLE, columns=TABLE.columns[:1]).encoding(0.1)
    longest = encoding.encode(np.array([[100.0], [0.0]]))
    np.testing.assert_allclose(np.linalg.norm(longest, axis=1), 1.0, rtol=1e-14)


@few
@given(hnp.arrays(np.float64, 5, elements=finite), st.sampled_from([(-1.0, 1.0), (0.0, 1.0), (-1e8, 3.0)]))
def test_targets_stay_within_one(y, bounds):
    label, (low, high) = RealLabel("y", *bounds), bounds
    assert np.abs(label.encode(y)).max() <= 1
    assert (label.middle, label.half_width) == ((low + high) / 2, (high - low) / 2)
    np.testing.assert_allclose(label.decode(label.encode(y)), np.clip(y, low, high), atol=1e-7 * (high - low))


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
def test_entries_given_in_parts_are_one_entry(bounds):
    """CSR may hold 2 as 1 + 1; bounds are about the sum."""
    parts = sparse.csr_array((np.ones(3), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    rows = RowEncoding.of_numbers(2, bounds)
    np.testing.assert_allclose(dense(rows.encode(parts)), rows.encode(parts.toarray()), rtol=1e-15)


def test_sparse_rows_far_from_the_origin_are_stored_as_they_are():
    """A public choice: by the encoding alone, whatever the rows are."""
    column = Numeric("year", 0, 1e6).scale_at(9e5, 1.0)
    for scale in (column, Numeric("year", 0, 1e6).usual_scale()):
        rows = RowEncoding.of([scale], clip_radius=0.6, constant=0.3)
        X = np.array([[9e5], [0.0], [1e6]])
        got = rows.encode(sparse.csr_array(X))
        assert isinstance(got, np.ndarray) is (scale is column)
        np.testing.assert_allclose(dense(got), rows.encode(X), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(1, 6), exponent=st.integers(-6, 6))
def test_no_row_has_a_larger_factor_than_the_public_bound_of_centred_rows(seed, width, exponent):
    """By it silos decide how all rows are stored, and refuse a table with a larger one."""
    rng = np.random.default_rng(seed)
    lower = rng.normal(size=width) * 10.0**exponent
    upper = lower + rng.random(width) + 0.1
    rows = RowEncoding.of_numbers(width, (lower, upper), row_norm=1.0)
    table = rng.normal(size=(20, width)) * 10.0 ** rng.integers(-3, 3, (20, 1)) * (rng.random((20, width)) < 0.5)
    got = rows.encode(sparse.csr_array(np.vstack([table, rows.centre, np.zeros(width)])))
    if isinstance(got, CentredRows):
        assert got.most_factor == rows.share / rows.radius
        assert np.abs(got.stored.toarray()[:, -1]).max() <= got.most_factor
    Silos.from_parts([got], [np.ones(22)], rows.row_norm)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_numbers_beyond_the_bounds_are_those_at_the_bounds(kind):
    rows = RowEncoding.of_numbers(2, (-1.0, 1.0), 9.0).encode
    beyond, inside = kind([[5.0, 0.5], [-7.0, 1e300]]), kind([[1.0, 0.5], [-1.0, 1.0]])
    np.testing.assert_array_equal(dense(rows(beyond)), dense(rows(inside)))


def test_what_cancels_in_sparse_rows_is_made_up_for():
    """Squares of numbers many radii from 0 lose digits of a norm near the radius."""
    centre, ends = (100.0, 100.0), {"lower": (0.0, 0.0), "upper": (200.0, 200.0)}
    rows = RowEncoding(centre=centre, scale=(1.0, 1.0), empty=centre, radius=0.6, constant=None, **ends)
    near = 100.0 + np.random.default_rng(0).uniform(-1.0, 1.0, (500, 2))
    assert np.max(np.linalg.norm(dense(rows.encode(sparse.csr_array(near))), axis=1)) <= 1.0 + 1e-12
