"""The few compiled kernels: one pass over an agent's rows, and the closed forms for very many small agents.

All release the interpreter lock and none reassociates sums, so a result depends neither on the number of
threads nor on how many replicas share a call. The first call of each compiles it (a few seconds, then cached).
"""

import numpy as np
from numba import njit

from dpadmm.problems.rows import RUN
from dpadmm.solvers import lanes
from dpadmm.solvers.slopes import line_slopes, logistic_gap, logistic_slopes, prox_slope

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
