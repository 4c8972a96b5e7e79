"""Random graphs: their laws, and refusals."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dpadmm.networks import complete
from dpadmm_research.networks import _pairs, erdos_renyi


def test_pair_codes_cover_all_pairs_once():
    pairs = _pairs(np.arange(45))
    assert sorted(map(tuple, pairs.tolist())) == sorted(itertools.combinations(range(10), 2))


@pytest.mark.parametrize("n", [3, 1000, 10**6, 10**8 + 1, 3 * 10**8, 2**30 - 1, 2**30])
def test_pair_codes_stay_exact_where_the_square_root_rounds(n):
    last_row = n * (n - 1) // 2
    codes = np.array([last_row - 1, last_row, last_row + 1, last_row + n - 1, last_row + n])
    expected = [[n - 2, n - 1], [0, n], [1, n], [n - 1, n], [0, n + 1]]
    assert _pairs(codes).tolist() == expected


def test_erdos_renyi_has_the_conditional_law():
    """On 3 agents the connected graphs are three paths, p^2 (1-p) each, and the triangle, p^3."""
    p, draws = 0.4, 1500
    counts = {3: 0, (0, 1): 0, (0, 2): 0, (1, 2): 0}
    for seed in range(draws):
        edges = erdos_renyi(3, p, seed=seed).edges.tolist()
        if len(edges) == 3:
            counts[3] += 1
        else:
            counts[next(e for e in itertools.combinations(range(3), 2) if list(e) not in edges)] += 1
    weights = np.array([p**3] + 3 * [p**2 * (1 - p)])
    assert stats.chisquare(list(counts.values()), draws * weights / weights.sum()).pvalue > 1e-6


def test_erdos_renyi_edge_count_is_binomial():
    network = erdos_renyi(2000, 0.01, seed=0)  # connected with probability 1 - 4e-6, so the law is not conditioned
    tail = stats.binom(2000 * 1999 // 2, 0.01)
    assert tail.ppf(5e-7) <= network.n_edges <= tail.isf(5e-7)


def test_erdos_renyi_with_certain_edges_is_complete():
    assert erdos_renyi(9, 1.0, seed=0) == complete(9)


def test_a_graph_is_equal_only_for_the_same_seed():
    assert erdos_renyi(30, 0.3, seed=4) == erdos_renyi(30, 0.3, seed=4)
    assert erdos_renyi(30, 0.3, seed=4) != erdos_renyi(30, 0.3, seed=5)
