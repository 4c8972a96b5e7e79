"""Which solver is chosen for what, and the small parts around the solvers."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy import sparse
from tests.contracts.centred_rows import centred
from tests.contracts.solver_contract import risk

from dpadmm.errors import SolverError
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Squared
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.solvers.closed_forms import QuadraticSolver, RankOneSolver, SquaredSolver
from dpadmm.solvers.columns import MajoriserSolver
from dpadmm.solvers.solver import (
    DEFAULT_TOLERANCE,
    Solution,
    Spectrum,
    Subproblem,
    for_each_block,
    prepare,
    require_converged,
)


class TestPrepare:
    @pytest.mark.parametrize(
        ("functions", "kind"),
        [
            (QuadraticAgents(np.ones((2, 1, 1)), np.ones((2, 1))), QuadraticSolver),
            (risk(Squared(), (3, 1), 2), SquaredSolver),
            (risk(Squared(), (1, 1), 2), RankOneSolver),
            (risk(Logistic(), (1, 1), 2), RankOneSolver),
            (risk(SmoothedHinge(0.5), (1,), 2, is_sparse=True), RankOneSolver),
            (risk(Logistic(), (3, 1), 2), MajoriserSolver),
            (risk(Huber(1.0), (3, 4), 2, is_sparse=True), MajoriserSolver),
            (risk(SmoothedHinge(0.5), (3, 4), 2), MajoriserSolver),
        ],
    )
    def test_picks_the_solver(self, functions, kind):
        solver = prepare(functions, np.ones(functions.n_agents), 1e-7, threads=2)
        assert type(solver) is kind
        assert (solver.tolerance, solver.threads) == (1e-7, 2)
        assert prepare(functions, np.ones(functions.n_agents)).tolerance == DEFAULT_TOLERANCE

    def test_a_new_kind_can_register(self):
        class Mine:
            pass

        prepare.register(Mine, lambda functions, weights, tolerance=1e-9, threads=1: "my solver")
        assert prepare(Mine(), np.ones(1)) == "my solver"


class TestRequireConverged:
    sub = Subproblem(*(np.zeros((3, 2, 2)),) * 2, np.ones(3), np.zeros((3, 2, 2)), np.array([4, 9, 6]))

    def solution(self, norms):
        return Solution(np.zeros((3, 2, 2)), np.array(norms), np.zeros(3))

    def test_passes_what_reached_the_tolerance(self):
        solution = self.solution([[0.0, 1e-9]] * 3)
        assert require_converged(solution, 1e-9, self.sub) is solution

    def test_seats(self):
        assert self.sub.agent_index().tolist() == [4, 9, 6]
        everyone = Subproblem(self.sub.lin, self.sub.centre, self.sub.pull, self.sub.start)
        assert everyone.agent_index().tolist() == [0, 1, 2]


class TestSpectrum:
    @pytest.mark.parametrize("store", [np.asarray, sparse.csr_array, centred])
    @pytest.mark.parametrize("shape", [(9, 4), (4, 4), (3, 7), (1, 5), (6, 1)])
    @pytest.mark.parametrize("sigma", [1e-3, 1.0, 1e3])
    def test_solve_against_linear_algebra(self, shape, store, sigma):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=shape)
        rows[0] = rows[-1]  # repeated rows: rank below min(n, d)
        rhs = rng.normal(size=(shape[1], 3))
        spectrum = Spectrum.of_rows(store(rows), 0.3)
        expected = np.linalg.solve(0.3 * rows.T @ rows + sigma * np.eye(shape[1]), rhs)
        np.testing.assert_allclose(spectrum.solve(rhs, sigma), expected, rtol=1e-9, atol=1e-11 / sigma)
        rebuilt = spectrum.vectors * spectrum.values @ spectrum.vectors.T
        np.testing.assert_allclose(rebuilt, 0.3 * rows.T @ rows, rtol=0, atol=1e-13)
        assert (spectrum.values >= 0).all()
        assert spectrum.vectors.shape == (shape[1], min(shape))

    @pytest.mark.parametrize("shape", [(5, 3), (2, 4)])
    def test_zero_rows(self, shape):
        rhs = np.ones((shape[1], 1))
        np.testing.assert_allclose(Spectrum.of_rows(np.zeros(shape), 1.0).solve(rhs, 0.5), 2 * rhs, rtol=1e-14)


class TestThreads:
    @pytest.mark.parametrize("threads", [1, 2, 3])
    @pytest.mark.parametrize(("number", "block"), [(10, 3), (3, 10), (7, 1), (8, 4), (0, 5)])
    def test_every_block_once(self, threads, number, block):
        seen, lock = [], threading.Lock()

        def work(first, last):
            with lock:
                seen.extend(range(first, last))
            assert 0 < last - first <= block

        for_each_block(work, number, block, threads)
        assert sorted(seen) == list(range(number))

    @pytest.mark.parametrize("threads", [1, 2])
    def test_errors_come_back_to_the_caller(self, threads):
        def work(first, last):
            if first == 2:
                raise SolverError("block 2")

        with pytest.raises(SolverError, match="block 2"):
            for_each_block(work, 5, 1, threads)

    def test_one_blas_thread(self):
        """Where more are allowed, in all libraries, even if more of SciPy is imported after they were looked for."""
        program = (
            "from threadpoolctl import threadpool_info\n"
            "from dpadmm.solvers.solver import one_blas_thread\n"
            "def threads():\n"
            "    return [pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas']\n"
            "with one_blas_thread():\n"
            "    pass\n"
            "import scipy.linalg\n"
            "outside = threads()\n"
            "with one_blas_thread():\n"
            "    print(outside, threads(), sep='; ')\n"
        )
        asked = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ | asked
        )
        outside, inside = (json.loads(part) for part in done.stdout.split(";"))
        assert max(outside) == 2
        assert inside == [1] * len(outside)
