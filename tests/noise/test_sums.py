"""Sums modulo 2^64: words stand for whole multiples of the grid, exactly, or are refused."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpadmm.noise.masks import add_masks, from_uint64, sum_uint64, to_uint64

quick = settings(deadline=None, derandomize=True, max_examples=100)
multiples = st.integers(-(2**52), 2**52)
GRID = 2.0**-31


def as_uint64(numbers):
    return np.array([number % 2**64 for number in numbers], dtype=np.uint64)


class Constant:
    """Masks that are always the same."""

    def __init__(self, values):
        self.of = np.asarray(values, dtype=np.uint64)

    def values(self, kind, k, size):
        assert size == self.of.size
        return self.of


class TestUint64:
    @quick
    @given(st.lists(multiples, min_size=1, max_size=6), st.integers(-40, 10))
    def test_multiples_of_the_grid_are_kept_exactly(self, numbers, exponent):
        values = np.array(numbers, dtype=np.float64) * 2.0**exponent
        encoded = to_uint64(values, 2.0**exponent)
        assert encoded.tolist() == [number % 2**64 for number in numbers]
        assert np.array_equal(from_uint64(encoded, 2.0**exponent), values)

    @quick
    @given(arrays(np.float64, 5, elements=st.floats(-1e6, 1e6)))
    def test_other_values_go_to_the_nearest_multiple(self, values):
        moved = from_uint64(to_uint64(values, 2.0**-20), 2.0**-20) - values
        assert np.abs(moved).max() <= 2.0**-21


class TestSums:
    @quick
    @given(st.lists(st.lists(multiples, min_size=3, max_size=3), min_size=1, max_size=20))
    def test_sums_are_exact_and_in_any_order(self, parts):
        values = [to_uint64(np.array(part, dtype=np.float64), 1.0) for part in parts]
        total = sum_uint64(values)
        assert total.tolist() == [sum(column) % 2**64 for column in zip(*parts, strict=True)]
        assert np.array_equal(total, sum_uint64(values[::-1]))

    @quick
    @given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=8), multiples)
    def test_what_cancels_leaves_nothing(self, masks, value):
        """Wrapping is harmless: only what is left in the end must be small."""
        last = -sum(masks) % 2**64
        parts = [as_uint64([mask]) for mask in [*masks, last]]
        assert sum_uint64([as_uint64([value]), *parts]).tolist() == [value % 2**64]

    def test_a_masked_vector_is_the_sum_of_both(self):
        sent = add_masks(as_uint64([5, -5]), Constant([2**64 - 1, 7]), "slot", 1)
        assert sent.tolist() == [4, 2]
