"""What a paper prints, as data: a claimed figure carries its theorem and conditions and is never a number.

A claimed figure is deliberately neither a float nor a relative of the certified types: it has no `__float__`, no
arithmetic and no order, so it cannot slip into a place that expects a proved figure. Ask for `.value` by name.

>>> claim = ClaimedEpsilon(value=0.5, delta=0.0, paper=Paper.R_ADMM, theorem="Theorem IV.1", conditions=())
>>> print(claim)
epsilon = 0.5, delta = 0 [claimed: R-ADMM, Theorem IV.1]
>>> claim + 1
Traceback (most recent call last):
TypeError: unsupported operand type(s) for +: 'ClaimedEpsilon' and 'int'
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar, TypeVar

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError


class Paper(Enum):
    """Whose theorem it is."""

    P_ADMM = "P-ADMM"
    R_ADMM = "R-ADMM"
    DVP = "DVP"
    M_ADMM = "M-ADMM"
    CONSENSUS = "Consensus DP-ADMM"
    PS_ADMM = "PS-ADMM"
    FIXED_POINT = "Fixed-point ADMM"


class Provenance(Enum):
    """Whether the formula was read in the paper itself or put together from papers that build on it."""

    PRINTED = "printed"
    RECONSTRUCTED = "reconstructed"


class NoiseKind(Enum):
    """What the number of a claimed noise measures."""

    GAUSSIAN_STD = "standard deviation of Gaussian noise"
    SPHERICAL_LAPLACE_RATE = "rate of noise with density proportional to exp(-rate ||v||)"


@dataclass(frozen=True)
class Condition:
    """A condition the theorem prints, and whether the given arguments meet it."""

    text: str
    holds: bool


@dataclass(frozen=True, kw_only=True)
class ClaimedFigure:
    """What all claimed figures share: the paper, the theorem and the printed conditions."""

    paper: Paper
    theorem: str
    conditions: tuple[Condition, ...]
    provenance: Provenance = Provenance.PRINTED

    def __post_init__(self) -> None:
        """Refuse a figure without a name: a claim is nothing but what somebody stated somewhere."""
        if not self.theorem:
            raise InputError("A claimed figure must name its theorem; got an empty string.", setting="theorem")

    @property
    def conditions_hold(self) -> bool:
        """Whether every printed condition holds; if not, the paper itself claims nothing here."""
        return all(condition.holds for condition in self.conditions)

    @property
    def failed_conditions(self) -> tuple[Condition, ...]:
        """The printed conditions that the given arguments do not meet."""
        return tuple(condition for condition in self.conditions if not condition.holds)

    @property
    def label(self) -> str:
        """The words that must stand beside the figure in every output."""
        texts = [f"claimed: {self.paper.value}, {self.theorem}"]
        if self.provenance is Provenance.RECONSTRUCTED:
            texts.append("reconstructed")
        if not self.conditions_hold:
            texts.append("outside its printed conditions")
        return "[" + "; ".join(texts) + "]"


@dataclass(frozen=True, kw_only=True)
class ClaimedValue(ClaimedFigure):
    """A claimed figure that is one number, to be asked for by name."""

    value: float
    symbol: ClassVar[str] = "value"

    def __post_init__(self) -> None:
        """Refuse what is no figure; an infinite one is allowed and says that the claim is empty."""
        super().__post_init__()
        if math.isnan(self.value) or self.value < 0:
            raise InputError(f"A claimed figure must be 0 or greater, got {safe_repr(self.value)}.", setting="value")

    def __str__(self) -> str:
        """Show the figure with its label."""
        return f"{self.symbol} = {self.value:.6g} {self.label}"


@dataclass(frozen=True, kw_only=True)
class ClaimedEpsilon(ClaimedValue):
    """A claimed (epsilon, delta) guarantee; `delta = 0` is pure differential privacy."""

    delta: float
    symbol: ClassVar[str] = "epsilon"

    def __str__(self) -> str:
        """Show both parameters with the label."""
        return f"{self.symbol} = {self.value:.6g}, delta = {self.delta:.6g} {self.label}"


@dataclass(frozen=True, kw_only=True)
class ClaimedRdp(ClaimedValue):
    """A claimed Renyi-DP guarantee: `D_order(A(D) || A(D')) <= value`."""

    order: float
    symbol: ClassVar[str] = "Renyi epsilon"

    def __str__(self) -> str:
        """Show the order too: a Renyi epsilon means nothing without it."""
        return f"{self.symbol} = {self.value:.6g} at order {self.order:.6g} {self.label}"


@dataclass(frozen=True, kw_only=True)
class ClaimedZcdp(ClaimedValue):
    """A claimed zero-concentrated guarantee `rho`."""

    symbol: ClassVar[str] = "rho"


@dataclass(frozen=True, kw_only=True)
class ClaimedSensitivity(ClaimedValue):
    """A claimed bound, in the Euclidean norm, on the change of a value before noise."""

    symbol: ClassVar[str] = "sensitivity"


@dataclass(frozen=True, kw_only=True)
class ClaimedNoise(ClaimedValue):
    """A noise level calibrated by a claim; `target` is the guarantee the paper attaches to it."""

    kind: NoiseKind
    target: ClaimedEpsilon | ClaimedRdp
    symbol: ClassVar[str] = "noise"

    def __str__(self) -> str:
        """Show what the number measures."""
        return f"{self.kind.value} = {self.value:.6g} {self.label}"


@dataclass(frozen=True, kw_only=True)
class ClaimedSchedule(ClaimedFigure):
    """Noise levels calibrated by a claim, one per noisy round, the first of them in round `first_round`."""

    values: tuple[float, ...]
    first_round: int
    kind: NoiseKind
    target: ClaimedEpsilon

    def __str__(self) -> str:
        """Show the ends of the schedule."""
        ends = f"{self.values[0]:.6g} to {self.values[-1]:.6g}"
        return f"{self.kind.value}, {len(self.values)} rounds from {ends} {self.label}"


Claim = TypeVar("Claim", bound=ClaimedValue)


def largest(claims: Sequence[Claim]) -> Claim:
    """Return the largest of several claims of one kind, with the conditions of all of them.

    The papers state a network's loss as the maximum over its agents; the statement needs every agent's conditions.
    """
    if not claims:
        raise InputError("The largest of no claims is undefined; give at least one agent's claim.", setting="claims")
    every = merged(condition for claim in claims for condition in claim.conditions)
    return replace(max(claims, key=lambda claim: claim.value), conditions=every)


def merged(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the conditions by first appearance, a text once: it holds only if it holds everywhere."""
    holds: dict[str, bool] = {}
    for condition in conditions:
        holds[condition.text] = holds.get(condition.text, True) and condition.holds
    return tuple(Condition(text, fine) for text, fine in holds.items())


def epsilon_of_linear_renyi(slope: float, delta: float) -> float:
    """Return `slope + 2 sqrt(slope ln(1/delta))`, the papers' conversion of `D_order <= slope * order`."""
    return slope + 2 * math.sqrt(slope * math.log(1 / delta))


def linear_renyi_of_epsilon(epsilon: float, delta: float) -> float:
    """Return the slope whose converted epsilon is the given one (inverse of `epsilon_of_linear_renyi`).

    Solved without cancellation: `sqrt(slope) = sqrt(l + epsilon) - sqrt(l)` with `l = ln(1/delta)`.
    """
    checks.positive("epsilon", epsilon)
    log = math.log(1 / checks.open_unit("delta", delta))
    return (epsilon / (math.sqrt(log + epsilon) + math.sqrt(log))) ** 2
