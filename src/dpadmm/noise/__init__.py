"""Noise: schedules, and two samplers behind one interface - seeded for experiments, secure for releases.

Noise is drawn from a release (`dpadmm.privacy.releases`), which carries the certificate, never from a bare number:
`sampler.perturb(values, releases, Draw(MessageKind("message"), round, agents))`.
"""

from dpadmm.noise.mechanisms import COORDINATOR, CaoOptimal, Constant, Custom, Geometric, MessageKind, Schedule, Tail
from dpadmm.noise.sampler import (
    Draw,
    NoiseFamily,
    Releases,
    Sampler,
    SecureSampler,
    SimulatedSampler,
    family_of,
    grid_for,
)

__all__ = [
    "COORDINATOR",
    "CaoOptimal",
    "Constant",
    "Custom",
    "Draw",
    "Geometric",
    "MessageKind",
    "NoiseFamily",
    "Releases",
    "Sampler",
    "Schedule",
    "SecureSampler",
    "SimulatedSampler",
    "Tail",
    "family_of",
    "grid_for",
]
