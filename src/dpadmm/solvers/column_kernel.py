"""A whole solve of one column in one compiled call: L-BFGS that starts from a metric.

The function is `scale * sum_m v_m loss(a_m'x - shift_m) + (sigma/2)||x||^2 + constant'x` over an agent's rows. A step
is taken if the gradient shrinks by a fifth, or if the function still falls where the step ends; else it is shortened,
to half or to where the slope along it would vanish if it were a line. Nothing is reassociated: the bits depend on
nothing but the arguments.
"""

import numpy as np
from numba import njit

from dpadmm.solvers import lanes
from dpadmm.solvers.kernels import csr_tile
from dpadmm.solvers.slopes import line_slopes, logistic_slopes

# Pairs of a solve. Kept for the next one they would save every sixth pass or fewer, and no time where d is large; that
# it depends on its arguments alone is worth more: a resumed run, or a silo that starts again, has the same bits.
_MEMORY = 10
_ENOUGH = 0.8
_SHORTENINGS = 30
_LANES = 16
# Numbers of dense rows that are held in the second cache between the product and the sum.
_HELD = 16_384


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _dot(a, b):  # type: ignore[no-untyped-def]
    whole = a.size // _LANES * _LANES
    total = lanes.dot(lanes.SIXTEEN, a, b, whole)
    for j in range(whole, a.size):
        total += a[j] * b[j]
    return total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _add(scale, a, out):  # type: ignore[no-untyped-def]
    """Add scale times a to out."""
    whole = a.size // _LANES * _LANES
    lanes.add_scaled(lanes.SIXTEEN, scale, a, 0, whole, out)
    for j in range(whole, a.size):
        out[j] += scale * a[j]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _copy(a, out):  # type: ignore[no-untyped-def]
    """Write a to the beginning of `out`; a slice takes two seconds to compile, for the sake of its error message."""
    for j in range(a.size):
        out[j] = a[j]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _dense_sum(rows, shifts, weights, first, last, x, line, is_logistic):  # type: ignore[no-untyped-def]
    """As `csr_slope_sum` for dense rows and one point x (d,): every row is read from memory once."""
    total = np.zeros(x.size)
    block = max(_LANES, _HELD // x.size)
    t = np.empty(block)
    for start in range(first, last, block):
        stop = min(start + block, last)
        for row in range(start, stop):
            t[row - start] = _dot(rows[row], x) - shifts[row]
        if is_logistic:
            logistic_slopes(t[: stop - start], line[2])
        else:
            line_slopes(t[: stop - start], line[0], line[1], line[2], line[3])
        for row in range(start, stop):
            pull = t[row - start] * weights[row] if weights.size > 0 else t[row - start]
            _add(pull, rows[row], total)
    return total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def slope_at(data, form, x):  # type: ignore[no-untyped-def]
    """Return the loss's part of the gradient at x (d,): one pass over the agent's rows.

    data: dense rows, or none and the three arrays of CSR rows; the centre of centred rows, or nothing; shifts, weights
    (none where all are 1), first and last row, scale. form: the four numbers of the loss, whether it is logistic.
    """
    rows, indptr, indices, values, centre, shifts, weights, first, last, scale = data
    line, is_logistic = form
    d = x.size
    if indptr.size == 0:
        total = _dense_sum(rows, shifts, weights, first, last, x, line, is_logistic)
    else:
        point, stored = np.empty(d + (centre.size > 0)), np.empty((d + (centre.size > 0), 1))
        _copy(x, point)
        if centre.size > 0:
            point[d] = -_dot(centre, x)
        matrix = (indptr, indices, values, shifts, weights, first, last)
        csr_tile(lanes.ONE, matrix, point.reshape(point.size, 1), 0, line, is_logistic, stored)
        total = stored.reshape(point.size)[:d]
        if centre.size > 0:
            _add(-stored[d, 0], centre, total)
    for j in range(d):
        total[j] *= scale
    return total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _direction(gradient, metric, pairs, bends, number):  # type: ignore[no-untyped-def]
    """Return H gradient, H being the inverse Hessian by L-BFGS that starts from the metric; `number` pairs were met."""
    vectors, gains, spread = metric
    d, most = gradient.size, len(bends)
    q, factors = gradient.copy(), np.empty(most)
    for pair in range(number - 1, max(number - most, 0) - 1, -1):
        k = pair % most
        factors[k] = _dot(pairs[k, 0], q) / bends[k]
        _add(-factors[k], pairs[k, 1], q)
    shares = np.zeros(gains.size)
    for j in range(d if gains.size > 0 else 0):
        _add(q[j], vectors[j], shares)
    for k in range(gains.size):
        shares[k] *= gains[k]
    for j in range(d):
        q[j] = spread[j] * q[j] + (_dot(vectors[j], shares) if gains.size > 0 else 0.0)
    for pair in range(max(number - most, 0), number):
        k = pair % most
        _add(factors[k] - _dot(pairs[k, 1], q) / bends[k], pairs[k, 0], q)
    return q


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _gradient(slope, sigma, x, constant):  # type: ignore[no-untyped-def]
    out = np.empty(x.size)
    for j in range(x.size):
        out[j] = slope[j] + sigma * x[j] + constant[j]
    return out


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _plus(a, share, b, out):  # type: ignore[no-untyped-def]
    """Write a + share b to `out`."""
    for j in range(a.size):
        out[j] = a[j] + share * b[j]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def solve_column(  # type: ignore[no-untyped-def]
    data, form, metric, sigma, constant, tolerance, most, has_slope, x, slope
):
    """Move x (d,) to the minimiser; return the gradient's norm there and the passes over the rows.

    slope (d,) is the loss's part of the gradient at x, before if `has_slope`, and always after. The norm misses the
    tolerance after `most` passes, and where steps lead no further.
    """
    pairs, bends = np.empty((_MEMORY, 2, x.size)), np.empty(_MEMORY)
    passes, number, trial = 0, 0, np.empty(x.size)
    if not has_slope:
        _copy(slope_at(data, form, x), slope)
        passes = 1
    gradient = _gradient(slope, sigma, x, constant)
    norm = np.sqrt(_dot(gradient, gradient))
    while norm > tolerance:
        direction = _direction(gradient, metric, pairs, bends, number)
        fall, share = _dot(gradient, direction), 1.0
        new_slope, new_gradient, new_norm = slope, gradient, np.inf
        for _ in range(_SHORTENINGS):
            if passes >= most:
                return norm, passes
            _plus(x, -share, direction, trial)
            new_slope = slope_at(data, form, trial)
            passes += 1
            new_gradient = _gradient(new_slope, sigma, trial, constant)
            new_norm, left = np.sqrt(_dot(new_gradient, new_gradient)), _dot(new_gradient, direction)
            if new_norm <= _ENOUGH * norm or left >= 0.0:
                break
            share *= min(0.5, fall / (fall - left))
        else:
            return norm, passes
        k = number % _MEMORY
        _plus(trial, -1.0, x, pairs[k, 0])
        _plus(new_gradient, -1.0, gradient, pairs[k, 1])
        bends[k] = _dot(pairs[k, 0], pairs[k, 1])
        number = number + 1 if bends[k] > 0.0 else 0  # a step lost in rounding teaches nothing
        _copy(trial, x)
        _copy(new_slope, slope)
        gradient, norm = new_gradient, new_norm
    return norm, passes
