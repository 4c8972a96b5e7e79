"""One logistic problem on four silos of unequal sizes, and what scikit-learn finds."""

import numpy as np
import pytest
from tests.methods.silos import MU, SIZES, fitted

from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import by_sizes
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem


@pytest.fixture(scope="session")
def table():
    return logistic_table(sum(SIZES), 6, rng=np.random.default_rng(5)).data


@pytest.fixture(scope="session")
def problem(table):
    silos = table.silos(by_sizes(sum(SIZES), SIZES, np.random.default_rng(6)))
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=MU))


@pytest.fixture(scope="session")
def optimum(table):
    return fitted(table.features, table.labels)
