"""What to do with awkward cells, chosen by type; and the count of what was done."""

from dataclasses import dataclass
from enum import Enum


class Missing(Enum):
    """What to do with rows that lack a value in a column of the schema."""

    ERROR = "error"
    DROP = "drop"


class Unknown(Enum):
    """What to do with a category that the schema does not list."""

    ERROR = "error"
    DROP = "drop"
    ZERO = "zero"


class OutOfRange(Enum):
    """What to do with a number outside its public bounds."""

    CLIP = "clip"
    ERROR = "error"


class Layout(Enum):
    """How the encoded table is stored; AUTO is CSR when at most a quarter of a wide table is non-zero."""

    AUTO = "auto"
    DENSE = "dense"
    SPARSE = "sparse"


@dataclass(frozen=True, kw_only=True)
class EncodingReport:
    """What encoding did to a table. The counts come from private rows: look at them, do not publish them.

    `clipped` counts cells moved into their bounds, `zeroed` cells whose unlisted category became all zeros,
    each by column name, columns without any left out.
    """

    rows_given: int
    rows_kept: int
    dropped_missing: int
    dropped_unknown: int
    clipped: tuple[tuple[str, int], ...] = ()
    zeroed: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        """Say it in one line."""
        parts = [f"{self.rows_kept} of {self.rows_given} rows kept"]
        if self.dropped_missing:
            parts.append(f"{self.dropped_missing} dropped for missing values")
        if self.dropped_unknown:
            parts.append(f"{self.dropped_unknown} dropped for unlisted categories")
        parts += [f"{number} cell(s) of {name} clipped to the bounds" for name, number in self.clipped]
        parts += [f"{number} cell(s) of {name} unlisted, set to zero" for name, number in self.zeroed]
        return "; ".join(parts) + "."
