"""What P-ADMM reaches on Adult: five silos, delta = 1e-5, mean of ten runs, tail average, training log-loss.

Non-private the training loss is 0.323. The local objective is the capped logistic loss, whose sensitivity is 0.7 of
the plain one's; the loss reported is the plain one. K = 40 and cap = 0.7 (of 0.6, 0.7, 0.8) throughout; mu is 1e-4
below epsilon 1, else 0; eta is the best of three in steps of two around what the plain loss had shown to serve. Means
of ten runs for the noise seeds 0 to 3: 0.418-0.423, 0.377-0.381, 0.364-0.367, 0.344-0.346. The plain loss, with
settings picked from about 350, reaches 0.430-0.437, 0.383-0.388, 0.367-0.372, 0.346-0.348.
"""

import numpy as np
import pytest
from tests.contracts.certificates import by_agent

from dpadmm.core.release import PlannedNoise
from dpadmm.data.partition import dirichlet_label_skew, iid
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete
from dpadmm.noise.mechanisms import Tail
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from dpadmm_research.datasets.splits import split_data

RUNS, SILOS = 10, 5


@pytest.fixture(scope="module")
def train(adult):
    return split_data(adult, np.random.default_rng(0))[0]


def mean_loss(silos, train, epsilon, eta, mu, rounds=40):
    problem = Problem.of(EmpiricalRisk(silos, Logistic(0.7), mu=mu))
    engine = LocalEngine(replicas=RUNS, progress=False, recording=Recording(every=0), tolerance=1e-7)
    # Weights n_i/n are 1/5 here, so eta / 5 is the penalty the papers' unweighted form calls eta.
    method, network = PADMM(eta=eta / SILOS), complete(SILOS)
    plan = plan_noise(method, problem, rounds, Target(epsilon, 1e-5), network, Tail(), engine)
    assert max(curve.epsilon(1e-5) for curve in by_agent(plan).values()) == pytest.approx(epsilon, rel=1e-6)
    noise = PlannedNoise(plan, SimulatedSampler(seed=0), RUNS)
    run = engine.run(method, problem, Stopping(rounds=rounds), network, noise)
    margins = (train.features @ run.tail_average) * train.labels[:, None]
    return float(np.logaddexp(0, -margins).mean())


@pytest.mark.parametrize(
    ("epsilon", "eta", "mu", "at_most"),
    [
        (0.1, 1e-2, 1e-4, 0.430),
        pytest.param(0.5, 2e-3, 1e-4, 0.384, marks=pytest.mark.slow),
        (1.0, 1e-3, 0.0, 0.367),
        pytest.param(5.0, 2e-4, 0.0, 0.347, marks=pytest.mark.slow),
    ],
)
def test_training_loss(train, epsilon, eta, mu, at_most):
    silos = train.silos(iid(train.n_rows, SILOS, np.random.default_rng(1)))
    loss = mean_loss(silos, train, epsilon, eta, mu)
    assert 0.323 < loss <= at_most


def test_label_skew_costs_little(train):
    """Silos of 50 to 18,000 records with 7 to 100 % positives: where one-shot averages collapse."""
    even = train.silos(iid(train.n_rows, SILOS, np.random.default_rng(1)))
    parts = dirichlet_label_skew(train.labels, SILOS, 0.3, np.random.default_rng(3), least=50)
    skewed = train.silos(parts)
    rates = [skewed.part(i)[1].mean() for i in range(SILOS)]
    assert max(rates) - min(rates) > 1.0
    base = mean_loss(even, train, 1.0, 1e-3, 0.0)
    assert mean_loss(skewed, train, 1.0, 1e-3, 0.0) <= 1.05 * base
