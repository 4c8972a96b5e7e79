"""Who talks to whom: networks of agents, their spectra, and token walks over them."""

from dpadmm.networks.graph import Network, complete, grid, path, ring, star
from dpadmm.networks.spectrum import SpectralFacts
from dpadmm.networks.walks import WalkKind, participations, random_walk, stationary_law, uniform_walk

__all__ = [
    "Network",
    "SpectralFacts",
    "WalkKind",
    "complete",
    "grid",
    "participations",
    "path",
    "random_walk",
    "ring",
    "star",
    "stationary_law",
    "uniform_walk",
]
