"""The batched quasi-Newton solver: the solver contract, the safe step, the Newton finish, and hard cases."""

import numpy as np
import pytest
from scipy import sparse
from tests.contracts.centred_rows import centred
from tests.contracts.solver_contract import (
    SolverContract,
    columns,
    reference,
    residual_norms,
    risk,
    subproblem,
    weights_of,
)

from dpadmm.errors import SolverError
from dpadmm.problems.losses import EpsilonInsensitive, Huber, LabelKind, Logistic, Quantile, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import RUN, Silos
from dpadmm.solvers import columns as module
from dpadmm.solvers.columns import MajoriserSolver
from dpadmm.solvers.newton import NewtonColumns
from dpadmm.solvers.solver import Subproblem

STORES = (np.asarray, sparse.csr_array, centred)
HARD_LOSSES = (
    *(Logistic(), Logistic(0.6), Huber(0.05), SmoothedHinge(0.5), SmoothedHinge(0.01)),
    *(Quantile(0.9, 0.05), EpsilonInsensitive(0.1, 0.02)),
)


class TestMajoriserSolver(SolverContract):
    slack = 1e-14
    cases = tuple(
        risk(loss, sizes, d, is_sparse=is_sparse, row_norm=row_norm, mu=mu)
        for loss, sizes, d, is_sparse, row_norm, mu in (
            (Logistic(), (12, 30, 7), 5, False, 1.0, 0.05),
            (Logistic(), (12, 30, 7), 5, True, 4.0, 0.0),
            (Logistic(), (4, 2, 3), 9, False, 1.0, 0.0),
            (Logistic(), (4, 20, 1), 9, True, 1.0, 0.05),
            (Logistic(0.6), (12, 30, 7), 5, True, 4.0, 0.05),
            (Logistic(0.55), (12, 30, 7), 5, False, 9.0, 0.0),
            (Huber(0.5), (12, 30, 7), 5, False, 1.0, 0.0),
            (Huber(0.5), (4, 12, 2), 9, True, 2.0, 0.05),
            (SmoothedHinge(0.5), (12, 30, 7), 5, True, 1.0, 0.0),
            (SmoothedHinge(0.5), (4, 12, 2), 9, False, 1.0, 0.05),
        )
    ) + tuple(
        risk(loss, sizes, d, is_centred=True, row_norm=row_norm, mu=mu)
        for loss, sizes, d, row_norm, mu in (
            (Logistic(), (12, 30, 7), 5, 4.0, 0.0),
            (Logistic(0.6), (4, 20, 1), 9, 1.0, 0.05),
            (Huber(0.5), (4, 12, 2), 9, 2.0, 0.05),
            (SmoothedHinge(0.5), (12, 30, 7), 5, 1.0, 0.0),
        )
    )

    def test_is_chosen(self):
        assert all(type(self.make(functions)) is MajoriserSolver for functions in self.cases)

    def test_passes_are_counted_for_the_slowest_column(self):
        solver, sub = self.make(self.cases[0]), subproblem(self.cases[0])
        together = solver.solve(sub).passes
        alone = [solver.solve(columns(sub, [r, r])).passes for r in range(3)]  # one column alone goes another way
        np.testing.assert_array_equal(together, np.max(alone, axis=0))
        done = solver.solve(Subproblem(sub.lin, sub.centre, sub.pull, solver.solve(sub).point))
        np.testing.assert_array_equal(done.passes, 1)

    @pytest.mark.parametrize("case", range(14))
    def test_least_squares_by_steps_agree_with_the_closed_form(self, case):
        """The steps know nothing of the loss but its slope: with the squared loss they meet linear algebra."""
        functions = self.cases[case]
        rng = np.random.default_rng(case)
        silos = Silos(functions.silos.features, rng.normal(size=len(functions.silos.labels)), *others(functions.silos))
        functions = EmpiricalRisk(silos, Squared(), functions.mu)
        sub = subproblem(functions)
        ours = MajoriserSolver(functions, weights_of(functions), 1e-11).solve(sub)
        np.testing.assert_allclose(ours.point, self.make(functions).solve(sub).point, rtol=0, atol=1e-10)


class TestFewRows(TestMajoriserSolver):
    """The same by NumPy: no compiled code is loaded for it."""

    is_small = True

    def test_passes_are_counted_for_the_slowest_column(self):
        """A start that is known needs no pass at all, dense or sparse."""
        solver, sub = self.make(self.cases[0]), columns(subproblem(self.cases[0]), [1])
        found = solver.solve(sub)
        again = solver.solve(Subproblem(sub.lin, sub.centre, sub.pull, found.point))
        assert (found.passes > 1).all()
        np.testing.assert_array_equal(again.passes, 0)
        np.testing.assert_array_equal(again.gradient_norm, found.gradient_norm)


def others(silos):
    return silos.offsets, silos.row_norm, silos.names


def hard(loss, *, n, d, store=np.asarray, one_class=False, seed=0):
    """Two separable silos without ridge: repeated rows, a zero row, a zero column; one class only, if wanted."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        rows = rng.normal(size=(n, d))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        rows[n // 2 : n // 2 + 2] = rows[0]
        rows[1] = 0.0
        rows[:, 1] = 0.0
        parts.append(rows)
    rule = rng.normal(size=d)
    labels = [np.ones(n) if one_class else np.where(rows @ rule >= 0, 1.0, -1.0) for rows in parts]
    if loss.target is LabelKind.REALS:
        labels = [3 * y + rng.normal(size=n) for y in labels]
    return EmpiricalRisk(Silos.from_parts([store(part) for part in parts], labels, 1.0), loss)


@pytest.mark.parametrize("loss", HARD_LOSSES, ids=repr)
@pytest.mark.parametrize(("n", "d"), [(40, 5), (6, 12)])
@pytest.mark.parametrize("one_class", [False, True])
@pytest.mark.parametrize("store", STORES)
def test_hard_cases(loss, n, d, one_class, store):
    """Penalties down to 1e-6 without ridge and centres up to 1e3: saturated margins, flat losses, many kinks."""
    functions = hard(loss, n=n, d=d, one_class=one_class, store=store)
    weights = np.array([1.0, 0.3])
    solver = MajoriserSolver(functions, weights, 1e-9)
    for pull, spread in ((1e-6, 0.0), (1e-6, 1e3), (1e-3, 1.0), (1e-3, 1e3), (1.0, 1e3)):
        sub = subproblem(functions, replicas=2, spread=spread, pull=pull)
        sub = Subproblem(pull * sub.lin, sub.centre, sub.pull, sub.start)
        solution = solver.solve(sub)
        true = residual_norms(functions, weights, sub, solution.point)
        # The gradient itself is rounded: the last bit of a margin times the curvature, and that of the pull.
        rounding = 4e-16 * (1 + (pull + loss.curvature_bound) * np.linalg.norm(solution.point, axis=1))
        assert (np.abs(true - solution.gradient_norm) <= rounding).all()
        assert (solution.gradient_norm <= 1e-9).all()
        assert (solution.passes <= 200).all()


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.01)])
def test_a_hard_point_against_scipy(loss):
    functions = hard(loss, n=40, d=5)
    sub = subproblem(functions, replicas=1, pull=1e-2)
    sub = Subproblem(1e-2 * sub.lin, sub.centre, sub.pull, sub.start)
    point = MajoriserSolver(functions, weights_of(functions), 1e-12).solve(sub).point
    for row in range(2):
        expected = reference(functions, weights_of(functions), sub, row, 0)
        np.testing.assert_allclose(point[row, :, 0], expected, rtol=0, atol=1e-8)


class Judged:
    """Watches the columns of every solve: what was proposed, taken back and reached."""

    def __init__(self, monkeypatch):
        self.rejected = self.plain = 0
        self.merits = []
        inner = module._Columns.judge

        def judge(columns, proposal, slope):
            was_plain, before = columns.is_plain.copy(), columns.x.copy()
            merit = columns._merit(columns.gradient)
            inner(columns, proposal, slope)
            refused = columns.is_plain
            np.testing.assert_array_equal(columns.x[:, refused], before[:, refused])
            np.testing.assert_array_equal(columns.x[:, ~refused], proposal[:, ~refused])
            assert not (refused & was_plain).any()  # a safe step is always taken
            self.rejected += int(refused.sum())
            self.plain += int(was_plain.sum())
            self.merits.append(columns._merit(columns.gradient) / merit)

        monkeypatch.setattr(module._Columns, "judge", judge)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("n", "d"), [(40, 5), (6, 12)])
@pytest.mark.parametrize("loss", HARD_LOSSES, ids=repr)
def test_rejected_steps_are_undone_and_replaced_by_safe_ones(monkeypatch, loss, n, d, store):
    """Every judged step leaves the gradient no larger in the norm of P^-1, and fast ones are rejected on the way."""
    functions = hard(loss, n=n, d=d, store=store)
    functions = EmpiricalRisk(functions.silos, loss, 1e-3)
    solver = MajoriserSolver(functions, np.ones(2), 1e-9)
    watch = Judged(monkeypatch)
    sub = subproblem(functions, replicas=4, pull=1e-3)
    sub = Subproblem(1e-2 * sub.lin, sub.centre, sub.pull, sub.start)
    solution = solver.solve(sub)
    assert watch.rejected > 5
    assert watch.plain > 5
    assert np.concatenate(watch.merits).max() <= 1 + 1e-9
    assert (residual_norms(functions, np.ones(2), sub, solution.point) <= 1e-9 * (1 + 1e-3)).all()


def test_safe_steps_alone_converge(monkeypatch):
    """With every fast step refused the safe ones still reach the tolerance, and the same point."""
    functions = risk(Logistic(), (12, 30), 5)
    sub = subproblem(functions)
    expected = MajoriserSolver(functions, np.ones(2), 1e-11).solve(sub)
    monkeypatch.setattr(module, "_ENOUGH", 0.0)
    monkeypatch.setattr(module, "_FAST_PASSES", 500)
    monkeypatch.setattr(NewtonColumns, "solve", None)
    slow = MajoriserSolver(functions, np.ones(2), 1e-11).solve(sub)
    np.testing.assert_allclose(slow.point, expected.point, rtol=0, atol=1e-10)
    assert (slow.passes > expected.passes).all()


def test_columns_of_a_hard_batch_are_independent():
    """Easy and hard columns together: rejections and the Newton finish of one leave the others alone."""
    functions = hard(SmoothedHinge(0.01), n=40, d=5)
    sub = subproblem(functions, replicas=4, pull=0.3)
    sub.lin[:, :, 1] *= 1e-3
    sub.centre[:, :, 2] *= 1e3
    solver = MajoriserSolver(functions, np.ones(2), 1e-11)
    full = solver.solve(sub).point
    for r in range(4):
        np.testing.assert_allclose(solver.solve(columns(sub, [r])).point[:, :, 0], full[:, :, r], rtol=0, atol=1e-10)


class TestFailing:
    def test_max_passes_also_limits_newton(self):
        functions = hard(SmoothedHinge(0.01), n=40, d=5)
        sub = subproblem(functions, replicas=1, pull=1e-6, spread=0.0)
        sub = Subproblem(1e-6 * sub.lin, sub.centre, sub.pull, sub.start)
        with pytest.raises(SolverError, match="missed"):
            MajoriserSolver(functions, np.ones(2), 1e-9, max_passes=module._FAST_PASSES + 2).solve(sub)
        assert (MajoriserSolver(functions, np.ones(2), 1e-9).solve(sub).passes > module._FAST_PASSES).any()

    def test_one_bad_column_is_named_and_the_others_would_pass(self):
        functions = risk(Logistic(), (12, 30), 5)
        sub = subproblem(functions)
        sub.centre[1, 2, 0] = np.nan
        with pytest.raises(SolverError, match=r"agents \[1\]"):
            MajoriserSolver(functions, np.ones(2), 1e-9).solve(sub)


def test_more_rows_than_one_block():
    """The passes go through the rows in blocks; more rows than fit one, not a multiple of it."""
    for is_sparse in (False, True):
        functions = risk(Logistic(), (RUN + 301, 40), 3, is_sparse=is_sparse)
        sub = subproblem(functions, replicas=2)
        solution = MajoriserSolver(functions, np.ones(2), 1e-11).solve(sub)
        assert (residual_norms(functions, np.ones(2), sub, solution.point) <= 1.01e-11).all()
