"""A whole solve of one column in one compiled call, or in steps between passes: L-BFGS that starts from a metric.

The function is `scale * sum_m v_m loss(a_m'x - shift_m) + (sigma/2)||x||^2 + constant'x` over an agent's rows. A step
is taken if the gradient shrinks by a fifth, or if the function still falls where the step ends; else it is shortened,
to half or to where the slope along it would vanish if it were a line.

A pass is made of blocks of rows, whose sums are added up in order. Blocks may be computed on several threads, by
`block_sum`, with `advance` between the passes; or all of it by `solve_column`. The bits depend on nothing but the
arguments.
"""

import numpy as np
from numba import njit

from dpadmm.solvers.kernels import add_scaled, csr_tile, dense_sum, dot

_ENOUGH = 0.8
_SHORTENINGS = 30


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _copy(a, out):  # type: ignore[no-untyped-def]
    """Write a to the beginning of `out`; a slice takes two seconds to compile, for the sake of its error message."""
    for j in range(a.size):
        out[j] = a[j]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def block_sum(data, form, block, point, out):  # type: ignore[no-untyped-def]
    """Write the sum over a block's rows of weight sign slope(sign (a'x - shift)) a to `out`; both as they are stored.

    data: dense rows, or none and the three arrays of CSR rows; the centre of centred rows, or nothing; shifts (none
    where all are 0), signs and weights (none where all are 1); where blocks of rows begin and end; scale.
    form: the five numbers of the loss, whether it is logistic.
    """
    rows, indptr, indices, values, _, shifts, signs, weights, bounds, _ = data
    line, is_logistic = form
    first, last = bounds[block], bounds[block + 1]
    if indptr.size == 0:
        dense_sum(rows, shifts, signs, weights, first, last, point, line, is_logistic, out)
    else:
        matrix, table = (indptr, indices, values, shifts, signs, weights, first, last), out.reshape(out.size, 1)
        csr_tile(matrix, point.reshape(point.size, 1), 0, 1, line, is_logistic, table)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _store_point(data, x, point):  # type: ignore[no-untyped-def]
    """Write x as rows are stored: beside it, where they are centred, what the centre takes off every product."""
    centre = data[4]
    _copy(x, point)
    if centre.size > 0:
        point[x.size] = -dot(centre, x)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _read_slope(data, sums, slope):  # type: ignore[no-untyped-def]
    """Write the loss's part of the gradient, from the sums of the blocks, which are added up in order."""
    centre, scale = data[4], data[9]
    d, total = slope.size, sums[0]
    for block in range(1, len(sums)):
        for j in range(total.size):
            total[j] += sums[block, j]
    _copy(total[:d], slope)
    if centre.size > 0:
        add_scaled(-total[d], centre, slope)
    for j in range(d):
        slope[j] *= scale


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def slope_at(data, form, x, point, sums, slope):  # type: ignore[no-untyped-def]
    """Write the loss's part of the gradient at x (d,) to `slope`: one pass over the agent's rows.

    point, sums: room for the point and for a sum of every block, as rows are stored.
    """
    _store_point(data, x, point)
    for block in range(len(sums)):
        block_sum(data, form, block, point, sums[block])
    _read_slope(data, sums, slope)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _direction(gradient, metric, pairs, bends, number, q):  # type: ignore[no-untyped-def]
    """Write H gradient to q, H the inverse Hessian by L-BFGS that starts from the metric; `number` pairs were met."""
    vectors, gains, spread = metric
    d, most = gradient.size, len(bends)
    factors = np.empty(most)
    _copy(gradient, q)
    for pair in range(number - 1, max(number - most, 0) - 1, -1):
        k = pair % most
        factors[k] = dot(pairs[k, 0], q) / bends[k]
        add_scaled(-factors[k], pairs[k, 1], q)
    shares = np.zeros(gains.size)
    for j in range(d if gains.size > 0 else 0):
        add_scaled(q[j], vectors[j], shares)
    for k in range(gains.size):
        shares[k] *= gains[k]
    for j in range(d):
        q[j] = spread[j] * q[j] + (dot(vectors[j], shares) if gains.size > 0 else 0.0)
    for pair in range(max(number - most, 0), number):
        k = pair % most
        add_scaled(factors[k] - dot(pairs[k, 1], q) / bends[k], pairs[k, 0], q)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _gradient(slope, sigma, x, constant, out):  # type: ignore[no-untyped-def]
    """Write the gradient; return its norm."""
    for j in range(x.size):
        out[j] = slope[j] + sigma * x[j] + constant[j]
    return np.sqrt(dot(out, out))


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _plus(a, share, b, out):  # type: ignore[no-untyped-def]
    """Write a + share b to `out`."""
    for j in range(a.size):
        out[j] = a[j] + share * b[j]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def advance(data, metric, task, state, sums):  # type: ignore[no-untyped-def]
    """Go on from where the last pass was made, by its sums; return whether another one is wanted, at the state's point.

    metric: the inverse, as `Metric.inverse` has it. task: sigma, constant, tolerance. state: x, and there the slope
    (the loss's part of the gradient) and the gradient; the direction; the trial, its slope and gradient; the point, as
    rows are stored; the pairs and their bends; numbers.
    numbers: how far it is (0: at x, whose slope is not known; 1: it is; 2: at the trial), the gradient's norm at x, its
    product with the direction, the share of the direction that is tried, how often it was shortened, pairs met.
    """
    sigma, constant, tolerance = task
    x, slope, gradient, direction, trial, new_slope, new_gradient, point, pairs, bends, numbers = state
    if numbers[0] == 0.0 and len(sums) == 0:
        _store_point(data, x, point)
        return True
    if numbers[0] == 0.0:
        _read_slope(data, sums, slope)
    if numbers[0] < 2.0:
        numbers[1] = _gradient(slope, sigma, x, constant, gradient)
    else:
        _read_slope(data, sums, new_slope)
        norm = _gradient(new_slope, sigma, trial, constant, new_gradient)
        left = dot(new_gradient, direction)
        if not (norm <= _ENOUGH * numbers[1] or left >= 0.0):
            numbers[3] *= min(0.5, numbers[2] / (numbers[2] - left))
            numbers[4] += 1.0
            _plus(x, -numbers[3], direction, trial)
            _store_point(data, trial, point)
            return numbers[4] < _SHORTENINGS
        k = int(numbers[5]) % len(bends)
        _plus(trial, -1.0, x, pairs[k, 0])
        _plus(new_gradient, -1.0, gradient, pairs[k, 1])
        bends[k] = dot(pairs[k, 0], pairs[k, 1])
        numbers[5] = numbers[5] + 1.0 if bends[k] > 0.0 else 0.0  # a step lost in rounding teaches nothing
        _copy(trial, x)
        _copy(new_slope, slope)
        _copy(new_gradient, gradient)
        numbers[1] = norm
    if not numbers[1] > tolerance:
        return False
    _direction(gradient, metric, pairs, bends, int(numbers[5]), direction)
    numbers[0], numbers[2], numbers[3], numbers[4] = 2.0, dot(gradient, direction), 1.0, 0.0
    _plus(x, -1.0, direction, trial)
    _store_point(data, trial, point)
    return True


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def solve_column(data, form, metric, task, most, state, sums):  # type: ignore[no-untyped-def]
    """Move x to the minimiser; return the passes over the rows.

    The norm misses the tolerance after `most` passes, and where steps lead no further.
    """
    passes, point = 0, state[7]
    is_wanted = advance(data, metric, task, state, sums[:0])
    while is_wanted and passes < most:
        for block in range(len(sums)):
            block_sum(data, form, block, point, sums[block])
        passes += 1
        is_wanted = advance(data, metric, task, state, sums)
    return passes
