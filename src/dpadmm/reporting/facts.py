"""The facts that are told about a released model: who held the records, what it cost them, how it was made.

Every one is public: sizes and bounds, the plan, accounted figures, or what follows from noisy releases alone.
"""

from dataclasses import dataclass
from enum import Enum

from dpadmm.planner.forecast import Forecast


class Custody(Enum):
    """Who held the tables: one machine that read them all and simulated the silos, or each silo its own."""

    ONE_PLACE = "simulated in one place"
    FEDERATED = "federated"

    def words(self, n_silos: int) -> str:
        """Say where the records were.

        >>> Custody.ONE_PLACE.words(3)
        'simulated in one place: all tables were on one machine'
        """
        if self is Custody.FEDERATED:
            return "federated: every silo's own process kept its records"
        return "read in one place" if n_silos == 1 else f"{self.value}: all tables were on one machine"


@dataclass(frozen=True, kw_only=True)
class SiloCost:
    """What a run cost the records of one silo that accounts for itself, in its own ledger.

    epsilon: certified, at `delta`. least_noise: least ratio of noise to sensitivity. noise_level, sensitivity: of its
    first release.
    """

    releases: int
    epsilon: float
    delta: float
    least_noise: float
    noise_level: float
    sensitivity: float
    certificate: str
    strength: str
    view: str


@dataclass(frozen=True, kw_only=True)
class SiloFacts:
    """One holder of records; their number is public where neighbouring data sets have equally many, else nominal.

    cost: what the silo's own ledger was charged, where every silo keeps one (a federation).
    """

    name: str
    records: int
    cost: SiloCost | None = None


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """Who talks to whom: pairs of silos, or all with a coordinator, or nobody (each silo speaks once)."""

    words: str
    edges: tuple[tuple[int, int], ...] = ()
    has_coordinator: bool = False


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """The plan in words: which method, how it was set and why, and what simulations on synthetic data showed before."""

    method: str
    summary: str
    rounds: int
    settings: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    is_hopeless: bool
    expected: Forecast | None = None


@dataclass(frozen=True, kw_only=True)
class Accountability:
    """Who answers for the processing and why it was done, in the words of whoever trained or reports."""

    purpose: str = ""
    controller: str = ""
    contact: str = ""

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The three with their headings; what is empty, or blank, was not stated."""
        said = (("Purpose", self.purpose), ("Controller", self.controller), ("Contact", self.contact))
        return tuple((heading, " ".join(words.split())) for heading, words in said)


NOT_STATED = Accountability()


@dataclass(frozen=True, kw_only=True)
class RoundCurve:
    """One figure per round, with what it means; `rounds` are the rounds it was seen in."""

    name: str
    meaning: str
    rounds: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What the ledger said: the budget, what is spent and left, and the head that pins its history.

    data_version, data_since: which version of the data it is about now; what was spent on earlier ones is counted.
    """

    ledger: str
    budget_epsilon: float
    budget_delta: float
    spent_epsilon: float
    left_epsilon: float
    releases: int
    head: str
    runs: tuple[tuple[str, float], ...]
    time: str
    data_version: int = 1
    data_since: str = ""
