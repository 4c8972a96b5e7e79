"""The paper's grid search over two numbers."""

import math
from collections.abc import Callable, Sequence
from itertools import product


def least_point(
    first: Sequence[float], second: Sequence[float], cost: Callable[[tuple[float, float]], float]
) -> tuple[float, float]:
    """Return the pair with the least cost; costs that are no numbers count as infinite.

    >>> least_point((1.0, 2.0), (3.0, 4.0), lambda pair: abs(pair[0] * pair[1] - 6))
    (2.0, 3.0)
    """

    def safe(pair: tuple[float, float]) -> float:
        value = cost(pair)
        return value if math.isfinite(value) else math.inf

    return min(product(first, second), key=safe)
