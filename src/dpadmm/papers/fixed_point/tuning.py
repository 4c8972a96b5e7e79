"""A grid search over a few numbers, for several budgets at once."""

import math
from collections.abc import Callable, Sequence
from itertools import product

Point = tuple[float, ...]


def least_points(grids: Sequence[Sequence[float]], costs: Callable[[Point], Sequence[float]]) -> list[Point]:
    """Return, budget by budget, the point of the grid with the least cost; costs that are no numbers are infinite.

    >>> grids = ((1.0, 2.0), (3.0, 4.0))
    >>> least_points(grids, lambda point: (abs(point[0] * point[1] - 6), -point[1])) == [(2, 3), (1, 4)]
    True
    """
    points = list(product(*grids))
    table = [[cost if math.isfinite(cost) else math.inf for cost in costs(point)] for point in points]
    return [min(zip(column, points, strict=True))[1] for column in zip(*table, strict=True)]


def is_on_edge(value: float, grid: Sequence[float]) -> bool:
    """Say whether the value is the smallest or largest of a grid of three or more, so that a wider one may do better.

    >>> is_on_edge(4.0, (1.0, 2.0, 4.0)), is_on_edge(2.0, (1.0, 2.0, 4.0)), is_on_edge(1.0, (0.5, 1.0))
    (True, False, False)
    """
    return len(grid) > 2 and value in (min(grid), max(grid))
