"""Extreme eigenvalues: closed forms, networkx, and the sparse solver against the dense one."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.random_network import random_network

from dpadmm.errors import SolverError
from dpadmm.networks import (
    Network,
    complete,
    grid,
    path,
    ring,
    star,
)
from dpadmm_research import spectrum
from dpadmm_research.spectrum import SpectralFacts, is_bipartite, laplacian, signless_laplacian, spectral_facts


def ring_facts(n):
    """Eigenvalues 4 sin^2(pi k / n) of L and 4 cos^2(pi k / n) of Q."""
    top, odd = 4 * np.sin(np.pi * (n // 2) / n) ** 2, n % 2 == 1
    return 4 * np.sin(np.pi / n) ** 2, top, 4 * np.sin(np.pi / (2 * n)) ** 2 if odd else 0.0, 4.0


def path_facts(n):
    """Eigenvalues 4 sin^2(pi k / 2n)."""
    top = 4 * np.cos(np.pi / (2 * n)) ** 2
    return 4 * np.sin(np.pi / (2 * n)) ** 2, top, 0.0, top


def star_facts(n):
    """Eigenvalues 0, 1 and n."""
    return (1.0 if n > 2 else 2.0), float(n), 0.0, float(n)


def complete_facts(n):
    """L has 0 and n; Q has n - 2 and 2n - 2."""
    return float(n), float(n), float(n - 2), 2.0 * n - 2


def grid_facts(n):
    """Sums of two path eigenvalues."""
    connectivity, top, _, _ = path_facts(n)
    return connectivity, 2 * top, 0.0, 2 * top


CLOSED_FORMS = [
    (ring, ring_facts, (3, 4, 9, 500, 600, 601, 20_000, 20_001)),
    (path, path_facts, (2, 3, 10, 500, 601, 20_000)),
    (star, star_facts, (2, 3, 10, 601, 20_000)),
    (complete, complete_facts, (2, 3, 10, 600)),
    (lambda n: grid(n, n), grid_facts, (2, 5, 22, 25, 60)),
]


def numbers(facts):
    return [
        facts.algebraic_connectivity,
        facts.largest_laplacian,
        facts.smallest_signless,
        facts.largest_signless,
    ]


@pytest.mark.parametrize(("make", "closed", "n"), [(m, c, n) for m, c, ns in CLOSED_FORMS for n in ns])
def test_closed_forms(make, closed, n):
    network = make(n)
    # Dense eigenvalues carry an absolute error of a few ulps of the norm; the sparse ones are relatively exact.
    atol = 1e-13 * closed(n)[3] if network.n_agents <= spectrum.DENSE_LIMIT else 0.0
    np.testing.assert_allclose(numbers(spectral_facts(network)), closed(n), rtol=1e-9, atol=atol)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.integers(2, 25), st.floats(0.05, 1.0), st.integers(0, 10**6))
def test_bipartite_exactly_if_smallest_signless_eigenvalue_is_zero(n, p, seed):
    graph = nx.compose(nx.random_labeled_tree(n, seed=seed), nx.gnp_random_graph(n, p * 0.3, seed=seed))
    network = Network.from_graph(graph)
    smallest = np.linalg.eigvalsh(signless_laplacian(network).toarray())[0]
    assert is_bipartite(network) == nx.is_bipartite(graph) == (smallest < 1e-10)
    assert (spectral_facts(network).smallest_signless == 0) == is_bipartite(network)
    assert spectral_facts(network).smallest_signless == pytest.approx(smallest, abs=1e-12)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(2, 25), st.integers(0, 10**6))
def test_laplacian_spectrum_matches_networkx(n, seed):
    graph = nx.compose(nx.random_labeled_tree(n, seed=seed), nx.gnp_random_graph(n, 0.2, seed=seed))
    theirs = nx.laplacian_spectrum(graph)
    facts = spectral_facts(Network.from_graph(graph))
    assert facts.algebraic_connectivity == pytest.approx(theirs[1], rel=1e-9)
    assert facts.largest_laplacian == pytest.approx(theirs[-1], rel=1e-12)


def barbell():
    return Network.from_graph(nx.barbell_graph(300, 40))


def binary_tree():
    return Network.from_graph(nx.balanced_tree(2, 9))


LARGE = {
    "expander": lambda: random_network(700, 0.02, seed=1),
    "geometric": lambda: Network.from_graph(nx.random_geometric_graph(900, 0.08, seed=2)),
    "bipartite": lambda: Network.from_graph(nx.complete_bipartite_graph(200, 450)),
    "barbell": barbell,
    "tree": binary_tree,
    "lollipop": lambda: Network.from_graph(nx.lollipop_graph(30, 600)),
}


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE.keys())
def test_sparse_solvers_agree_with_the_dense_one(make, monkeypatch):
    network = make()
    assert network.n_agents > spectrum.DENSE_LIMIT
    dense = spectrum._dense_facts(network.adjacency, is_bipartite(network))
    for cheap in (True, False):
        monkeypatch.setattr(spectrum, "_has_cheap_factors", lambda adjacency, cheap=cheap: cheap)
        if not cheap and dense.algebraic_connectivity < 1e-3:
            continue  # plain Lanczos is not meant for these, see test_lanczos_that_does_not_converge_says_so
        sparse = spectral_facts.__wrapped__(network)
        np.testing.assert_allclose(numbers(sparse), numbers(dense), rtol=1e-8, atol=1e-11)


def test_the_cheap_factorisation_is_chosen_for_thin_graphs_only():
    assert spectrum._has_cheap_factors(ring(2000).adjacency)
    assert spectrum._has_cheap_factors(grid(10, 600).adjacency)
    assert spectrum._has_cheap_factors(binary_tree().adjacency)
    assert not spectrum._has_cheap_factors(random_network(2000, 0.01, seed=0).adjacency)


def test_lanczos_that_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(spectrum, "_has_cheap_factors", lambda adjacency: False)
    monkeypatch.setattr(spectrum, "MAX_RESTARTS", 2)
    with pytest.raises(SolverError, match="2001 agents"):
        spectral_facts(ring(2001))


def test_a_wrong_eigenvector_fails_the_check():
    network = path(600)
    solver = spectrum._Sparse(network.adjacency, network.edges, True)
    with pytest.raises(SolverError):
        solver._checked(laplacian(network), np.random.default_rng(0).standard_normal(600), -1.0)


def test_facts_read_well():
    text = repr(spectral_facts(ring(5)))
    assert "algebraic_connectivity = 1.38197" in text
    assert "largest_signless = 4" in text
    assert "is_bipartite = False" in text
    facts = spectral_facts(ring(4))
    assert facts == SpectralFacts(*numbers(facts), is_bipartite=True)
