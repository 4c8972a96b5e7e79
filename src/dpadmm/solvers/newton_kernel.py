"""Newton's method for one column and few dense rows, compiled: there the batched solver's time is Python's own."""

import numpy as np
from numba import njit

from dpadmm.solvers.slopes import slope


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
