"""Compiled kernels of the simulated noise, for many numbers at a time (`counters` says what they are).

Counters are handled in blocks of `BLOCK`, short blocks are padded; loops vectorise, to the same bits as number by
number.

Indices are unsigned throughout: a signed index costs a wrap-around test per access, which stops vectorisation.
"""

import numpy as np
from numba import njit

from dpadmm.noise import counters
from dpadmm.noise.counters import EXPONENTIAL, NORMAL, Floats, Uint64s

u64 = np.uint64

BLOCK = 256  # 12 KB of scratch: stays in the first-level cache

_0, _1, _2, _B, _S63 = u64(0), u64(1), u64(2), u64(BLOCK), u64(63)

philox = njit(inline="always")(counters.philox)
negative_log = njit(inline="always", error_model="numpy")(counters.negative_log)
_circle_point = njit(inline="always", error_model="numpy")(counters.circle_point)


@njit(inline="always")
def _with_sign(number: float, term: u64) -> float:
    """Return the number; negative where the word is odd."""
    return np.uint64(np.float64(number).view(np.uint64) ^ (term << _S63)).view(np.float64)


@njit(nogil=True, cache=True)
def encrypt(first: Uint64s, second: Uint64s, third: Uint64s, fourth: u64, k0: u64, k1: u64) -> None:
    """Replace a block of counters (32-bit words) by their 128 random bits, in `first` and `second`."""
    for i in range(BLOCK):
        low, high = philox(first[i], second[i], third[i], fourth, k0, k1)
        first[i] = low
        second[i] = high


@njit(nogil=True, cache=True, error_model="numpy")
def transform(kind: int, first: Uint64s, second: Uint64s, out: Floats) -> None:
    """Turn random bits into unit noise: `out[:BLOCK]` for even coordinates, `out[BLOCK:]` for odd ones."""
    if kind == NORMAL:  # Box-Muller; three short loops beat one long one, which is bound by latency
        for i in range(BLOCK):
            out[i] = np.sqrt(2.0 * negative_log(first[i]))
        for i in range(BLOCK):
            cosine, sine = _circle_point(second[i])
            radius = out[i]
            out[i] = radius * cosine
            out[i + BLOCK] = radius * sine
    elif kind == EXPONENTIAL:
        for i in range(BLOCK):
            out[i] = negative_log(first[i])
            out[i + BLOCK] = negative_log(second[i])
    else:  # Laplace: bit 0, which the logarithm does not use, is the sign
        for i in range(BLOCK):
            out[i] = _with_sign(negative_log(first[i]), first[i])
            out[i + BLOCK] = _with_sign(negative_log(second[i]), second[i])


@njit(nogil=True, cache=True)
def add_noise(
    kind: int, values: Floats, scales: Floats, agents: Uint64s, replicas: Uint64s, key: Uint64s, out: Floats
) -> None:
    """Write `values + scales[agent] * unit noise` to `out`; shapes (N, d, R), (N,), (N,), (R,).

    Blocks of (agent, pair of coordinates, replica) triples, replica fastest. `key` holds the round and the two key
    words. `out` may be `values`.
    """
    d, count = u64(values.shape[1]), u64(values.shape[2])
    pairs = (d + _1) // _2
    flat, flat_out = values.reshape(-1), out.reshape(-1)
    pair, replica, agent = np.zeros(BLOCK, u64), np.zeros(BLOCK, u64), np.zeros(BLOCK, u64)
    place, unit = np.zeros(BLOCK, u64), np.zeros(2 * BLOCK)
    i, j, r = _0, _0, _0
    left = u64(values.shape[0]) * pairs * count
    while left > _0:
        m, first = min(_B, left), i
        for t in range(m):
            pair[t], replica[t], agent[t] = j, replicas[r], agents[i]
            place[t] = (i * d + _2 * j) * count + r
            r += _1
            if r == count:
                r = _0
                j += _1
            if j == pairs:
                j = _0
                i += _1
        encrypt(pair, replica, agent, key[0], key[1], key[2])
        transform(kind, pair, replica, unit)
        i_of, end = first, (first + _1) * d * count
        for t in range(m):
            p = place[t]
            if p >= end:
                i_of += _1
                end += d * count
            flat_out[p] = flat[p] + scales[i_of] * unit[t]
            if p + count < end:
                flat_out[p + count] = flat[p + count] + scales[i_of] * unit[t + _B]
        left -= m
