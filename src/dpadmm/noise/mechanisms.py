"""Mechanisms: what an algorithm will release, as certificates, before any noise is chosen; and schedules of noise.

A schedule, fixed before the first round, gives the *shape* of the noise only: relative standard deviations (for pure
Laplace noise, relative 1/rate). The level comes from the calibration. Entry 0 belongs to the first round that carries
noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    FixedSizeSampling,
    GaussianRelease,
    NoisyRelease,
    ObjectiveRelease,
    PoissonSampling,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)

COORDINATOR = -1
"""Index of the coordinator where an agent is asked for."""


@dataclass(frozen=True, order=True)
class MessageKind:
    """Which message of a round it is, e.g. `MessageKind("message")` or `MessageKind("inner", 17)`.

    Two kinds never share noise.
    """

    name: str
    step: int = 0

    def __post_init__(self) -> None:
        """Refuse nameless message kinds."""
        if not self.name:
            raise InputError("A message kind needs a name, got an empty one.")
        checks.count("step", self.step, least=0)


class Family(Enum):
    """How a message kind's noise is distributed."""

    GAUSSIAN = "Gaussian"
    SAMPLED = "Gaussian on a random sample"
    SPHERICAL = "spherical Laplace"
    COORDINATE = "Laplace on every coordinate"
    OBJECTIVE = "spherical Laplace inside the objective"

    @property
    def is_pure(self) -> bool:
        """Whether it gives pure epsilon."""
        return self not in (Family.GAUSSIAN, Family.SAMPLED)


class Schedule(Protocol):
    """A sequence of relative noise levels."""

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return the relative noise standard deviations of `rounds` noisy rounds, all > 0."""


@dataclass(frozen=True)
class AgentReleases:
    """What one agent releases in one message kind: in round `rounds[k]`, under `certificates[k]`.

    sampling: how its records are drawn, where that differs between agents (else the mechanism says it).
    """

    agent: int
    rounds: tuple[int, ...]
    certificates: tuple[Certificate, ...]
    sampling: PoissonSampling | FixedSizeSampling | None = None

    def __post_init__(self) -> None:
        """Every round needs its certificate, and comes once."""
        if len(self.rounds) != len(self.certificates) or not self.rounds:
            raise InputError(f"{len(self.rounds)} rounds need as many certificates, got {len(self.certificates)}.")
        if self.rounds[0] < 1 or any(a >= b for a, b in pairwise(self.rounds)):
            raise InputError(
                f"rounds must be at least 1 and increase, got {self.rounds[:8]}...; use `count` or message kinds."
            )


@dataclass(frozen=True)
class MechanismSpec:
    """The releases of one message kind.

    rows: one per agent; or a single one that stands for all agents alike (`is_common`), so that a million users need
        one row.
    relative: noise of this message kind relative to the other message kinds of the same run, > 0.
    sampling, count: for `Family.SAMPLED`, how records are drawn (here or in the rows); `count` releases with fresh
        noise a round (steps of the message kind).
    variance_weight: where a Gaussian and a sampled mechanism both have one, `relative` is not used: the noise is split
        so that `sum variance_weight std^2` is about the least, for each agent (`dpadmm.noise.split`).
    schedule: the method's own shape of the noise over the rounds, used unless the caller gives another.
    share: part of epsilon, in (0, 1), where message kinds of different pure families share it; the parts sum to 1.
    is_noise_shared: all agents use the noise of the one who needs most (those who take part less often spend less).
    """

    kind: MessageKind
    family: Family
    rows: tuple[AgentReleases, ...]
    is_common: bool = False
    relative: float = 1.0
    sampling: PoissonSampling | FixedSizeSampling | None = None
    count: int = 1
    share: float | None = None
    is_noise_shared: bool = False
    variance_weight: float | None = None
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        checks.positive("relative", self.relative)
        checks.count("count", self.count)
        if self.share is not None:
            checks.open_unit("share", self.share)
        if not self.rows or (self.is_common and len(self.rows) != 1):
            raise InputError("A mechanism needs one row per agent, or exactly one for all.")
        if self.variance_weight is not None:
            checks.positive("variance_weight", self.variance_weight)
        if any((self.family is Family.SAMPLED) != (self.drawn(row) is not None) for row in self.rows):
            raise InputError("Sampled noise, and no other, must say how records are drawn.")

    def drawn(self, row: AgentReleases) -> PoissonSampling | FixedSizeSampling | None:
        """Return how the row's records are drawn, None if all take part."""
        return row.sampling if row.sampling is not None else self.sampling

    def release(self, row: AgentReleases, index: int, noise: float) -> NoisyRelease:
        """Return the row's release number `index` with this noise (a std, or a rate for the Laplace families)."""
        kind, level = _RELEASES[self.family]
        drawn = {} if self.family is not Family.SAMPLED else {"sampling": self.drawn(row)}
        size = 1 / noise if self.family is Family.COORDINATE else noise
        at = {"certificate": row.certificates[index], "agent": row.agent, "round": row.rounds[index]}
        release: NoisyRelease = kind(**at, **drawn, **{level: size}, count=self.count)
        return release


_RELEASES: dict[Family, tuple[Any, str]] = {
    Family.GAUSSIAN: (GaussianRelease, "noise_std"),
    Family.SAMPLED: (SampledGaussianRelease, "noise_std"),
    Family.COORDINATE: (CoordinateLaplaceRelease, "scale"),
    Family.SPHERICAL: (SphericalLaplaceRelease, "rate"),
    Family.OBJECTIVE: (ObjectiveRelease, "rate"),
}


def last_round(mechanisms: Sequence[MechanismSpec]) -> int:
    """Return the last round in which anything is released."""
    return max(row.rounds[-1] for mechanism in mechanisms for row in mechanism.rows)


@dataclass(frozen=True)
class Constant:
    """The same noise in every round.

    >>> Constant().shape(3)
    array([1., 1., 1.])
    """

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return ones."""
        return np.ones(checks.count("rounds", rounds))


@dataclass(frozen=True)
class Geometric:
    """Variance `s_k^2 = s_1^2 decay^(k-1)`, decay in (0, 1] (P-ADMM).

    >>> Geometric(0.25).shape(3)
    array([1.  , 0.5 , 0.25])
    """

    decay: float

    def __post_init__(self) -> None:
        """Refuse a decay outside (0, 1]."""
        checks.half_open_unit("decay", self.decay)

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return decay^((k-1)/2), k = 1..rounds."""
        return _powers(self.decay**0.5, rounds)


@dataclass(frozen=True)
class CaoOptimal:
    """Rates growing as `alpha(l) ~ (1 + beta)^((l-2)/4)`: eq. (21) of Consensus DP-ADMM, beta > 0.

    Minimises the paper's error bound (19) at a given sum of the rates. A run of K iterations has K - 1 noisy rounds,
    l = 2..K, since the first broadcast does not depend on the data.

    >>> CaoOptimal(15.0).shape(3)
    array([1.  , 0.5 , 0.25])
    """

    beta: float

    def __post_init__(self) -> None:
        """Refuse a non-positive beta."""
        checks.positive("beta", self.beta)

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return alpha(2)/alpha(l) = (1 + beta)^(-(l-2)/4), l = 2..rounds + 1."""
        return _powers((1 + self.beta) ** -0.25, rounds)


@dataclass(frozen=True)
class Tail:
    """Constant noise in the first half, then growing like `((K - k + 1)/(K/2))^-power`: for tail averages.

    The mean over the second half of the rounds weighs a late round's noise less than an early one's (it stays in the
    model for fewer of the rounds that are averaged), so late rounds may carry more of it and leave budget to the
    early ones. `power` 0 is constant noise; 1/2 is the optimum of C0 for directions in which nothing is forgotten;
    the default is a compromise with directions in which old noise dies out.
    """

    power: float = 0.25

    def __post_init__(self) -> None:
        """Refuse powers that are no numbers from 0 to 1."""
        if checks.non_negative("power", self.power) > 1:
            raise InputError(f"power must be from 0 to 1, got {safe_repr(self.power)}.")

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return the relative standard deviations."""
        half = checks.count("rounds", rounds) // 2
        left = np.arange(rounds - half, 0, -1) / (rounds - half)
        return np.concatenate([np.ones(half), left**-self.power])


@dataclass(frozen=True)
class Custom:
    """Levels given one by one, all > 0; a run may have no more noisy rounds than there are values.

    >>> Custom((3.0, 2.0, 1.0)).shape(2)
    array([3., 2.])
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse empty schedules and levels that are no levels."""
        if not self.values:
            raise InputError("A custom schedule needs at least one value, got none.")
        for value in self.values:
            checks.positive("every value of a custom schedule", value)

    def shape(self, rounds: int) -> NDArray[np.float64]:
        """Return the first `rounds` values."""
        if checks.count("rounds", rounds) > len(self.values):
            raise InputError(
                f"The schedule has {len(self.values)} values, got {rounds} rounds. Give one value per round."
            )
        return np.array(self.values[:rounds], dtype=np.float64)


SCHEDULES = "constant, geometric:R (variance ratio R in (0, 1]) or cao:BETA (BETA > 0)"


def schedule_of(given: Any) -> Schedule | None:
    """Return the schedule that a text names, or the one that was given.

    >>> schedule_of("geometric:0.98")
    Geometric(decay=0.98)
    """
    if given is None or callable(getattr(given, "shape", None)):
        return cast("Schedule | None", given)
    kind, _, number = given.partition(":") if isinstance(given, str) else ("", "", "")
    if kind == "constant" and not number:
        return Constant()
    made = {"geometric": Geometric, "cao": CaoOptimal}.get(kind)
    try:
        level = float(number)
    except ValueError:
        made = None
    return checks.refuse("schedule", f"be {SCHEDULES}", given) if made is None else cast(Any, made)(level)


def _powers(ratio: float, rounds: int) -> NDArray[np.float64]:
    """Return ratio^0, ratio^1, ..., refused where the last one would no longer be a usable noise level."""
    powers = np.asarray(ratio ** np.arange(checks.count("rounds", rounds)), dtype=np.float64)
    if powers[-1] < 1e-150:
        raise InputError(
            f"The noise of round {rounds} would be {powers[-1]:.1e} of the first. Use fewer rounds or a slower decay."
        )
    return powers
