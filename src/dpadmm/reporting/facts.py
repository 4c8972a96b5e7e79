"""What may be told about a private training run: public facts, the release itself, and what was spent.

Every field is a public fact (sizes, bounds, the plan), a part of the release (coefficients, messages and what follows
from them) or an accounted figure. Nothing here is computed from records in any other way, so a saved model and its
report may be handed out under the guarantee they state.
"""

from dataclasses import dataclass
from enum import Enum

from dpadmm.datasets.schema import Schema
from dpadmm.privacy.protection import Protection, Relation, Unit, View
from dpadmm.privacy.records import Origin


class Basis(Enum):
    """What allows a measured figure to be shown."""

    PUBLIC = "data declared public"
    ACCOUNTED = "accounted private metric"


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

    @property
    def protected(self) -> Protection:
        """Whose change is hidden, in words."""
        return Protection(
            unit=Unit(self.unit),
            relation=Relation(self.relation),
            view=View(self.view),
            records_per_person=self.records_per_person,
            silos_per_person=self.silos_per_person,
        )


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What simulations on public synthetic data of the same shape showed before the data were touched.

    Every figure belongs to the synthetic data. `baseline` is their majority class (R^2: their mean); the majority class
    of the records is another, private number.
    """

    score: str
    mean: float
    spread: float
    without_noise: float
    baseline: float

    @property
    def words(self) -> str:
        """Say what the noise leaves of what was learned there."""
        simple = "the majority class" if self.score == "accuracy" else "predicting the mean"
        with_noise, without = _compared(self.mean - self.baseline), _compared(self.without_noise - self.baseline)
        return (
            f"On the synthetic data the model with noise was {with_noise} than {simple} there, without noise {without}"
        )


def _compared(difference: float) -> str:
    return f"{abs(difference):.3f} {'worse' if round(difference, 3) < 0 else 'better'}"


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

    @property
    def is_unrecorded(self) -> bool:
        """Whether private records were measured and no ledger knows of it."""
        is_private = self.basis is Basis.ACCOUNTED and self.on.startswith("private records")
        return is_private and "recorded in" not in self.on


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A trained model with all that may be told about it; `coefficients` has one number per encoded feature.

    Files of older versions do not name a `custody`; they were all written by a training in one place.
    """

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
    custody: Custody = Custody.ONE_PLACE
    spending: Spending | None = None
    measurements: tuple[Measurement, ...] = ()

    @property
    def records(self) -> int:
        """Number of records of all silos together."""
        return sum(silo.records for silo in self.silos)
