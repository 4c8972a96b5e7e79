"""Promises: what an algorithm will release, as certificates, before any noise is chosen."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.noise.draws import Slot
from dpadmm.privacy.records import (
    Certificate,
    FixedSizeSampling,
    GaussianRelease,
    ObjectiveRelease,
    PoissonSampling,
    Release,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
)


class Family(Enum):
    """How a slot's noise is distributed."""

    GAUSSIAN = "Gaussian"
    SAMPLED = "Gaussian on a random sample"
    SPHERICAL = "spherical Laplace"
    OBJECTIVE = "spherical Laplace inside the objective"


@dataclass(frozen=True)
class Row:
    """What one agent releases in one slot: in round `rounds[k]`, under `certificates[k]`."""

    agent: int
    rounds: tuple[int, ...]
    certificates: tuple[Certificate, ...]

    def __post_init__(self) -> None:
        """Every round needs its certificate."""
        if len(self.rounds) != len(self.certificates) or not self.rounds:
            raise InputError(f"{len(self.rounds)} rounds need as many certificates, got {len(self.certificates)}.")


@dataclass(frozen=True)
class Promise:
    """The releases of one slot.

    rows: one per agent; or a single one that stands for all agents alike (`is_common`), so that a million users need
        one row.
    relative: noise of this slot relative to the other slots of the same run, > 0.
    sampling, count: for `Family.SAMPLED`, how records are drawn; `count` releases with fresh noise a round (steps
        0..count-1 of the slot).
    """

    slot: Slot
    family: Family
    rows: tuple[Row, ...]
    is_common: bool = False
    relative: float = 1.0
    sampling: PoissonSampling | FixedSizeSampling | None = None
    count: int = 1

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        checks.positive("relative", self.relative)
        checks.count("count", self.count)
        if not self.rows or (self.is_common and len(self.rows) != 1):
            raise InputError("A promise needs one row per agent, or exactly one that stands for all.")
        if (self.family is Family.SAMPLED) != (self.sampling is not None):
            raise InputError("Sampled noise, and only that, needs to know how records are drawn.")

    def release(self, row: Row, index: int, noise: float) -> Release:
        """Return the row's release number `index` with this noise (a std, or a rate for the Laplace families)."""
        certificate, k = row.certificates[index], row.rounds[index]
        if self.family is Family.GAUSSIAN:
            return GaussianRelease(certificate=certificate, noise_std=noise, agent=row.agent, round=k, count=self.count)
        if self.sampling is not None:
            return SampledGaussianRelease(
                certificate=certificate,
                noise_std=noise,
                sampling=self.sampling,
                agent=row.agent,
                round=k,
                count=self.count,
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
