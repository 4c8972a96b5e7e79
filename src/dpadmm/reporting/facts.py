"""What may be told about a private training run: public facts, the release itself, and what was spent.

Every field is a public fact (sizes, bounds, the plan), a part of the release (coefficients, messages and what follows
from them) or an accounted figure. Nothing here is computed from records in any other way, so a saved model and its
report may be handed out under the guarantee they state.
"""

from dataclasses import dataclass
from enum import Enum

from dpadmm.datasets.schema import Schema


class Origin(Enum):
    """Where the noise came from: only secure noise makes a release."""

    SECURE = "secure"
    SIMULATED = "simulated"


class Basis(Enum):
    """What allows a measured figure to be shown."""

    PUBLIC = "data declared public"
    ACCOUNTED = "accounted private metric"


@dataclass(frozen=True, kw_only=True)
class Silo:
    """One holder of records; the number of records is public (neighbouring data sets have equally many)."""

    name: str
    records: int


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
    """The certified statement, and beside it what is claimed elsewhere."""

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

    @property
    def is_release(self) -> bool:
        """Whether the statement is about what left: only secure noise protects anybody."""
        return self.origin is Origin.SECURE


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What simulations on public synthetic data of the same shape promised before the data were touched."""

    score: str
    mean: float
    spread: float
    without_noise: float
    baseline: float


@dataclass(frozen=True, kw_only=True)
class Choice:
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
class Curve:
    """One figure per round, with what it means; `rounds` are the rounds it was seen in."""

    name: str
    meaning: str
    rounds: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What the ledger said: the budget, what is spent and left, and the head that pins its history."""

    ledger: str
    budget_epsilon: float
    budget_delta: float
    spent_epsilon: float
    left_epsilon: float
    releases: int
    head: str
    runs: tuple[tuple[str, float], ...]
    time: str


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A score that may be shown, with the reason why it may.

    `declaration`: for public data, what is known or was declared about their relation to the training records.
    """

    score: str
    value: float
    records: int
    on: str
    basis: Basis
    epsilon: float
    delta: float
    time: str
    uncertainty: float = 0.0
    baseline: float | None = None
    declaration: str = ""


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A trained model with all that may be told about it; `coefficients` has one number per encoded feature."""

    title: str
    created: str
    package: str
    run: str
    loss: str
    coefficients: tuple[float, ...]
    schema: Schema
    silos: tuple[Silo, ...]
    wiring: Wiring
    guarantee: Guarantee
    choice: Choice
    noise: tuple[Curve, ...]
    history: tuple[Curve, ...]
    spending: Spending | None = None
    measurements: tuple[Measurement, ...] = ()

    @property
    def records(self) -> int:
        """Number of records of all silos together."""
        return sum(silo.records for silo in self.silos)
