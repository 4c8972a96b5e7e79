"""A grid search over two numbers, for several budgets at once."""

import math
from collections.abc import Callable, Sequence
from itertools import product

Pair = tuple[float, float]


def least_points(
    first: Sequence[float], second: Sequence[float], costs: Callable[[Pair], Sequence[float]]
) -> list[Pair]:
    """Return, budget by budget, the pair with the least cost; costs that are no numbers count as infinite.

    >>> least_points((1.0, 2.0), (3.0, 4.0), lambda pair: (abs(pair[0] * pair[1] - 6), -pair[1])) == [(2, 3), (1, 4)]
    True
    """
    pairs = list(product(first, second))
    table = [[cost if math.isfinite(cost) else math.inf for cost in costs(pair)] for pair in pairs]
    return [min(zip(column, pairs, strict=True))[1] for column in zip(*table, strict=True)]
