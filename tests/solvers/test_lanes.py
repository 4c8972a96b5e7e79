"""The register loops against NumPy and extended precision, and the promise that a column's bits stand alone."""

import numpy as np
import pytest
from numba import njit
from scipy import sparse
from scipy.special import expit

from dpadmm.problems.losses import Huber, Logistic
from dpadmm.solvers import kernels, lanes

WIDTHS = (lanes.ONE, lanes.FOUR, lanes.EIGHT, lanes.SIXTEEN)


@njit
def times(tile, values, indices, begin, end, w, first, out, place):
    lanes.row_times(tile, values, indices, begin, end, w, first, out, place)


@njit
def add(tile, values, indices, begin, end, t, place, out):
    lanes.add_row(tile, values, indices, begin, end, t, place, out)


@njit
def logistic(tile, t, place, low):
    lanes.logistic_lanes(tile, t, place, low)


@njit
def combine(tile, keep, centre, scale, lin, record, place, number, out):
    return lanes.combine_and_project(tile, keep, centre, scale, lin, record, place, number, out)


@njit
def scaled(tile, scale, record, place, number, out):
    lanes.add_scaled(tile, scale, record, place, number, out)


@njit
def product(tile, left, right, number):
    return lanes.dot(tile, left, right, number)


@pytest.mark.parametrize("tile", WIDTHS, ids=len)
def test_dot(tile):
    """Partial sums, joined by halves; what lies behind the last number is left out."""
    rng = np.random.default_rng(4)
    left, right = rng.normal(size=70), rng.normal(size=70)
    left[64:] = np.nan
    for number in (0, 16, 64):
        found = product(tile, left, right, number)
        np.testing.assert_allclose(found, left[:number] @ right[:number], rtol=0, atol=1e-13)


@pytest.mark.parametrize("tile", WIDTHS, ids=len)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows(tile, kind):
    """0 to 9 non-zeros, an index twice, a place inside; the numbers around are left alone."""
    rng, n = np.random.default_rng(0), len(tile)
    values, indices = rng.normal(size=12), rng.integers(0, 6, 12).astype(kind)
    indices[3] = indices[4]
    w, t = rng.normal(size=(6, n)), rng.normal(size=3 * n)
    for length in range(10):
        part = slice(2, 2 + length)
        out = np.full(3 * n, 7.0)
        times(tile, values, indices, 2, 2 + length, w.ravel(), 0.5, out, n)
        np.testing.assert_allclose(out[n : 2 * n], 0.5 + values[part] @ w[indices[part]], rtol=0, atol=1e-14)
        assert (out[:n] == 7.0).all()
        assert (out[2 * n :] == 7.0).all()
        total, expected = w.ravel().copy(), w.copy()
        add(tile, values, indices, 2, 2 + length, t, n, total)
        np.add.at(expected, indices[part], values[part, None] * t[n : 2 * n])
        np.testing.assert_allclose(total.reshape(6, n), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("tile", WIDTHS, ids=len)
def test_logistic_slopes_are_the_same_in_every_width(tile):
    rng, n = np.random.default_rng(1), len(tile)
    t = np.concatenate([rng.normal(size=61) * 8, [0.0, -800.0, 800.0]])
    for low in (-700.0, -0.4):
        found, one_by_one = t.copy(), np.array([kernels.slope(v, np.array((0.0, 1.0, low, np.inf)), True) for v in t])
        for place in range(0, 64, n):
            logistic(tile, found, place, low)
        np.testing.assert_array_equal(found, one_by_one)
        np.testing.assert_allclose(found, -expit(-np.maximum(t, low)), rtol=1.5e-15, atol=1e-303)


def test_logistic_slopes_in_extended_precision():
    """The polynomial's error stays far below the rounding: at most 2.5 units in the last place in all."""
    t = np.concatenate([np.linspace(-40, 40, 100_001), np.linspace(-0.4, 0.4, 20_001)])
    found = t.copy()
    kernels.logistic_slopes(found, -np.inf)
    true = -1 / (1 + np.exp(t.astype(np.longdouble)))
    assert (np.abs(found - true) <= 2.5 * np.spacing(np.abs(found))).all()


@pytest.mark.parametrize("loss", [Logistic(), Logistic(0.7), Huber(0.3)], ids=repr)
def test_a_column_has_the_same_bits_in_any_batch(loss):
    """Tiles of sixteen and of four, filled or not: what is kept between solves rests on it."""
    rng = np.random.default_rng(2)
    rows = sparse.random_array((90, 13), density=0.5, rng=rng, format="csr")
    task = (rows.indptr, rows.indices, rows.data, rng.normal(size=90), rng.uniform(0.2, 1.0, 90), 3, 88)
    form, w = loss.form, rng.normal(size=(13, 50))
    whole = kernels.csr_slope_sum(*task, w, form.numbers, form.is_logistic)
    for chosen in ([7], [49], [0], range(4), range(30, 35), range(3, 12), range(17, 0, -1), rng.permutation(50)):
        part = kernels.csr_slope_sum(*task, np.ascontiguousarray(w[:, chosen]), form.numbers, form.is_logistic)
        np.testing.assert_array_equal(part, whole[:, chosen])


@pytest.mark.parametrize("over", ["nothing", "centre", "lin"])
@pytest.mark.parametrize("number", [0, 8, 64])
def test_combine_and_add(number, over):
    rng = np.random.default_rng(3)
    arrays = {"centre": rng.normal(size=90), "lin": rng.normal(size=90), "nothing": np.full(90, 7.0)}
    centre, lin, record = arrays["centre"].copy(), arrays["lin"].copy(), rng.normal(size=90)
    out, here = arrays[over], slice(5, 5 + number)
    kept = out.copy()
    product, size = combine(lanes.EIGHT, 0.7, arrays["centre"], 1.3, arrays["lin"], record, 5, number, out)
    x = 0.7 * centre[here] - 1.3 * lin[here]
    np.testing.assert_allclose(out[here], x, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(product, record[here] @ x, rtol=0, atol=1e-13)
    assert size == (np.abs(0.7 * centre[here]) + np.abs(1.3 * lin[here])).max(initial=0.0)
    scaled(lanes.EIGHT, -0.3, record, 5, number, out)
    np.testing.assert_allclose(out[here], x - 0.3 * record[here], rtol=1e-14, atol=1e-15)
    for outside in (slice(0, 5), slice(5 + number, 90)):
        np.testing.assert_array_equal(out[outside], kept[outside])


def test_a_nan_reaches_the_product():
    """The largest size may miss it, the product may not: the reported gradient is then NaN, too."""
    for name in range(3):
        arrays = [np.ones(16) for _ in range(3)]
        arrays[name][11] = np.nan
        product, _ = combine(lanes.EIGHT, 0.5, arrays[0], 0.5, arrays[1], arrays[2], 0, 16, np.empty(16))
        assert np.isnan(product)
