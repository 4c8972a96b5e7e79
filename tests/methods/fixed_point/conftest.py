"""Problems and noise hooks shared by the tests of fixed-point methods."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import by_sizes
from dpadmm.methods.base import OneNoise
from dpadmm.problems.losses import Logistic, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.testing import LocalEngine, Recording
from dpadmm_research.datasets.generators import sparse_regression


class Keyed(OneNoise):
    """Noise that is a pure function of (message kind, round, agent), as the counter-based samplers are."""

    def __init__(self, scale=0.1):
        self.scale = scale

    def draw(self, kind, k, agent, shape):
        return self.scale * np.random.default_rng([len(kind.name), k, int(agent) + 1]).standard_normal(shape)

    def perturb(self, kind, k, agents, values):
        return values + np.stack([self.draw(kind, k, i, values.shape[1:]) for i in agents])


class Prescribed(OneNoise):
    """What is to be released is noted, and a prescribed value leaves instead: one transcript for all."""

    def __init__(self, seed, scale):
        self.seed, self.scale, self.seen = seed, scale, {}

    def perturb(self, kind, k, agents, values):
        for agent, value in zip(agents.tolist(), values, strict=True):
            self.seen[k, agent] = value.copy()
        texts = [[self.seed, k, int(agent) + 1] for agent in agents]
        return self.scale * np.stack([np.random.default_rng(w).standard_normal(values.shape[1:]) for w in texts])


@pytest.fixture(scope="session")
def keyed():
    return Keyed


@pytest.fixture(scope="session")
def prescribed():
    return Prescribed


@pytest.fixture(scope="session")
def quiet():
    return LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-11)


@pytest.fixture(scope="session")
def lasso():
    """A LASSO over silos of unequal sizes, pooled (N w_i is not 1), and scikit-learn's solution."""
    planted = sparse_regression(160, 6, rng=np.random.default_rng(3), support=3, magnitude=4.0)
    silos = planted.data.silos(by_sizes(160, [40, 10, 30, 25, 15, 40], np.random.default_rng(4)))
    problem = Problem.of(EmpiricalRisk(silos, Squared()), Weighting.POOLED, ElasticNet(l1=0.02))
    model = Lasso(alpha=0.02, fit_intercept=False, tol=1e-14, max_iter=1_000_000)
    return problem, model.fit(planted.data.features, planted.data.labels).coef_[:, None]


@pytest.fixture(scope="session")
def logistic():
    """Logistic silos of unequal sizes with a small ridge."""
    table = logistic_table(60, 4, rng=np.random.default_rng(5)).data
    silos = table.silos(by_sizes(60, [30, 12, 8, 10], np.random.default_rng(6)))
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.05), Weighting.AVERAGE)
