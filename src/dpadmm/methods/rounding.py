"""What rounding may add to a sum over records before its noise, from public facts alone (C7, "Rounding").

A record's term is computed from that record and a public point alone, so it is the same number whatever the other
records are; only its additions are rounded. A term that goes through m operations is off by `m u/(1 - m u)` of its size
at most, in any order of the additions, so a sum is off by that part of the sum of all sizes.
"""

from collections.abc import Sequence
from dataclasses import replace

from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL, LocalFunction, tolerance_of
from dpadmm.problems.rows import MOST_RIDGE, UNIT, most_additions, rounding_share
from dpadmm.problems.silos import MOST_SHIFT

_TERM = 2.0**-38
"""What a term may be longer than its bound: rows by 1e-12 (`ROW_NORM_SLACK`), slopes and products by a few ulps."""

_CENTRED = 1 + 2 * MOST_SHIFT
"""How much longer than a row the numbers are that sums over centred sparse rows add up: `||s|| + ||a c||`."""


def evaluated(
    local: LocalFunction, *, dimension: int, size: float, order: int = 1, ridge: float = 0.0
) -> LocalFunction:
    """Return the function with the rounding of `w/n` times a sum over its records as its tolerance.

    size: bound on the norm of one record's term. order: 1 for gradients, 2 for matrices, in which rows come twice.
    ridge: bound on the norm of what is added for a ridge.
    """
    most = MOST_PER_NOMINAL if not local.relation.has_public_sizes else 1
    rows = float("inf") if local.is_of_persons else float(most * local.n_records)
    sums = rounding_share(most_additions(rows, dimension)) * _CENTRED**order * most * size
    error = sums + _TERM * size * local.replaced / local.n_records + 4 * UNIT * ridge
    return replace(local, solver_tolerance=local.weight * error)


def added_up(silos: Sequence[LocalFunction], *, size: float, ridge: float = 0.0) -> list[LocalFunction]:
    """Return the functions, the rounding of their values' sum counted as well: in each, as any may be a person's."""
    if len(silos) == 1:
        return list(silos)
    most = MOST_PER_NOMINAL if not silos[0].relation.has_public_sizes else 1
    error = rounding_share(len(silos) + 1) * sum(each.weight for each in silos) * (most * size + ridge)
    return [replace(each, solver_tolerance=tolerance_of(each.solver_tolerance) + error) for each in silos]


def longest_ridge(strong_convexity: float, gradient_bound: float) -> float:
    """Return the bound on a ridge's gradient where gradients are released, 0 without a ridge."""
    return MOST_RIDGE * gradient_bound if strong_convexity > 0 else 0.0
