"""Noise: distributions, schedules, and two samplers behind one interface - seeded for experiments, secure for releases.

Noise is drawn from a release (`dpadmm.privacy.records`), which carries the certificate, never from a bare number:
`sampler.perturb(values, releases, Draw(Slot("message"), round, batch))`.
"""

from dpadmm.noise.distributions import CoordinateLaplace, Distribution, Gaussian, SphericalLaplace, distribution_of
from dpadmm.noise.draws import COORDINATOR, Batch, Draw, Perturbed, Releases, Sampler, Slot
from dpadmm.noise.schedules import CaoOptimal, Constant, Custom, Geometric, Schedule, Tail
from dpadmm.noise.secure import SecureSampler, grid_for
from dpadmm.noise.simulated import BareSampler, SimulatedSampler

__all__ = [
    "COORDINATOR",
    "BareSampler",
    "Batch",
    "CaoOptimal",
    "Constant",
    "CoordinateLaplace",
    "Custom",
    "Distribution",
    "Draw",
    "Gaussian",
    "Geometric",
    "Perturbed",
    "Releases",
    "Sampler",
    "Schedule",
    "SecureSampler",
    "SimulatedSampler",
    "Slot",
    "SphericalLaplace",
    "Tail",
    "distribution_of",
    "grid_for",
]
