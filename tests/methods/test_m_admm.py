"""M-ADMM: own, growing penalties; noise inside the penalty is DVP's noise at another rate."""

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.contracts.graph_method_contract import ENGINE, ConvergenceContract, PrivateContract, risk
from tests.contracts.transcript_contract import Tilt, TiltContract

from dpadmm.methods.base import Agents
from dpadmm.methods.dvp import DVP, OBJECTIVE
from dpadmm.methods.m_admm import MADMM
from dpadmm.networks import ring, star
from dpadmm.privacy.accounting import PureTarget
from dpadmm.problems.problem import Problem
from dpadmm.testing import Stopping, plan_noise
from dpadmm_research.spectrum import laplacian

OWN = (0.01, 0.012, 0.02, 0.01, 0.015)


class TestOwnPenalties(ConvergenceContract, PrivateContract):
    method = MADMM(eta=OWN, theta=0.008)
    name = "m-admm"
    target = PureTarget(epsilon=20.0)


class TestGrowing(ConvergenceContract, TiltContract):
    method = MADMM(eta=0.008, growth=1.003)

    def certified_penalty(self, k):
        return np.full(3, 0.008 * 1.003**k)


class TestThreeAgents(TiltContract):
    method = MADMM(eta=(0.01, 0.03, 0.02), growth=(1.5, 1.0, 1.2), theta=0.005)

    def certified_penalty(self, k):
        return np.array([0.01 * 1.5**k, 0.03, 0.02 * 1.2**k])


class TestSmoothed(PrivateContract):
    method = MADMM(eta=0.01, growth=1.1, smoothing=0.05)
    name = "m-admm"
    target = PureTarget(epsilon=20.0)


def test_noise_in_the_penalty_is_linear_noise():
    """The step equals the paper's, with e inside the square, minimised by SciPy."""
    method, network = MADMM(eta=OWN, growth=1.1), star(5)
    problem = Problem.of(risk())
    agents = Agents.of(problem, network, tolerance=1e-12, threads=1)
    rng = np.random.default_rng(0)
    x, a, e = (0.3 * rng.standard_normal((5, 6, 1)) for _ in range(3))
    t = 3
    eta = np.array(OWN) * 1.1**t
    b = 2 * (eta * network.degrees)[:, None, None] * e
    state, _ = method.start(agents, 1)
    inbox = network.neighbour_sum(x)
    found = method.local_step(t, agents, state._replace(x=x, a=a), inbox, Tilt(b))[1]
    for i in range(5):

        def objective(y, i=i):
            here = problem.weights[i] * problem.functions.take(np.array([i])).value(y[None, :, None])[0, 0]
            middles = [(x[i, :, 0] + x[j, :, 0]) / 2 for j in network.neighbours(i)]
            return here + a[i, :, 0] @ y + eta[i] * sum(np.sum((y + e[i, :, 0] - c) ** 2) for c in middles)

        best = minimize(objective, np.zeros(6), method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(found[i, :, 0], best.x, atol=1e-5)


def test_the_dual_step_uses_theta():
    method, network = MADMM(eta=0.02, growth=2.0, theta=0.005), ring(5)
    agents = Agents.of(Problem.of(risk()), network, tolerance=1e-9, threads=1)
    state, _ = method.start(agents, 1)
    x = np.random.default_rng(0).standard_normal((5, 6, 1))
    after = method.update(4, agents, state._replace(x=x), network.neighbour_sum(x))
    np.testing.assert_allclose(after.a[:, :, 0], 0.005 * laplacian(network) @ x[:, :, 0], atol=1e-14)
    assert MADMM(eta=OWN).dual_penalty == 0.01


def test_constant_penalties_are_dvp():
    problem, target = Problem.of(risk()), PureTarget(3.0)
    plans = [plan_noise(m, problem, 4, target, ring(5)) for m in (DVP(0.01), MADMM(0.01))]
    for key, row in plans[0].releases.items():
        for agent, release in row.items():
            assert plans[1].releases[key][agent].rate == pytest.approx(release.rate, rel=1e-12)
    runs = [ENGINE.run(m, problem, Stopping(rounds=15), ring(5)) for m in (DVP(0.01), MADMM(0.01))]
    np.testing.assert_array_equal(runs[0].models, runs[1].models)


def test_noise_of_the_paper_keeps_the_rate_inside_the_penalty():
    method, rounds = MADMM(eta=0.5, growth=1.2), 6
    plan = plan_noise(
        method, Problem.of(risk()), rounds, PureTarget(500.0), star(5), schedule=method.noise_of_paper(rounds)
    )
    for agent, degree in enumerate(star(5).degrees):
        releases = [plan.releases[OBJECTIVE, t][agent] for t in range(1, rounds + 1)]
        assert all(r.rate >= r.certificate.jacobian_free_rate for r in releases)
        inside = [r.rate * 2 * 0.5 * 1.2**t * degree for t, r in enumerate(releases, start=1)]
        np.testing.assert_allclose(inside, inside[0], rtol=1e-9)
