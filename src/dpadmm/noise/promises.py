"""Promises: what an algorithm will release, as certificates, before any noise is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.noise.draws import Slot
from dpadmm.noise.schedules import Schedule
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import (
    CoordinateLaplaceRelease,
    FixedSizeSampling,
    GaussianRelease,
    NoisyRelease,
    ObjectiveRelease,
    PoissonSampling,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)


class Family(Enum):
    """How a slot's noise is distributed."""

    GAUSSIAN = "Gaussian"
    SAMPLED = "Gaussian on a random sample"
    SPHERICAL = "spherical Laplace"
    COORDINATE = "Laplace on every coordinate"
    OBJECTIVE = "spherical Laplace inside the objective"

    @property
    def is_pure(self) -> bool:
        """Whether it gives pure epsilon."""
        return self not in (Family.GAUSSIAN, Family.SAMPLED)


@dataclass(frozen=True)
class Row:
    """What one agent releases in one slot: in round `rounds[k]`, under `certificates[k]`.

    sampling: how its records are drawn, where that differs between agents (else the promise says it).
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
            raise InputError(f"rounds must be at least 1 and increase, got {self.rounds[:8]}...; use `count` or slots.")


@dataclass(frozen=True)
class Promise:
    """The releases of one slot.

    rows: one per agent; or a single one that stands for all agents alike (`is_common`), so that a million users need
        one row.
    relative: noise of this slot relative to the other slots of the same run, > 0.
    sampling, count: for `Family.SAMPLED`, how records are drawn (here or in the rows); `count` releases with fresh
        noise a round (steps of the slot).
    variance_weight: where a Gaussian and a sampled slot both have one, `relative` is not used: the noise is split so
        that `sum variance_weight std^2` is about the least, for each agent (`dpadmm.noise.split`).
    schedule: the method's own shape of the noise over the rounds, used unless the caller gives another.
    share: part of epsilon, in (0, 1), where slots of different pure families share it; the parts sum to 1.
    is_noise_shared: all agents use the noise of the one who needs most (those who take part less often spend less).
    """

    slot: Slot
    family: Family
    rows: tuple[Row, ...]
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
            raise InputError("A promise needs one row per agent, or exactly one that stands for all.")
        if self.variance_weight is not None:
            checks.positive("variance_weight", self.variance_weight)
        if any((self.family is Family.SAMPLED) != (self.drawn(row) is not None) for row in self.rows):
            raise InputError("Sampled noise, and only that, needs to know how records are drawn.")

    def drawn(self, row: Row) -> PoissonSampling | FixedSizeSampling | None:
        """Return how the row's records are drawn, None if all take part."""
        return row.sampling if row.sampling is not None else self.sampling

    def release(self, row: Row, index: int, noise: float) -> NoisyRelease:
        """Return the row's release number `index` with this noise (a std, or a rate for the Laplace families)."""
        certificate, k = row.certificates[index], row.rounds[index]
        if self.family is Family.GAUSSIAN:
            return GaussianRelease(certificate=certificate, noise_std=noise, agent=row.agent, round=k, count=self.count)
        sampling = self.drawn(row)
        if sampling is not None:
            return SampledGaussianRelease(
                certificate=certificate,
                noise_std=noise,
                sampling=sampling,
                agent=row.agent,
                round=k,
                count=self.count,
            )
        if self.family is Family.COORDINATE:
            return CoordinateLaplaceRelease(
                certificate=certificate, scale=1 / noise, agent=row.agent, round=k, count=self.count
            )
        build: type[SphericalLaplaceRelease] | type[ObjectiveRelease] = SphericalLaplaceRelease
        if self.family is Family.OBJECTIVE:
            build = ObjectiveRelease
        return build(certificate=certificate, rate=noise, agent=row.agent, round=k, count=self.count)


def last_round(promises: Sequence[Promise]) -> int:
    """Return the last round in which anything is released."""
    return max(row.rounds[-1] for promise in promises for row in promise.rows)


def bounds_by_round(promise: Promise, rows: Sequence[Row], rounds: int) -> NDArray[np.float64]:
    """Return the bounds as (rows, rounds), zero where an agent releases nothing; `count` enters as sqrt(count)."""
    table = np.zeros((len(rows), rounds))
    for i, row in enumerate(rows):
        table[i, np.array(row.rounds) - 1] = [c.bound * np.sqrt(promise.count) for c in row.certificates]
    return table
