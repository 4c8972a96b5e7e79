"""What a method's paper prints for one agent of a run: its privacy theorems with their numbers filled in.

Noise is told as the paper tells it: one level a private round, standard deviations or rates. A *shape* is relative
noise (std, or 1/rate). Each paper's `agent.py` reads the numbers off its algorithms; `registry` knows which
paper is meant.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.problems.arrays import Floats
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedNoise, ClaimedSchedule, ClaimedSensitivity, Condition


@dataclass(frozen=True, kw_only=True)
class Claims(ABC):
    """A paper's privacy theorems about one agent, its numbers filled in.

    is_about_one: a person has one record, in one silo, as all papers assume; the figures say so where it is not met.
    """

    is_about_one: bool = True

    def epsilon(self, levels: ArrayLike, delta: float) -> tuple[ClaimedEpsilon, ...]:
        """Return what is claimed at this noise, first the figure the paper calibrates by; pure claims ignore `delta`.

        `InputError` where the theorem cannot be evaluated at these settings.
        """
        found = self._epsilon(np.asarray(levels, dtype=np.float64), delta)
        if self.is_about_one:
            return found
        unmet = Condition("one record a person, in one silo", False)
        return tuple(replace(claim, conditions=(*claim.conditions, unmet)) for claim in found)

    @abstractmethod
    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        """Return the figures, for one record a person."""

    def sensitivity(self) -> ClaimedSensitivity | None:
        """Return the sensitivity the paper prints, None if it prints none."""
        return None

    @abstractmethod
    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Return the noise the paper asks for; *claimed*, to be used only when asked for by name."""


def constant_level(values: Floats, theorem: str) -> float:
    """Return the level all rounds share; `InputError` if they differ, as the theorem is about constant noise."""
    if np.ptp(values) > 1e-9 * values.max():
        raise InputError(f"{theorem} assumes the same noise in every round; use the schedule 'constant'.")
    return float(values[0])


def repeated(noise: ClaimedNoise, target: ClaimedEpsilon, curve: Floats, first_round: int = 1) -> ClaimedSchedule:
    """Return a claimed noise as one level per private round, `course` times it."""
    return ClaimedSchedule(
        values=tuple((noise.value * curve).tolist()),
        first_round=first_round,
        kind=noise.kind,
        target=target,
        paper=noise.paper,
        theorem=noise.theorem,
        conditions=noise.conditions,
        provenance=noise.provenance,
    )


def is_about_one(setting: Setting) -> bool:
    """Say whether a person has one record, in one silo."""
    return setting.protection.records_per_person == setting.protection.silos_per_person == 1
