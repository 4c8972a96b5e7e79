"""Subproblems with a term that is known by its proximal map alone: accelerated proximal steps for all columns at once.

    x   <- prox( y - grad(y)/top )              of h: smooth, with curvature in [least, top]
    y   <- x + momentum (x - x_before)          Nesterov's constant for strongly convex functions

At x the sum has a subgradient of norm at most `(top - least) ||x - y||`: `top (y - x) - grad(y)` is one of the term,
and `grad(x) - grad(y) - top (x - y)` is no longer than that.
"""

from collections.abc import Callable

import numpy as np

from dpadmm.errors import SolverError
from dpadmm.problems.arrays import Floats

_STEPS = 100  # times the root of the condition number: the distance to the solution falls by a factor above e^50


def minimise_composite(
    gradient: Callable[[Floats], Floats],
    prox: Callable[[Floats], Floats],
    least: Floats,
    top: Floats,
    start: Floats,
    tolerance: float,
) -> Floats:
    """Return argmin h(x) + term(x), (m, d, R), with a subgradient of norm at most `tolerance` in every column.

    gradient: of h at (m, d, R). prox: argmin term(x) + (top/2)||x - v||^2. least, top: (m, 1, 1), or common. Whether
    the steps suffice follows from least and top, as far as rounding allows; no decision is shared among columns.
    """
    root = np.sqrt(least / top)
    momentum = (1 - root) / (1 + root)
    x, y = start, start
    is_done = np.zeros((len(start), 1, start.shape[2]), dtype=bool)
    for _ in range(_STEPS + int(_STEPS / np.min(root))):
        new = prox(y - gradient(y) / top)
        left = (top - least) * np.linalg.norm(new - y, axis=1, keepdims=True)
        y = np.where(is_done, y, new + momentum * (new - x))
        x = np.where(is_done, x, new)
        is_done |= left <= tolerance
        if is_done.all():
            return x
    raise SolverError(
        f"A subproblem was not solved to the tolerance {tolerance:.1e}: its condition number is "
        f"{float(np.max(top / least)):.1e}. Raise the tolerance or the penalty, or rescale the constraint."
    )
