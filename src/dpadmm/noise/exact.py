"""Exact discrete Gaussian and Laplace noise: rejection from blocks of whole numbers (C8, "The sampler").

The magnitude k has probability proportional to exp(-t(k)), with t = k^2/(2 s^2) or t = k/s. Whole numbers are cut into
blocks of equal width, a power of two. A proposal takes a block with a probability proportional to a whole number, its
weight, then any place in it; it is accepted with probability height exp(-t(k)) / weight, which is at most 1. So every
k is accepted with a probability proportional to exp(-t(k)), whatever the weights are.

Whether a uniform number lies below that probability is decided in floating point where the two differ by more than
any error of the calculation, otherwise in exact arithmetic with as many further random bits as it takes. All bits are
the operating system's, and none is used twice or kept.
"""

import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MARGIN = 2.0**-40  # the floating-point probability is off by less than 2^-45
_CHOICES = 2**25  # whole weights add up to at most this: 25 bits choose a block
_PLACE_BITS = 38  # with the sign and the 25 bits, one word
_FAR = 20.0  # t where the tail begins: there blocks are 16 times as wide, and each is half as likely as the one before
_TAIL_BITS = 4
_CHUNK = 2**14  # proposals at once: their arrays stay in the cache


@dataclass(frozen=True)
class Law:
    """A symmetric law of whole numbers: weight exp(-t), t a function of k and the scale."""

    exponent: Callable[[Floats], Floats]
    """t of k/scale, in floating point."""
    exact: Callable[[Fraction], Fraction]
    """t of k/scale."""
    reach: float
    """k/scale where t is `_FAR`."""


GAUSSIAN = Law(exponent=lambda x: x * x / 2, exact=lambda x: x * x / 2, reach=math.sqrt(2 * _FAR))
"""The discrete Gaussian: probability proportional to exp(-k^2/(2 scale^2))."""

LAPLACE = Law(exponent=lambda x: x, exact=lambda x: x, reach=_FAR)
"""The discrete Laplace: probability proportional to exp(-|k|/scale)."""


def draw(law: Law, scale: float, count: int) -> Integers:
    """Return independent numbers of the law, exactly; the scale, from 2^10 to 2^40, is taken for the number it is.

    >>> [int(k) for k in abs(draw(GAUSSIAN, 1024.0, 5)) // 2**14]
    [0, 0, 0, 0, 0]
    """
    blocks = _blocks(law, scale)
    found: list[Integers] = []
    missing = count
    while missing > 0:
        accepted = _accepted(blocks, min(missing + missing // 4 + 16, _CHUNK))[:missing]
        found.append(accepted)
        missing -= accepted.size
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks of 2^bits whole numbers from 0 on, as far as `_FAR`; then comes the tail, with weight 1."""

    law: Law
    scale: float
    bits: int
    height: int
    weights: Floats
    """Whole numbers, at least height exp(-t) at the near edge of each block; 1 for the tail and for no block."""
    ends: Integers
    """Sums of the weights, the tail's the last: the block of a choice is the first whose sum exceeds it."""

    @property
    def tail(self) -> int:
        return self.ends.size - 1

    def chance(self, k: int, factor: Fraction, digits: int) -> tuple[Fraction, Fraction]:
        """Return bounds of factor exp(-t(k)), about 10^-digits apart."""
        t = self.law.exact(Fraction(k) / Fraction(self.scale))
        nearest = Context(prec=digits)
        low, high = (
            Context(prec=digits, rounding=rounding).divide(Decimal(-t.numerator), Decimal(t.denominator))
            for rounding in (ROUND_FLOOR, ROUND_CEILING)
        )
        ends = nearest.next_minus(nearest.exp(low)), nearest.next_plus(nearest.exp(high))  # exp is the nearest decimal
        return factor * Fraction(ends[0]), factor * Fraction(ends[1])


@lru_cache(maxsize=256)
def _blocks(law: Law, scale: float) -> _Blocks:
    bits = math.frexp(scale)[1] - 4  # a width of scale/16 to scale/8
    number = math.ceil(law.reach * scale / 2**bits)
    edges = np.arange(number, dtype=np.float64) * 2.0**bits
    densities = _exp_minus(law.exponent(edges / scale)) * (1 + _MARGIN)  # none is too small
    height = math.floor((_CHOICES - 2 - number) / math.fsum(densities))
    weights = np.floor(height * densities) + 1
    ends = np.cumsum(np.append(weights, 1.0)).astype(np.int64)
    return _Blocks(law, scale, bits, height, np.append(weights, [1.0, 1.0]), ends)


def _accepted(blocks: _Blocks, size: int) -> Integers:
    """Return what is accepted of `size` proposals, in their order."""
    choices, bits = np.frombuffer(os.urandom(16 * size), dtype=np.uint64).reshape(2, size)
    is_negative = (choices >> np.uint64(63)).astype(bool)
    chosen = ((choices >> np.uint64(_PLACE_BITS)) & np.uint64(_CHOICES - 1)).astype(np.int64)
    block = np.searchsorted(blocks.ends, chosen, side="right")
    place = (choices & np.uint64(2**_PLACE_BITS - 1)) >> np.uint64(_PLACE_BITS - blocks.bits)
    k = (block << blocks.bits) + place.astype(np.int64)
    chance = blocks.height * _exp_minus(blocks.law.exponent(k / blocks.scale)) / blocks.weights[block]
    lead = chance - (bits >> np.uint64(11)) * 2.0**-53
    is_accepted = lead > 0
    is_tail = block == blocks.tail
    for i in np.flatnonzero((np.abs(lead) <= _MARGIN) | is_tail):
        k[i], is_accepted[i] = (
            _from_tail(blocks) if is_tail[i] else (k[i], _is_below(blocks, int(bits[i]), int(k[i]), int(block[i])))
        )
    is_accepted &= (block <= blocks.tail) & ~(is_negative & (k == 0))  # zero has one sign
    return np.where(is_negative, -k, k)[is_accepted]


def _is_below(blocks: _Blocks, term: int, k: int, block: int) -> bool:
    return _decide(term, lambda digits: blocks.chance(k, Fraction(blocks.height, int(blocks.weights[block])), digits))


def _from_tail(blocks: _Blocks) -> tuple[int, bool]:
    """Return a number beyond the blocks, and whether it is accepted.

    Of wide blocks, the first has probability 1/2, the next 1/4, and so on: exp(-t) falls faster.
    """
    wide = blocks.bits + _TAIL_BITS
    before = 0
    while secrets.randbits(1):
        before += 1
    k = (blocks.tail << blocks.bits) + (before << wide) + secrets.randbits(wide)
    factor = Fraction(blocks.height * 2 ** (before + 1 + _TAIL_BITS))
    return k, _decide(secrets.randbits(64), lambda digits: blocks.chance(k, factor, digits))


def _decide(term: int, chance: Callable[[int], tuple[Fraction, Fraction]]) -> bool:
    """Return whether a uniform number of [0, 1) that begins with these 64 bits is below the chance.

    chance: bounds of it for a number of decimal digits; bits and digits are added until one answer is left.
    """
    bits = 64
    while True:
        low, high = chance(bits // 3 + 10)
        if term + 1 <= low * 2**bits:
            return True
        if term >= high * 2**bits:
            return False
        term, bits = (term << 64) + secrets.randbits(64), bits + 64


# exp(-t) = 2^-j exp(-r), r = t - j ln 2, |r| <= ln(2)/2: products with j of the high part of ln 2 are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_POWERS = 2.0 ** -np.arange(64)
_TAYLOR = [(-1) ** n / math.factorial(n) for n in range(13, -1, -1)]


def _exp_minus(t: Floats) -> Floats:
    """Return exp(-t), 0 <= t <= 40, to a relative error below 2^-49; made of single IEEE operations only."""
    j = np.rint(t * (1 / math.log(2)))
    r = (t - j * _LN2_HIGH) - j * _LN2_LOW
    total = np.full_like(r, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        total *= r
        total += coefficient
    return total * _POWERS[j.astype(np.int64)]
