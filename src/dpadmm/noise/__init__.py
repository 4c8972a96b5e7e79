"""Noise: schedules, and two samplers behind one interface - seeded for experiments, secure for releases.

Noise is drawn from a release (`dpadmm.privacy.records`), which carries the certificate, never from a bare number:
`sampler.perturb(values, releases, Draw(Slot("message"), round, recipients))`.
"""

from dpadmm.noise.draws import (
    COORDINATOR,
    Draw,
    NoiseFamily,
    Perturbed,
    Recipients,
    Releases,
    Sampler,
    Slot,
    family_of,
)
from dpadmm.noise.promises import CaoOptimal, Constant, Custom, Geometric, Schedule, Tail
from dpadmm.noise.secure import SecureSampler, grid_for
from dpadmm.noise.simulated import SimulatedSampler

__all__ = [
    "COORDINATOR",
    "CaoOptimal",
    "Constant",
    "Custom",
    "Draw",
    "Geometric",
    "NoiseFamily",
    "Perturbed",
    "Recipients",
    "Releases",
    "Sampler",
    "Schedule",
    "SecureSampler",
    "SimulatedSampler",
    "Slot",
    "Tail",
    "family_of",
    "grid_for",
]
