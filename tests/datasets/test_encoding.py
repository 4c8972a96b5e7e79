"""The public map from rows and targets to the unit ball and [-1, 1]."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from dpadmm.datasets.encoding import INTERCEPT_FEATURE, RowEncoding, TargetScale
from dpadmm.errors import InputError

finite = st.floats(-1e300, 1e300)
few = settings(max_examples=60, deadline=None, derandomize=True)


@few
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.just(3)), elements=finite),
    st.sampled_from([None, (-2.0, 5.0), ([0, -1, -1e9], [1, 1, 1e9])]),
    st.sampled_from([None, 1e-3, 2.0, 1e8]),
    st.booleans(),
)
def test_every_row_has_norm_at_most_one(X, bounds, row_norm, has_intercept):
    rows = RowEncoding.of(3, bounds, row_norm, has_intercept)
    encoded = rows.encode(X)
    assert encoded.shape == (len(X), rows.dimension)
    assert np.linalg.norm(encoded, axis=1).max() <= 1 + 1e-12
    if has_intercept:
        assert np.all(encoded[:, -1] == INTERCEPT_FEATURE)


@few
@given(
    hnp.arrays(np.float64, (4, 3), elements=st.floats(-100, 100)),
    st.sampled_from([None, (-2.0, 5.0), (-3.0, 3.0)]),
    st.sampled_from([None, 0.5, 200.0]),
    st.booleans(),
)
def test_decoded_weights_score_admitted_rows_like_encoded_ones(X, bounds, row_norm, has_intercept):
    rows = RowEncoding.of(3, bounds, row_norm, has_intercept)
    weights = np.arange(1.0, rows.dimension + 1)
    coef, intercept = rows.decode(weights)
    np.testing.assert_allclose(rows.admit(X) @ coef + intercept, rows.encode(X) @ weights, rtol=1e-9, atol=1e-9)


@few
@given(hnp.arrays(np.float64, (5, 3), elements=st.sampled_from([0.0, -7.0, 0.3, 2.5])), st.booleans())
def test_sparse_and_dense_rows_are_encoded_alike(X, is_symmetric):
    bounds = (-2.0, 2.0) if is_symmetric else (-2.0, 5.0)
    for chosen in (bounds, None):
        rows = RowEncoding.of(3, chosen, 1.5)
        for give in (rows.encode, rows.admit):
            got = give(sparse.csr_array(X))
            assert sparse.issparse(got) == (is_symmetric or chosen is None)
            np.testing.assert_allclose(got.toarray() if sparse.issparse(got) else got, give(X), atol=1e-15)


def test_one_row_does_not_depend_on_another():
    rows = RowEncoding.of(2, row_norm=1.0)
    X = np.array([[0.1, 0.2], [30.0, 40.0]])
    np.testing.assert_array_equal(rows.encode(X)[:1], rows.encode(X[:1]))


def test_rows_within_the_bounds_keep_their_shape():
    rows = RowEncoding.of(2, (0.0, 10.0), np.sqrt(2), has_intercept=False)
    X = np.array([[5.0, 5.0], [10.0, 0.0]])
    np.testing.assert_allclose(rows.encode(X), [[0.0, 0.0], [1 / np.sqrt(2), -1 / np.sqrt(2)]])
    np.testing.assert_allclose(rows.admit(X), X)
    assert not rows.is_assumed
    assert RowEncoding.of(6, (0.0, 10.0)).norm_bound == pytest.approx(np.sqrt(2))


def test_without_bounds_the_map_is_assumed_and_says_so():
    rows = RowEncoding.of(4, has_intercept=False)
    assert rows.is_assumed
    assert "square root" in rows.describe()
    np.testing.assert_allclose(rows.encode(np.array([[1.0, 1, 1, 1], [5.0, 5, 5, 5]])), np.full((2, 4), 0.5))


@pytest.mark.parametrize(
    "bounds",
    [3, "ab", (1,), (1, 2, 3), (1.0, 1.0), (2.0, 1.0), (np.nan, 1.0), (0.0, np.inf), ([0, 0], [1, 1]), ("a", "b"),
     (None, 1), (-1.7e308, 1.7e308)],
)  # fmt: skip
def test_bad_feature_bounds_are_refused(bounds):
    with pytest.raises(InputError, match="feature_bounds"):
        RowEncoding.of(3, bounds)


@pytest.mark.parametrize(
    "bounds", [5, "xy", (1,), (1.0, 1.0), (2, 1), (np.nan, 1), (0, np.inf), ([0, 1], 2), (-1.7e308, 1.7e308)]
)
def test_bad_target_bounds_are_refused(bounds):
    with pytest.raises(InputError, match="target"):
        TargetScale.of(bounds)


@few
@given(hnp.arrays(np.float64, 5, elements=finite), st.sampled_from([None, (0.0, 1.0), (-1e8, 3.0)]))
def test_targets_stay_within_one(y, bounds):
    scale = TargetScale.of(bounds)
    assert np.abs(scale.encode(y)).max() <= 1
    low, high = (-1.0, 1.0) if bounds is None else bounds
    back = scale.encode(y) * scale.half_width + scale.middle
    np.testing.assert_allclose(back, np.clip(y, low, high), atol=1e-7 * (high - low))


@pytest.mark.parametrize("row_norm", [0, -1.0, np.nan, np.inf, "1", True])
def test_bad_row_norms_are_refused(row_norm):
    with pytest.raises(InputError, match="row_norm"):
        RowEncoding.of(3, None, row_norm)


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
def test_entries_given_in_parts_are_one_entry(bounds):
    """CSR may hold 2 as 1 + 1; bounds are about the sum."""
    parts = sparse.csr_array((np.ones(3), np.array([0, 0, 1]), np.array([0, 3])), shape=(1, 2))
    rows = RowEncoding.of(2, bounds)
    np.testing.assert_array_equal(rows.encode(parts).toarray(), rows.encode(parts.toarray()))
    np.testing.assert_array_equal(rows.admit(parts).toarray(), rows.admit(parts.toarray()))
