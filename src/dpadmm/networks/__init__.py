"""Who talks to whom: networks of agents, their spectra, and token walks over them."""

from dpadmm.networks.graph import Network, complete, erdos_renyi, grid, path, random_geometric, ring, star
from dpadmm.networks.spectrum import SpectralFacts
from dpadmm.networks.walks import WalkKind, participations, random_walk, stationary_law, uniform_walk

__all__ = [
    "Network",
    "SpectralFacts",
    "WalkKind",
    "complete",
    "erdos_renyi",
    "grid",
    "participations",
    "path",
    "random_geometric",
    "random_walk",
    "ring",
    "star",
    "stationary_law",
    "uniform_walk",
]
