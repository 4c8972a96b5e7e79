"""The compiled kernels against NumPy and SciPy."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from dpadmm.problems.losses import EpsilonInsensitive, Huber, Logistic, Quantile, SmoothedHinge, Squared
from dpadmm.problems.silos import RUN
from dpadmm.solvers import kernels


def logistic_slopes(t, low=-np.inf):
    t = np.array(t, dtype=float)
    kernels.slopes(t, np.array((0.0, 1.0, low, np.inf)), True)
    return t


LOSSES = (
    *(Logistic(), Logistic(0.7), Squared(), Huber(0.3), SmoothedHinge(0.25)),
    *(Quantile(0.9, 0.3), EpsilonInsensitive(0.2, 0.3), EpsilonInsensitive(0.2, 0.0)),
)


class TestLogisticSlopes:
    def test_against_scipy(self):
        """Relative accuracy of a few units in the last place, as far as the slope is a normal number."""
        rng = np.random.default_rng(0)
        t = np.concatenate([np.linspace(-700, 700, 200_001), rng.normal(size=20_000), rng.uniform(-40, 40, 20_000)])
        np.testing.assert_allclose(logistic_slopes(t), -expit(-t), rtol=1.5e-15, atol=0)

    def test_in_extended_precision(self):
        """The polynomial's error stays far below the rounding: at most 2.5 units in the last place in all."""
        t = np.concatenate([np.linspace(-40, 40, 100_001), np.linspace(-0.4, 0.4, 20_001)])
        found, true = logistic_slopes(t), -1 / (1 + np.exp(t.astype(np.longdouble)))
        assert (np.abs(found - true) <= 2.5 * np.spacing(np.abs(found))).all()

    def test_beyond_the_range_of_exp(self):
        t = np.linspace(-800, 800, 3201)
        np.testing.assert_allclose(logistic_slopes(t), -expit(-t), rtol=1e-15, atol=1e-303)
        assert logistic_slopes([-1e300, -np.inf]).tolist() == [-1.0, -1.0]
        assert (np.abs(logistic_slopes([1e300, np.inf])) < 1e-300).all()

    def test_small_numbers_and_the_edges_between_powers_of_two(self):
        edges = np.log(2) * (np.arange(-60, 61) + 0.5)
        t = np.concatenate(
            [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf), [0.0, -0.0, 1e-300, 1e-17]]
        )
        np.testing.assert_allclose(logistic_slopes(t), -expit(-t), rtol=1.5e-15, atol=0)
        assert logistic_slopes([0.0])[0] == -0.5

    def test_slopes_never_leave_their_bounds(self):
        """G = row_norm rests on |slope| <= 1."""
        slopes = logistic_slopes(np.concatenate([np.linspace(-800, 800, 100_001), np.linspace(-40, -30, 10_001)]))
        assert (slopes >= -1.0).all()
        assert (slopes <= 0.0).all()

    def test_capped_slopes_never_leave_their_bounds(self):
        """G = cap * row_norm rests on it."""
        for cap in (0.5, 0.6, 0.75, 0.9):
            low = Logistic(cap).floor
            slopes = logistic_slopes(np.linspace(-800, 800, 100_001), low)
            assert slopes.min() >= -cap * (1 + 1e-15)
            assert slopes.min() <= -cap * (1 - 1e-15)

    def test_nan_stays_nan(self):
        slopes = logistic_slopes([0.0, np.nan, 1.0])
        assert np.isnan(slopes[1])
        np.testing.assert_allclose(slopes[[0, 2]], [-0.5, -expit(-1.0)], rtol=1e-15)

    @pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 64, 257])
    def test_a_number_gets_the_same_slope_wherever_it_stands(self, size):
        """Vector lanes, the remainder and the slope of one number agree to the last bit, capped or not."""
        t = np.random.default_rng(1).normal(size=size) * 5
        for low in (-np.inf, -0.4):
            line = np.array((0.0, 1.0, low, np.inf))
            alone = np.array([logistic_slopes([v], low)[0] for v in t])
            np.testing.assert_array_equal(logistic_slopes(t, low), alone)
            np.testing.assert_array_equal([kernels.slope(v, line, True) for v in t], alone)


@pytest.mark.parametrize("loss", LOSSES[2:], ids=repr)
def test_line_slopes(loss):
    t = np.concatenate([np.linspace(-3, 3, 1001), [-1e300, 1e300]])
    found = t.copy()
    kernels.slopes(found, loss.form.numbers, False)
    np.testing.assert_allclose(found, loss.slope(t), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("columns", [1, 2, 7, 300])
def test_csr_slope_sum(loss, columns):
    """Rows with 0 to 11 non-zeros, a zero column, an inner range of rows longer than one block."""
    rng = np.random.default_rng(3)
    dense = rng.normal(size=(700, 11)) * (rng.random((700, 11)) < rng.random((700, 1)))
    dense[:, 4] = 0.0
    dense[5] = 0.0
    dense[6] = 1.0
    rows, shifts, w = sparse.csr_array(dense), rng.normal(size=700), rng.normal(size=(11, columns))
    parts = (rows.indptr.astype(np.int32), rows.indices.astype(np.int32), rows.data, shifts)
    counted, signs, none = rng.uniform(0.1, 1.0, 700), rng.choice([-1.0, 1.0], 700), np.empty(0)
    for first, last in ((3, 700), (0, 1), (5, 6), (17, 17)):
        for weights, own in ((none, none), (counted, none), (none, signs), (counted, signs)):
            form, here = (loss.form.numbers, loss.form.is_logistic), slice(first, last)
            found = kernels.csr_slope_sum(*parts, own, weights, first, last, w, *form)
            folded = dense[here] * own[here, None] if own.size else dense[here]
            part = folded if weights.size == 0 else weights[here, None] * folded
            t = dense[here] @ w - shifts[here, None]
            expected = part.T @ loss.slope(t * own[here, None] if own.size else t)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), Logistic(0.7), Huber(0.3)], ids=repr)
def test_a_column_of_sparse_rows_has_the_same_bits_in_any_batch(loss):
    """Tiles of any width, over several runs: what is kept between solves rests on it."""
    rng = np.random.default_rng(2)
    rows = sparse.random_array((2 * RUN + 50, 13), density=0.5, rng=rng, format="csr")
    number = rows.shape[0]
    labels = (rng.normal(size=number), rng.choice([-1.0, 1.0], number), rng.uniform(0.2, 1.0, number))
    task = (rows.indptr, rows.indices, rows.data, *labels, 3, number - 2)
    form, w = loss.form, rng.normal(size=(13, 50))
    whole = kernels.csr_slope_sum(*task, w, form.numbers, form.is_logistic)
    for chosen in ([7], [49], [0], range(4), range(30, 35), range(3, 12), range(17, 0, -1), rng.permutation(50)):
        part = kernels.csr_slope_sum(*task, np.ascontiguousarray(w[:, chosen]), form.numbers, form.is_logistic)
        np.testing.assert_array_equal(part, whole[:, chosen])


@pytest.mark.parametrize("d", [1, 5, 40, 101, 300])
def test_a_row_has_the_same_product_wherever_it_stands(d):
    """Its place among a block's rows, and how many these are, change no bit: products nearly cancel (C7)."""
    rng = np.random.default_rng(d)
    x, line = rng.normal(size=d), np.array((0.0, 1.0, -np.inf, np.inf, 0.0))  # slope(t) = t
    row = rng.normal(size=d)
    row -= x * (row @ x) / (x @ x)
    found = set()
    for before in (0, 1, 2, 3, 7, 130):
        for after in (0, 1, 5):
            rows, weights = rng.normal(size=(before + 1 + after, d)), np.zeros(before + 1 + after)
            rows[before], weights[before] = row, 1.0
            out = np.empty(d)
            kernels.dense_sum(rows, np.empty(0), np.empty(0), weights, 0, len(rows), x, line, False, out)
            found.add(out.tobytes())
    assert len(found) == 1
