"""Common networks, each by its own function.

All of them are built from index arrays, so a ring of a million agents costs about a second.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_array

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.networks.graph import IntArray, Network

MAX_TRIES = 100
"""How many random graphs are drawn before giving up on a connected one."""

MAX_EDGES = 20_000_000
"""Networks with more edges than this are refused instead of filling the memory."""


def star(n: int) -> Network:
    """Return n agents of which agent 0 is joined to all others.

    >>> star(4).degrees
    array([3, 1, 1, 1])
    """
    n = checks.count("n", n, least=2)
    return Network(n, np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)], axis=1))


def ring(n: int) -> Network:
    """Return n >= 3 agents on a cycle."""
    n = checks.count("n", n, least=3)
    return Network(n, np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1))


def path(n: int) -> Network:
    """Return n agents in a row."""
    n = checks.count("n", n, least=2)
    return Network(n, np.stack([np.arange(n - 1), np.arange(1, n)], axis=1))


def grid(rows: int, cols: int) -> Network:
    """Return rows x cols agents on a rectangular lattice, numbered row by row.

    >>> grid(2, 3).edges.tolist()
    [[0, 1], [0, 3], [1, 2], [1, 4], [2, 5], [3, 4], [4, 5]]
    """
    rows, cols = checks.count("rows", rows), checks.count("cols", cols)
    if rows * cols < 2:
        raise InputError(f"A grid needs at least 2 agents, got {rows} x {cols}.")
    number = np.arange(rows * cols).reshape(rows, cols)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return Network(rows * cols, np.concatenate([across, down]))


def complete(n: int) -> Network:
    """Return n agents all joined to each other; the number of edges n(n-1)/2 must not exceed `MAX_EDGES`."""
    n = checks.count("n", n, least=2)
    _refuse_too_many_edges(f"complete({n})", n * (n - 1) / 2)
    return Network(n, np.stack(np.triu_indices(n, k=1), axis=1))


def erdos_renyi(n: int, p: float, seed: int) -> Network:
    """Return n agents, each pair joined with probability p in (0, 1] independently, given connectedness.

    Draws until connected, at most `MAX_TRIES` times; p well above log(n)/n makes success likely.
    """
    n = checks.count("n", n, least=2)
    p = checks.half_open_unit("p", p)
    n_pairs = n * (n - 1) // 2
    _refuse_too_many_edges(f"erdos_renyi({n}, {p})", p * n_pairs)

    def draw(rng: np.random.Generator) -> IntArray:
        # A binomial number of edges, then that many distinct pairs: the same law as one coin per pair.
        return _pairs(rng.choice(n_pairs, size=rng.binomial(n_pairs, p), replace=False, shuffle=False))

    advice = f"raise p above log(n)/n = {math.log(n) / n:.3g}"
    return _first_connected(n, draw, seed, f"erdos_renyi({n}, {p})", advice)


def random_geometric(n: int, radius: float, seed: int) -> Network:
    """Return n agents at random points of the unit square, joined within `radius`, given connectedness.

    Draws until connected, at most `MAX_TRIES` times; a radius well above sqrt(log(n)/(pi n)) makes success
    likely.
    """
    from scipy.spatial import cKDTree  # slow to load, and no other network needs it

    n = checks.count("n", n, least=2)
    radius = checks.positive("radius", radius)
    _refuse_too_many_edges(f"random_geometric({n}, {radius})", n * (n - 1) / 2 * min(1.0, math.pi * radius**2))

    def draw(rng: np.random.Generator) -> IntArray:
        pairs: IntArray = cKDTree(rng.random((n, 2))).query_pairs(radius, output_type="ndarray").astype(np.int64)
        return pairs

    advice = f"raise radius above sqrt(log(n)/(pi n)) = {math.sqrt(math.log(n) / (math.pi * n)):.3g}"
    return _first_connected(n, draw, seed, f"random_geometric({n}, {radius})", advice)


def _pairs(codes: IntArray) -> IntArray:
    """Decode c = i(i-1)/2 + j, j < i, into the pairs (j, i)."""
    i = ((1 + np.sqrt(1 + 8 * codes.astype(np.float64))) / 2).astype(np.int64)
    # At the end of a long row the square root may round up into the next one.
    i -= i * (i - 1) // 2 > codes
    return np.stack([codes - i * (i - 1) // 2, i], axis=1)


def _first_connected(
    n: int, draw: Callable[[np.random.Generator], IntArray], seed: int, what: str, advice: str
) -> Network:
    """Draw graphs until one is connected."""
    rng = np.random.default_rng(checks.count("seed", seed, least=0))
    for _ in range(MAX_TRIES):
        edges = draw(rng)
        if _is_connected(n, edges):
            return Network(n, edges)
    raise InputError(f"{what}: none of {MAX_TRIES} random graphs was connected; {advice}.")


def _is_connected(n: int, edges: IntArray) -> bool:
    """Whether the edges join all n agents."""
    from scipy.sparse.csgraph import connected_components

    # The two cheap necessary conditions spare most hopeless draws the full check.
    if len(edges) < n - 1 or np.bincount(edges.ravel(), minlength=n).min() == 0:
        return False
    graph = csr_array((np.ones(len(edges)), tuple(edges.T)), shape=(n, n))
    return bool(connected_components(graph, directed=False, return_labels=False) == 1)


def _refuse_too_many_edges(what: str, expected_edges: float) -> None:
    """Refuse networks that would not fit into memory."""
    if expected_edges > MAX_EDGES:
        raise InputError(
            f"{what} has about {expected_edges:.3g} edges, more than the {MAX_EDGES} allowed. Take "
            "fewer agents or a sparser network; a token on the complete graph needs no network, see walks.uniform_walk."
        )
