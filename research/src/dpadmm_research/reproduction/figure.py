"""What a figure is: its setting, the parts it is computed from, how it is drawn, and what it says.

A figure's parts are independent of each other and pure functions of an `Order`, so they run in any process and a
finished one is never computed again. All numbers end up in one tidy table (`dpadmm_research.reproduction.table`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dpadmm import checks
from dpadmm_research.reproduction.table import Reading, Table


class Size(Enum):
    """How much is computed."""

    FULL = "the paper's size"
    TOY = "toy size: seconds, for tests; its numbers mean nothing"


class Accounting(Enum):
    """Which noise the private curves get."""

    CLAIMED = "claimed"
    CERTIFIED = "certified"
    BOTH = "both"

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The readings that are wanted, claimed first."""
        both = (Reading.CLAIMED, Reading.CERTIFIED)
        return both if self is Accounting.BOTH else (Reading(self.value),)


@dataclass(frozen=True)
class Order:
    """What the caller asks for.

    size: full or toy. runs: independent noise runs (None: the paper's own number, 2 at toy size). accounting: which
    private curves. seed: of the noise; data have seeds of their own, fixed in the figures.
    """

    size: Size = Size.FULL
    runs: int | None = None
    accounting: Accounting = Accounting.BOTH
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.runs is not None:
            checks.count("runs", self.runs)
        checks.count("seed", self.seed, least=0)

    @property
    def is_toy(self) -> bool:
        """Whether only the machinery is tried."""
        return self.size is Size.TOY

    def runs_of(self, printed: int) -> int:
        """Return how many runs to make where the paper makes `printed`."""
        if self.runs is not None:
            return self.runs
        return 2 if self.is_toy else printed

    def pick(self, full: Any, toy: Any) -> Any:
        """Return the value for this size."""
        return toy if self.is_toy else full


class Verdict(Enum):
    """How a claim of the paper fared."""

    SAME = "same"
    PARTLY = "partly"
    DIFFERENT = "different"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Ground:
    """What a verdict rests on, in words: the setting printed, the setting used, and what had to be guessed."""

    printed: str
    used: str
    guessed: str


@dataclass(frozen=True)
class Finding:
    """One claim of the paper, answered: what it says, what we see (with a number), and why if they differ.

    ground: what this verdict rests on, where that is not the figure's own ground.
    """

    claim: str
    seen: str
    verdict: Verdict
    why: str = ""
    ground: Ground | None = None


@dataclass(frozen=True)
class Part:
    """One independent computation.

    name: unique among all parts; figures may share a part. compute: the pure function. seconds: rough processor time
    at full size, for the progress bar. needs_adult: whether the result depends on which Adult table is at hand.
    """

    name: str
    compute: Callable[[Order], Table]
    seconds: float = 10.0
    needs_adult: bool = False


@dataclass(frozen=True)
class Figure:
    """One figure of a paper.

    name: as on the command line, `paper/fig`. reports: what the paper says it shows. setting: every number of the
    setting, as plain values. choices: what the paper leaves open, and what was chosen. draw: the plot from the table.
    findings: the answers. ground: what they rest on, None where there is no paper to compare with.
    """

    name: str
    title: str
    reports: str
    setting: Mapping[str, Any]
    choices: tuple[str, ...]
    parts: tuple[Part, ...]
    draw: Callable[[Table, str], Any] = field(repr=False)
    findings: Callable[[Table], tuple[Finding, ...]] = field(repr=False)
    ground: Ground | None = None

    @property
    def paper(self) -> str:
        """The first part of the name."""
        return self.name.split("/", maxsplit=1)[0]

    def ground_of(self, finding: Finding) -> Ground | None:
        """Return what a finding rests on."""
        return finding.ground or self.ground
