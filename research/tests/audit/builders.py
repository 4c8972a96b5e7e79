"""Attacks at a confidence of 1 - 1e-6, with fixed seeds, and noise that is changed on purpose."""

from dataclasses import dataclass
from typing import ClassVar

from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm_research.audit.audit import STANDARD, examine

SURE = 1 - 1e-6
FOUR = Target(epsilon=4.0, delta=1e-5)
"""At a larger epsilon the same number of runs shows a larger part of it."""


def attacked(subject, runs=16_000, target=FOUR, views=(None,), **options):
    """Return the result of the first attack on a subject."""
    return examine(subject, target, views, runs, SURE, **({"seed": 3} | options))[0]


def is_caught(result):
    """Return whether the bound on epsilon itself has passed the certified one, and the result says so."""
    assert result.is_violation == (
        result.estimate.epsilon_lower > result.certified_epsilon
        or result.advantage.advantage_lower > result.certified_advantage
    )
    return result.estimate.epsilon_lower > result.certified_epsilon


def is_reached(result, least=0.9):
    """Return whether an attack finds most of the certified epsilon, and no more than it."""
    return least <= result.tightness <= 1 and not result.is_violation


@dataclass(frozen=True)
class Altered:
    """Seeded noise, changed by `how(draw, noise, values)`."""

    how: object
    is_secure: ClassVar[bool] = False

    def perturb(self, values, releases, draw):
        drawn = SimulatedSampler(7).perturb(values, releases, draw)
        return values + self.how(draw, drawn - values, values)


def scaled(factor):
    """Return a sampler whose noise is multiplied by a factor."""
    return Altered(lambda draw, noise, values: factor * noise)


def attacked_as_certified(subject, runs=8000, **options):
    """Return the result of the first attack at the usual budget."""
    return attacked(subject, runs, STANDARD, seed=7, **options)
