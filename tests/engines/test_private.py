"""Private runs: what may leave, and what only looks like it."""

import pytest

from dpadmm.algorithms.batches import Batches
from dpadmm.algorithms.dp_sgd import DPSGD
from dpadmm.algorithms.p_admm import PADMM
from dpadmm.datasets import load_breast_cancer
from dpadmm.engines.local import LocalEngine
from dpadmm.engines.private import run_private
from dpadmm.errors import InputError
from dpadmm.networks import ring
from dpadmm.noise import SecureSampler, SimulatedSampler
from dpadmm.noise.draws import Origin
from dpadmm.privacy.calibration import Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import Problem
from dpadmm.problems.risk import EmpiricalRisk

TARGET = Target(epsilon=1.0, delta=1e-5)
QUIET = LocalEngine(progress=False, threads=1)


@pytest.fixture(scope="module")
def problem():
    return Problem.of(EmpiricalRisk(load_breast_cancer().silos(), Logistic(), mu=0.01))


def test_only_secure_noise_makes_a_release(problem):
    for sampler, origin in ((SimulatedSampler(seed=0), Origin.SIMULATED), (SecureSampler(), Origin.SECURE)):
        done = run_private(PADMM(eta=0.01), problem, 2, TARGET, sampler, ring(4), engine=QUIET)
        assert done.origin is origin
        assert done.is_private_release == (origin is Origin.SECURE)
        assert done.statement.curve.epsilon(TARGET.delta) <= TARGET.epsilon


def test_a_release_refuses_batches_that_can_be_guessed(problem):
    known, secret = (DPSGD(step=0.5, batches=b) for b in (Batches(10, seed=0), Batches.secret(10)))
    with pytest.raises(InputError, match="seed can be guessed"):
        run_private(known, problem, 2, TARGET, SecureSampler(), engine=QUIET)
    assert not run_private(known, problem, 2, TARGET, SimulatedSampler(seed=0), engine=QUIET).is_private_release
    assert run_private(secret, problem, 2, TARGET, SecureSampler(), engine=QUIET).is_private_release
