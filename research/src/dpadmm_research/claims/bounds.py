"""What a paper's utility theorem says, as data: a bound with its label, or the reason why there is none."""

from dataclasses import dataclass
from enum import Enum

from dpadmm.errors import InputError


class Version(Enum):
    """Whose formula it is: as the paper prints it, or as it follows from a proof given here."""

    PRINTED = "printed"
    CORRECTED = "corrected"


@dataclass(frozen=True)
class Bound:
    """An upper bound `value` from a theorem, under `conditions` (in words) that hold for the given arguments.

    >>> print(Bound(0.25, Version.CORRECTED, "Theorem 3, eq. (22)", ("f_i strongly convex",)))
    0.25 [corrected: Theorem 3, eq. (22)]
    """

    value: float
    version: Version
    theorem: str
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse nameless theorems."""
        if not self.theorem:
            raise InputError("A bound must name its theorem, got an empty name.")

    def __str__(self) -> str:
        """Show the value with its label."""
        return f"{self.value:.6g} [{self.version.value}: {self.theorem}]"


@dataclass(frozen=True)
class NotApplicable:
    """A theorem that says nothing about the given arguments, and why.

    >>> print(NotApplicable("Theorem 4", "zeta would have to be above 100, at most 0.2 is possible"))
    not applicable [Theorem 4]: zeta would have to be above 100, at most 0.2 is possible
    """

    theorem: str
    why: str

    def __str__(self) -> str:
        """Show the reason."""
        return f"not applicable [{self.theorem}]: {self.why}"
