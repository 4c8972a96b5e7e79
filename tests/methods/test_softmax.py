"""Softmax models by the methods that are certified for them (C13), and refusals of the others."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dpadmm.methods.base import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit, View
from dpadmm.problems.losses import Softmax
from dpadmm.problems.problem import Problem, SoftmaxRisk
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.testing import LocalEngine, Recording, Stopping, run_private

ONE = Target(1.0, 1e-5)
QUIET = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-10)
MU, SIZES = 0.05, (90, 60, 50)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((sum(SIZES), 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, (4 * rows @ rng.standard_normal((5, 4)) + rng.gumbel(size=(sum(SIZES), 4))).argmax(axis=1)


@pytest.fixture(scope="module")
def problem(table):
    parts = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
    silos = Silos.from_parts([table[0][p] for p in parts], [table[1][p].astype(float) for p in parts], row_norm=1.0)
    return Problem.of(SoftmaxRisk(silos, Softmax(4), mu=MU))


@pytest.mark.parametrize(
    ("method", "network", "rounds"),
    [(NoisyGradients(step=1.8, momentum=0.6), None, 150), (PADMM(eta=0.02), complete(3), 120)],
    ids=["noisy-gradients", "p-admm"],
)
def test_reaches_the_optimum_of_scikit_learn(problem, table, method, network, rounds):
    run = QUIET.run(method, problem, Stopping(rounds), network)
    best = LogisticRegression(C=1 / (sum(SIZES) * MU), fit_intercept=False, tol=1e-12, max_iter=10_000).fit(*table)
    np.testing.assert_allclose(run.estimate.reshape(4, 5), best.coef_, atol=1e-6)


def pair(rng, loss, unit, relation):
    """Two worlds in which one record, or person, is badly misclassified whatever the messages, on opposite sides."""
    shared, labels = rng.standard_normal((4, 3)), rng.integers(0, loss.n_classes, 4).astype(float)
    shared /= np.linalg.norm(shared, axis=1, keepdims=True)
    worlds = []
    for sign in (1.0, -1.0):
        number = 1 if unit is Unit.RECORD else (3 if sign > 0 else 2)
        number = number if sign > 0 or relation is NeighbouringRelation.REPLACE_ONE else 0
        mine = np.vstack([np.tile([-0.2, sign * np.sqrt(0.96), 0.0], (number, 1)), shared])
        y = np.concatenate([np.zeros(number), labels])
        whose = np.concatenate([np.zeros(number), 1 + np.arange(4)]).astype(np.intp)
        people = [PersonRows.of(whose).people] if unit is Unit.PERSON else None
        nominal = None if relation is NeighbouringRelation.REPLACE_ONE else [5]
        silos = Silos.from_parts([mine], [y], row_norm=1.0, people=people, nominal=nominal)
        worlds.append(Problem.of(SoftmaxRisk(silos, loss, mu=0.05)))
    return worlds


@pytest.mark.parametrize("cap", [1.0, 0.7, 0.3])
@pytest.mark.parametrize("unit", [Unit.RECORD, Unit.PERSON])
@pytest.mark.parametrize("relation", list(NeighbouringRelation))
def test_gradients_of_neighbours_stay_within_the_certificate(cap, unit, relation):
    """Realised over certified: never above 1, and above 0.9 at the worst public point."""
    rng, loss, reached = np.random.default_rng(1), Softmax(3, cap), 0.0
    who = Protection(unit=unit, relation=relation)
    for _ in range(5):
        worlds = pair(rng, loss, unit, relation)
        (mechanism,) = NoisyGradients(step=1.0).mechanisms(Setting(worlds[0], 1, 1e-12, protection=who))
        certificate = mechanism.rows[0].certificates[0]
        assert certificate.theorem == "C9 (sum of gradients) + C13"
        points = rng.standard_normal((9, 200)) * 10 ** rng.uniform(-1, 2, 200)
        far = np.zeros((3, 3))
        far[:2, 0] = 400.0, -400.0
        points[:, 0] = far.ravel()
        moved = np.linalg.norm(worlds[0].gradient(points) - worlds[1].gradient(points), axis=0)
        assert moved.max() <= certificate.bound
        reached = max(reached, moved.max() / certificate.bound)
    assert reached > 0.9


def test_masked_and_secure_runs(problem):
    for who in (Protection(view=View.PUBLIC), Protection(view=View.AGGREGATE)):
        done = run_private(NoisyGradients(step=1.0), problem, 3, ONE, SecureSampler(), engine=QUIET, protection=who)
        assert done.is_private_release
        assert done.account.curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-5)
        assert done.run.estimate.shape == (20, 1)


def test_noise_common_to_all_classes_is_without_effect(problem):
    """What it adds to every class's coefficients alike is seen by no gradient: nothing is gained by taking it off."""
    run = run_private(NoisyGradients(step=1.0), problem, 10, ONE, SimulatedSampler(1), engine=QUIET).run
    x = run.estimate
    centred = (x.reshape(4, 5) - x.reshape(4, 5).mean(axis=0)).reshape(20, 1)
    bare = replace(problem, functions=replace(problem.functions, mu=0.0))
    assert np.abs(x - centred).max() > 0.01
    np.testing.assert_allclose(bare.gradient(x), bare.gradient(centred), atol=1e-14)
    np.testing.assert_allclose(bare.gradient(x).reshape(4, 5).sum(axis=0), 0, atol=1e-14)
