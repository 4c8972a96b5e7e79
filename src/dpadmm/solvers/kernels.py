"""The few compiled kernels: slopes, one pass over an agent's rows, and closed forms for very many small agents.

`line` holds the five numbers (shift, gain, low, high, dead) of a loss's `SlopeForm`. The logistic slope has one
formula, so that every kernel gets the same bits. A pass over dense rows for one column (`dense_sum`) reads memory in
its order, row by row; what a block of rows is multiplied by is found before its rows are added up, while they are in
the cache.

All release the interpreter lock. None reassociates a sum over rows, so a result depends neither on the number of
threads nor on how many replicas share a call. Only a product of two vectors (`dot`) is added up in the lanes of vector
registers, as its length decides: the same for a row wherever it stands among others (C7). The first call of each
compiles it (a few seconds, then cached).

The cache of compiled kernels looks only at the file of the kernel that is called: after a change here, remove the
`__pycache__` folders of this package. Indices of sparse rows are unsigned: a signed one costs a test per access.
"""

import numpy as np
from numba import njit

from dpadmm.problems.silos import RUN

u64 = np.uint64
_LEAST = -700.0  # below, exp(t) is of no account beside 1

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93145751953125e-1, 1.42860682030941723212e-6
_ROUND = 6755399441055744.0  # 1.5 * 2^52
# exp(r) = 1 + r + r^2 q(r) on |r| <= ln(2)/2: q interpolates at the Chebyshev points, the error is below 2e-17.
_E0, _E1, _E2 = 0.5000000000000001, 0.16666666666666669, 0.041666666666624164
_E3, _E4, _E5 = 0.008333333333330065, 0.0013888888917196736, 0.00019841269863040559
_E6, _E7, _E8, _E9 = 2.480152132234228e-05, 2.7557268480289716e-06, 2.7620075892548164e-07, 2.51003758422237e-08


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"}, error_model="numpy")
def _logistic_slope(t, low):  # type: ignore[no-untyped-def]
    """Return -1/(1 + exp(max(t, low))), for low >= -700.

    Adding _ROUND leaves the nearest integer k of t/ln(2) in the low bits, from which the float 2^k is put together. The
    even and the odd powers of the polynomial make two short chains instead of a long one.
    """
    t = 700.0 if t > 700.0 else t  # a NaN stays one
    t = low if t < low else t
    shifted = t * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = k * -_LN2_LOW + (k * -_LN2_HIGH + t)
    square = r * r
    even = (((_E8 * square + _E6) * square + _E4) * square + _E2) * square + _E0
    odd = (((_E9 * square + _E7) * square + _E5) * square + _E3) * square + _E1
    mantissa = (odd * r + even) * square + r + 1.0
    power = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    return -1.0 / (mantissa * power + 1.0)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def slope(t, line, is_logistic):  # type: ignore[no-untyped-def]
    """Return the slope at one number: -1/(1 + exp(max(t, low))) or clip(u * gain, low, high), u as in `moved`."""
    if is_logistic:
        return _logistic_slope(t, max(line[2], _LEAST))
    return clipped(moved(t, line[0], line[4]) * line[1], line[2], line[3])


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def moved(t, shift, dead):  # type: ignore[no-untyped-def]
    """Return t - shift, brought closer to 0 by `dead`."""
    u = t - shift
    return u - clipped(u, -dead, dead)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def clipped(v, low, high):  # type: ignore[no-untyped-def]
    """Return v moved into [low, high]; a NaN stays one."""
    v = high if v > high else v
    return low if v < low else v


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"}, error_model="numpy")
def slopes(t, line, is_logistic):  # type: ignore[no-untyped-def]
    """Overwrite t (flat) with the slopes there."""
    if is_logistic:
        low = max(line[2], _LEAST)
        for q in range(t.size):
            t[q] = _logistic_slope(t[q], low)
    else:
        shift, gain, low, high, dead = line
        for q in range(t.size):
            t[q] = clipped(moved(t[q], shift, dead) * gain, low, high)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def dot(a, b):  # type: ignore[no-untyped-def]
    """Return the product of two vectors, added up in an order that their length decides.

    Nothing is written in the loop: where arrays might overlap, the order would depend on whether they do.
    """
    total = 0.0
    for j in range(b.size):
        total += a[j] * b[j]
    return total


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def add_scaled(scale, a, out):  # type: ignore[no-untyped-def]
    """Add scale times a to `out`."""
    for j in range(a.size):
        out[j] += scale * a[j]


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
def prox_slope(t, step, line, is_logistic):  # type: ignore[no-untyped-def]
    """Return the loss's slope at the scalar prox of t."""
    if is_logistic:  # where the plain prox ends below line[2], the slope is held at its value there
        return max(_logistic_prox_slope(t, step), -1.0 / (1.0 + np.exp(line[2])))
    return clipped(moved(t, line[0], line[4]) * (line[1] / (1.0 + step * line[1])), line[2], line[3])


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def held_from(line):  # type: ignore[no-untyped-def]
    """Return how far from the shift the slope is held at `low` or `high`, whichever is farther."""
    return max(-line[2], line[3]) / max(line[1], 1e-300) + line[4]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def logistic_gap(t, slope, low):  # type: ignore[no-untyped-def]
    """Return how far the slope that was used is from the logistic slope at max(t, low), where the step ended."""
    return abs(slope + 1.0 / (1.0 + np.exp(min(max(t, low), 700.0))))


_HELD, _WIDE, _WIDE_BLOCK = 1024, 256, 64


@njit(nogil=True, cache=True)
def _block_rows(d):  # type: ignore[no-untyped-def]
    """Return how many rows of d numbers stay in the cache between their products and their sums: 2^k that divides RUN.

    8 KB are read faster than more, except where rows are wide: few of them would then be left.
    """
    if d >= _WIDE:
        return _WIDE_BLOCK
    block = 4
    while 2 * block * d <= _HELD and 2 * block <= 128:
        block *= 2
    return block


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def dense_sum(rows, shifts, signs, weights, first, last, x, line, is_logistic, out):  # type: ignore[no-untyped-def]
    """Write the sum over rows first..last of weight sign slope(sign (a'x - shift)) a to `out` (d,).

    shifts, signs, weights: one for every row, or none at all, where all of them are 0 or 1. Rows are added up in runs
    (C7).
    """
    d = x.size
    block, flat = _block_rows(d), rows.reshape(rows.size)
    t, run_total = np.empty(block), np.zeros(d)
    out[:] = 0.0
    for start in range(first, last, block):
        number = min(block, last - start)
        _products(flat[start * d : (start + number) * d], x, t)
        if shifts.size > 0:
            for r in range(number):
                t[r] -= shifts[start + r]
        if signs.size > 0:
            for r in range(number):
                t[r] *= signs[start + r]
        slopes(t[:number], line, is_logistic)
        if signs.size > 0:
            for r in range(number):
                t[r] *= signs[start + r]
        if weights.size > 0:
            for r in range(number):
                t[r] *= weights[start + r]
        _add_rows(flat[start * d : (start + number) * d], t, run_total)
        if (start - first + block) % RUN == 0 or start + block >= last:
            for j in range(d):
                out[j] += run_total[j]
                run_total[j] = 0.0


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _products(flat, x, t):  # type: ignore[no-untyped-def]
    """Write the product of every row with x to t, row by row: in the order of memory, as the processor reads ahead."""
    d = x.size
    for r in range(flat.size // d):
        t[r] = dot(flat[r * d : (r + 1) * d], x)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _add_rows(flat, t, total):  # type: ignore[no-untyped-def]
    """Add t_r times row r to the sum, in order; four rows each time the sum is read and written."""
    d = total.size
    number = flat.size // d
    for r in range(0, number - 3, 4):
        s0, s1, s2, s3 = t[r], t[r + 1], t[r + 2], t[r + 3]
        here = flat[r * d : (r + 4) * d]
        a0, a1, a2, a3 = here[:d], here[d : 2 * d], here[2 * d : 3 * d], here[3 * d :]
        for j in range(d):
            total[j] = (((total[j] + s0 * a0[j]) + s1 * a1[j]) + s2 * a2[j]) + s3 * a3[j]
    for r in range(number // 4 * 4, number):
        add_scaled(t[r], flat[r * d : (r + 1) * d], total)


# Rows whose margins are held at a time, and columns that share a pass: they fill the first cache at d = 104.
_SPARSE_BLOCK, _MOST_COLUMNS = 32, 32
_ONE, _TWO, _THREE, _FOUR = u64(1), u64(2), u64(3), u64(4)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def csr_slope_sum(  # type: ignore[no-untyped-def]
    indptr, indices, data, shifts, signs, weights, first, last, w, line, is_logistic
):
    """Return sum over rows first..last of weight sign slope(sign (a'w - shift)) a, for all columns of w (d, R).

    shifts, signs, weights: as in `dense_sum`.
    Columns go in tiles, so that a tile of w and of the sum stays in the first cache; a column has the same bits in
    any tile, whatever its neighbours. Rows are added up in runs (C7).
    """
    out = np.empty_like(w)
    matrix = (indptr, indices, data, shifts, signs, weights, first, last)
    columns = w.shape[1]
    width = -(-columns // -(-columns // _MOST_COLUMNS))
    for column in range(0, columns, width):
        csr_tile(matrix, w, column, min(width, columns - column), line, is_logistic, out)
    return out


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def csr_tile(matrix, w, column, width, line, is_logistic, out):  # type: ignore[no-untyped-def]
    """Do `width` columns from `column` on."""
    signs, weights, first, last = matrix[4:]
    d = w.shape[0]
    point, run_total = np.empty(d * width), np.zeros(d * width)
    for j in range(d):
        for r in range(width):
            point[j * width + r] = w[j, column + r]
            out[j, column + r] = 0.0
    run = max(RUN, d) // _SPARSE_BLOCK * _SPARSE_BLOCK
    t = np.empty(_SPARSE_BLOCK * width)
    for start in range(first, last, _SPARSE_BLOCK):
        stop = min(start + _SPARSE_BLOCK, last)
        _sparse_products(matrix, start, stop, width, point, t)
        if signs.size > 0:
            for q in range((stop - start) * width):
                t[q] *= signs[start + q // width]
        slopes(t[: (stop - start) * width], line, is_logistic)
        if signs.size > 0:
            for q in range((stop - start) * width):
                t[q] *= signs[start + q // width]
        if weights.size > 0:
            for q in range((stop - start) * width):
                t[q] *= weights[start + q // width]
        _add_sparse_rows(matrix, start, stop, width, t, run_total)
        if (start - first + _SPARSE_BLOCK) % run == 0 or stop == last:
            for j in range(d):
                for r in range(width):
                    out[j, column + r] += run_total[j * width + r]
                    run_total[j * width + r] = 0.0


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _sparse_products(matrix, start, stop, width, point, out):  # type: ignore[no-untyped-def]
    """Write the sums over p of data[p] point[indices[p]], less the shift, for `width` columns of each of these rows.

    In order, in any width the same; four at a time, so that what was found is read and written less often.
    """
    indptr, indices, data, shifts = matrix[:4]
    width, place = u64(width), u64(0)
    for row in range(start, stop):
        p, end = u64(indptr[row]), u64(indptr[row + 1])
        begin = -shifts[row] if shifts.size > 0 else 0.0
        if width == _ONE:
            total = begin
            while p < end:
                total += data[p] * point[u64(indices[p])]
                p += _ONE
            out[place] = total
        else:
            for r in range(width):
                out[place + r] = begin
            while p + _FOUR <= end:
                v0, v1, v2, v3 = data[p], data[p + _ONE], data[p + _TWO], data[p + _THREE]
                i0, i1 = u64(indices[p]) * width, u64(indices[p + _ONE]) * width
                i2, i3 = u64(indices[p + _TWO]) * width, u64(indices[p + _THREE]) * width
                for r in range(width):
                    two = (out[place + r] + v0 * point[i0 + r]) + v1 * point[i1 + r]
                    out[place + r] = (two + v2 * point[i2 + r]) + v3 * point[i3 + r]
                p += _FOUR
            while p < end:
                v0, i0 = data[p], u64(indices[p]) * width
                for r in range(width):
                    out[place + r] += v0 * point[i0 + r]
                p += _ONE
        place += width


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _add_sparse_rows(matrix, start, stop, width, t, out):  # type: ignore[no-untyped-def]
    """Add data[p] t to out[indices[p]], `width` columns at a time, over these rows: the transpose of the products."""
    indptr, indices, data = matrix[:3]
    width, place = u64(width), u64(0)
    for row in range(start, stop):
        if width == _ONE:
            for p in range(u64(indptr[row]), u64(indptr[row + 1])):
                out[u64(indices[p])] += data[p] * t[place]
        else:
            for p in range(u64(indptr[row]), u64(indptr[row + 1])):
                v, i = data[p], u64(indices[p]) * width
                for r in range(width):
                    out[i + r] += v * t[place + r]
        place += width


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def inverse_times_one(  # type: ignore[no-untyped-def]
    unroll, inverses, slopes, weights, pull, lin, centre, defects, tolerance, first, last, out, norms
):
    """As `inverse_times`, for one replica: lin, centre and out are (agents, d).

    Return how many norms miss the tolerance: counted on the way, which saves another pass over a million agents.

    `unroll` is a tuple of d zeros, or empty: its length is known when compiling, so short products are unrolled
    (this is what brings d = 5 to the speed of memory).
    """
    d = len(unroll) if len(unroll) > 0 else slopes.shape[1]
    rhs = np.empty(d)
    missed = 0
    for i in range(first, last):
        s, w, square = pull[i], weights[i], 0.0
        for j in range(d):
            p, q, c = s * centre[i, j], lin[i, j], w * slopes[i, j]
            rhs[j] = p - q - c
            square += (abs(p) + abs(q) + abs(c)) ** 2
        norm = defects[i] * np.sqrt(square)
        norms[i, 0] = norm
        missed += not norm <= tolerance
        for k in range(d):
            total = 0.0
            for j in range(d):
                total += inverses[i, k, j] * rhs[j]
            out[i, k] = total
    return missed


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
def _rank_one_error(d, sigma, w, bound, square, shift, size, move, held):  # type: ignore[no-untyped-def]
    """Bound the gradient that rounding leaves: d eps times the sizes of the terms that cancel in it.

    `size` bounds v and the forces behind it, `move` is the step along the record, so ||x|| <= size + move ||a||.
    A label so far out that the slope is held, `held` away from it, is not rounded at all.
    """
    length = np.sqrt(square)
    reach = 2.0 * size + move * length
    shift = min(abs(shift), length * size + held * (1.0 + w * bound * square / sigma))
    return 4.0 * (d + 8) * 2.220446049250313e-16 * ((sigma + w * bound * square) * reach + w * length * shift)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def rank_one_prox_one(  # type: ignore[no-untyped-def]
    rows, squares, shifts, weights, mu, bound, pull, lin, centre, line, is_logistic, first, last, out, norms
):
    """As `rank_one_prox`, for one replica: lin, centre and out are (agents, d); sums run along the record."""
    for i in range(first, last):
        w = weights[i]
        sigma = pull[i] + w * mu
        keep, scale = pull[i] / sigma, 1.0 / sigma
        size = _size(keep, centre[i], scale, lin[i])
        _combine(keep, centre[i], scale, lin[i], out[i])
        start = dot(rows[i], out[i]) - shifts[i]
        slope = prox_slope(start, w * squares[i] / sigma, line, is_logistic)
        move = -slope * w / sigma
        add_scaled(move, rows[i], out[i])
        norms[i, 0] = _rank_one_error(
            lin.shape[1], sigma, w, bound, squares[i], shifts[i], size, abs(move), held_from(line)
        )
        if is_logistic:
            end = start - w * squares[i] / sigma * slope
            norms[i, 0] += w * np.sqrt(squares[i]) * logistic_gap(end, slope, line[2])


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "reassoc"})
def _size(keep, centre, scale, lin):  # type: ignore[no-untyped-def]
    """Return the norm of |keep centre| + |scale lin|, by which rounding is measured."""
    square = 0.0
    for j in range(lin.size):
        square += (abs(keep * centre[j]) + abs(scale * lin[j])) ** 2
    return np.sqrt(square)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _combine(keep, centre, scale, lin, out):  # type: ignore[no-untyped-def]
    """Write keep centre - scale lin to `out`, which may be centre or lin."""
    for j in range(lin.size):
        p, q = keep * centre[j], scale * lin[j]
        out[j] = p - q


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
            slope = prox_slope(t[r], step, line, is_logistic)
            gap = logistic_gap(t[r] - step * slope, slope, line[2]) if is_logistic else 0.0
            t[r] = -slope * w / sigma
            size = np.sqrt(norms[i, r])
            norms[i, r] = _rank_one_error(d, sigma, w, bound, squares[i], shifts[i], size, abs(t[r]), held_from(line))
            norms[i, r] += w * np.sqrt(squares[i]) * gap
        for j in range(d):
            a = rows[i, j]
            for r in range(columns):
                out[i, j, r] += t[r] * a
