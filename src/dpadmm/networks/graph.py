"""Who talks to whom: an undirected connected graph of agents, stored as arrays; and common graphs by name.

Others are made of their edges, or of a networkx graph by `Network.from_graph`. Common graphs are built from index
arrays, so a ring of a million agents costs about a second.
"""

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, diags_array

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MAX_EDGES = 20_000_000
"""Networks with more edges than this are refused instead of filling the memory."""


@dataclass(frozen=True, eq=False, repr=False)
class Network:
    """A connected undirected simple graph on the agents 0, ..., n_agents - 1.

    Parameters
    ----------
    n_agents
        Number of agents N, at least 2.
    edges
        Integer array of shape (E, 2), one row per pair of neighbours, each pair once and in either order.
        It is kept sorted, with the smaller agent first, and read-only.
    names
        Label of each agent; the numbers 0, ..., N-1 if not given.

    Guarantees
    ----------
    Connected, without self-loops or repeated edges; anything else is refused with an `InputError`. Two
    networks are equal if they have the same names and the same edges.

    >>> network = Network(3, np.array([(2, 1), (0, 1)]))
    >>> network
    Network(n_agents=3, n_edges=2)
    >>> network.degrees
    array([1, 2, 1])
    """

    n_agents: int
    edges: IntArray
    names: tuple[Hashable, ...] = ()

    def __post_init__(self) -> None:
        """Check the graph and put its edges into canonical order."""
        from scipy.sparse.csgraph import connected_components  # slow to load; most commands make no network

        n = checks.count("n_agents", self.n_agents, least=2)
        edges = _canonical_edges(n, self.edges)
        names = tuple(self.names) or tuple(range(n))
        if len(names) != n or len(set(names)) != n:
            raise InputError(
                f"names must hold one distinct label for each of the {n} agents, got {len(names)} labels "
                f"of which {len(set(names))} are distinct."
            )
        object.__setattr__(self, "n_agents", n)
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "names", names)
        n_parts, part = connected_components(self.adjacency, directed=False)
        if n_parts > 1:
            sizes = sorted(np.bincount(part).tolist(), reverse=True)
            listed = ", ".join(map(str, sizes[:5])) + (", ..." if n_parts > 5 else "")
            raise InputError(
                f"The agents must form a connected network, got {n_parts} separate parts (sizes {listed}). "
                "Add edges between the parts or run each part as its own network."
            )

    @classmethod
    def from_graph(cls, graph: Any) -> "Network":
        """Make a network from a networkx graph, or whatever has its `nodes`, `edges` and questions.

        Agents are numbered in the sorted order of the node labels, or in insertion order if the labels cannot
        be compared; the labels stay available as `names`. Attributes such as edge weights are ignored.

        >>> import networkx as nx
        >>> Network.from_graph(nx.Graph([("b", "a"), ("c", "b")])).names
        ('a', 'b', 'c')
        """
        if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed", "is_multigraph")):
            raise InputError(
                f"A network is made of a networkx.Graph, got {type(graph).__name__}; of edges make Network(n, edges)."
            )
        if graph.is_directed():
            raise InputError("graph must be undirected, got a directed one; convert it with graph.to_undirected().")
        if graph.is_multigraph():
            raise InputError("graph must not be a multigraph; convert it with networkx.Graph(graph).")
        names = list(graph.nodes)
        if len(names) < 2:
            raise InputError(f"A network needs at least 2 agents, got a graph with {len(names)} nodes.")
        with suppress(TypeError):
            names.sort()
        number = {name: i for i, name in enumerate(names)}
        pairs = [(number[u], number[v]) for u, v in graph.edges]
        return cls(len(names), np.array(pairs, dtype=np.int64).reshape(-1, 2), tuple(names))

    def __repr__(self) -> str:
        """Name the sizes, not the arrays."""
        return f"Network(n_agents={self.n_agents}, n_edges={self.n_edges})"

    def __eq__(self, other: object) -> bool:
        """Compare names and edges."""
        if not isinstance(other, Network):
            return NotImplemented
        return self.names == other.names and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash((self.names, self.edges.tobytes()))

    @property
    def n_edges(self) -> int:
        """Number of pairs of neighbours E."""
        return int(self.edges.shape[0])

    @cached_property
    def degrees(self) -> IntArray:
        """Number of neighbours deg_i of each agent."""
        degrees = np.bincount(self.edges.ravel(), minlength=self.n_agents).astype(np.int64)
        degrees.setflags(write=False)
        return degrees

    @cached_property
    def adjacency(self) -> Any:
        """Adjacency matrix A as a `scipy.sparse.csr_array` of float64 with sorted, read-only entries."""
        return _symmetric(self.n_agents, self.edges, np.ones(len(self.edges)))

    def neighbours(self, agent: int) -> IntArray:
        """Return the neighbours V_i of one agent, in increasing order."""
        if checks.count("agent", agent, least=0) >= self.n_agents:
            raise InputError(f"agent must be below n_agents = {self.n_agents}, got {safe_repr(agent)}.")
        first, last = self.adjacency.indptr[agent : agent + 2]
        return np.asarray(self.adjacency.indices[first:last], dtype=np.int64)

    def neighbour_sum(self, values: ArrayLike) -> FloatArray:
        """Return s with s_i = sum_{j in V_i} values_j, for values of shape (N, ...), e.g. (N, d, R).

        One sparse product. Terms are added in increasing order of j in every column, so each column is bit
        for bit what it would be alone, and what an agent gets that adds its neighbours' values in that order.

        >>> Network(3, np.array([(0, 1), (1, 2)])).neighbour_sum([[1.0], [10.0], [100.0]])
        array([[ 10.], [101.], [ 10.]])
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim == 0 or values.shape[0] != self.n_agents:
            raise InputError(
                f"values must have first axis {self.n_agents}, one entry per agent, got shape {values.shape}."
            )
        total: FloatArray = (self.adjacency @ values.reshape(self.n_agents, -1)).reshape(values.shape)
        return total

    def metropolis_weights(self) -> Any:
        """Return the Metropolis mixing matrix W as a CSR array.

        W_ij = 1 / (1 + max(deg_i, deg_j)) on edges and W_ii = 1 - sum_j W_ij >= 1 / (1 + deg_i). W is
        symmetric, doubly stochastic and has a positive diagonal, so W^k tends to the averaging matrix 11'/N.
        """
        i, j = self.edges.T
        weights = _symmetric(self.n_agents, self.edges, 1.0 / (1.0 + np.maximum(self.degrees[i], self.degrees[j])))
        return csr_array(weights + diags_array(1.0 - weights.sum(axis=1)))


def _canonical_edges(n: int, edges: ArrayLike) -> IntArray:
    """Check the edges of an n-agent graph; return them sorted, smaller agent first, read-only."""
    given = np.asarray(edges)
    if given.size == 0:
        given = np.empty((0, 2), dtype=np.int64)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise InputError(
            f"edges must be an integer array of shape (E, 2), got shape {given.shape} of type {given.dtype}."
        )
    if given.size and (given.min() < 0 or given.max() >= n):
        raise InputError(f"edges must connect agents 0 to {n - 1}, got agents from {given.min()} to {given.max()}.")
    low, high = given.min(axis=1).astype(np.int64), given.max(axis=1).astype(np.int64)
    loops = low[low == high]
    if loops.size:
        raise InputError(f"The network must have no self-loops, got one at agent {loops[0]}; remove it.")
    order = np.lexsort((high, low))
    canonical = np.stack([low[order], high[order]], axis=1)
    repeated = np.flatnonzero((canonical[1:] == canonical[:-1]).all(axis=1))
    if repeated.size:
        raise InputError(
            f"Each edge must be given once, got {tuple(canonical[repeated[0]].tolist())} more than once "
            "(an edge and its reverse are the same)."
        )
    canonical.setflags(write=False)
    return canonical


def _symmetric(n: int, edges: IntArray, weights: FloatArray) -> Any:
    """Return the symmetric CSR array with `weights` on the edges, indices sorted and entries read-only."""
    i, j = edges.T
    matrix = csr_array((np.r_[weights, weights], (np.r_[i, j], np.r_[j, i])), shape=(n, n), dtype=np.float64)
    matrix.sum_duplicates()
    matrix.data.setflags(write=False)
    return matrix


def star(n: int) -> Network:
    """Return n agents of which agent 0 is connected to all others.

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
    """Return n agents all connected to each other; the number of edges n(n-1)/2 must not exceed `MAX_EDGES`."""
    n = checks.count("n", n, least=2)
    if n * (n - 1) / 2 > MAX_EDGES:
        raise InputError(
            f"complete({n}) has about {n * (n - 1) / 2:.3g} edges, more than the {MAX_EDGES} allowed. Take fewer "
            "agents or a sparser network; a token on the complete graph needs no network, see walks.uniform_walk."
        )
    return Network(n, np.stack(np.triu_indices(n, k=1), axis=1))
