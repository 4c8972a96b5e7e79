"""Algorithm 6 with its x step corrected: against the numerical prox, the generic solver and scikit-learn's Lasso."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import Lasso
from tests.contracts.centred_rows import centred

from dpadmm.methods.base import Agents
from dpadmm.methods.fixed_point import CentralisedADMM, LassoADMM, Participation
from dpadmm.methods.fixed_point.lasso import solve_lasso_block
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.testing import Stopping, run_private
from dpadmm_research.datasets.generators import sparse_regression


@pytest.fixture(scope="module")
def users():
    planted = sparse_regression(120, 6, rng=np.random.default_rng(1), support=3, magnitude=4.0)
    problem = Problem.of(EmpiricalRisk(planted.users(), Squared()), Weighting.AVERAGE, ElasticNet(l1=0.02))
    model = Lasso(alpha=0.02, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    return planted, problem, model.fit(planted.data.features, planted.data.labels).coef_[:, None]


def test_block_is_the_prox():
    rng = np.random.default_rng(0)
    a, b, v, step = (
        rng.standard_normal((3, 4)),
        rng.standard_normal(3),
        rng.standard_normal((3, 4, 2)),
        np.array([0.3, 1, 9]),
    )
    x = solve_lasso_block(a, b, v, step)
    np.testing.assert_allclose(solve_lasso_block(sparse.csr_array(a), b, v, step), x, rtol=1e-15)
    np.testing.assert_allclose(solve_lasso_block(centred(a), b, v, step), x, rtol=1e-13, atol=1e-13)
    for i in range(3):
        for r in range(2):
            f = lambda y, i=i, r=r: step[i] * (a[i] @ y - b[i]) ** 2 / 2 + ((y - v[i, :, r]) ** 2).sum() / 2  # noqa: E731
            np.testing.assert_allclose(x[i, :, r], minimize(f, np.zeros(4), tol=1e-12).x, atol=1e-6)


@pytest.mark.parametrize("weighting", [Weighting.AVERAGE, Weighting.EQUAL])
def test_block_is_the_generic_solver(users, weighting):
    planted, _, _ = users
    problem = Problem.of(EmpiricalRisk(planted.users(), Squared()), weighting, ElasticNet(l1=0.02))
    agents = Agents.of(problem, None, 1e-12, 1)
    v = np.random.default_rng(2).standard_normal((120, 6, 3))
    some = np.array([5, 3, 77])
    closed = LassoADMM(0.8).minimiser(agents, v, v)
    np.testing.assert_allclose(closed, CentralisedADMM(0.8).minimiser(agents, v, v), atol=1e-12)
    np.testing.assert_allclose(LassoADMM(0.8).minimiser(agents.take(some), v[some], v), closed[some], atol=1e-15)


@pytest.mark.parametrize(("clip", "m"), [(np.inf, 120), (2.0, 120), (np.inf, 30)])
def test_reaches_scikit_learn(users, quiet, clip, m):
    _, problem, expected = users
    order = None if m == 120 else Participation.subsets(120, m, 1500, np.random.default_rng(3))
    run = quiet.run(LassoADMM(8.0, clip=clip, participation=order), problem, Stopping(rounds=1500))
    np.testing.assert_allclose(run.estimate, expected, atol=1e-6)
    assert ((run.estimate == 0) == (expected == 0)).all()


def test_the_printed_step_does_not(users, quiet):
    """With 2n/gamma the blocks are proxes with gamma/(2n), and l1 weighs 2n times too much: everything is zero."""

    class Printed(LassoADMM):
        def minimiser(self, agents, v, start):
            n = agents.number
            return solve_lasso_block(
                agents.functions.silos.features, agents.functions.shifts, v, np.full(len(v), self.gamma / (2 * n))
            )

    _, problem, expected = users
    run = quiet.run(Printed(8.0), problem, Stopping(rounds=1500))
    assert np.linalg.norm(run.estimate - expected) > 0.9 * np.linalg.norm(expected)


def test_private_run(users):
    _, problem, _ = users
    target = Target(2.0, 1e-6)
    order = Participation.subsets(120, 12, 20, np.random.default_rng(4))
    done = run_private(LassoADMM(8.0, clip=0.5, participation=order), problem, 20, target, SimulatedSampler(seed=1))
    assert done.account.curve.epsilon(1e-6) == pytest.approx(2.0, rel=1e-6)
    assert {release.certificate.bound for release in done.plan} == {2.0}
