"""Compiled kernels of the simulated noise: a counter-based generator and its transforms.

The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): a keyed bijection of 128-bit counters. A number is a
pure function of (key, round, agent, replica, coordinate), so it depends neither on the batch nor on threads. One
counter yields 128 bits, hence two numbers: coordinates 2j and 2j + 1.

Logarithm, sine and cosine are the classical minimax polynomials written without branches or calls, so that the
loops vectorise; no instruction is reassociated, so vector and scalar code give the same bits, and so does any other
machine with IEEE arithmetic. Counters are handled in blocks of `BLOCK`, short blocks are padded.

Indices are unsigned throughout: a signed index costs a wrap-around test per access, which stops vectorisation.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
u64 = np.uint64

BLOCK = 256  # 12 KB of scratch: stays in the first-level cache

NORMAL = 0
EXPONENTIAL = 1
LAPLACE = 2

_0, _1, _2, _B = u64(0), u64(1), u64(2), u64(BLOCK)
_LOW = u64(0xFFFFFFFF)
_SIGN = u64(1 << 63)
_ONE_BITS = u64(0x3FF0000000000000)  # bits of 1.0; of the exponent of [1, 2)
_MANTISSA = u64(0x000FFFFFFFFFFFFF)
_S2, _S12, _S32, _S52, _S62, _S63 = u64(2), u64(12), u64(32), u64(52), u64(62), u64(63)

# Philox4x32 multipliers and Weyl key increments.
_M0, _M1 = u64(0xD2511F53), u64(0xCD9E8D57)
_W0, _W1 = u64(0x9E3779B9), u64(0xBB67AE85)

# log(1 + g), g in [sqrt(1/2) - 1, sqrt(2) - 1]: minimax polynomial in s = g/(2 + g), error below 2^-58.
_ROOT_HALF = u64(0x3FE6A09E00000000)
_TO_ROOT_HALF = u64(0x3FF0000000000000 - 0x3FE6A09E00000000)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_L1, _L2, _L3, _L4 = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
)
_L5, _L6, _L7 = 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01
_EXPONENT_BITS = u64(0x4330000000000000)  # bits of 2^52: an integer below 2^52 put under it becomes its float
_EXPONENT_SHIFT = 4503599627370496.0 + 1023.0

# sin y and cos y on [-pi/4, pi/4]: minimax polynomials in y^2, error below 2^-58.
_S = (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04)
_T = (2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)
_C = (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05)
_D = (-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)
_HALF_PI = 1.5707963267948966


@njit(inline="always")
def _bits_of(number: float) -> u64:
    """Reinterpret a float64 as a uint64."""
    return np.float64(number).view(np.uint64)


@njit(inline="always")
def _float_of(bits: u64) -> float:
    """Reinterpret a uint64 as a float64."""
    return np.uint64(bits).view(np.float64)


@njit(inline="always")
def philox(c0: u64, c1: u64, c2: u64, c3: u64, k0: u64, k1: u64) -> tuple[u64, u64]:
    """Encrypt one counter: ten rounds. Upper halves may hold rubbish until the masks at the end."""
    for _ in range(10):
        p0 = _M0 * (c0 & _LOW)
        p1 = _M1 * (c2 & _LOW)
        c0 = (p1 >> _S32) ^ c1 ^ k0
        c2 = (p0 >> _S32) ^ c3 ^ k1
        c1 = p1
        c3 = p0
        k0 = (k0 + _W0) & _LOW
        k1 = (k1 + _W1) & _LOW
    return (c0 & _LOW) | (c1 << _S32), (c2 & _LOW) | (c3 << _S32)


@njit(inline="always", error_model="numpy")
def negative_log(word: u64) -> float:
    """Return -ln(u) > 0 for u = (top 52 bits + 1/2) / 2^52, which is never 0 nor 1."""
    u = _float_of((word >> _S12) | _ONE_BITS) - (1.0 - 2.0**-53)
    h = _bits_of(u) + _TO_ROOT_HALF
    k = _float_of((h >> _S52) | _EXPONENT_BITS) - _EXPONENT_SHIFT
    g = _float_of((h & _MANTISSA) + _ROOT_HALF) - 1.0
    s = g / (2.0 + g)
    z = s * s
    q = z * z
    tail = q * (_L2 + q * (_L4 + q * _L6)) + z * (_L1 + q * (_L3 + q * (_L5 + q * _L7)))
    half = 0.5 * g * g
    result: float = ((half - (s * (half + tail) + k * _LN2_LOW)) - g) - k * _LN2_HIGH
    return result


@njit(inline="always", error_model="numpy")
def _circle_point(word: u64) -> tuple[float, float]:
    """Return a point of the unit circle: two bits choose the quarter turn, 52 the angle in (-pi/4, pi/4)."""
    # in two exact steps: 1.5 - 2^-53 is no float, and without the half step an angle, so a number, could be 0
    y = ((_float_of(((word << _S2) >> _S12) | _ONE_BITS) - 1.5) + 2.0**-53) * _HALF_PI
    q = y * y
    sine = y + y * q * (_S[0] + q * (_S[1] + q * (_S[2] + q * (_T[0] + q * (_T[1] + q * _T[2])))))
    half = 0.5 * q
    top = 1.0 - half
    rest = q * q * (_C[0] + q * (_C[1] + q * (_C[2] + q * (_D[0] + q * (_D[1] + q * _D[2])))))
    cosine = top + (((1.0 - top) - half) + rest)
    a, b = _bits_of(cosine), _bits_of(sine)
    swap = (a ^ b) & (_0 - ((word >> _S62) & _1))
    first = (a ^ swap) ^ (word & _SIGN)
    second = (b ^ swap) ^ ((word ^ (word << _1)) & _SIGN)
    return _float_of(first), _float_of(second)


@njit(nogil=True, cache=True)
def encrypt(first: Words, second: Words, third: Words, fourth: u64, k0: u64, k1: u64) -> None:
    """Replace a block of counters (32-bit words) by their 128 random bits, in `first` and `second`."""
    for i in range(BLOCK):
        low, high = philox(first[i], second[i], third[i], fourth, k0, k1)
        first[i] = low
        second[i] = high


@njit(nogil=True, cache=True, error_model="numpy")
def transform(kind: int, first: Words, second: Words, out: Floats) -> None:
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
            out[i] = _float_of(_bits_of(negative_log(first[i])) ^ (first[i] << _S63))
            out[i + BLOCK] = _float_of(_bits_of(negative_log(second[i])) ^ (second[i] << _S63))


@njit(nogil=True, cache=True)
def _gather(
    pair: Words, replica: Words, agent: Words, agents: Words, replicas: Words, d: u64, i: u64, j: u64, r: u64, m: u64
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
    kind: int, values: Floats, scales: Floats, agents: Words, replicas: Words, key: Words, out: Floats
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
