"""The slopes of the losses, compiled: one number at a time, or a whole array in place.

`line` holds the four numbers (shift, gain, low, high) of a loss's `SlopeForm`. The logistic slope has one formula, in
`lanes`, so that every kernel gets the same bits.
"""

import numpy as np
from numba import njit

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
