"""Recycled P-ADMM: even rounds are post-processing, written out here by hand."""

import numpy as np
import pytest
from tests.contracts.graph_method_contract import ConvergenceContract, KeyedNoise, PrivateContract, Remembered, risk
from tests.contracts.transcript_contract import worst_c1_ratio

from dpadmm.methods.p_admm import PADMM
from dpadmm.methods.recycled import RecycledPADMM
from dpadmm.networks import star
from dpadmm.privacy.accounting import Target
from dpadmm.problems.problem import Problem
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from dpadmm_research.spectrum import laplacian, signless_laplacian


class TestRecycled(ConvergenceContract, PrivateContract):
    method = RecycledPADMM(eta=0.01, gamma=0.01)
    name = "p-admm-recycled"
    target = Target(epsilon=1.0, delta=1e-6)
    unplanned_rounds = (2, 4, 6)


def test_same_transcript_stays_within_the_certificate():
    assert 0.98 <= worst_c1_ratio(RecycledPADMM(eta=0.02, gamma=0.1)) <= 1 + 1e-9
    worst_c1_ratio(RecycledPADMM(eta=0.02), tries=10, rounds=4)


def test_even_rounds_are_a_function_of_broadcasts_whatever_the_solver_left():
    """A coarse solver: a stored gradient would differ from the revealed one by its residual, about 1e-3."""
    eta, gamma, network = 0.02, 0.03, star(5)
    engine = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-3)
    hook = Remembered(KeyedNoise(0.1))
    run = engine.run(RecycledPADMM(eta, gamma), Problem.of(risk()), Stopping(rounds=4), network, hook)
    lap, signless = laplacian(network).toarray(), signless_laplacian(network).toarray()
    deg = np.diag(network.degrees.astype(float))
    y = a = np.zeros((5, 6))
    for k in (1, 3):
        sent = hook.seen["message", k][1][:, :, 0]
        g = -(a + 2 * eta * deg @ sent - eta * signless @ y)
        a = a + eta * lap @ sent
        y = sent - np.linalg.solve(2 * eta * deg + gamma * np.eye(5), g + a + eta * lap @ sent)
    np.testing.assert_allclose(run.models[:, :, 0], y, atol=1e-12)


def test_half_the_releases_carry_less_noise_than_p_admm_at_the_same_budget():
    problem, target = Problem.of(risk()), Target(1.0, 1e-5)
    plans = [plan_noise(m, problem, 40, target, star(5)) for m in (PADMM(0.01), RecycledPADMM(0.01))]
    stds = [min(r.noise_std for r in plan if r.agent == 0) for plan in plans]
    assert stds[1] / stds[0] == pytest.approx(0.5**0.5, rel=1e-9)
