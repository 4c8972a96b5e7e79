"""Privacy as data: certificates and releases are frozen records that accountants interpret.

A *certificate* is a proved statement about one value before noise: how far it can move between neighbouring
data sets, in which norm, for whom and against whom. A *release* is a certificate together with the noise that
was put on the value. Nothing here computes an epsilon; see `dpadmm.privacy.accounting`.
"""

from dataclasses import dataclass, replace
from enum import Enum

from dpadmm import checks
from dpadmm.errors import InputError


class Unit(Enum):
    """Whose change the guarantee hides."""

    RECORD = "record"
    USER = "user"
    FUNCTION = "function"


class Relation(Enum):
    """What makes two data sets neighbours."""

    REPLACE_ONE = "replace-one"
    ADD_OR_REMOVE = "add-or-remove"


class View(Enum):
    """Who is looking."""

    EAVESDROPPER = "eavesdropper"
    COORDINATOR = "coordinator"
    PEER = "peer"
    PUBLIC = "public"


class Norm(Enum):
    """The norm in which a certificate bounds the change."""

    L2 = "l2"
    L1 = "l1"


class Strength(Enum):
    """How far the proof reaches: to the bits that leave the machine, or up to a named idealisation."""

    FULL = "certified"
    UP_TO_SOLVER_ERROR = "certified up to solver error"
    UP_TO_FLOATING_POINT = "certified up to floating point"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """A proved bound on the change of one value, before noise, between neighbouring data sets.

    `bound` is in the norm `norm` and already counts `records_per_person`. `log_jacobian` is zero for additive
    noise; for objective perturbation (C2) it is the bound on the log ratio of the Jacobians that adds to epsilon
    unless the noise rate is at least `jacobian_free_rate`, from which on it is already paid for. A value that is
    rounded to multiples of `grid` before the noise has the rounding of `grid_dimension` coordinates in its bound.
    """

    bound: float
    unit: Unit
    view: View
    theorem: str
    assumptions: tuple[str, ...]
    norm: Norm = Norm.L2
    relation: Relation = Relation.REPLACE_ONE
    strength: Strength = Strength.FULL
    records_per_person: int = 1
    silos_per_person: int = 1
    log_jacobian: float = 0.0
    jacobian_free_rate: float | None = None
    grid: float | None = None
    grid_dimension: int = 0

    def __post_init__(self) -> None:
        """Refuse bounds that are no bounds."""
        checks.non_negative("bound", self.bound)
        checks.non_negative("log_jacobian", self.log_jacobian)
        checks.count("records_per_person", self.records_per_person)
        checks.count("silos_per_person", self.silos_per_person)
        if not self.assumptions:
            raise InputError("A certificate must state its assumptions; got none.")

    def weakened(self, strength: Strength) -> "Certificate":
        """Return the same certificate with a more modest strength."""
        return replace(self, strength=strength)


@dataclass(frozen=True, kw_only=True)
class PoissonSampling:
    """Every record takes part independently with probability `rate`."""

    rate: float

    def __post_init__(self) -> None:
        """Refuse rates outside (0, 1]."""
        checks.half_open_unit("rate", self.rate)


@dataclass(frozen=True, kw_only=True)
class FixedSizeSampling:
    """`size` of `population` records take part, drawn without replacement."""

    size: int
    population: int

    def __post_init__(self) -> None:
        """Refuse samples larger than the population."""
        checks.count("size", self.size)
        checks.count("population", self.population)
        if self.size > self.population:
            raise InputError(f"size must be at most the population {self.population}, got {self.size}.")


@dataclass(frozen=True, kw_only=True)
class GaussianRelease:
    """The value plus N(0, noise_std^2 I), `count` times with fresh noise each."""

    certificate: Certificate
    noise_std: float
    agent: int
    round: int
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class SampledGaussianRelease:
    """A sum over a random sample plus N(0, noise_std^2 I); the certificate bounds one record's term in the sum.

    Under replace-one a neighbour swaps one term for another, so the value moves by up to twice the bound.
    """

    certificate: Certificate
    noise_std: float
    sampling: PoissonSampling | FixedSizeSampling
    agent: int
    round: int
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class SphericalLaplaceRelease:
    """The value plus noise of density proportional to exp(-rate ||v||_2)."""

    certificate: Certificate
    rate: float
    agent: int
    round: int
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class CoordinateLaplaceRelease:
    """The value plus independent Laplace noise of scale `scale` on each coordinate (L1 certificate)."""

    certificate: Certificate
    scale: float
    agent: int
    round: int
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class ObjectiveRelease:
    """The minimiser of an objective with a random linear term of density proportional to exp(-rate ||b||_2)."""

    certificate: Certificate
    rate: float
    agent: int
    round: int
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class BareRelease:
    """A value that left without noise although it touched private data: infinite epsilon."""

    reason: str
    agent: int
    round: int
    count: int = 1


Release = (
    GaussianRelease
    | SampledGaussianRelease
    | SphericalLaplaceRelease
    | CoordinateLaplaceRelease
    | ObjectiveRelease
    | BareRelease
)
