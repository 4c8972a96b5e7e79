"""What is hidden of an agent: a record, a person, everything, its gradient, its linear term, or its amount."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.regularisers import Box


class Region(Protocol):
    """A public, closed, bounded convex set of vectors that messages are projected onto."""

    def project(self, values: Floats) -> Floats:
        """Return the nearest points of the set to values (N, p, R)."""

    def diameter(self, dimension: int) -> float:
        """Return the largest distance between two of its points in R^dimension."""


@dataclass(frozen=True)
class Ball:
    """Vectors of norm at most `radius`; with `is_positive`, those of them without negative coordinates.

    Their distance is at most `2 radius`, and `sqrt(2) radius` where coordinates cannot be negative.

    >>> Ball(2.0).diameter(3), round(Ball(2.0, is_positive=True).diameter(3), 4)
    (4.0, 2.8284)
    """

    radius: float
    is_positive: bool = False

    def __post_init__(self) -> None:
        """Refuse radii that are none."""
        checks.positive("radius", self.radius)

    def project(self, values: Floats) -> Floats:
        """Return the nearest points: first without negative coordinates, then shortened."""
        kept = np.maximum(values, 0.0) if self.is_positive else values
        norms = np.linalg.norm(kept, axis=1, keepdims=True)
        return np.asarray(kept * np.minimum(1.0, (1 - 2.0**-40) * self.radius / np.maximum(norms, 1e-300)))

    def diameter(self, dimension: int) -> float:
        """Return the largest distance between two points."""
        return (math.sqrt(2) if self.is_positive and dimension > 1 else 2 - self.is_positive) * self.radius


@dataclass(frozen=True)
class Limits:
    """Vectors between `lower` and `upper`, numbers or one for every coordinate.

    >>> Limits(0.0, 2.0).diameter(4)
    4.0
    """

    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse sets that are empty or have no end."""
        box = Box(self.lower, self.upper)
        if not np.all(np.isfinite(np.append(np.ravel(box.lower), np.ravel(box.upper)))):
            raise InputError("The limits of a region must be finite: without an end it bounds nobody.")

    def project(self, values: Floats) -> Floats:
        """Return the nearest points."""
        return Box(self.lower, self.upper).prox(values, 1.0)

    def diameter(self, dimension: int) -> float:
        """Return the distance between opposite corners."""
        wide = np.asarray(self.upper, dtype=np.float64) - np.asarray(self.lower, dtype=np.float64)
        return float(np.linalg.norm(np.broadcast_to(wide, dimension)))


@dataclass(frozen=True)
class Record:
    """One record of one agent, for `Rows`."""

    unit = Unit.RECORD
    description = "one record"


@dataclass(frozen=True)
class Person:
    """One person with all rows, for `Rows` with persons."""

    unit = Unit.PERSON
    description = "one person with all rows"


@dataclass(frozen=True)
class Whole:
    """Anything about one agent: what it sends is projected onto `region`, so nothing is assumed of it (C19)."""

    region: Region
    unit = Unit.USER
    description = "anything about one agent"

    def __post_init__(self) -> None:
        """Refuse numbers in the place of sets: the diameter is computed from the set that is projected on."""
        if not (hasattr(self.region, "project") and hasattr(self.region, "diameter")):
            raise InputError("Whole takes the set that messages are projected on, such as Ball(3.0) or Limits(0, 7).")


@dataclass(frozen=True)
class _Distance:
    distance: float
    unit = Unit.FUNCTION

    def __post_init__(self) -> None:
        """Refuse distances that are none."""
        checks.positive("distance", self.distance)


@dataclass(frozen=True)
class Gap(_Distance):
    """One agent's cost: its gradient moves by at most `distance` everywhere."""

    @property
    def description(self) -> str:
        """What is hidden."""
        return f"one agent's cost, its gradient moved by up to {self.distance:g}"


@dataclass(frozen=True)
class Linear(_Distance):
    """The linear term of one agent's quadratic moves by at most `distance`; its curvature is not protected."""

    @property
    def description(self) -> str:
        """What is hidden."""
        return f"one agent's linear term, moved by up to {self.distance:g}"


@dataclass(frozen=True)
class Amount(_Distance):
    """One agent's amount moves by at most `distance`; its limits and costs are not protected."""

    @property
    def description(self) -> str:
        """What is hidden."""
        return f"one agent's amount, moved by up to {self.distance:g}"


Protect = Record | Person | Whole | Gap | Linear | Amount
