"""The few compiled kernels: one pass over an agent's rows, and the closed forms for very many small agents.

All release the interpreter lock and none reassociates sums, so a result depends neither on the number of
threads nor on how many replicas share a call. The first call of each compiles it (a few seconds, then cached).
"""

import numpy as np
from numba import njit

from dpadmm.problems.arrays import Floats

# exp(r) on |r| <= ln(2)/2: Taylor coefficients 1/13! .. 1/0!; the remainder is below 1e-17.
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93145751953125e-1
_LN2_LOW = 1.42860682030941723212e-6
_ROUND = 6755399441055744.0  # 1.5 * 2^52
_VALUES_PER_BLOCK = 1024


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def logistic_slopes(t, bits, powers):  # type: ignore[no-untyped-def]
    """Overwrite t with -1/(1 + exp(t)); `bits` and `powers` are one buffer seen as int64 and as float64.

    Written out instead of calling exp, because this form is vectorised and a library call is not. Adding _ROUND
    leaves the nearest integer k of t/ln(2) in the low bits, from which the float 2^k is put together.
    """
    for q in range(t.size):
        v = t[q]
        v = 700.0 if v > 700.0 else v
        v = -700.0 if v < -700.0 else v
        shifted = v * _LOG2_E + _ROUND
        powers[q] = shifted
        k = shifted - _ROUND
        r = (v - k * _LN2_HIGH) - k * _LN2_LOW
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.1666666666666664e-02
        p = p * r + 1.6666666666666666e-01
        p = p * r + 0.5
        p = p * r + 1.0
        t[q] = p * r + 1.0
    for q in range(t.size):
        bits[q] = (bits[q] + 1023) << 52
    for q in range(t.size):
        t[q] = -1.0 / (1.0 + t[q] * powers[q])


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def line_slopes(t, shift, gain, low, high):  # type: ignore[no-untyped-def]
    """Overwrite t with clip((t - shift) * gain, low, high)."""
    for q in range(t.size):
        v = (t[q] - shift) * gain
        v = high if v > high else v
        t[q] = low if v < low else v


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def csr_slope_sum(indptr, indices, data, shifts, first, last, w, line, is_logistic):  # type: ignore[no-untyped-def]
    """Return sum over rows first..last of slope(a'w - shift) a, for all columns of w (d, R) in one pass."""
    d, columns = w.shape
    out = np.zeros((d, columns))
    block = max(1, _VALUES_PER_BLOCK // columns)
    bits = np.empty(block * columns, np.int64)
    powers = bits.view(np.float64)
    t = np.empty((block, columns))
    flat = t.reshape(block * columns)
    for start in range(first, last, block):
        stop = min(start + block, last)
        for row in range(start, stop):
            o = row - start
            for r in range(columns):
                t[o, r] = -shifts[row]
            p, end = indptr[row], indptr[row + 1]
            # Four non-zeros at a time: the running sums are loaded and stored a quarter as often.
            while p + 4 <= end:
                v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
                j0, j1, j2, j3 = indices[p], indices[p + 1], indices[p + 2], indices[p + 3]
                for r in range(columns):
                    t[o, r] = t[o, r] + v0 * w[j0, r] + v1 * w[j1, r] + v2 * w[j2, r] + v3 * w[j3, r]
                p += 4
            while p < end:
                value, j = data[p], indices[p]
                for r in range(columns):
                    t[o, r] += value * w[j, r]
                p += 1
        filled = (stop - start) * columns
        if is_logistic:
            logistic_slopes(flat[:filled], bits, powers)
        else:
            line_slopes(flat[:filled], line[0], line[1], line[2], line[3])
        for row in range(start, stop):
            o = row - start
            for p in range(indptr[row], indptr[row + 1]):
                value, j = data[p], indices[p]
                for r in range(columns):
                    out[j, r] += value * t[o, r]
    return out


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def slopes_in_place(t, shifts, line, is_logistic):  # type: ignore[no-untyped-def]
    """Overwrite t (rows, R) with slope(t - shift); the elementwise middle of the dense pass."""
    rows, columns = t.shape
    for i in range(rows):
        for r in range(columns):
            t[i, r] -= shifts[i]
    flat = t.reshape(rows * columns)
    if is_logistic:
        bits = np.empty(flat.size, np.int64)
        logistic_slopes(flat, bits, bits.view(np.float64))
    else:
        line_slopes(flat, line[0], line[1], line[2], line[3])


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def inverse_times_one(unroll, inverses, slopes, weights, pull, lin, centre, defects, first, last, out, norms):  # type: ignore[no-untyped-def]
    """As `inverse_times`, for one replica: lin, centre and out are (agents, d).

    `unroll` is a tuple of d zeros, or empty: its length is known when compiling, so short products are unrolled
    (this is what brings d = 5 to the speed of memory).
    """
    d = len(unroll) if len(unroll) > 0 else slopes.shape[1]
    rhs = np.empty(d)
    for i in range(first, last):
        s, w, square = pull[i], weights[i], 0.0
        for j in range(d):
            p, q, c = s * centre[i, j], lin[i, j], w * slopes[i, j]
            rhs[j] = p - q - c
            square += (abs(p) + abs(q) + abs(c)) ** 2
        norms[i, 0] = defects[i] * np.sqrt(square)
        for k in range(d):
            total = 0.0
            for j in range(d):
                total += inverses[i, k, j] * rhs[j]
            out[i, k] = total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def inverse_times(inverses, slopes, weights, pull, lin, centre, defects, first, last, out, norms):  # type: ignore[no-untyped-def]
    """out_i = inverse_i (s_i centre_i - lin_i - w_i c_i); norms_i bounds the gradient left there.

    It is defect_i times the norm of the three terms' sizes: rounding is relative to them, not to what is left of them
    where they cancel.
    """
    d, columns = lin.shape[1], lin.shape[2]
    rhs = np.empty((d, columns))
    for i in range(first, last):
        s, w = pull[i], weights[i]
        for r in range(columns):
            norms[i, r] = 0.0
        for j in range(d):
            for r in range(columns):
                p, q, c = s * centre[i, j, r], lin[i, j, r], w * slopes[i, j]
                rhs[j, r] = p - q - c
                norms[i, r] += (abs(p) + abs(q) + abs(c)) ** 2
        for r in range(columns):
            norms[i, r] = defects[i] * np.sqrt(norms[i, r])
        for k in range(d):
            for r in range(columns):
                out[i, k, r] = inverses[i, k, 0] * rhs[0, r]
            for j in range(1, d):
                v = inverses[i, k, j]
                for r in range(columns):
                    out[i, k, r] += v * rhs[j, r]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _dot(a, b):  # type: ignore[no-untyped-def]
    """Return a'b with eight partial sums in a fixed order: fast, and the same whatever the batch."""
    whole = a.size // 8 * 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(0, whole, 8):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
        s4 += a[j + 4] * b[j + 4]
        s5 += a[j + 5] * b[j + 5]
        s6 += a[j + 6] * b[j + 6]
        s7 += a[j + 7] * b[j + 7]
    for j in range(whole, a.size):
        s0 += a[j] * b[j]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _logistic_prox_slope(t, step):  # type: ignore[no-untyped-def]
    """Return the slope -1/(1+exp(s)) at s = argmin log(1+exp(-s)) + (s-t)^2/(2 step), by bracketed Newton."""
    low = t
    high = t + step
    s = 0.5 * (low + high)
    move = step
    for _ in range(200):
        slope = -1.0 / (1.0 + np.exp(s)) if s < 700.0 else 0.0
        residual = s - t + step * slope
        if residual <= 0.0:
            low = s
        if residual >= 0.0:
            high = s
        new = s - residual / (1.0 - step * slope * (1.0 + slope))
        # Newton alone can jump from one end of the bracket to the other for ever: each move must halve the last.
        if not (low <= new <= high) or abs(new - s) > 0.5 * move:
            new = 0.5 * (low + high)
        move = abs(new - s)
        if abs(new - s) <= 4e-16 * max(1.0, abs(s)):
            s = new
            break
        s = new
    return (t - s) / step if step > 0.0 else -1.0 / (1.0 + np.exp(min(t, 700.0)))


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _prox_slope(t, step, line, is_logistic):  # type: ignore[no-untyped-def]
    """Return the loss's slope at the scalar prox of t."""
    if is_logistic:
        return _logistic_prox_slope(t, step)
    slope = (t - line[0]) * (line[1] / (1.0 + step * line[1]))
    slope = line[3] if slope > line[3] else slope
    return line[2] if slope < line[2] else slope


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _logistic_gap(t, slope):  # type: ignore[no-untyped-def]
    """Return how far the slope that was used is from the logistic slope at t, where the step ended."""
    return abs(slope + 1.0 / (1.0 + np.exp(min(t, 700.0))))


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _rank_one_error(d, sigma, w, bound, square, shift, size, move):  # type: ignore[no-untyped-def]
    """Bound the gradient that rounding leaves: d eps times the sizes of the terms that cancel in it.

    `size` bounds v and the forces behind it, `move` is the step along the record, so ||x|| <= size + move ||a||.
    """
    length = np.sqrt(square)
    reach = 2.0 * size + move * length
    return 4.0 * (d + 8) * 2.220446049250313e-16 * ((sigma + w * bound * square) * reach + w * length * abs(shift))


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _combine(keep, centre, scale, lin, x):  # type: ignore[no-untyped-def]
    """x = keep centre - scale lin; return a bound on the norm of |keep centre| + |scale lin| (rounding's measure)."""
    largest = 0.0
    for j in range(x.size):
        size = abs(keep * centre[j]) + abs(scale * lin[j])
        largest = size if size > largest else largest
    for j in range(x.size):  # last: x may be the memory of centre or lin
        x[j] = keep * centre[j] - scale * lin[j]
    return largest * np.sqrt(x.size)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def rank_one_prox_one(  # type: ignore[no-untyped-def]
    rows, squares, shifts, weights, mu, bound, pull, lin, centre, line, is_logistic, first, last, out, norms
):
    """As `rank_one_prox`, for one replica: lin, centre and out are (agents, d); sums run along the record."""
    d = lin.shape[1]
    for i in range(first, last):
        w = weights[i]
        sigma = pull[i] + w * mu
        a, x = rows[i], out[i]
        size = _combine(pull[i] / sigma, centre[i], 1.0 / sigma, lin[i], x)
        start = _dot(a, x) - shifts[i]
        slope = _prox_slope(start, w * squares[i] / sigma, line, is_logistic)
        move = -slope * w / sigma
        for j in range(d):
            x[j] += move * a[j]
        norms[i, 0] = _rank_one_error(d, sigma, w, bound, squares[i], shifts[i], size, abs(move))
        if is_logistic:
            norms[i, 0] += w * np.sqrt(squares[i]) * _logistic_gap(start - w * squares[i] / sigma * slope, slope)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def rank_one_prox(  # type: ignore[no-untyped-def]
    rows, squares, shifts, weights, mu, bound, pull, lin, centre, line, is_logistic, first, last, out, norms
):
    """Solve agents first..last that hold one dense row each: out = v - (w/sigma) slope(t*) a.

    v = (s c - lin)/sigma, sigma = s + w mu, and t* is the scalar prox of the loss at a'v - shift with
    step w ||a||^2 / sigma (`squares` holds ||a||^2). norms bounds the gradient left at the point; `bound` is the
    loss's curvature bound.
    """
    d, columns = lin.shape[1], lin.shape[2]
    t = np.empty(columns)
    for i in range(first, last):
        w = weights[i]
        sigma = pull[i] + w * mu
        keep, scale = pull[i] / sigma, 1.0 / sigma
        for r in range(columns):
            t[r] = -shifts[i]
            norms[i, r] = 0.0
        for j in range(d):
            a = rows[i, j]
            for r in range(columns):
                p, q = keep * centre[i, j, r], scale * lin[i, j, r]
                out[i, j, r] = p - q
                t[r] += a * (p - q)
                norms[i, r] += (abs(p) + abs(q)) ** 2
        step = w * squares[i] / sigma
        for r in range(columns):
            slope = _prox_slope(t[r], step, line, is_logistic)
            gap = _logistic_gap(t[r] - step * slope, slope) if is_logistic else 0.0
            t[r] = -slope * w / sigma
            size = np.sqrt(norms[i, r])
            norms[i, r] = _rank_one_error(d, sigma, w, bound, squares[i], shifts[i], size, abs(t[r]))
            norms[i, r] += w * np.sqrt(squares[i]) * gap
        for j in range(d):
            a = rows[i, j]
            for r in range(columns):
                out[i, j, r] += t[r] * a


def line_numbers(line: tuple[float, float, float, float] | None) -> Floats:
    """Return the four numbers of a clipped line for the kernels (unused ones for the logistic slope)."""
    return np.array(line if line is not None else (0.0, 1.0, 0.0, 0.0), dtype=np.float64)
