"""Compiled kernels for random batches: which records take part, and the sum of their gradients.

A batch is a pure function of (key, round, agent, replica): the words come from Philox counters (draw, replica, agent,
round), so they depend neither on the other agents and replicas at hand nor on their order. Nothing is reassociated.
`line` holds the five numbers of a loss, as in `kernels`.
"""

import numpy as np
from numba import njit

from dpadmm.noise.kernels import negative_log, philox
from dpadmm.solvers.kernels import slope

u64 = np.uint64
_ONE = u64(1)


@njit(nogil=True, cache=True)
def poisson_batch(n, log_stay, number, replica, agent, key, out):  # type: ignore[no-untyped-def]
    """Write the members of a Poisson batch of 0..n-1 to `out`; return how many.

    The gaps between members are geometric, `floor(ln u / ln(1-q))`, so the cost is that of the batch and not of n.
    log_stay: -ln(1-q), infinite for q = 1.
    """
    count, place, draw = 0, -1, u64(0)
    while True:
        low, _ = philox(draw, replica, agent, number, key[0], key[1])
        gap = np.floor(negative_log(low) / log_stay)
        if gap >= n - 1 - place:
            return count
        place += 1 + int(gap)
        out[count] = place
        count += 1
        draw += _ONE


@njit(nogil=True, cache=True)
def fixed_batch(n, size, number, replica, agent, key, marks, stamp, out):  # type: ignore[no-untyped-def]
    """Write `size` of 0..n-1, drawn without replacement (Floyd), to `out`; `marks` must not hold `stamp` yet."""
    draw = u64(0)
    for i in range(size):
        last = n - size + i
        span = u64(last + 1)
        spare = (u64(0) - span) % span  # 2^64 mod span: words below it would favour small numbers
        while True:
            low, _ = philox(draw, replica, agent, number, key[0], key[1])
            draw += _ONE
            if low >= spare:
                break
        chosen = np.int64(low % span)
        if marks[chosen] == stamp:
            chosen = last
        marks[chosen] = stamp
        out[i] = chosen
    return size


@njit(nogil=True, cache=True)
def _choose(n, size, log_stay, number, replica, agent, key, marks, stamp, out):  # type: ignore[no-untyped-def]
    """Return a batch of one kind or the other; `size` 0 means Poisson."""
    if size == 0:
        return poisson_batch(n, log_stay, number, replica, agent, key, out)
    return fixed_batch(n, size, number, replica, agent, key, marks, stamp, out)


@njit(nogil=True, cache=True)
def _clipped(pull, square, clip):  # type: ignore[no-untyped-def]
    """Return the slope shortened so that slope times the record has norm at most `clip`."""
    length = abs(pull) * np.sqrt(square)
    return pull * (clip / length) if length > clip else pull


@njit(nogil=True, cache=True)
def dense_sums(  # type: ignore[no-untyped-def]
    rows, records, v, base, has_base, clip, line, is_logistic, size, log_stays, number, agents, key, out
):
    """Add, for every agent and replica, the clipped gradients of its batch at v (N, R, d) to `out`.

    With a base the term is the difference of the gradients at v and at the base. size: of a fixed batch, 0: Poisson.
    records: shifts and signs, as in `kernels.dense_sum`, and where each agent's begin.
    """
    shifts, signs, offsets = records
    n_agents, replicas, d = v.shape
    for i in range(n_agents):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        marks, chosen = np.full(n, -1), np.empty(n, np.int64)
        for r in range(replicas):
            m = _choose(n, size, log_stays[i], number, u64(r), agents[i], key, marks, r, chosen)
            for c in range(m):
                row = first + chosen[c]
                t, tb, square = 0.0, 0.0, 0.0
                for j in range(d):
                    a = rows[row, j]
                    t += a * v[i, r, j]
                    tb += a * base[i, r, j]
                    square += a * a
                sign = signs[row] if signs.size > 0 else 1.0
                shift = shifts[row] if shifts.size > 0 else 0.0
                pull = slope(sign * (t - shift), line, is_logistic)
                if has_base:
                    pull -= slope(sign * (tb - shift), line, is_logistic)
                pull *= sign
                pull = _clipped(pull, square, clip)
                for j in range(d):
                    out[i, r, j] += pull * rows[row, j]


@njit(nogil=True, cache=True)
def csr_sums(  # type: ignore[no-untyped-def]
    matrix, records, v, base, has_base, clip, line, is_logistic, size, log_stays, number, agents, key, out
):
    """As `dense_sums`, for rows stored as CSR.

    matrix: indptr, indices, data, and squares, the squared norms that count when a row's term is clipped. Of centred
    rows they are not those of what is stored.
    """
    shifts, signs, offsets = records
    indptr, indices, data, squares = matrix
    n_agents, replicas, _ = v.shape
    for i in range(n_agents):
        first, n = offsets[i], offsets[i + 1] - offsets[i]
        marks, chosen = np.full(n, -1), np.empty(n, np.int64)
        for r in range(replicas):
            m = _choose(n, size, log_stays[i], number, u64(r), agents[i], key, marks, r, chosen)
            for c in range(m):
                row = first + chosen[c]
                t, tb = 0.0, 0.0
                for p in range(indptr[row], indptr[row + 1]):
                    a, j = data[p], indices[p]
                    t += a * v[i, r, j]
                    tb += a * base[i, r, j]
                sign = signs[row] if signs.size > 0 else 1.0
                shift = shifts[row] if shifts.size > 0 else 0.0
                pull = slope(sign * (t - shift), line, is_logistic)
                if has_base:
                    pull -= slope(sign * (tb - shift), line, is_logistic)
                pull *= sign
                pull = _clipped(pull, squares[row], clip)
                for p in range(indptr[row], indptr[row + 1]):
                    out[i, r, indices[p]] += pull * data[p]
