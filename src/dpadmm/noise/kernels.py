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
def _gather(
    pair: Uint64s,
    replica: Uint64s,
    agent: Uint64s,
    agents: Uint64s,
    replicas: Uint64s,
    d: u64,
    i: u64,
    j: u64,
    r: u64,
    m: u64,
) -> None:
    """Write the counters of the next m (agent, coordinate pair, replica) triples, replica fastest."""
    pairs, replica_count = (d + _1) // _2, u64(replicas.size)
    s = _0
    while s < m:
        who = agents[i]
        if replica_count == _1:  # runs over coordinates, else a run would be a single number
            run = min(pairs - j, m - s)
            only = replicas[0]
            for t in range(run):
                pair[s + t] = j + t
                replica[s + t] = only
                agent[s + t] = who
            j += run
        else:
            run = min(replica_count - r, m - s)
            for t in range(run):
                pair[s + t] = j
                replica[s + t] = replicas[r + t]
                agent[s + t] = who
            r += run
            if r == replica_count:
                r = _0
                j += _1
        s += run
        if j == pairs:
            j = _0
            i += _1


@njit(nogil=True, cache=True)
def _scatter(
    values: Floats, scales: Floats, unit: Floats, out: Floats, d: u64, count: u64, i: u64, j: u64, r: u64, m: u64
) -> tuple[u64, u64, u64]:
    """Add the block's scaled noise to the flat values, in the order of `_gather`; return the next triple."""
    pairs = (d + _1) // _2
    s = _0
    while s < m:
        scale = scales[i]
        p = (i * d + _2 * j) * count + r
        if count == _1:
            run = min(pairs - j, m - s)
            full = run - _1 if _2 * (j + run) > d else run
            for t in range(full):
                out[p + _2 * t] = values[p + _2 * t] + scale * unit[s + t]
                out[p + _2 * t + _1] = values[p + _2 * t + _1] + scale * unit[s + t + _B]
            if full < run:
                out[p + _2 * full] = values[p + _2 * full] + scale * unit[s + full]
            j += run
        else:
            run = min(count - r, m - s)
            for t in range(run):
                out[p + t] = values[p + t] + scale * unit[s + t]
            if _2 * j + _1 < d:
                for t in range(run):
                    out[p + count + t] = values[p + count + t] + scale * unit[s + t + _B]
            r += run
            if r == count:
                r = _0
                j += _1
        s += run
        if j == pairs:
            j = _0
            i += _1
    return i, j, r


@njit(nogil=True, cache=True)
def add_noise(
    kind: int, values: Floats, scales: Floats, agents: Uint64s, replicas: Uint64s, key: Uint64s, out: Floats
) -> None:
    """Write `values + scales[agent] * unit noise` to `out`; shapes (N, d, R), (N,), (N,), (R,).

    `key` holds the round and the two key words. `out` may be `values`.
    """
    n, d, count = u64(values.shape[0]), u64(values.shape[1]), u64(values.shape[2])
    flat, flat_out = values.reshape(-1), out.reshape(-1)
    pair, replica, agent = np.zeros(BLOCK, u64), np.zeros(BLOCK, u64), np.zeros(BLOCK, u64)
    unit = np.zeros(2 * BLOCK)
    i, j, r = _0, _0, _0
    left = n * ((d + _1) // _2) * count
    while left > _0:
        m = min(_B, left)
        _gather(pair, replica, agent, agents, replicas, d, i, j, r, m)
        encrypt(pair, replica, agent, key[0], key[1], key[2])
        transform(kind, pair, replica, unit)
        i, j, r = _scatter(flat, scales, unit, flat_out, d, count, i, j, r, m)
        left -= m


@njit(nogil=True, cache=True, error_model="numpy")
def add_spherical(values: Floats, scales: Floats, normals: Floats, exponentials: Floats, out: Floats) -> None:
    """Write `values + scales[agent] * (sum of exponentials) * normals/||normals||`, column by column.

    Sums run over the coordinates in order for every column, so that a column does not depend on its neighbours.
    """
    n, d, count = values.shape
    squares, lengths = np.empty(count), np.empty(count)
    for i in range(n):
        squares[:] = 0.0
        lengths[:] = 0.0
        for j in range(d):
            for r in range(count):
                squares[r] += normals[i, j, r] * normals[i, j, r]
                lengths[r] += exponentials[i, j, r]
        for r in range(count):
            lengths[r] *= scales[i] / np.sqrt(squares[r])
        for j in range(d):
            for r in range(count):
                out[i, j, r] = values[i, j, r] + lengths[r] * normals[i, j, r]
