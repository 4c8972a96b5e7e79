"""Local solves of softmax risks."""

import numpy as np
import pytest

from dpadmm.problems.losses import Softmax
from dpadmm.problems.problem import SoftmaxRisk
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.solvers.softmax import SoftmaxSolver
from dpadmm.solvers.solver import Subproblem, prepare


def asked(rng, agents, dimension, replicas, pull):
    lin, centre, start = rng.standard_normal((3, agents, dimension, replicas))
    return Subproblem(lin, centre, np.full(agents, pull), 5 * start)


@pytest.mark.parametrize("pull", [1e-3, 10.0])
@pytest.mark.parametrize("cap", [1.0, 0.3])
def test_minimisers(cap, pull):
    """The gradient of the whole subproblem, taken by the risk itself, vanishes at every answer."""
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, 5)) / 4 for n in (30, 12)]
    labels = [rng.integers(0, 4, len(part)).astype(float) for part in rows]
    people = [PersonRows.of(np.arange(len(part)) // 2).people for part in rows]
    silos = Silos.from_parts(rows, labels, row_norm=2.0, people=people)
    risk, weights = SoftmaxRisk(silos, Softmax(4, cap), mu=0.01), np.array([0.7, 30.0])
    task = asked(rng, 2, 20, 3, pull)
    solver = prepare(risk, weights, 1e-9)
    assert isinstance(solver, SoftmaxSolver)
    found = solver.solve(task)
    x = found.point
    gradient = weights[:, None, None] * risk.gradient(x) + task.lin + task.pull[:, None, None] * (x - task.centre)
    assert np.linalg.norm(gradient, axis=1).max() <= 1.01e-9
    np.testing.assert_allclose(found.gradient_norm, np.linalg.norm(gradient, axis=1), atol=1e-12)
    one = Subproblem(task.lin[1:], task.centre[1:], task.pull[1:], task.start[1:], agents=np.array([1]))
    np.testing.assert_allclose(solver.solve(one).point, x[1:], atol=1e-12)
