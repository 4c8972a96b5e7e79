"""Networks: construction, checks, matrices against networkx, sums over neighbours."""

import dataclasses

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.random_network import random_network

from dpadmm.networks import Network, complete, grid, path, ring, star
from dpadmm_research.spectrum import is_bipartite, laplacian, signless_laplacian

CASES = {
    "star": (lambda: star(6), lambda: nx.star_graph(5)),
    "ring even": (lambda: ring(8), lambda: nx.cycle_graph(8)),
    "ring odd": (lambda: ring(7), lambda: nx.cycle_graph(7)),
    "path": (lambda: path(5), lambda: nx.path_graph(5)),
    "pair": (lambda: path(2), lambda: nx.path_graph(2)),
    "complete": (lambda: complete(6), lambda: nx.complete_graph(6)),
    "grid": (lambda: grid(3, 4), lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4))),
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def pair(request):
    ours, theirs = request.param
    return ours(), theirs()


@st.composite
def connected_graphs(draw):
    """A random tree plus random extra edges."""
    n = draw(st.integers(2, 12))
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((i, draw(st.integers(0, i - 1))) for i in range(1, n))
    for _ in range(draw(st.integers(0, 10))):
        i, j = draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))
        if i != j:
            graph.add_edge(i, j)
    return graph


def assert_matrices_agree(network, graph):
    n = len(graph)
    adjacency = nx.to_numpy_array(graph, nodelist=range(n), weight=None)
    degrees = np.diag(adjacency.sum(axis=1))
    np.testing.assert_array_equal(network.adjacency.toarray(), adjacency)
    np.testing.assert_array_equal(network.degrees, [graph.degree[i] for i in range(n)])
    expected = nx.laplacian_matrix(graph, nodelist=range(n), weight=None).toarray()
    np.testing.assert_array_equal(laplacian(network).toarray(), expected)
    np.testing.assert_array_equal(signless_laplacian(network).toarray(), degrees + adjacency)
    assert is_bipartite(network) == nx.is_bipartite(graph)
    assert network.n_edges == graph.number_of_edges()
    for i in range(n):
        assert network.neighbours(i).tolist() == sorted(graph[i])


def test_topologies_match_networkx(pair):
    assert_matrices_agree(*pair)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(connected_graphs())
def test_any_graph_matches_networkx(graph):
    assert_matrices_agree(Network.from_graph(graph), graph)


@pytest.mark.parametrize(
    ("edges", "names", "expected"),
    [
        ([("c", "a"), ("b", "c")], ("a", "b", "c"), [[0, 2], [1, 2]]),
        ([("x", 1), (1, (2, 3))], ("x", 1, (2, 3)), [[0, 1], [1, 2]]),  # labels that cannot be compared
        ([(0, 1, {"weight": 7.0})], (0, 1), [[0, 1]]),
    ],
)
def test_labels_are_sorted_if_they_can_be_and_weights_are_ignored(edges, names, expected):
    network = Network.from_graph(nx.Graph(edges))
    assert (network.names, network.edges.tolist()) == (names, expected)
    assert set(network.adjacency.data) == {1.0}


def test_network_is_frozen():
    network = ring(5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        network.n_agents = 4
    for array in (network.edges, network.degrees, network.adjacency.data):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert repr(network) == "Network(n_agents=5, n_edges=5)"


@settings(deadline=None, derandomize=True, max_examples=40)
@given(connected_graphs(), st.sampled_from([(), (3,), (3, 4), (2, 3, 2), (3, 0)]), st.integers(0, 99))
def test_neighbour_sum_against_a_loop(graph, trailing, seed):
    network = Network.from_graph(graph)
    values = np.random.default_rng(seed).standard_normal((network.n_agents, *trailing))
    expected = np.zeros_like(values)
    for i in range(network.n_agents):
        for j in sorted(graph[i]):
            expected[i] += values[j]
    # Bit for bit: a silo that adds its neighbours' messages in order must get the same numbers.
    np.testing.assert_array_equal(network.neighbour_sum(values), expected)


def test_neighbour_sum_of_a_column_does_not_depend_on_the_others():
    network = random_network(40, 0.3, seed=1)
    values = np.random.default_rng(2).standard_normal((40, 3, 6))
    together = network.neighbour_sum(values)
    for r in range(6):
        np.testing.assert_array_equal(network.neighbour_sum(values[..., r : r + 1])[..., 0], together[..., r])


def test_neighbour_sum_of_a_strided_view_and_of_integers():
    values = np.arange(30).reshape(5, 3, 2)
    expected = np.roll(values, 1, axis=0) + np.roll(values, -1, axis=0)
    result = ring(5).neighbour_sum(values.transpose(0, 2, 1))
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, expected.transpose(0, 2, 1))


def test_a_large_ring():
    network = ring(100_000)
    values = np.arange(100_000.0)
    np.testing.assert_array_equal(network.neighbour_sum(values), np.roll(values, 1) + np.roll(values, -1))
    assert (network.degrees == 2).all()


@pytest.mark.parametrize("make", [lambda: star(7), lambda: grid(3, 5), lambda: random_network(30, 0.2, seed=3)])
def test_metropolis_weights_are_doubly_stochastic_and_mix(make):
    network = make()
    weights = network.metropolis_weights().toarray()
    degrees = network.degrees
    for i, j in network.edges:
        assert weights[i, j] == weights[j, i] == pytest.approx(1 / (1 + max(degrees[i], degrees[j])), rel=1e-15)
    off_diagonal = weights - np.diag(np.diag(weights))
    np.testing.assert_array_equal(off_diagonal != 0, network.adjacency.toarray() != 0)
    np.testing.assert_allclose(weights.sum(axis=0), 1, rtol=0, atol=1e-14)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-14)
    assert (np.diag(weights) >= 1 / (1 + degrees) - 1e-14).all()
    mixed = np.linalg.matrix_power(weights, 2000)
    np.testing.assert_allclose(mixed, 1 / network.n_agents, rtol=0, atol=1e-10)
