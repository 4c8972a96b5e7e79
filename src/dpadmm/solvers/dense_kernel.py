"""One pass over dense rows for one column: every row is read from memory once.

Columns go in chunks as wide as a vector register. The last chunk ends where the row does, so that it overlaps the one
before where the row is no multiple of the width; there the point's numbers are 0 in its product, and sums come out
twice, to the same bits. Nothing is reassociated. A row's product has the same bits at any place among other rows, and
rows are added up in runs (C7).
"""

import numpy as np
from numba import njit

from dpadmm.problems.rows import RUN
from dpadmm.solvers import lanes
from dpadmm.solvers.slopes import line_slopes, logistic_slopes

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
