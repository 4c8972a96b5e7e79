"""Closed forms: the solver contract for quadratics, least squares and single records, and their hard cases."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from tests.contracts.centred_rows import as_array
from tests.contracts.solver_contract import (
    SolverContract,
    residual_norms,
    risk,
    seated,
    subproblem,
    weights_of,
)

from dpadmm.problems.losses import EpsilonInsensitive, Huber, Logistic, Quantile, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.silos import Silos
from dpadmm.solvers.closed_forms import QuadraticSolver, RankOneSolver, SquaredSolver
from dpadmm.solvers.solver import Subproblem, prepare


def quadratics(n, d, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n, d, d)) / np.sqrt(d)
    return QuadraticAgents(roots @ roots.transpose(0, 2, 1) + shift * np.eye(d), rng.normal(size=(n, d)))


def users(loss, n=150, d=6, seed=0, row_norm=1.0, mu=0.05, **storage):
    """Agents with one record each, of all norms up to row_norm."""
    return risk(loss, (1,) * n, d, mu=mu, seed=seed, row_norm=row_norm, **storage)


class TestQuadraticSolver(SolverContract):
    # The bound counts every rounding at its worst.
    tolerance = 1e-9
    # 150 agents fill two blocks of the kernel and part of a third.
    cases = (quadratics(150, 4), quadratics(3, 1, shift=1.0), quadratics(2, 11))

    def test_is_chosen(self):
        assert type(self.make(self.cases[0])) is QuadraticSolver

    def test_against_linear_algebra(self):
        functions = self.cases[0]
        sub, weights = subproblem(functions), weights_of(functions)
        solution = self.make(functions).solve(sub)
        for i in range(functions.n_agents):
            matrix = weights[i] * functions.curvatures[i] + sub.pull[i] * np.eye(4)
            forces = sub.pull[i] * sub.centre[i] - sub.lin[i] - weights[i] * functions.slopes[i][:, None]
            np.testing.assert_allclose(solution.point[i], np.linalg.solve(matrix, forces), rtol=1e-11, atol=1e-12)
        assert (solution.passes == 0).all()

    def test_subset_first_then_everyone(self):
        """The penalty of the others is not known at a first call for some; it must not stick."""
        functions = self.cases[0]
        solver, everyone = self.make(functions), subproblem(functions)
        two = seated(subproblem(functions, pull=0.5), [7, 3])
        self.check(functions, two, solver.solve(two))
        self.check(functions, everyone, solver.solve(everyone))
        again = seated(everyone, [100, 2, 64])
        self.check(functions, again, solver.solve(again))

    def test_penalties_of_some_agents_may_change(self):
        functions = self.cases[0]
        solver = self.make(functions)
        solver.solve(subproblem(functions))
        changed = seated(subproblem(functions, pull=3.0), [5, 80])
        self.check(functions, changed, solver.solve(changed))
        sub = subproblem(functions)
        self.check(functions, sub, solver.solve(sub))

    @pytest.mark.parametrize("replicas", [1, 3])
    def test_bound_holds_where_the_agents_own_slope_cancels_the_forces(self, replicas):
        """All three terms are large and leave little, so the rounding is not relative to what is left."""
        plain, rng = quadratics(60, 1, shift=1.0), np.random.default_rng(6)
        functions = QuadraticAgents(plain.curvatures, 1e4 * rng.normal(size=(60, 1)))
        weights, sub = weights_of(functions), subproblem(functions, replicas=replicas, spread=1e4)
        forces = sub.pull[:, None, None] * sub.centre - (weights[:, None] * functions.slopes)[:, :, None]
        sub = Subproblem(forces + 1e-3 * sub.lin, sub.centre, sub.pull, sub.start)
        self.check(functions, sub, self.make(functions).solve(sub))

    @pytest.mark.parametrize("pull", [1e-6, 1.0, 1e6])
    def test_bound_holds_for_ill_conditioned_agents(self, pull):
        """Either the true gradient is below the reported one, or the solve is refused."""
        rng = np.random.default_rng(4)
        basis = np.linalg.qr(rng.normal(size=(5, 6, 6)))[0]
        matrices = basis * np.logspace(-6, 4, 6) @ basis.transpose(0, 2, 1)
        functions = QuadraticAgents((matrices + matrices.transpose(0, 2, 1)) / 2, rng.normal(size=(5, 6)))
        sub = subproblem(functions, pull=pull)
        solution = QuadraticSolver(functions, weights_of(functions), 1.0).solve(sub)
        true = residual_norms(functions, weights_of(functions), sub, solution.point)
        assert (true <= solution.gradient_norm).all()
        assert (solution.gradient_norm <= 1e-2).all()


class TestSquaredSolver(SolverContract):
    slack = 1e-14
    cases = (
        risk(Squared(), (12, 30, 7), 5),
        risk(Squared(), (4, 12, 2), 9, mu=0.0),
        risk(Squared(), (12, 3, 7), 5, is_sparse=True, row_norm=2.0),
        risk(Squared(), (6, 2, 3), 6, is_sparse=True, mu=0.0),
        risk(Squared(), (12, 3, 7), 5, is_centred=True, row_norm=2.0),
        risk(Squared(), (6, 2, 3), 6, is_centred=True, mu=0.0),
    )

    def test_is_chosen(self):
        assert type(self.make(self.cases[0])) is SquaredSolver

    @pytest.mark.parametrize("case", range(6))
    def test_against_linear_algebra(self, case):
        functions = self.cases[case]
        sub, weights = subproblem(functions), weights_of(functions)
        point = self.make(functions).solve(sub).point
        for i in range(functions.n_agents):
            rows, labels = functions.silos.part(i)
            rows = as_array(rows)
            ridge = (weights[i] * functions.mu + sub.pull[i]) * np.eye(functions.dimension)
            matrix = weights[i] * rows.T @ rows / len(labels) + ridge
            moment = weights[i] * rows.T @ labels / len(labels)
            forces = sub.pull[i] * sub.centre[i] - sub.lin[i] + moment[:, None]
            np.testing.assert_allclose(point[i], np.linalg.solve(matrix, forces), rtol=1e-11, atol=1e-12)

    def test_a_penalty_far_below_the_curvature(self):
        """With n < d and a penalty of 1e-9 the first solve loses nine digits; the refinement brings them back."""
        functions = risk(Squared(), (4, 3), 9, mu=0.0)
        sub = subproblem(functions, pull=1e-9)
        sub = Subproblem(1e-6 * sub.lin, sub.centre, sub.pull, sub.start)
        solution = SquaredSolver(functions, np.ones(2), 1e-10).solve(sub)
        assert (residual_norms(functions, np.ones(2), sub, solution.point) <= 1e-10).all()

    @pytest.mark.parametrize("n", [40, 5])
    def test_tiny_penalty_large_centre_and_repeated_rows(self, n):
        rng = np.random.default_rng(5)
        rows = np.repeat(rng.normal(size=(n // 5, 8)) / 8, 5, axis=0)
        rows[:, 3] = 0.0
        rows[0] = 0.0
        functions = EmpiricalRisk(Silos.from_parts([rows], [rng.normal(size=n)], 1.0), Squared())
        sub = subproblem(functions, spread=1e3, pull=1e-6)
        sub = Subproblem(1e-6 * sub.lin, sub.centre, sub.pull, sub.start)
        solution = SquaredSolver(functions, weights_of(functions), 1e-10).solve(sub)
        true = residual_norms(functions, weights_of(functions), sub, solution.point)
        assert (true <= 1e-10).all()


class TestRankOneSolver(SolverContract):
    # The bound counts every rounding at its worst; with curvature 100 and large centres it is far above the truth.
    tolerance = 1e-7
    cases = tuple(
        users(loss, is_sparse=is_sparse, row_norm=row_norm, d=d)
        for loss, is_sparse, row_norm, d in (
            (Logistic(), False, 1.0, 6),
            (Logistic(), True, 3.0, 17),
            (Logistic(0.6), True, 3.0, 17),
            (Squared(), False, 1.0, 6),
            (Huber(0.5), True, 1.0, 6),
            (Quantile(0.9, 2.0), False, 1.0, 6),
            (EpsilonInsensitive(0.3, 0.5), True, 1.0, 6),
            (SmoothedHinge(0.5), False, 1.0, 9),
            (SmoothedHinge(0.01), True, 2.0, 6),
        )
    ) + tuple(users(loss, is_centred=True, row_norm=3.0, d=d) for loss, d in ((Logistic(), 17), (Huber(0.5), 6)))

    def test_point_against_scipy(self, functions):
        """The root finder is slow for 150 agents: every tenth will do."""
        super().test_point_against_scipy(functions.take(np.arange(0, 150, 10)))

    @pytest.mark.parametrize("case", range(9))
    def test_is_chosen(self, case):
        assert type(self.make(self.cases[case])) is RankOneSolver

    @pytest.mark.parametrize("replicas", [1, 4])
    @pytest.mark.parametrize(
        "loss", [Logistic(), Logistic(0.6), Squared(), Huber(0.3), SmoothedHinge(0.01), Quantile(0.9, 2.0)]
    )
    def test_hard_numbers_keep_the_bound(self, loss, replicas):
        """Penalties from 1e-6 to 1e6, centres up to 1e3, rows down to 1e-9 and zero, no ridge."""
        functions = users(loss, n=40, mu=0.0)
        functions.silos.features[0] = 0.0
        functions.silos.features[1:10] *= np.logspace(-9, -1, 9)[:, None]
        for pull in (1e-6, 1e-3, 1.0, 1e3, 1e6):
            for spread in (0.0, 1.0, 1e3):
                sub = subproblem(functions, replicas=replicas, spread=spread, pull=pull)
                sub = Subproblem(pull * sub.lin, sub.centre, sub.pull, sub.start)
                solution = RankOneSolver(functions, weights_of(functions), 1.0).solve(sub)
                true = residual_norms(functions, weights_of(functions), sub, solution.point)
                assert (true <= solution.gradient_norm).all()
                stiffness = pull + 2 * loss.curvature_bound
                sizes = 1 + stiffness * (spread + np.abs(solution.point).max())
                assert (solution.gradient_norm <= 1e-12 * sizes).all()

    def test_the_scalar_equation_is_solved_where_newton_jumps_to_and_fro(self):
        """Margin -3 and step 26: Newton inside a bracket alone went round in circles and gave a wrong slope."""
        functions = EmpiricalRisk(Silos.one_record_each(np.array([[1.0]]), np.ones(1), 1.0), Logistic())
        sub = Subproblem(np.zeros((1, 1, 1)), np.full((1, 1, 1), -3.0), np.array([1 / 26]), np.zeros((1, 1, 1)))
        x = RankOneSolver(functions, np.ones(1), 1e-12).solve(sub).point[0, 0, 0]
        assert abs(x + 3 - 26 * expit(-x)) <= 1e-13

    def test_the_scalar_equation_everywhere(self):
        """Margins from -100 to 100 and steps from 1e-4 to 1e6."""
        margins, pulls = (a.ravel() for a in np.meshgrid(np.linspace(-100, 100, 81), np.logspace(-6, 4, 41)))
        n = len(margins)
        functions = EmpiricalRisk(Silos.one_record_each(np.ones((n, 1)), np.ones(n), 1.0), Logistic())
        sub = Subproblem(np.zeros((n, 1, 1)), margins[:, None, None], pulls, np.zeros((n, 1, 1)))
        x = RankOneSolver(functions, np.ones(n), 1e-3).solve(sub).point[:, 0, 0]
        gradient = pulls * (x - margins) - expit(-x)
        assert (np.abs(gradient) <= 1e-14 * (1 + pulls * (np.abs(x) + np.abs(margins)) + np.abs(x))).all()


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("functions", [quadratics(70, 4), risk(Squared(), (5, 2), 3), users(Logistic(), n=9)])
def test_points_are_written_where_they_are_wanted(functions, replicas):
    """Also over the centre or the linear term, which are then read before they are lost."""
    sub = subproblem(functions, replicas=replicas, spread=10.0)
    solver = prepare(functions, weights_of(functions))
    expected = solver.solve(sub)
    headroom = np.empty_like(sub.lin)
    found = solver.solve(replace(sub, out=headroom))
    assert found.point is headroom
    np.testing.assert_array_equal(headroom, expected.point)
    for name in ("centre", "lin"):
        over = replace(sub, **{name: getattr(sub, name).copy()})
        found = solver.solve(replace(over, out=getattr(over, name)))
        np.testing.assert_array_equal(found.point, expected.point)
        np.testing.assert_array_equal(found.gradient_norm, expected.gradient_norm)
