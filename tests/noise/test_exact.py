"""Exact discrete noise: the law against exact probabilities and OpenDP, the use of bits, the proof's inequalities."""

import math
import os
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from dpadmm.noise import exact

LAWS = {"Gaussian": exact.GAUSSIAN, "Laplace": exact.LAPLACE}
EACH = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
SCALES = st.floats(2.0**10, 2.0**40)


def exponent(law, k, scale):
    """Return t(k) as mpmath's number, from the law's definition."""
    x = mpmath.mpf(k) / mpmath.mpf(scale)
    return x * x / 2 if law is exact.GAUSSIAN else x


def cumulative(law, scale, upto):
    """Return the law's exact P(|K| <= k) for k = 0, 1, ..., upto."""
    k = np.arange(50 * math.ceil(scale), dtype=np.longdouble)
    weights = np.exp(-((k / scale) ** 2) / 2 if law is exact.GAUSSIAN else -k / scale) * np.where(k > 0, 2, 1)
    return (np.cumsum(weights) / np.sum(weights))[: upto + 1]


@EACH
@pytest.mark.parametrize("scale", [1024.0, 1999.7])
def test_the_law_is_that_of_exact_probabilities(law, scale):
    """Chi-square in cells of equal probability, narrower than a block, and in the cells next to zero and far out."""
    drawn = exact.draw(law, scale, 400_000)
    ends = np.searchsorted(cumulative(law, scale, 25 * math.ceil(scale)), np.append(np.arange(1, 400) / 400, 0.9999))
    chances = np.diff(cumulative(law, scale, ends[-1])[ends], prepend=0, append=1)
    counts = np.bincount(np.searchsorted(ends, np.abs(drawn)), minlength=chances.size)
    assert stats.chisquare(counts, chances.astype(float) * drawn.size).pvalue > 1e-6
    assert stats.binomtest(int(np.sum(drawn > 0)), int(np.sum(drawn != 0))).pvalue > 1e-6


@EACH
def test_zero_is_not_twice_as_likely(law):
    scale, count = 1024.0, 3_000_000
    share = float(cumulative(law, scale, 0)[0])
    assert stats.binomtest(int(np.sum(exact.draw(law, scale, count) == 0)), count, share).pvalue > 1e-6


@pytest.mark.parametrize("scale", [1500.5, 2.0**24 * 1.2345678901234567, 2.0**40])
def test_opendp_draws_the_same_law(scale):
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = {
        exact.GAUSSIAN: dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale),
        exact.LAPLACE: dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale),
    }
    for law, measurement in theirs.items():
        others = np.array(measurement([0] * 8192))
        assert stats.ks_2samp(exact.draw(law, scale, 100_000), others).pvalue > 1e-6


class Tape:
    """The operating system's bytes, written down, and played again."""

    def __init__(self, monkeypatch):
        self.taken, self._draw = [], os.urandom
        monkeypatch.setattr(exact.os, "urandom", self.record)

    def record(self, size):
        self.taken.append(self._draw(size))
        return self.taken[-1]

    def again(self, monkeypatch):
        played = iter(self.taken)
        monkeypatch.setattr(exact.os, "urandom", lambda size: next(played))


def by_hand(law, scale, taken, count):
    """Return the numbers that the proof's algorithm makes of these bytes, in 60 digits and one proposal at a time."""
    mpmath.mp.dps = 60
    width = 2 ** (int(scale).bit_length() - 4)
    number = next(i for i in range(400) if exponent(law, i * width, scale) >= 20)
    blocks = exact._blocks(law, scale)
    weights = [int(weight) for weight in blocks.weights[:number]] + [1]
    found = []
    for chunk in taken:
        texts = [int.from_bytes(chunk[i : i + 8], "little") for i in range(0, len(chunk), 8)]
        for choice, term in zip(texts[: len(texts) // 2], texts[len(texts) // 2 :], strict=True):
            left = choice // 2**38 % 2**25
            block = next((i for i in range(number + 1) if left < sum(weights[: i + 1])), None)
            assert block != number, "the tail has one chance in 2^25"
            if block is None:
                continue
            k = block * width + choice % 2**38 * width // 2**38
            chance = blocks.height * mpmath.exp(-exponent(law, k, scale)) / weights[block]
            sign = -1 if choice >= 2**63 else 1
            if mpmath.mpf(term) / 2**64 < chance and (k, sign) != (0, -1):
                found.append(sign * k)
    return found[:count]


@EACH
@pytest.mark.parametrize("scale", [1024.0, 2.0**24 * 1.2345678901234567, math.nextafter(2.0**40, 0), 2.0**40])
def test_numbers_are_made_of_entropy_alone_and_as_the_proof_says(law, scale, monkeypatch):
    tape = Tape(monkeypatch)
    drawn = exact.draw(law, scale, 60)
    assert sum(map(len, tape.taken)) >= 16 * 60
    assert drawn.tolist() == by_hand(law, scale, tape.taken, 60)


@EACH
def test_exact_arithmetic_decides_as_floating_point_does(law, monkeypatch):
    """With so wide a margin that nothing is left to floating point."""
    tape = Tape(monkeypatch)
    quick = exact.draw(law, 2.0**24 * 1.7, 300)
    tape.again(monkeypatch)
    monkeypatch.setattr(exact, "_MARGIN", 2.0)
    decided, right = [], exact._decide
    monkeypatch.setattr(exact, "_decide", lambda *given: decided.append(right(*given)) or decided[-1])
    exact._blocks(law, 2.0**24 * 1.7)  # made with the narrow margin, and kept
    np.testing.assert_array_equal(exact.draw(law, 2.0**24 * 1.7, 300), quick)
    assert True in decided
    assert False in decided


@pytest.mark.parametrize(
    ("later", "answer"), [([0], True), ([7], False), ([6, 0], True), ([6, 2**41], True), ([6, 2**43], False)]
)
def test_a_tie_is_broken_by_further_bits(later, answer, monkeypatch):
    """The number begins as the chance does: with 5/8, followed by 6 in the next word, followed by 2^42."""
    chance = Fraction(5, 8) + Fraction(6, 2**128) + Fraction(2**42, 2**192)
    left = list(later)
    monkeypatch.setattr(exact.secrets, "randbits", lambda bits: left.pop(0))
    blur = lambda digits: Fraction(1, 10**digits)  # noqa: E731
    assert exact._decide(5 * 2**61, lambda digits: (chance - blur(digits), chance + blur(digits))) is answer
    assert not left


@EACH
def test_the_tail_has_the_law_too(law):
    """What is accepted beyond the blocks: as often as the law says, and in cells of equal probability there."""
    scale = 1500.5
    blocks = exact._blocks(law, scale)
    start = blocks.tail << blocks.bits
    blocks = replace(blocks, height=int(mpmath.exp(exponent(law, start, scale)) / 32))  # accepts most often
    found = [k for k, is_accepted in (exact._from_tail(blocks) for _ in range(12_000)) if is_accepted]
    assert min(found) >= start
    k = np.arange(start, start + 40 * math.ceil(scale), dtype=np.longdouble)
    below = np.cumsum(np.exp(-((k / scale) ** 2) / 2 if law is exact.GAUSSIAN else -k / scale))
    often = float(below[-1]) * blocks.height / 2**blocks.bits  # within blocks, k has height exp(-t) of a block's width
    assert stats.binomtest(len(found), 12_000, often).pvalue > 1e-6
    ends = np.searchsorted(below / below[-1], np.arange(1, 10) / 10)
    chances = np.diff((below / below[-1])[ends], prepend=0, append=1).astype(float)
    counts = np.bincount(np.searchsorted(ends, np.array(found) - start), minlength=10)
    assert stats.chisquare(counts, chances * len(found)).pvalue > 1e-6


@EACH
@pytest.mark.parametrize("more", [-1, 1])
def test_all_64_bits_decide_in_the_tail(law, more, monkeypatch):
    """A word next to the chance, on either side: no bit of it may be left out."""
    mpmath.mp.dps = 60
    blocks = exact._blocks(law, 1500.5)
    start = blocks.tail << blocks.bits
    chance = blocks.height * 32 * mpmath.exp(-exponent(law, start, 1500.5))
    term = int(mpmath.floor(chance * 2**64)) + more
    bits = iter(f"{0:0{1 + blocks.bits + 4}b}{term:064b}")  # the first wide block, its first place, then the word
    monkeypatch.setattr(exact.secrets, "randbits", lambda size: int("".join(next(bits) for _ in range(size)), 2))
    assert exact._from_tail(blocks) == (start, more < 0)
    assert not list(bits)


@EACH
def test_the_tail_is_reached_and_its_numbers_are_released(law, monkeypatch):
    """Proposals whose choice is the tail's: both signs, far out, and as they are."""
    scale = 4097.0
    blocks = exact._blocks(law, scale)
    choice = (int(blocks.ends[-1]) - 1) << 38
    texts = np.array([choice, choice + 2**63, choice, 2**63, 7, 2**64 - 1], dtype=np.uint64)
    monkeypatch.setattr(exact.os, "urandom", lambda size: texts.tobytes())
    given = iter([(10**6, True), (10**6 + 1, True), (10**6 + 2, False)])
    monkeypatch.setattr(exact, "_from_tail", lambda blocks: next(given))
    assert exact._accepted(blocks, 3).tolist() == [10**6, -(10**6) - 1]


def test_choices_beyond_the_weights_and_negative_zeros_are_rejected(monkeypatch):
    blocks = exact._blocks(exact.GAUSSIAN, 4097.0)
    leftover = int(blocks.ends[-1]) << 38
    assert leftover < 2**63
    texts = np.array([leftover, 2**63, 0, 0, 0, 0], dtype=np.uint64)
    monkeypatch.setattr(exact.os, "urandom", lambda size: texts.tobytes())
    assert exact._accepted(blocks, 3).tolist() == [0]


@EACH
@given(scale=SCALES, share=st.floats(0, 1))
@example(scale=2.0**10, share=0.0)
@example(scale=2.0**40, share=1.0)
def test_floating_point_errs_by_less_than_the_margin_by_far(law, scale, share):
    """The proof says 2^-45; the margin is 2^-40."""
    assert exact._MARGIN >= 2.0**-41
    mpmath.mp.dps = 40
    blocks = exact._blocks(law, scale)
    k = round(share * ((blocks.tail << blocks.bits) - 1))
    weight = blocks.weights[k >> blocks.bits]
    quick = blocks.height * exact._exp_minus(law.exponent(np.array([k]) / scale)) / weight
    truth = blocks.height * mpmath.exp(-exponent(law, k, scale)) / int(weight)
    assert abs(mpmath.mpf(float(quick[0])) - truth) < 2.0**-45
    low, high = blocks.chance(k, Fraction(blocks.height, int(weight)), 30)
    assert mpmath.mpf(low.numerator) / low.denominator <= truth <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low < Fraction(1, 10**25)


@EACH
@given(scale=SCALES)
@example(scale=2.0**10)
@example(scale=math.nextafter(2.0**11, 0))
@example(scale=2.0**40)
def test_no_probability_of_acceptance_exceeds_one(law, scale):
    """At the near edge of every block, of the tail's first blocks, and so beyond: there they halve too slowly."""
    mpmath.mp.dps = 40
    blocks = exact._blocks(law, scale)
    width = 2**blocks.bits
    assert scale / 16 < width <= scale / 8
    for i in range(blocks.tail):
        assert blocks.height * mpmath.exp(-exponent(law, i * width, scale)) <= int(blocks.weights[i])
    assert blocks.ends[-1] <= 2**25
    np.testing.assert_array_equal(np.diff(blocks.ends, prepend=0), blocks.weights[:-1])
    start = blocks.tail * width
    for before in range(6):
        edge = start + before * 16 * width
        assert blocks.height * 2 ** (before + 5) * mpmath.exp(-exponent(law, edge, scale)) <= 1


@EACH
@pytest.mark.parametrize("count", [0, 1, 2**15 + 3])
def test_as_many_as_asked_for(law, count):
    drawn = exact.draw(law, 5000.0, count)
    assert drawn.shape == (count,)
    assert drawn.dtype == np.int64


@EACH
def test_the_scale_is_taken_for_the_number_it_is(law, monkeypatch):
    """Beside 2^10 a whole number less would be a thousandth of the noise, which no test of samples sees."""
    scales, right = [], exact._accepted
    monkeypatch.setattr(exact, "_accepted", lambda blocks, size: scales.append(blocks.scale) or right(blocks, size))
    exact.draw(law, 1024.75, 3)
    assert set(scales) == {1024.75}
