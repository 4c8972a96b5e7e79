"""Who talks to whom: networks of agents, and token walks over them."""

from dpadmm.networks.graph import Network, complete, grid, path, ring, star
from dpadmm.networks.walks import WalkKind, participations, random_walk, uniform_walk

__all__ = [
    "Network",
    "WalkKind",
    "complete",
    "grid",
    "participations",
    "path",
    "random_walk",
    "ring",
    "star",
    "uniform_walk",
]
