"""Random networks for tests."""

from itertools import count

import networkx as nx

from dpadmm.networks import Network


def random_network(n: int, p: float, seed: int) -> Network:
    """Return the first connected graph in which each pair of n agents is joined with probability p, from a seed on."""
    graphs = (nx.fast_gnp_random_graph(n, p, seed=each) for each in count(seed))
    return Network.from_graph(next(graph for graph in graphs if nx.is_connected(graph)))
