"""Token walks: moves along edges, long-run laws, counts, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.contracts.random_network import random_network

from dpadmm.networks import (
    WalkKind,
    complete,
    grid,
    participations,
    path,
    random_walk,
    star,
    uniform_walk,
)

KINDS = list(WalkKind)


def generator(seed=0):
    return np.random.default_rng(seed)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(1, 200))
def test_walks_move_along_edges_only(kind, seed, steps):
    network = random_network(15, 0.3, seed=seed)
    walk = random_walk(network, steps, generator(seed), kind=kind)
    assert walk.shape == (steps,)
    assert walk.dtype == np.int64
    adjacency = network.adjacency.toarray()
    if kind is WalkKind.METROPOLIS_HASTINGS:
        adjacency += np.eye(15)
    assert (adjacency[walk[:-1], walk[1:]] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_walks_start_where_shown_and_repeat_with_the_generator(kind):
    walk = random_walk(grid(3, 3), 50, generator(1), start=4, kind=kind)
    assert walk[0] == 4
    np.testing.assert_array_equal(walk, random_walk(grid(3, 3), 50, generator(1), start=4, kind=kind))
    assert (walk != random_walk(grid(3, 3), 50, generator(2), start=4, kind=kind)).any()
    assert random_walk(path(2), 1, generator(), start=1, kind=kind).tolist() == [1]


def transition_matrix(network, kind):
    """The walk's definition, entry by entry."""
    n, degrees, adjacency = network.n_agents, network.degrees, network.adjacency.toarray()
    matrix = np.zeros((n, n))
    for i in range(n):
        for j in np.flatnonzero(adjacency[i]):
            accept = min(1.0, degrees[i] / degrees[j]) if kind is WalkKind.METROPOLIS_HASTINGS else 1.0
            matrix[i, j] = accept / degrees[i]
        matrix[i, i] = 1 - matrix[i].sum()
    return matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [lambda: star(5), lambda: grid(2, 3), lambda: complete(4)])
def test_transition_frequencies(make, kind):
    """Given the present holder, next holders are independent draws: a chi-square test per row."""
    network = make()
    matrix = transition_matrix(network, kind)
    walk = random_walk(network, 20_000, generator(7), kind=kind)
    n = network.n_agents
    counts = np.zeros((n, n))
    np.add.at(counts, (walk[:-1], walk[1:]), 1)
    for i in range(n):
        possible = matrix[i] > 1e-12
        assert counts[i, ~possible].sum() == 0
        if possible.sum() > 1:
            expected = counts[i].sum() * matrix[i, possible]
            assert stats.chisquare(counts[i, possible], expected).pvalue > 1e-6 / (n * 6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [0, 3])
def test_stationary_distribution(kind, last):
    """Independent short walks with a drawn start have the long-run law at every step."""
    network, rng = star(5), generator(11)
    law = network.degrees / (2.0 * network.n_edges) if kind is WalkKind.SIMPLE else np.full(5, 0.2)
    holders = [random_walk(network, last + 1, rng, kind=kind)[last] for _ in range(5000)]
    assert stats.chisquare(participations(holders, 5), 5000 * law).pvalue > 1e-6


def test_uniform_walk_is_uniform_and_independent():
    walk = uniform_walk(4, 40_001, generator(5))
    assert walk.dtype == np.int64
    assert stats.chisquare(participations(walk, 4)).pvalue > 1e-6
    consecutive = participations(4 * walk[:-1:2] + walk[1::2], 16)
    assert stats.chisquare(consecutive).pvalue > 1e-6
    np.testing.assert_array_equal(walk, uniform_walk(4, 40_001, generator(5)))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.integers(0, 6), max_size=60))
def test_participations_count(schedule):
    assert participations(schedule, 7).tolist() == [schedule.count(i) for i in range(7)]
