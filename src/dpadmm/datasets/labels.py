"""Labels of a schema: two classes by listed values or by a threshold, or a bounded real target."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd

from dpadmm import checks
from dpadmm.datasets.columns import (
    Category,
    as_numbers,
    bounded,
    checked_bounds,
    checked_categories,
    checked_name,
    lookup,
)
from dpadmm.datasets.policies import OutOfRange
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats


class Label(Protocol):
    """The column to predict and the number it becomes."""

    @property
    def name(self) -> str:
        """Name of the column in the table."""
        ...

    def encode(self, values: pd.Series, out_of_range: OutOfRange) -> tuple[Floats, int]:
        """Encode complete cells; return the labels and how many were clipped."""
        ...

    def describe(self) -> str:
        """Say in words what the label allows."""
        ...

    def to_record(self) -> dict[str, Any]:
        """Return a JSON record."""
        ...


@dataclass(frozen=True)
class BinaryLabel:
    """Two classes by listed values: +1 for a value in `positive`, -1 for one in `negative`, else refused.

    >>> label = BinaryLabel("income", positive=(">50K",), negative=("<=50K",))
    >>> label.encode(pd.Series([">50K", "<=50K"]), OutOfRange.CLIP)[0].tolist()
    [1.0, -1.0]
    """

    name: str
    positive: tuple[Category, ...]
    negative: tuple[Category, ...]
    kind: ClassVar[str] = "binary"

    def __post_init__(self) -> None:
        """Refuse empty or overlapping classes."""
        checked_name("A label", self.name)
        positive = checked_categories(f"{self.name} (positive)", self.positive)
        negative = checked_categories(f"{self.name} (negative)", self.negative)
        checked_categories(f"{self.name} (positive and negative)", positive + negative)
        object.__setattr__(self, "positive", positive)
        object.__setattr__(self, "negative", negative)

    def encode(self, values: pd.Series, out_of_range: OutOfRange) -> tuple[Floats, int]:
        """Return -1 or +1 per row."""
        codes = lookup(self.name, values, self.positive + self.negative)
        strange = int((codes < 0).sum())
        if strange:
            raise InputError(
                f"Label {self.name!r}: {strange} of {len(codes)} rows hold a value that is neither in "
                f"{list(self.positive)!r} (positive) nor in {list(self.negative)!r} (negative). "
                "List the value, or remove those rows."
            )
        return np.where(codes < len(self.positive), 1.0, -1.0), 0

    def describe(self) -> str:
        """Say the two lists."""
        return f"{self.name}: +1 for {list(self.positive)!r}, -1 for {list(self.negative)!r}"

    def to_record(self) -> dict[str, Any]:
        """Return a JSON record."""
        record: dict[str, Any] = {"kind": self.kind, "name": self.name}
        return record | {"positive": list(self.positive), "negative": list(self.negative)}


@dataclass(frozen=True)
class ThresholdLabel:
    """Two classes by a public threshold: +1 above it, -1 at or below.

    >>> ThresholdLabel("income", 50_000).encode(pd.Series([50_000, 50_001]), OutOfRange.CLIP)[0].tolist()
    [-1.0, 1.0]
    """

    name: str
    threshold: float
    kind: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        """Refuse thresholds that are no numbers."""
        checked_name("A label", self.name)
        object.__setattr__(self, "threshold", checks.finite(f"threshold of {self.name!r}", self.threshold))

    def encode(self, values: pd.Series, out_of_range: OutOfRange) -> tuple[Floats, int]:
        """Return -1 or +1 per row."""
        return np.where(as_numbers(self.name, values) > self.threshold, 1.0, -1.0), 0

    def describe(self) -> str:
        """Say the threshold."""
        return f"{self.name}: +1 above {self.threshold:g}, otherwise -1"

    def to_record(self) -> dict[str, Any]:
        """Return a JSON record."""
        return {"kind": self.kind, "name": self.name, "threshold": self.threshold}


@dataclass(frozen=True)
class RealLabel:
    """A bounded target for regression, mapped from [lower, upper] onto [-1, 1]; `decode` maps back.

    >>> label = RealLabel("price", 0, 200)
    >>> encoded, clipped = label.encode(pd.Series([50.0, 999.0]), OutOfRange.CLIP)
    >>> encoded.tolist(), clipped, label.decode(encoded).tolist()
    ([-0.5, 1.0], 1, [50.0, 200.0])
    """

    name: str
    lower: float
    upper: float
    kind: ClassVar[str] = "real"

    def __post_init__(self) -> None:
        """Refuse empty or endless ranges."""
        checked_name("A label", self.name)
        lower, upper = checked_bounds(self.name, self.lower, self.upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def encode(self, values: pd.Series, out_of_range: OutOfRange) -> tuple[Floats, int]:
        """Return numbers in [-1, 1] and how many were clipped."""
        inside, clipped = bounded(self.name, values, self.lower, self.upper, out_of_range)
        return 2.0 * (inside - self.lower) / (self.upper - self.lower) - 1.0, int(clipped.sum())

    def decode(self, encoded: Floats) -> Floats:
        """Map predictions back to the units of the table."""
        return self.lower + (np.asarray(encoded) + 1.0) * (self.upper - self.lower) / 2.0

    def describe(self) -> str:
        """Say the range."""
        return f"{self.name}: a number from {self.lower:g} to {self.upper:g}, mapped onto [-1, 1]"

    def to_record(self) -> dict[str, Any]:
        """Return a JSON record."""
        return {"kind": self.kind, "name": self.name, "lower": self.lower, "upper": self.upper}
