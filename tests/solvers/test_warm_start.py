"""The slope kept from the last solve: the same bits as a fresh one, and never used for another point."""

import numpy as np
import pytest
from tests.contracts.solver_contract import columns, residual_norms, risk, seated, subproblem, weights_of

from dpadmm.errors import SolverError
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.problems.silos import Silos
from dpadmm.solvers import columns as module
from dpadmm.solvers.columns import MajoriserSolver, _Columns
from dpadmm.solvers.solver import Subproblem

LOSSES = (Logistic(), Logistic(0.7), Huber(0.5), SmoothedHinge(0.5))
SIZES = (40, 25, 60)


def made(loss=None, *, is_sparse=True, is_centred=False, threads=1, tolerance=1e-10, **options):
    functions = risk(loss or Logistic(), SIZES, 7, is_sparse=is_sparse, is_centred=is_centred)
    return functions, MajoriserSolver(functions, weights_of(functions), tolerance, threads, **options)


def fresh(solver):
    """A solver that has not solved anything yet."""
    return MajoriserSolver(solver.risk, solver.weights, solver.tolerance, solver.threads)


def started(sub, start):
    return Subproblem(sub.lin, sub.centre, sub.pull, start, sub.agents)


class Passes:
    """Counts the sweeps over the data, agent by agent."""

    def __init__(self, monkeypatch):
        self.made = []
        inner = module.slope_sum

        def counted(risk, agent, x, threads):
            self.made.append(agent)
            return inner(risk, agent, x, threads)

        monkeypatch.setattr(module, "slope_sum", counted)

    def of(self, work):
        self.made.clear()
        work()
        return [self.made.count(agent) for agent in range(len(SIZES))]


def same(solver, sub, saved):
    """Assert that the solver gives what one without a past gives, with `saved` passes fewer."""
    ours, plain = solver.solve(sub), fresh(solver).solve(sub)
    np.testing.assert_array_equal(ours.point, plain.point)
    np.testing.assert_array_equal(ours.gradient_norm, plain.gradient_norm)
    np.testing.assert_array_equal(plain.passes - ours.passes, saved)
    return ours


@pytest.mark.parametrize("replicas", [1, 3, 21])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("is_centred", [False, True])
@pytest.mark.parametrize("is_small", [False, True])
def test_a_warm_solve_is_the_fresh_one_less_a_pass(loss, replicas, is_centred, is_small, monkeypatch):
    """Rounds with new forces, each from where the last one ended; columns retire at different times."""
    monkeypatch.setattr(Silos, "is_small", property(lambda silos: is_small))
    functions, solver = made(loss, is_centred=is_centred)
    point = solver.solve(subproblem(functions, replicas=replicas)).point
    for seed in (2, 3, 4):
        sub = started(subproblem(functions, replicas=replicas, seed=seed, pull=0.1 * seed), point)
        solution = same(solver, sub, saved=1)
        true = residual_norms(functions, weights_of(functions), sub, solution.point)
        np.testing.assert_allclose(solution.gradient_norm, true, rtol=0, atol=1e-14)
        point = solution.point


def test_the_saved_pass_is_really_not_made(monkeypatch):
    functions, solver = made()
    first = solver.solve(subproblem(functions))
    passes = Passes(monkeypatch)
    same_place = started(subproblem(functions), first.point)
    assert passes.of(lambda: solver.solve(same_place)) == [0, 0, 0]
    new = started(subproblem(functions, seed=2), first.point)
    counts = passes.of(lambda: solver.solve(new))
    plain = fresh(solver)
    assert passes.of(lambda: plain.solve(new)) == [count + 1 for count in counts]


def test_a_start_already_good_enough_is_returned_with_its_true_gradient():
    """No pass is made, and the reported norm is still that of the new subproblem, not of the old one."""
    functions, solver = made()
    sub = subproblem(functions)
    point = solver.solve(sub).point
    pushed = sub.lin.copy()
    pushed[:, 0] += 5e-11
    moved = Subproblem(pushed, sub.centre, sub.pull, point)
    solver.tolerance = 1e-9
    solution = solver.solve(moved)
    np.testing.assert_array_equal(solution.point, point)
    np.testing.assert_array_equal(solution.passes, 0)
    true = residual_norms(functions, weights_of(functions), moved, point)
    np.testing.assert_allclose(solution.gradient_norm, true, rtol=0, atol=1e-14)
    assert (solution.gradient_norm > 1e-11).all()


class TestAnotherPoint:
    """Each of these looks like the last point but is not."""

    @pytest.mark.parametrize("agent", range(3))
    @pytest.mark.parametrize("column", [0, 2])
    def test_one_last_bit_in_one_column(self, agent, column):
        functions, solver = made()
        point = solver.solve(subproblem(functions)).point
        point[agent, 3, column] = np.nextafter(point[agent, 3, column], np.inf)
        saved = np.ones(3)
        saved[agent] = 0
        same(solver, started(subproblem(functions, seed=2), point), saved)

    def test_the_answer_overwritten_by_its_owner(self):
        """The caller may use the returned array as scratch: the solver must not look into it later."""
        functions, solver = made()
        solution = solver.solve(subproblem(functions))
        solution.point[:] *= 1.5
        same(solver, started(subproblem(functions, seed=2), solution.point), saved=0)

    def test_the_start_overwritten_by_its_owner(self):
        functions, solver = made()
        sub = subproblem(functions)
        solver.solve(started(sub, sub.start))
        point = solver.solve(sub).point
        sub = started(subproblem(functions, seed=2), point)
        solver.solve(sub)
        sub.start[:] = 0.25
        same(solver, sub, saved=0)

    def test_another_solve_in_between(self):
        functions, solver = made()
        point = solver.solve(subproblem(functions)).point
        solver.solve(subproblem(functions, seed=5))
        same(solver, started(subproblem(functions, seed=2), point), saved=0)

    def test_replicas_in_another_order_or_number(self):
        functions, solver = made()
        sub = started(subproblem(functions, seed=2), solver.solve(subproblem(functions)).point)
        for chosen in ([1, 0, 2], [0, 1], [2]):
            solver.solve(subproblem(functions))
            same(solver, columns(sub, chosen), saved=0)

    def test_another_agents_point(self):
        functions, solver = made()
        point = solver.solve(subproblem(functions)).point
        same(solver, started(subproblem(functions, seed=2), point[[1, 2, 0]]), saved=0)

    def test_not_a_number(self):
        functions, solver = made()
        sub = subproblem(functions)
        sub.lin[1, 0, 0] = np.nan
        for _ in range(2):
            with pytest.raises(SolverError, match=r"agents \[1\]"):
                solver.solve(sub)
        same(solver, subproblem(functions, seed=2), saved=0)


def test_some_agents_keep_their_own():
    functions, solver = made()
    point = solver.solve(subproblem(functions)).point
    sub = started(subproblem(functions, seed=2), point)
    same(solver, seated(sub, [2, 0]), saved=1)
    # Agent 1 has not moved since; the others have.
    same(solver, sub, saved=[0, 1, 0])


def test_solves_cut_short_leave_true_slopes(monkeypatch):
    """Also where the last step of some columns was taken back: the slope kept is that of the point kept."""
    undone, inner = [], _Columns.store

    def store(columns):
        undone.append(columns.is_plain.any())
        inner(columns)

    monkeypatch.setattr(_Columns, "store", store)
    functions = risk(SmoothedHinge(0.01), SIZES, 7, is_sparse=True, mu=1e-3)
    sub = subproblem(functions, pull=1e-3)
    for max_passes in range(1, 12):
        solver = MajoriserSolver(functions, weights_of(functions), 1e-10, max_passes=max_passes)
        undone.clear()
        with pytest.raises(SolverError, match="missed"):
            solver.solve(sub)
        for agent, kept in enumerate(solver._last):
            np.testing.assert_array_equal(kept.slope, solver._slope(agent, kept.point))
        if any(undone):
            break
    assert any(undone)


def test_points_finished_by_newton_are_not_kept(monkeypatch):
    """Newton's method returns no slope: what is kept must still belong to its point."""
    monkeypatch.setattr("dpadmm.solvers.columns._FAST_PASSES", 2)
    functions, solver = made()
    sub = subproblem(functions)
    point = solver.solve(sub).point
    for agent, kept in enumerate(solver._last):
        assert kept is None or not np.array_equal(kept.point, point[agent])
    same(solver, started(subproblem(functions, seed=2), point), saved=0)


def test_dense_rows_always_pass_anew():
    """A dense product gives a column other last bits in another batch, so nothing is kept."""
    functions, solver = made(is_sparse=False)
    point = solver.solve(subproblem(functions)).point
    same(solver, started(subproblem(functions, seed=2), point), saved=0)


def test_number_of_threads_does_not_matter():
    results = []
    for threads in (1, 2, 3):
        functions, solver = made(threads=threads)
        point = solver.solve(subproblem(functions)).point
        results.append(solver.solve(started(subproblem(functions, seed=2), point)))
    for other in results[1:]:
        np.testing.assert_array_equal(other.point, results[0].point)
        np.testing.assert_array_equal(other.passes, results[0].passes)
