"""Random graphs of the papers' experiments; a seed gives the same graph for ever, which networkx does not promise."""

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.networks.graph import MAX_EDGES, IntArray, Network

MAX_TRIES = 100
"""How many random graphs are drawn before giving up on a connected one."""


def erdos_renyi(n: int, p: float, seed: int) -> Network:
    """Return n agents, each pair joined independently with probability p in (0, 1], given that the graph is connected.

    Draws until connected, at most `MAX_TRIES` times; p well above log(n)/n makes success likely.
    """
    n = checks.count("n", n, least=2)
    p = checks.half_open_unit("p", p)
    n_pairs = n * (n - 1) // 2
    if p * n_pairs > MAX_EDGES:
        raise InputError(
            f"erdos_renyi({n}, {p}) has about {p * n_pairs:.3g} edges, more than the {MAX_EDGES} allowed.", setting="n"
        )
    rng = np.random.default_rng(checks.count("seed", seed, least=0))
    for _ in range(MAX_TRIES):
        # A binomial number of edges, then that many distinct pairs: the same law as one coin per pair.
        edges = _pairs(rng.choice(n_pairs, size=rng.binomial(n_pairs, p), replace=False, shuffle=False))
        if _is_connected(n, edges):
            return Network(n, edges)
    raise InputError(
        f"erdos_renyi({n}, {p}): none of {MAX_TRIES} random graphs was connected; raise p above log(n)/n = "
        f"{math.log(n) / n:.3g}.",
        setting="p",
    )


def _pairs(codes: IntArray) -> IntArray:
    """Decode c = i(i-1)/2 + j, j < i, into the pairs (j, i)."""
    i = ((1 + np.sqrt(1 + 8 * codes.astype(np.float64))) / 2).astype(np.int64)
    # At the end of a long row the square root may round up into the next one.
    i -= i * (i - 1) // 2 > codes
    return np.stack([codes - i * (i - 1) // 2, i], axis=1)


def _is_connected(n: int, edges: IntArray) -> bool:
    """Whether the edges join all n agents."""
    # The two cheap necessary conditions spare most hopeless draws the full check.
    if len(edges) < n - 1 or np.bincount(edges.ravel(), minlength=n).min() == 0:
        return False
    graph = csr_array((np.ones(len(edges)), tuple(edges.T)), shape=(n, n))
    return bool(connected_components(graph, directed=False, return_labels=False) == 1)
