"""The few compiled kernels: slopes, one pass over an agent's rows, and closed forms for very many small agents.

`line` holds the four numbers (shift, gain, low, high) of a loss's `SlopeForm`. The logistic slope has one formula, in
`lanes`, so that every kernel gets the same bits. A pass over dense rows for one column (`dense_sum`) reads every row
from memory once. Columns go in chunks as wide as a vector register. The last chunk ends where the row does, so that it
overlaps the one before where the row is no multiple of the width; there the point's numbers are 0 in its product, and
sums come out twice, to the same bits. A row's product has the same bits at any place among other rows, and rows are
added up in runs (C7).

All release the interpreter lock and none reassociates sums, so a result depends neither on the number of
threads nor on how many replicas share a call. The first call of each compiles it (a few seconds, then cached).
"""

import numpy as np
from numba import njit

from dpadmm.problems.silos import RUN
from dpadmm.solvers import lanes

_LEAST = -700.0  # below, exp(t) is of no account beside 1


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def slope(t, line, is_logistic):  # type: ignore[no-untyped-def]
    """Return the slope at one number: -1/(1 + exp(max(t, low))) or clip((t - shift) * gain, low, high)."""
    if is_logistic:
        return lanes.logistic_lane(t, max(line[2], _LEAST))
    return clipped((t - line[0]) * line[1], line[2], line[3])


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def clipped(v, low, high):  # type: ignore[no-untyped-def]
    """Return v moved into [low, high]; a NaN stays one."""
    v = high if v > high else v
    return low if v < low else v


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def logistic_slopes(t, low):  # type: ignore[no-untyped-def]
    """Overwrite t (flat) with -1/(1 + exp(max(t, low)))."""
    low = max(low, _LEAST)
    whole = t.size // 16 * 16
    for q in range(0, whole, 16):
        lanes.logistic_lanes(lanes.SIXTEEN, t, q, low)
    for q in range(whole, t.size):
        lanes.logistic_lanes(lanes.ONE, t, q, low)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def line_slopes(t, shift, gain, low, high):  # type: ignore[no-untyped-def]
    """Overwrite t with clip((t - shift) * gain, low, high)."""
    for q in range(t.size):
        t[q] = clipped((t[q] - shift) * gain, low, high)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def slopes_in_place(t, shifts, line, is_logistic):  # type: ignore[no-untyped-def]
    """Overwrite t (rows, R) with slope(t - shift); the elementwise middle of the dense pass."""
    rows, columns = t.shape
    for i in range(rows):
        for r in range(columns):
            t[i, r] -= shifts[i]
    flat = t.reshape(rows * columns)
    if is_logistic:
        logistic_slopes(flat, line[2])
    else:
        line_slopes(flat, line[0], line[1], line[2], line[3])


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
    return clipped((t - line[0]) * (line[1] / (1.0 + step * line[1])), line[2], line[3])


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def logistic_gap(t, slope, low):  # type: ignore[no-untyped-def]
    """Return how far the slope that was used is from the logistic slope at max(t, low), where the step ended."""
    return abs(slope + 1.0 / (1.0 + np.exp(min(max(t, low), 700.0))))


# Numbers of rows that are held in the cache between the products and the sums, and the fewest rows of these.
_HELD, _FEWEST = 16_384, 16
_WIDTH = 8


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def dense_sum(rows, shifts, weights, first, last, x, line, is_logistic, out):  # type: ignore[no-untyped-def]
    """Write the sum over rows first..last of weight slope(a'x - shift) a to `out` (d,).

    shifts, weights: one for every row, or none at all, where all of them are 0 or 1.
    """
    if x.size >= _WIDTH:
        _tile(lanes.EIGHT, rows, shifts, weights, first, last, x, line, is_logistic, out)
    else:
        _tile(lanes.ONE, rows, shifts, weights, first, last, x, line, is_logistic, out)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _tile(width, rows, shifts, weights, first, last, x, line, is_logistic, out):  # type: ignore[no-untyped-def]
    d, wide = x.size, len(width)
    chunks = (d + wide - 1) // wide
    point, total, run_total = np.zeros(chunks * wide), np.zeros(chunks * wide), np.zeros(chunks * wide)
    for chunk in range(chunks):
        begin = min(chunk * wide, d - wide)
        for k in range(chunk * wide - begin, wide):
            point[chunk * wide + k] = x[begin + k]
    block = min(max(_FEWEST, _HELD // d // 4 * 4), RUN)
    run = RUN // block * block
    t, flat = np.empty(block), rows.reshape(rows.size)
    for start in range(first, last, block):
        number = min(block, last - start)
        _products(width, flat, start * d, number, x, point, t)
        if shifts.size > 0:
            for r in range(number):
                t[r] -= shifts[start + r]
        if is_logistic:
            logistic_slopes(t[:number], line[2])
        else:
            line_slopes(t[:number], line[0], line[1], line[2], line[3])
        if weights.size > 0:
            for r in range(number):
                t[r] *= weights[start + r]
        _add_block(width, flat, start * d, d, chunks, t, number, run_total)
        if (start - first + block) % run == 0 or start + block >= last:
            for place in range(total.size):
                total[place] += run_total[place]
                run_total[place] = 0.0
    for chunk in range(chunks):
        begin = min(chunk * wide, d - wide)
        for k in range(wide):
            out[begin + k] = total[chunk * wide + k]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _products(width, flat, place, number, x, point, t):  # type: ignore[no-untyped-def]
    """Write the products of `number` rows from a place on to t, four rows at a time; rows of zeros fill up the rest."""
    d, whole = x.size, number // 4 * 4
    for r in range(0, whole, 4):
        lanes.four_rows_times(width, flat, place + r * d, d, point, point.size // len(width), t, r)
    if whole < number:
        rest, last = np.zeros(4 * d), np.empty(4)
        rest[: (number - whole) * d] = flat[place + whole * d : place + number * d]
        lanes.four_rows_times(width, rest, 0, d, point, point.size // len(width), last, 0)
        t[whole:number] = last[: number - whole]


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def _add_block(width, flat, place, d, chunks, t, number, total):  # type: ignore[no-untyped-def]
    """Add t_r times row r to the sum, up to four chunks of columns at a time."""
    chunk = 0
    while chunk < chunks:
        left = chunks - chunk
        if left >= 4:
            lanes.add_rows(width, lanes.FOUR, flat, place, d, chunk, chunks, t, number, total)
        elif left == 3:
            lanes.add_rows(width, lanes.THREE, flat, place, d, chunk, chunks, t, number, total)
        elif left == 2:
            lanes.add_rows(width, lanes.TWO, flat, place, d, chunk, chunks, t, number, total)
        else:
            lanes.add_rows(width, lanes.ONE, flat, place, d, chunk, chunks, t, number, total)
        chunk += min(left, 4)


@njit(nogil=True, cache=True)
def newton_steps(  # type: ignore[no-untyped-def]
    rows, shifts, weights, scale, sigma, constant, line, is_logistic, tolerance, most, x
):
    """Move x (d,) by full steps while each of them halves the gradient; return the last norm and the passes over rows.

    The norm is that at x where it is within the tolerance; else x is of no use. weights: one for every row, or none at
    all, where all of them are 1.
    """
    n, d = rows.shape
    gradient, hessian = np.empty(d), np.empty((d, d))
    before = np.inf
    for number in range(1, most + 1):
        gradient[:] = sigma * x + constant
        hessian[:] = 0.0
        for i in range(n):
            t = -shifts[i]
            for j in range(d):
                t += rows[i, j] * x[j]
            pull = slope(t, line, is_logistic)
            if is_logistic:
                bend = -pull * (1.0 + pull) if t >= line[2] else 0.0
            else:
                bend = line[1] if line[2] < pull < line[3] else 0.0
            share = scale * weights[i] if weights.size > 0 else scale
            for j in range(d):
                a = share * rows[i, j]
                gradient[j] += a * pull
                for m in range(j + 1):
                    hessian[j, m] += a * bend * rows[i, m]
        norm = np.sqrt((gradient * gradient).sum())
        if not tolerance < norm <= 0.5 * before:
            return norm, number
        before = norm
        _subtract_solution(hessian, sigma, gradient, x)
    return np.inf, most


@njit(nogil=True, cache=True)
def _subtract_solution(matrix, sigma, right, x):  # type: ignore[no-untyped-def]
    """Subtract `(matrix + sigma I)^-1 right` from x by Cholesky; the lower half of the matrix is overwritten."""
    d = len(x)
    for j in range(d):
        matrix[j, j] += sigma
        for m in range(j + 1):
            total = matrix[j, m]
            for q in range(m):
                total -= matrix[j, q] * matrix[m, q]
            matrix[j, m] = np.sqrt(total) if m == j else total / matrix[m, m]
        for m in range(j):
            right[j] -= matrix[j, m] * right[m]
        right[j] /= matrix[j, j]
    for j in range(d - 1, -1, -1):
        for m in range(j + 1, d):
            right[j] -= matrix[m, j] * right[m]
        right[j] /= matrix[j, j]
        x[j] -= right[j]


# Margins held at a time: 2 KB beside sixteen columns of w and of the sum, which fill the first cache at d = 104.
_VALUES_PER_BLOCK = 256
# Up to this many columns, tiles of four cost less than one of sixteen that is not full.
_NARROW = 8


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def csr_slope_sum(  # type: ignore[no-untyped-def]
    indptr, indices, data, shifts, weights, first, last, w, line, is_logistic
):
    """Return sum over rows first..last of weight slope(a'w - shift) a, for all columns of w (d, R) in one pass.

    weights: one for every row, or none at all, where all of them are 1.
    Columns go in tiles, so that a tile of w and of the sum stays in the first cache; a column has the same bits in
    any tile, whatever its neighbours. Rows are added up in runs (C7).
    """
    out = np.empty_like(w)
    matrix = (indptr, indices, data, shifts, weights, first, last)
    column = 0
    while column < w.shape[1]:
        if w.shape[1] == 1:
            column += csr_tile(lanes.ONE, matrix, w, column, line, is_logistic, out)
        elif w.shape[1] - column > _NARROW:
            column += csr_tile(lanes.SIXTEEN, matrix, w, column, line, is_logistic, out)
        else:
            column += csr_tile(lanes.FOUR, matrix, w, column, line, is_logistic, out)
    return out


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def csr_tile(tile, matrix, w, column, line, is_logistic, out):  # type: ignore[no-untyped-def]
    """Do the columns from `column` on, as many as the tile is wide; return how many. Missing ones count as zeros."""
    indptr, indices, data, shifts, weights, first, last = matrix
    d, width = w.shape[0], len(tile)
    filled = min(width, w.shape[1] - column)
    point, total, run_total = np.zeros(d * width), np.zeros(d * width), np.zeros(d * width)
    for j in range(d):
        for r in range(filled):
            point[j * width + r] = w[j, column + r]
    block = _VALUES_PER_BLOCK // width
    run = max(RUN, d) // _VALUES_PER_BLOCK * _VALUES_PER_BLOCK  # in any tile the same
    t = np.empty(block * width)
    for start in range(first, last, block):
        stop = min(start + block, last)
        for row in range(start, stop):
            lanes.row_times(
                tile, data, indices, indptr[row], indptr[row + 1], point, -shifts[row], t, (row - start) * width
            )
        if is_logistic:
            logistic_slopes(t[: (stop - start) * width], line[2])
        else:
            line_slopes(t[: (stop - start) * width], line[0], line[1], line[2], line[3])
        if weights.size > 0:
            for q in range((stop - start) * width):
                t[q] *= weights[start + q // width]
        for row in range(start, stop):
            lanes.add_row(tile, data, indices, indptr[row], indptr[row + 1], t, (row - start) * width, run_total)
        if (start - first + block) % run == 0 or stop == last:
            for q in range(total.size):
                total[q] += run_total[q]
                run_total[q] = 0.0
    for j in range(d):
        for r in range(filled):
            out[j, column + r] = total[j * width + r]
    return filled


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def inverse_times_one(  # type: ignore[no-untyped-def]
    unroll, inverses, slopes, weights, pull, lin, centre, defects, tolerance, first, last, out, norms
):
    """As `inverse_times`, for one replica: lin, centre and out are (agents, d).

    Return how many norms miss the tolerance: told on the way, which saves another pass over a million agents.

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
def _rank_one_error(d, sigma, w, bound, square, shift, size, move, high):  # type: ignore[no-untyped-def]
    """Bound the gradient that rounding leaves: d eps times the sizes of the terms that cancel in it.

    `size` bounds v and the forces behind it, `move` is the step along the record, so ||x|| <= size + move ||a||.
    A label so far out that the slope is held at `high` is not rounded at all.
    """
    length = np.sqrt(square)
    reach = 2.0 * size + move * length
    shift = min(abs(shift), length * size + high * (1.0 + w * bound * square / sigma))
    return 4.0 * (d + 8) * 2.220446049250313e-16 * ((sigma + w * bound * square) * reach + w * length * shift)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def rank_one_prox_one(  # type: ignore[no-untyped-def]
    rows, squares, shifts, weights, mu, bound, pull, lin, centre, line, is_logistic, first, last, out, norms
):
    """As `rank_one_prox`, for one replica: lin, centre and out are (agents, d); sums run along the record."""
    d = lin.shape[1]
    whole, root = d // 8 * 8, np.sqrt(d)
    a, c, q, x = rows.reshape(-1), centre.reshape(-1), lin.reshape(-1), out.reshape(-1)
    for i in range(first, last):
        w = weights[i]
        sigma = pull[i] + w * mu
        keep, scale = pull[i] / sigma, 1.0 / sigma
        here = i * d
        start, size = lanes.combine_and_project(lanes.EIGHT, keep, c, scale, q, a, here, whole, x)
        for j in range(here + whole, here + d):
            kept, pushed = keep * c[j], scale * q[j]
            size = max(size, abs(kept) + abs(pushed))
            x[j] = kept - pushed
            start += a[j] * x[j]
        start -= shifts[i]
        size *= root  # bounds the norm of |keep centre| + |scale lin|, the measure of rounding
        slope = prox_slope(start, w * squares[i] / sigma, line, is_logistic)
        move = -slope * w / sigma
        lanes.add_scaled(lanes.EIGHT, move, a, here, whole, x)
        for j in range(here + whole, here + d):
            x[j] += move * a[j]
        norms[i, 0] = _rank_one_error(d, sigma, w, bound, squares[i], shifts[i], size, abs(move), line[3])
        if is_logistic:
            end = start - w * squares[i] / sigma * slope
            norms[i, 0] += w * np.sqrt(squares[i]) * logistic_gap(end, slope, line[2])


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
            norms[i, r] = _rank_one_error(d, sigma, w, bound, squares[i], shifts[i], size, abs(t[r]), line[3])
            norms[i, r] += w * np.sqrt(squares[i]) * gap
        for j in range(d):
            a = rows[i, j]
            for r in range(columns):
                out[i, j, r] += t[r] * a
