"""The simulated noise: a counter-based generator and its transforms, as functions of numbers or of whole arrays.

The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011): a keyed bijection of 128-bit counters. A number is a
pure function of (key, round, agent, replica, coordinate), so it depends neither on the batch nor on threads. One
counter yields 128 bits, hence two numbers: coordinates 2j and 2j + 1.

Logarithm, sine and cosine are the classical minimax polynomials written without branches or calls. `kernels` compiles
them for many numbers; for few, NumPy goes through the same steps (`add_noise`) and loads nothing. No
instruction is reassociated, so both give the same bits, and so does any other machine with IEEE arithmetic.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Uint64s: TypeAlias = NDArray[np.uint64]
Floats: TypeAlias = NDArray[np.float64]
u64 = np.uint64

NORMAL, EXPONENTIAL, LAPLACE = 0, 1, 2

_0, _1 = u64(0), u64(1)
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
_L1, _L2 = 6.666666666666735130e-01, 3.999999999940941908e-01
_L3, _L4 = 2.857142874366239149e-01, 2.222219843214978396e-01
_L5, _L6, _L7 = 1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01
_EXPONENT_BITS = u64(0x4330000000000000)  # bits of 2^52: an integer below 2^52 put under it becomes its float
_EXPONENT_SHIFT = 4503599627370496.0 + 1023.0

# sin y and cos y on [-pi/4, pi/4]: minimax polynomials in y^2, error below 2^-58.
_S = (-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04)
_T = (2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10)
_C = (4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05)
_D = (-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11)
_HALF_PI = 1.5707963267948966


def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any]:
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


def negative_log(term: Any) -> Any:
    """Return -ln(u) > 0 for u = (top 52 bits + 1/2) / 2^52, which is never 0 nor 1."""
    u = np.uint64((term >> _S12) | _ONE_BITS).view(np.float64) - (1.0 - 2.0**-53)
    h = np.float64(u).view(np.uint64) + _TO_ROOT_HALF
    k = np.uint64((h >> _S52) | _EXPONENT_BITS).view(np.float64) - _EXPONENT_SHIFT
    g = np.uint64((h & _MANTISSA) + _ROOT_HALF).view(np.float64) - 1.0
    s = g / (2.0 + g)
    z = s * s
    q = z * z
    tail = q * (_L2 + q * (_L4 + q * _L6)) + z * (_L1 + q * (_L3 + q * (_L5 + q * _L7)))
    half = 0.5 * g * g
    return ((half - (s * (half + tail) + k * _LN2_LOW)) - g) - k * _LN2_HIGH


def circle_point(term: Any) -> tuple[Any, Any]:
    """Return a point of the unit circle: two bits choose the quarter turn, 52 the angle in (-pi/4, pi/4)."""
    # in two exact steps: 1.5 - 2^-53 is no float, and without the half step an angle, so a number, could be 0
    y = ((np.uint64(((term << _S2) >> _S12) | _ONE_BITS).view(np.float64) - 1.5) + 2.0**-53) * _HALF_PI
    q = y * y
    sine = y + y * q * (_S[0] + q * (_S[1] + q * (_S[2] + q * (_T[0] + q * (_T[1] + q * _T[2])))))
    half = 0.5 * q
    top = 1.0 - half
    rest = q * q * (_C[0] + q * (_C[1] + q * (_C[2] + q * (_D[0] + q * (_D[1] + q * _D[2])))))
    cosine = top + (((1.0 - top) - half) + rest)
    a, b = np.float64(cosine).view(np.uint64), np.float64(sine).view(np.uint64)
    swap = (a ^ b) & (_0 - ((term >> _S62) & _1))
    first = (a ^ swap) ^ (term & _SIGN)
    second = (b ^ swap) ^ ((term ^ (term << _1)) & _SIGN)
    return np.uint64(first).view(np.float64), np.uint64(second).view(np.float64)


def add_noise(
    kind: int, values: Floats, scales: Floats, agents: Uint64s, replicas: Uint64s, key: Uint64s, out: Floats
) -> None:
    """As `kernels.add_noise`, to the same bits."""
    n, d, count = values.shape
    pairs = np.arange((d + 1) // 2, dtype=np.uint64)[:, None]
    first, second = philox(pairs, replicas, agents[:, None, None], *key)
    if kind == NORMAL:
        radius, (cosine, sine) = np.sqrt(2.0 * negative_log(first)), circle_point(second)
        even, odd = radius * cosine, radius * sine
    else:
        even, odd = negative_log(first), negative_log(second)
    if kind == LAPLACE:
        even, odd = (
            (part.view(np.uint64) ^ (bits << _S63)).view(np.float64) for part, bits in ((even, first), (odd, second))
        )
    unit = np.stack([even, odd], axis=2).reshape(n, -1, count)[:, :d]
    out[...] = values + scales[:, None, None] * unit


def add_spherical(values: Floats, scales: Floats, normals: Floats, exponentials: Floats, out: Floats) -> None:
    """Write `values + scales[agent] * (sum of exponentials) * normals/||normals||`, column by column.

    Sums run over the coordinates in order for every column, so that a column does not depend on its neighbours.
    """
    squares = np.add.accumulate(normals * normals, axis=1)[:, -1:]
    lengths = np.add.accumulate(exponentials, axis=1)[:, -1:] * (scales[:, None, None] / np.sqrt(squares))
    out[...] = values + lengths * normals
