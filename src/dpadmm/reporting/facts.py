"""The facts that are told about a released model: who held the records, what is guaranteed, how it was made.

Every one is public: sizes and bounds, the plan, accounted figures, or what follows from noisy releases alone.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dpadmm.errors import InputError
from dpadmm.privacy.protection import Protection, Relation, Strength, Unit, View, standing
from dpadmm.privacy.records import Origin
from dpadmm.reporting.statement import Collusion, ProfileCost, SearchCost

if TYPE_CHECKING:
    from dpadmm.planner.planner import UtilityPoint


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
class Claim:
    """A figure that a paper prints for this method; never mixed with certified ones. Infinite is allowed."""

    epsilon: float
    delta: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The certified statement, and beside it what is claimed elsewhere.

    profile: what the column profile behind the model costs, a part of epsilon; None without one.
    colluders, collusion: where only sums are seen, how many silos may look, and what is seen if more do (C12).
    search: how settings were chosen among candidates, a part of epsilon; None where there was no choice.
    declared: the user's own parts on whose declared constants epsilon rests: it is certified if these hold.
    """

    epsilon: float
    delta: float
    unit: str
    relation: str
    view: str
    strength: str
    certificates: tuple[str, ...]
    assumptions: tuple[str, ...]
    records_per_person: int
    silos_per_person: int
    origin: Origin
    claims: tuple[Claim, ...] = ()
    no_claim: str | None = None
    profile: ProfileCost | None = None
    colluders: int = 0
    collusion: Collusion | None = None
    search: SearchCost | None = None
    declared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what nobody could be promised."""
        try:
            is_possible = self.epsilon >= 0 and 0 <= self.delta < 1 and bool(str(self.protected) and self.standing)
        except (ValueError, TypeError):  # no such unit, relation, view or strength
            is_possible = False
        if not is_possible:
            raise InputError(
                "The guarantee is damaged: its epsilon, delta, unit, relation, view or strength is impossible."
            )

    @property
    def standing(self) -> str:
        """Whether epsilon is certified, up to what, and whether only if declared constants hold."""
        return standing(Strength(self.strength), self.declared)

    @property
    def is_release(self) -> bool:
        """Whether the statement is about what left: only secure noise protects anybody."""
        return self.origin is Origin.SECURE

    @property
    def protected(self) -> Protection:
        """Whose change is hidden, in words."""
        return Protection(
            unit=Unit(self.unit),
            relation=Relation(self.relation),
            view=View(self.view),
            records_per_person=self.records_per_person,
            silos_per_person=self.silos_per_person,
            colluders=self.colluders,
        )


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """The range that simulated runs reached where a model without privacy reaches `non_private`."""

    signal: str
    non_private: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What simulations on public synthetic data of the same shape showed before the data were touched.

    score: AUC, or R^2. signals: the one that was stated, or a weak, a moderate and a strong one. runs: how many were
    simulated for each.
    """

    score: str
    signals: tuple[ExpectedSignal, ...]
    runs: int


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """The plan in words: which method, how it was set and why."""

    method: str
    summary: str
    rounds: int
    settings: tuple[tuple[str, str], ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    is_hopeless: bool
    expected: Expected | None = None


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
class BudgetFacts:
    """The range that simulated runs reached for one budget, where a model without privacy reaches `non_private`.

    learned: the share of what is learned without noise, in [0, 1].
    """

    epsilon: float
    method: str
    score: str
    non_private: float
    low: float
    high: float
    learned: float

    @classmethod
    def of(cls, point: "UtilityPoint") -> "BudgetFacts":
        """Return what a model keeps of a forecast."""
        judged = point.expected.judged
        return cls(
            epsilon=point.epsilon,
            method=point.method,
            score=point.expected.score.value,
            non_private=judged.non_private,
            low=judged.low,
            high=judged.high,
            learned=judged.learned,
        )


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
