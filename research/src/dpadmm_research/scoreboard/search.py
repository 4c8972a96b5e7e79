"""The search for a method's settings: every number is doubled and halved until neither gains.

Points lie on a lattice, a factor 2 apart along every number. First some far apart are tried, for all budgets at once;
then, for each budget, whatever lies beside its best point, until nothing beside it is better. So no winner is at the
edge of what was tried, unless a number ends there by itself (`Knob.least`, `Knob.most`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

Point = tuple[int, ...]
"""How often each number was doubled from its start; negative: halved."""


@dataclass(frozen=True)
class Knob:
    """A number that is chosen: `start 2^k` for whole k, between `least` and `most`.

    first: the k that are tried first. limits: why there is nothing below `least` and above `most`. is_work: whether
    twice the number is twice the work, and must gain something to be chosen.
    """

    name: str
    start: float
    first: tuple[int, ...] = (0,)
    least: float = 0.0
    most: float = math.inf
    limits: tuple[str, str] = ("", "")
    is_work: bool = False

    def value(self, place: int) -> float:
        """Return the number at a place of the lattice."""
        return self.start * 2.0**place

    def has(self, place: int) -> bool:
        """Say whether the number may be taken there."""
        return self.least <= self.value(place) <= self.most

    def limit_at(self, value: float) -> int:
        """Say whether the search ended at a limit: -1 below, 1 above; 0 where it could go on, or nothing was chosen."""
        return int(value * 2 > self.most) - int(value / 2 < self.least)

    def limit_text(self, side: float) -> str:
        """Return why the search could not go on to that side."""
        return self.limits[int(side > 0)]

    def __str__(self) -> str:
        """Name and first values."""
        return f"{self.name} {', '.join(f'{self.value(place):g}' for place in self.first)}"


def values_at(knobs: Sequence[Knob], point: Point) -> tuple[float, ...]:
    """Return the numbers at a point of the lattice."""
    return tuple(knob.value(place) for knob, place in zip(knobs, point, strict=True))


def beside(knobs: Sequence[Knob], point: Point) -> Iterator[Point]:
    """Yield the points that differ in one number by a factor 2, and may be taken."""
    for axis, knob in enumerate(knobs):
        for place in (point[axis] - 1, point[axis] + 1):
            if knob.has(place):
                yield (*point[:axis], place, *point[axis + 1 :])


def search(
    knobs: Sequence[Knob],
    budgets: Sequence[float],
    measure: Callable[[tuple[float, ...], Sequence[float]], Mapping[float, float]],
    price: float,
) -> dict[float, tuple[float, ...]]:
    """Return the best numbers for each budget; budgets for which nothing was found to work are not among them.

    measure: the loss of some numbers at some budgets; those at which they do not work are left out or not finite.
    price: what each doubling of the work must gain.
    """
    losses: dict[float, dict[Point, float]] = {budget: {} for budget in budgets}
    starts = product(*(filter(knob.has, knob.first) for knob in knobs))
    waiting: dict[Point, list[float]] = {point: list(budgets) for point in starts}
    while waiting:
        for point, asking in waiting.items():
            found = measure(values_at(knobs, point), asking)
            paid = price * sum(place for knob, place in zip(knobs, point, strict=True) if knob.is_work)
            for budget in asking:
                losses[budget][point] = found.get(budget, math.inf) + paid
        waiting = {}
        for budget, best in _best(losses).items():
            for point in beside(knobs, best):
                if point not in losses[budget]:
                    waiting.setdefault(point, []).append(budget)
    return {budget: values_at(knobs, best) for budget, best in _best(losses).items()}


def _best(losses: Mapping[float, Mapping[Point, float]]) -> dict[float, Point]:
    """Return the point with the least loss for each budget that has any."""
    working = {
        budget: {point: loss for point, loss in tried.items() if math.isfinite(loss)}
        for budget, tried in losses.items()
    }
    return {budget: min(tried, key=lambda point: (tried[point], point)) for budget, tried in working.items() if tried}
