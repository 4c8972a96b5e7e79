"""Both non-private methods reach the optimum that scikit-learn finds with all data in one place."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LogisticRegression
from tests.contracts.random_network import random_network

from dpadmm.data import random_quadratics
from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import by_sizes, iid
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.networks import complete, grid, ring
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import Box, ElasticNet
from dpadmm.testing import LocalEngine, Recording, Stopping
from dpadmm_research.datasets.generators import sparse_regression

QUIET = LocalEngine(progress=False, threads=1, recording=Recording(every=5))


def pooled_logistic(features, labels, mu):
    model = LogisticRegression(C=1 / (len(labels) * mu), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    return model.fit(features, labels).coef_.T


def assert_falls_log_linearly(rounds, errors, least_fit):
    """The logarithm of the error must be close to a falling straight line (R^2 of the least-squares fit)."""
    keep = errors > 1e-10
    x, y = rounds[keep].astype(float), np.log(errors[keep])
    assert len(x) >= 5
    slope, intercept = np.polyfit(x, y, 1)
    residual = y - (slope * x + intercept)
    assert slope < -0.02
    assert 1 - residual.var() / y.var() >= least_fit


@pytest.fixture(scope="module")
def small():
    table = logistic_table(300, 6, rng=np.random.default_rng(5)).data
    silos = table.silos(by_sizes(300, [150, 90, 40, 15, 5], np.random.default_rng(6)))
    return table, silos


class TestAdult:
    """The figures stated in the README and the closing notes: gap <= 1e-6, consensus error <= 1e-5."""

    @pytest.mark.parametrize(
        ("n_agents", "network", "penalty", "rounds"),
        [
            (5, None, 0.01, 40),
            (20, None, 0.0025, 50),
            (5, ring(5), 0.003, 70),
            (5, random_network(5, 0.5, seed=0), 0.003, 90),
            pytest.param(20, random_network(20, 0.5, seed=0), 0.00075, 150, marks=pytest.mark.slow),
            pytest.param(20, ring(20), 0.003, 260, marks=pytest.mark.slow),
        ],
        ids=["star-5", "star-20", "ring-5", "random-5", "random-20", "ring-20"],
    )
    def test_reaches_the_pooled_optimum(self, adult, n_agents, network, penalty, rounds):
        mu = 0.01
        silos = adult.silos(iid(adult.n_rows, n_agents, np.random.default_rng(0)))
        problem = Problem.of(EmpiricalRisk(silos, Logistic(), mu=mu))
        optimum = pooled_logistic(adult.features, adult.labels, mu)
        best = problem.objective(optimum)[0]
        method = ConsensusADMM(rho=penalty) if network is None else DecentralisedADMM(eta=penalty)
        engine = LocalEngine(progress=False, recording=Recording(every=5), tolerance=1e-9)
        run = engine.run(method, problem, Stopping(rounds=rounds), network)
        assert run.history.objective[-1, 0] - best <= 1e-6
        assert run.history.consensus_error[-1, 0] <= 1e-5
        np.testing.assert_allclose(run.estimate, optimum, atol=2e-3)
        gaps = run.history.objective[:, 0] - best
        assert_falls_log_linearly(run.history.rounds[gaps > 1e-12], gaps[gaps > 1e-12], 0.75)


class TestSmall:
    def test_error_falls_log_linearly(self, small):
        table, silos = small
        problem = Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.05))
        optimum = pooled_logistic(table.features, table.labels, 0.05)
        for method, network in ((ConsensusADMM(rho=0.05), None), (DecentralisedADMM(eta=0.02), complete(5))):
            run = QUIET.run(method, problem, Stopping(rounds=100), network)
            rounds, errors = run.history.rounds, run.history.objective[:, 0] - problem.objective(optimum)[0]
            assert_falls_log_linearly(rounds, errors, 0.95)

    @pytest.mark.parametrize(
        "loss", [Logistic(), SmoothedHinge(), Huber(0.5), Squared()], ids=lambda v: type(v).__name__
    )
    @pytest.mark.parametrize("weighting", list(Weighting))
    def test_optimality_for_every_loss_and_weighting(self, small, loss, weighting):
        _, silos = small
        problem = Problem.of(EmpiricalRisk(silos, loss, mu=0.05), weighting)
        scale = problem.weights.mean()
        star_run = QUIET.run(ConsensusADMM(rho=0.3 * scale), problem, Stopping(rounds=300, residual=1e-9 * scale))
        assert problem.optimality(star_run.estimate)[0] <= 1e-7 * scale
        ring_run = QUIET.run(
            DecentralisedADMM(eta=0.06 * scale), problem, Stopping(rounds=3000, residual=1e-8), complete(5)
        )
        assert problem.optimality(ring_run.estimate)[0] <= 1e-6 * scale

    def test_ridge_as_regulariser_equals_ridge_in_the_functions(self, small):
        _, silos = small
        inside = Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.05))
        outside = Problem.of(EmpiricalRisk(silos, Logistic()), regulariser=ElasticNet(l2=0.05))
        stopping = Stopping(rounds=300, residual=1e-8)
        for method, network in ((ConsensusADMM(rho=0.05), None), (DecentralisedADMM(eta=0.03), complete(5))):
            one = QUIET.run(method, inside, stopping, network).estimate
            two = QUIET.run(method, outside, stopping, network).estimate
            np.testing.assert_allclose(one, two, atol=1e-6)

    def test_one_class_silo_is_no_obstacle(self):
        table = logistic_table(200, 4, rng=np.random.default_rng(8)).data
        order = np.argsort(table.labels, kind="stable")
        silos = table.silos([order[:60], order[60:120], order[120:]])
        assert set(silos.labels[:60]) == {-1.0}
        problem = Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.02))
        run = QUIET.run(DecentralisedADMM(eta=0.02), problem, Stopping(rounds=800, residual=1e-9), ring(3))
        np.testing.assert_allclose(run.estimate, pooled_logistic(table.features, table.labels, 0.02), atol=1e-6)


class TestLasso:
    def reference(self, data, alpha):
        model = Lasso(alpha=alpha, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
        return model.fit(data.features, data.labels).coef_[:, None]

    def test_users_with_one_record(self):
        planted = sparse_regression(400, 20, rng=np.random.default_rng(2), support=4)
        problem = Problem.of(EmpiricalRisk(planted.users(), Squared()), Weighting.AVERAGE, ElasticNet(l1=2e-3))
        run = QUIET.run(ConsensusADMM(rho=2e-4), problem, Stopping(rounds=6000, residual=1e-10))
        expected = self.reference(planted.data, 2e-3)
        np.testing.assert_allclose(run.estimate, expected, atol=1e-6)
        assert ((run.estimate == 0) == (expected == 0)).all()

    def test_silos(self):
        planted = sparse_regression(300, 30, rng=np.random.default_rng(3), support=5)
        silos = planted.data.silos(iid(300, 6, np.random.default_rng(4)))
        problem = Problem.of(EmpiricalRisk(silos, Squared()), regulariser=ElasticNet(l1=1e-3))
        run = QUIET.run(ConsensusADMM(rho=5e-3), problem, Stopping(rounds=6000, residual=1e-11))
        np.testing.assert_allclose(run.estimate, self.reference(planted.data, 1e-3), atol=1e-6)


class TestQuadratics:
    def test_both_reach_the_linear_solve(self):
        agents = random_quadratics(12, 4, rng=np.random.default_rng(0))
        problem = Problem.of(agents, Weighting.EQUAL)
        expected = np.linalg.solve(agents.curvatures.sum(axis=0), -agents.slopes.sum(axis=0))[:, None]
        star_run = QUIET.run(ConsensusADMM(rho=1.5), problem, Stopping(rounds=500, residual=1e-9))
        grid_run = QUIET.run(DecentralisedADMM(eta=0.3), problem, Stopping(rounds=2000, residual=1e-9), grid(3, 4))
        np.testing.assert_allclose(star_run.estimate, expected, atol=1e-7)
        np.testing.assert_allclose(grid_run.estimate, expected, atol=1e-7)

    def test_box(self):
        agents = random_quadratics(6, 3, rng=np.random.default_rng(1))
        problem = Problem.of(agents, Weighting.EQUAL, Box(-10.0, 0.5))
        run = QUIET.run(ConsensusADMM(rho=1.5), problem, Stopping(rounds=2000, residual=1e-10))
        assert run.estimate.min() >= -10.0
        assert problem.optimality(run.estimate)[0] <= 1e-6
