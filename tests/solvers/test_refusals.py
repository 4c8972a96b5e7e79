"""What solvers refuse: every row of tests/snapshots/refusals/solvers.txt."""

from dataclasses import replace

import numpy as np
from tests.contracts.solver_contract import risk, subproblem
from tests.refusals import check_refusals

from dpadmm.problems.losses import Logistic, Softmax, Squared
from dpadmm.problems.problem import SoftmaxRisk
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.silos import Silos
from dpadmm.solvers.closed_forms import QuadraticSolver, RankOneSolver, SquaredSolver
from dpadmm.solvers.columns import MajoriserSolver
from dpadmm.solvers.solver import Solution, Subproblem, prepare, prepare_release, require_converged

quadratics = QuadraticAgents([np.eye(2)] * 3, np.ones((3, 2)))
squared, users, logistic = risk(Squared(), (5, 7), 3), risk(Squared(), (1, 1), 2), risk(Logistic(), (12, 30), 5)
softmax = SoftmaxRisk(Silos.from_parts([np.eye(2)], [np.array([0.0, 2.0])], row_norm=1.0), Softmax(3))
point = np.zeros((3, 2, 2))
three = Subproblem(point, point, np.ones(3), point, np.array([4, 9, 6]))
far = replace(subproblem(logistic), centre=np.full((2, 5, 3), 1e9))


def test_refused(snapshot):
    check_refusals(snapshot, "solvers", globals())
