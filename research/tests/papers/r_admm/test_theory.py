"""R-ADMM's sufficient condition (24)-(27): against direct matrices, brute force and the iteration itself."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.methods.r_admm import BareRADMM
from dpadmm.networks import Network, complete, grid, path, ring, star
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.testing import LocalEngine, Recording, Stopping
from dpadmm_research.claims.bounds import NotApplicable
from dpadmm_research.comparison.compare import random_network
from dpadmm_research.networks import erdos_renyi
from dpadmm_research.papers.r_admm.fig1 import SETTINGS
from dpadmm_research.papers.r_admm.theory import ConvergenceCondition, least_gamma
from dpadmm_research.spectrum import signless_laplacian

PAW = Network(4, np.array([(0, 1), (1, 2), (0, 2), (2, 3)]))  # a triangle with a tail: degrees differ
ODD = [ring(5), complete(4), PAW, erdos_renyi(6, 0.6, seed=3)]
BIPARTITE = [star(5), path(4), grid(2, 3), ring(6)]


def matrices(network, smoothness, eta, gamma):
    A, D = network.adjacency.toarray(), np.diag(network.degrees.astype(float))
    damped = 2 * eta * D + gamma * np.eye(len(D))
    squares = np.diag(np.broadcast_to(smoothness, (len(D),)) ** 2.0)
    return A, D, np.linalg.inv(damped), damped.diagonal().min(), squares


def least_eigenvalues(network, smoothness, eta, gamma, L, mu):
    """The smallest eigenvalues of left minus right of (24) and (25), symmetric parts, written out."""
    A, D, inverse, s, M = matrices(network, smoothness, eta, gamma)
    eye = np.eye(len(D))
    first = eye + eta * (D + A) @ inverse - L * mu / (2 * s * eta) * M @ np.linalg.pinv(D - A)
    second = eta * (D + A) - (
        eta * (D + A) @ inverse @ (eta * (D - A))
        + 2 / L * eta * (D + A) @ inverse @ (eta * (D + A))
        + L * mu / (2 * s * (mu - 1)) * M
    )
    return [np.linalg.eigvalsh((m + m.T) / 2)[0] for m in (first, second)]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 7), st.floats(-2, 2), st.floats(-2, 2), st.floats(-1, 2), st.floats(-2, 3), st.integers(0, 99))
def test_verdict_agrees_with_the_matrices(which, log_eta, log_gamma, log_L, log_mu, seed):
    network = (ODD + BIPARTITE)[which]
    smoothness = tuple(np.random.default_rng(seed).uniform(0.05, 1.0, network.n_agents).tolist())
    eta, gamma, L, mu = 10.0**log_eta, 10.0**log_gamma, 10.0**log_L, 1 + 10.0**log_mu
    verdict = ConvergenceCondition(network, smoothness, eta, gamma).at(L, mu)
    first, second = least_eigenvalues(network, smoothness, eta, gamma, L, mu)
    if abs(first) > 1e-8 and math.isfinite(verdict.slack_24):
        assert (verdict.slack_24 > 0) == (first > 0)
    scale = eta * np.linalg.eigvalsh(signless_laplacian(network).toarray())[-1]
    assert verdict.slack_25 * scale == pytest.approx(second, rel=1e-6, abs=1e-9 * scale)
    best = ConvergenceCondition(network, smoothness, eta, gamma).best()
    assert best.slack >= verdict.slack - 1e-7 * max(1, abs(best.slack))
    if verdict.holds:
        assert best.holds


@pytest.mark.parametrize("network", ODD, ids=repr)
@pytest.mark.parametrize("gamma", [0.0, 1.0, 30.0])
def test_no_point_of_a_grid_beats_the_search(network, gamma):
    condition = ConvergenceCondition(network, 0.3, eta=0.2, gamma=gamma)
    best = condition.best()
    grid_best = max(
        condition.at(float(L), float(1 + m)).slack for L in np.logspace(-3, 3, 19) for m in np.logspace(-2, 4, 19)
    )
    assert grid_best <= best.slack + 1e-7
    assert condition.at(best.L, best.mu).slack == pytest.approx(best.slack, abs=1e-7)
    assert best.slack_24 == pytest.approx(best.slack_25, abs=1e-6)


@pytest.mark.parametrize("network", [ring(5), complete(4)], ids=repr)
@pytest.mark.parametrize("gamma", [0.1, 2.0, 20.0])
def test_equations_26_and_27(network, gamma):
    A, D, inverse, s, M = matrices(network, 0.4, 0.5, gamma)
    first = np.eye(len(D)) + 0.5 * (D + A) @ inverse - 4 / (2 * s * 0.5) * M @ np.linalg.pinv(D - A)
    second = 0.5 * (D + A) - (2 * 0.5 * (D + A) @ inverse @ (0.5 * D) + 2 / s * M)
    both = all(np.linalg.eigvalsh((m + m.T) / 2)[0] > 0 for m in (first, second))
    assert ConvergenceCondition(network, 0.4, 0.5, gamma).at(2, 2).holds == both


class TestBipartite:
    @pytest.mark.parametrize("network", BIPARTITE, ids=repr)
    def test_never_holds_and_says_so(self, network):
        for gamma in (0.0, 1.0, 1e3, 1e8, 1e14):
            verdict = ConvergenceCondition(network, 0.1, 0.5, gamma).best()
            assert not verdict.holds
            assert "bipartite, so (25) can never hold" in verdict.remark
            assert "fails by" in str(verdict)
        assert isinstance(least_gamma(network, 0.1, 0.5), NotApplicable)

    def test_the_alternating_vector_is_the_reason(self):
        network = ring(6)
        x = np.array([1.0, -1, 1, -1, 1, -1])
        assert np.abs(signless_laplacian(network) @ x).max() == 0
        gap = ConvergenceCondition(network, 0.3, 0.5, 4.0).at(2, 2)
        # x'(left - right)x = -L mu/(2 s (mu-1)) x'DMx with s = 2 eta 2 + gamma = 6
        assert gap.slack_25 <= -2 / 6 * 0.09 / (0.5 * 4)

    @pytest.mark.parametrize("network", [ring(4), star(5)], ids=["ring(4)", "star(5)"])
    def test_bipartite_graphs_converge_without_the_condition(self, network):
        rng = np.random.default_rng(1)
        functions = quadratics(network, np.full(network.n_agents, 0.25), rng)
        engine = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-11)
        problem = Problem.of(functions, Weighting.EQUAL)
        run = engine.run(BareRADMM(0.5, 4.0), problem, Stopping(rounds=3000, residual=1e-11), network)
        expected = np.linalg.solve(functions.curvatures.sum(axis=0), -functions.slopes.sum(axis=0))
        np.testing.assert_allclose(run.models[:, :, 0], np.broadcast_to(expected, run.models.shape[:2]), atol=1e-6)

    def test_no_remark_on_odd_cycles(self):
        assert ConvergenceCondition(ring(5), 0.1, 0.5, 4.0).best().remark == ""


def test_equation_27_by_hand_on_rings_and_a_star():
    """On a ring, s = 4 eta + gamma: left minus right is `eta q - (4 eta^2 q + 2 M^2)/s` at an eigenvalue q of D + A."""
    eta, bound = 0.5, 0.25

    def gap_27(network, gamma):
        scale = eta * np.linalg.eigvalsh(signless_laplacian(network).toarray())[-1]
        return ConvergenceCondition(network, bound, eta, gamma).at(2, 2).slack_25 * scale

    for gamma in (4.0, 1e2, 1e6):
        assert gap_27(ring(4), gamma) == pytest.approx(-2 * bound**2 / (4 * eta + gamma), rel=1e-6)
        assert gap_27(star(5), gamma) <= -2 * bound**2 / (2 * eta + gamma)
    assert gap_27(ring(4), 4.0) == pytest.approx(-0.0208, abs=5e-5)
    assert gap_27(star(5), 4.0) == pytest.approx(-0.0409, abs=5e-5)
    assert gap_27(star(5), 1e6) == pytest.approx(-1.25e-7, rel=1e-3)

    q = 2 - 2 * math.cos(math.pi / 5)  # the least eigenvalue of D + A on a ring of five
    edge = 2 * bound**2 / (eta * q)
    assert edge == pytest.approx(0.655, abs=5e-4)
    for gamma, holds in ((0.999 * edge, False), (1.001 * edge, True)):
        assert ConvergenceCondition(ring(5), bound, eta, gamma).at(2, 2).holds == holds
    assert gap_27(ring(5), 4.0) == pytest.approx(eta * q - (4 * eta**2 * q + 2 * bound**2) / 6)
    assert gap_27(ring(5), 4.0) == pytest.approx(0.106, abs=5e-4)


@pytest.mark.parametrize(("setting", "edge"), [*zip(SETTINGS, (3.4167e6, 1.2623e6), strict=True)])
def test_gamma_that_the_conditions_ask_for_in_fig_1(setting, edge):
    """(26)-(27), the case L = mu = 2, by the matrices written out; (24)-(25) with the best L and mu by the search."""
    network = random_network(setting.agents, setting.mean_degree, setting.network_seed)
    smoothness = setting.loss_weight / 4 + setting.ridge / setting.agents

    def holds(gamma):
        return min(least_eigenvalues(network, smoothness, setting.eta, gamma, L=2, mu=2)) > 0

    assert holds(1.001 * edge)
    assert not any(holds(gamma) for gamma in (0.5, 2500, 1e5, 0.999 * edge))
    assert ConvergenceCondition(network, smoothness, setting.eta, 1.001 * edge).at(2, 2).holds
    assert not ConvergenceCondition(network, smoothness, setting.eta, 0.999 * edge).at(2, 2).holds
    assert least_gamma(network, smoothness, setting.eta) == pytest.approx(2500, rel=0.05)


def quadratics(network, smoothness, rng):
    n = network.n_agents
    curvatures = np.stack([np.diag(rng.uniform(0.05, 1, 3)) for _ in range(n)]) * np.reshape(smoothness, (-1, 1, 1))
    curvatures[:, 0, 0] = smoothness
    return QuadraticAgents(curvatures, rng.standard_normal((n, 3)))


@pytest.mark.parametrize("network", ODD, ids=repr)
def test_where_it_holds_the_iteration_converges(network):
    rng = np.random.default_rng(0)
    engine = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-11)
    for eta in (0.5, 0.1):
        smoothness = tuple(rng.uniform(0.1, 0.4, network.n_agents).tolist())
        gamma = least_gamma(network, smoothness, eta)
        functions = quadratics(network, np.array(smoothness), rng)
        problem = Problem.of(functions, Weighting.EQUAL)
        run = engine.run(BareRADMM(eta, gamma), problem, Stopping(rounds=3000, residual=1e-11), network)
        expected = np.linalg.solve(functions.curvatures.sum(axis=0), -functions.slopes.sum(axis=0))
        np.testing.assert_allclose(run.models[:, :, 0], np.broadcast_to(expected, run.models.shape[:2]), atol=1e-6)


@pytest.mark.parametrize("network", ODD, ids=repr)
def test_least_gamma(network):
    found = least_gamma(network, 0.3, 0.05)
    assert ConvergenceCondition(network, 0.3, 0.05, found).best().holds
    assert found > 0
    assert not ConvergenceCondition(network, 0.3, 0.05, 0.98 * found).best().holds
    assert least_gamma(complete(6), 0.01, 1.0) == 0.0


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.floats(1e-3, 1e3), st.integers(0, 3))
def test_units_do_not_matter(unit, which):
    one = ConvergenceCondition(ODD[which], 0.3, 0.2, 1.5).best()
    two = ConvergenceCondition(ODD[which], 0.3 * unit, 0.2 * unit, 1.5 * unit).best()
    assert one.slack == pytest.approx(two.slack, rel=1e-5, abs=1e-9)
