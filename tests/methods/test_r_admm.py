"""R-ADMM: odd iterations perturb the objective, even ones are made of broadcasts alone."""

import numpy as np
import pytest
from tests.contracts.graph_method_contract import ENGINE, ConvergenceContract, KeyedNoise, PrivateContract, risk
from tests.contracts.transcript_contract import TiltContract

from dpadmm.methods.dvp import DVP, OBJECTIVE
from dpadmm.methods.r_admm import RADMM, BareRADMM
from dpadmm.methods.recycled import RecycledPADMM
from dpadmm.networks import ring, star
from dpadmm.privacy.accounting import PureTarget
from dpadmm.problems.problem import Problem
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from dpadmm_research.spectrum import laplacian, signless_laplacian


class TestRADMM(ConvergenceContract, PrivateContract, TiltContract):
    method = RADMM(eta=0.01, gamma=0.01)
    name = "r-admm"
    target = PureTarget(epsilon=20.0)
    unplanned_rounds = (2, 4, 6)
    tilted = (1, 3)

    def certified_penalty(self, k):
        return np.full(3, 0.01)


class TestGrowing(ConvergenceContract, PrivateContract, TiltContract):
    method = RADMM(eta=0.008, gamma=0.01, growth=1.003, theta=0.007, smoothing=0.05)
    name = "r-admm"
    target = PureTarget(epsilon=20.0)
    unplanned_rounds = (2, 4, 6)
    tilted = (1, 3, 5)
    rounds = 240

    def certified_penalty(self, k):
        return np.full(3, 0.008 * 1.003**k)


class TestBare(ConvergenceContract):
    method = BareRADMM(eta=0.01, gamma=0.02)


class Transcript(KeyedNoise):
    """Keyed noise; with smoothing, everything that leaves in odd iterations passes here."""

    def __init__(self, scale):
        super().__init__(scale)
        self.sent = {}

    def perturb(self, kind, k, agents, values):
        out = super().perturb(kind, k, agents, values)
        if kind.name == "smoothing":
            self.sent[k] = out[:, :, 0].copy()
        return out


def written_out(network, sent, eta, gamma, growth, theta):
    """The even iterations from the odd broadcasts alone, in matrices (eqs. 16-19 with the gradient by eq. 18)."""
    lap, signless = laplacian(network).toarray(), signless_laplacian(network).toarray()
    deg, eye = np.diag(network.degrees.astype(float)), np.eye(network.n_agents)
    y = a = np.zeros_like(sent[1])
    for t in sorted(sent):
        odd, even = eta * growth**t, eta * growth ** (t + 1)
        g = -(a + 2 * odd * deg @ sent[t] - odd * signless @ y)
        a = a + theta * lap @ sent[t]
        damped = 2 * even * deg + gamma * growth ** (t + 1) * eye
        y = sent[t] - np.linalg.solve(damped, g + a + even * lap @ sent[t])
    return y, a


@pytest.mark.parametrize("network", [ring(5), star(5)], ids=repr)
@pytest.mark.parametrize(("growth", "theta"), [(1.0, 0.02), (1.1, 0.015)])
def test_even_iterations_are_a_function_of_broadcasts_whatever_the_solver_left(network, growth, theta):
    """A coarse solver: a stored gradient would differ from the revealed one by its residual, about 1e-3."""
    engine = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-3)
    hook = Transcript(0.1)
    method = RADMM(eta=0.02, gamma=0.03, growth=growth, theta=theta, smoothing=0.1)
    run = engine.run(method, Problem.of(risk()), Stopping(rounds=6), network, hook)
    y, a = written_out(network, hook.sent, 0.02, 0.03, growth, theta)
    np.testing.assert_allclose(run.models[:, :, 0], y, atol=1e-12)
    np.testing.assert_allclose(run.state[1][:, :, 0], a, atol=1e-12)


def test_two_iterations_of_algorithm_1_by_hand():
    """Odd: the optimality condition (15). Even: eq. (10) with the true gradient."""
    eta, gamma, network, problem = 0.05, 0.02, star(5), Problem.of(risk())
    engine = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-12)
    first, second = (
        engine.run(BareRADMM(eta, gamma), problem, Stopping(rounds=k), network).models[:, :, 0] for k in (1, 2)
    )
    deg, lap = network.degrees[:, None].astype(float), laplacian(network)
    gradient = problem.weights[:, None] * problem.functions.gradient(first[:, :, None])[:, :, 0]
    np.testing.assert_allclose(gradient + 2 * eta * deg * first, 0, atol=1e-11)
    # a = eta L x after the dual step, and eta L x once more from the penalty.
    expected = first - (gradient + 2 * eta * lap @ first) / (2 * eta * deg + gamma)
    np.testing.assert_allclose(second, expected, atol=1e-9)


def test_without_noise_it_is_recycled_p_admm():
    one = ENGINE.run(RADMM(0.01, 0.02), Problem.of(risk()), Stopping(rounds=21), ring(5))
    two = ENGINE.run(RecycledPADMM(0.01, 0.02), Problem.of(risk()), Stopping(rounds=21), ring(5))
    np.testing.assert_array_equal(one.models, two.models)


def test_half_the_rounds_are_paid_for():
    problem, target = Problem.of(risk()), PureTarget(400.0)
    plans = [plan_noise(m, problem, 10, target, ring(5)) for m in (DVP(1.0), RADMM(1.0))]
    for agent in range(5):
        pair = [plan.releases[OBJECTIVE, 1][agent] for plan in plans]
        assert all(release.rate >= release.certificate.jacobian_free_rate for release in pair)
        assert pair[1].rate == pytest.approx(2 * pair[0].rate, rel=1e-9)
    assert plans[1].account().theorems == ("C2 (odd iterations)",)
