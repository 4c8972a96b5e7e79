"""The compiled kernels: known answers of Philox, accuracy of the transforms, an independent generator."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpadmm.noise import counters, kernels
from dpadmm.noise.kernels import BLOCK


def encrypt(counter, key):
    """One block of the compiled generator as four 32-bit words, from the first and the last lane."""
    texts = [np.full(BLOCK, c, dtype=np.uint64) for c in counter[:3]]
    kernels.encrypt(*texts, np.uint64(counter[3]), np.uint64(key[0]), np.uint64(key[1]))
    assert np.all(texts[0] == texts[0][0])
    assert np.all(texts[1] == texts[1][0])
    low, high = int(texts[0][-1]), int(texts[1][-1])
    return (low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32)


def transform(kind, first, second):
    out = np.empty(2 * BLOCK)
    kernels.transform(kind, np.array(first, np.uint64), np.array(second, np.uint64), out)
    return out[:BLOCK], out[BLOCK:]


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter, key, answer):
    """The vectors of the Random123 distribution (kat_vectors, philox4x32 with 10 rounds)."""
    assert encrypt(counter, key) == answer


# Words whose uniform is smallest, largest, near 1/2 or sqrt(1/2) (where the reduction switches), a power of two.
EDGES = [0, 1 << 12, 2**64 - 1, 2**64 - (1 << 12) - 1, 1 << 63, (1 << 63) - 1, *(1 << k for k in range(13, 63))]
EDGES += [int(math.sqrt(0.5) * 2**64) + (k << 12) for k in range(-3, 4)]
ANY = np.random.default_rng(5).integers(0, 2**64, 4 * BLOCK - len(EDGES), dtype=np.uint64)
ARGUMENTS = np.concatenate([np.array(EDGES, np.uint64), ANY])


def test_logarithm_is_accurate_to_the_last_bits():
    for block in ARGUMENTS.reshape(4, BLOCK):
        first, second = transform(counters.EXPONENTIAL, block, block[::-1])
        with mpmath.workdps(40):
            exact = np.array([float(-mpmath.log((mpmath.mpf(int(w) >> 12) + 0.5) / 2**52)) for w in block])
        assert np.all(np.abs(first - exact) <= 1e-15 * exact / 4)
        np.testing.assert_array_equal(second, first[::-1])


def test_box_muller_is_accurate():
    for block in ARGUMENTS.reshape(4, BLOCK):
        radius = np.sqrt(-2 * np.log(((block >> 12).astype(float) + 0.5) * 2.0**-52))
        x, y = transform(counters.NORMAL, block, block[::-1])
        turn = block[::-1] >> np.uint64(62)
        part = ((block[::-1] << np.uint64(2)) >> np.uint64(12)).astype(float)
        angle = ((part + 0.5) * 2.0**-52 - 0.5) * (np.pi / 2) + np.array([0, -1, 2, 1])[turn] * (np.pi / 2)
        np.testing.assert_allclose(x, radius * np.cos(angle), rtol=0, atol=1e-14)
        np.testing.assert_allclose(y, radius * np.sin(angle), rtol=0, atol=1e-14)


def test_unit_circle_is_accurate_relative_to_each_coordinate():
    """Small sines too: the relative error stays near the last bit."""
    texts = ARGUMENTS[:BLOCK] & np.uint64((1 << 62) - 1)  # first quarter turn
    x, y = transform(counters.NORMAL, np.full(BLOCK, 1 << 40, np.uint64), texts)
    with mpmath.workdps(40):
        part = [(mpmath.mpf((int(w) << 2 & (1 << 64) - 1) >> 12) + 0.5) / 2**52 - 0.5 for w in texts]
        ratio = np.array([float(mpmath.tan(p * mpmath.pi / 2)) for p in part])
    np.testing.assert_allclose(y / x, ratio, rtol=2e-15)


def test_laplace_sign_is_independent_of_the_size():
    block = ARGUMENTS[:BLOCK]
    size, _ = transform(counters.EXPONENTIAL, block, block)
    signed, _ = transform(counters.LAPLACE, block, block)
    np.testing.assert_array_equal(signed, np.where(block & np.uint64(1), -size, size))


def test_extreme_texts_give_finite_noise():
    extremes = np.resize(np.array([0, 2**64 - 1, 1 << 63, (1 << 63) - 1, 1 << 61, 3 << 61, 1 << 62], np.uint64), BLOCK)
    for kind in (counters.NORMAL, counters.EXPONENTIAL, counters.LAPLACE):
        for numbers in transform(kind, extremes, extremes[::-1]):
            assert np.all(np.isfinite(numbers))
            assert np.all(numbers != 0)


def test_a_million_normals_pass_kolmogorov_smirnov_and_the_tails():
    out = np.zeros((10, 1000, 100))
    key = np.array([1, 2, 3], np.uint64)
    agents, replicas = np.arange(10, dtype=np.uint64), np.arange(100, dtype=np.uint64)
    kernels.add_noise(counters.NORMAL, out, np.ones(10), agents, replicas, key, out)
    x = out.ravel()
    assert stats.kstest(x, stats.norm.cdf).pvalue > 1e-6
    for threshold in (2, 3, 4):
        beyond = int(np.sum(np.abs(x) > threshold))
        assert stats.binomtest(beyond, x.size, 2 * stats.norm.sf(threshold)).pvalue > 1e-6


@pytest.mark.parametrize("kind", [counters.NORMAL, counters.EXPONENTIAL, counters.LAPLACE])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 1), (2, 4, 7), (1, 301, 2)])
def test_few_numbers_by_numpy_have_the_bits_of_many(kind, shape):
    """So that the size of a draw and what was drawn before change nothing."""
    rng = np.random.default_rng(0)
    values, scales = rng.normal(size=shape), rng.random(shape[0])
    agents, replicas = np.array([2**32 - 1, 0, 7], np.uint64)[: shape[0]], np.arange(shape[2], dtype=np.uint64)
    key, found = np.array([5, 2**32 - 3, 12345], np.uint64), [np.empty(shape), np.empty(shape)]
    for module, out in zip((counters, kernels), found, strict=True):
        module.add_noise(kind, values, scales, agents, replicas, key, out)
    np.testing.assert_array_equal(*found)
    alone = np.empty((*shape[:2], 1))  # a column of spherical noise does not depend on its neighbours
    counters.add_spherical(values, scales, found[0], np.abs(values), found[1])
    counters.add_spherical(values[..., -1:], scales, found[0][..., -1:], np.abs(values[..., -1:]), alone)
    np.testing.assert_array_equal(found[1][..., -1:], alone)
