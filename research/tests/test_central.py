"""Pooled records make the same problem."""

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm.problems.silos import Silos
from dpadmm_research.central import pool_records


def test_central_is_one_silo_with_all_records():
    rng = np.random.default_rng(0)
    tables = [rng.uniform(-0.3, 0.3, (n, 6)) for n in (9, 4, 17)]
    silos = Silos.from_parts(tables, [rng.choice([-1.0, 1.0], len(table)) for table in tables], row_norm=1.0)
    problem = Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.1))
    central, x = pool_records(problem), rng.standard_normal((6, 3))
    assert central.n_agents == 1
    np.testing.assert_allclose(central.objective(x), problem.objective(x), rtol=1e-13)
    with pytest.raises(InputError) as refusal:
        pool_records(Problem.of(problem.functions, Weighting.EQUAL))
    assert refusal.value.setting == "weights"
