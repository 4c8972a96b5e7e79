"""The solver for many dimensions: the solver contract, hard cases, its two finishes, its memory and its choice."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from tests.contracts.centred_rows import centred
from tests.contracts.solver_contract import SolverContract, residual_norms, risk, subproblem
from tests.solvers.test_majoriser import HARD_LOSSES, STORES, hard
from tests.solvers.test_watched import LOSSES, risks, subproblems

from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import PersonRows, Silos, gram
from dpadmm.solvers import columns as module
from dpadmm.solvers import solver as shared
from dpadmm.solvers.closed_forms import RankOneSolver, SquaredSolver
from dpadmm.solvers.columns import MajoriserSolver, MatrixFreeSolver, SingleColumns
from dpadmm.solvers.newton import conjugate_gradients
from dpadmm.solvers.solver import Metric, Spectrum, Subproblem, largest_term, prepare, prepare_release
from dpadmm.testing import LocalEngine, Stopping


@pytest.fixture
def _always(monkeypatch):
    monkeypatch.setattr(shared, "_LARGE", 0)
    monkeypatch.setattr(shared, "_LARGE_SPARSE", 0)


@pytest.mark.usefixtures("_always")
class TestMatrixFreeSolver(SolverContract):
    slack = 1e-14
    cases = tuple(
        risk(loss, sizes, d, is_sparse=is_sparse, is_centred=is_centred, row_norm=row_norm, mu=mu)
        for loss, sizes, d, is_sparse, is_centred, row_norm, mu in (
            (Logistic(), (12, 30, 7), 5, False, False, 1.0, 0.05),
            (Logistic(), (12, 30, 7), 20, True, False, 4.0, 0.0),
            (Logistic(0.6), (12, 30, 7), 5, False, True, 4.0, 0.05),
            (Huber(0.5), (4, 12, 2), 9, True, False, 2.0, 0.05),
            (SmoothedHinge(0.5), (4, 12, 2), 9, False, False, 1.0, 0.05),
            (Squared(), (12, 30, 7), 5, False, True, 1.0, 0.0),
            (Squared(), (80, 70), 65, False, False, 1.0, 0.0),
        )
    )

    def test_it_is_the_one_that_is_made(self, functions):
        assert type(self.make(functions)) is MatrixFreeSolver


@pytest.mark.parametrize("loss", HARD_LOSSES, ids=repr)
@pytest.mark.parametrize("store", STORES)
def test_hard_cases(loss, store):
    """Penalties down to 1e-6 without ridge and centres up to 1e3: saturated margins, flat losses, many kinks."""
    for n, d in ((40, 5), (6, 12)):
        functions, weights = hard(loss, n=n, d=d, store=store), np.array([1.0, 0.3])
        solver = MatrixFreeSolver(functions, weights, 1e-9)
        for pull, spread in ((1e-6, 0.0), (1e-6, 1e3), (1e-3, 1.0), (1.0, 1e3)):
            sub = subproblem(functions, replicas=2, spread=spread, pull=pull)
            sub = Subproblem(pull * sub.lin, sub.centre, sub.pull, sub.start)
            found = solver.solve(sub)
            true = residual_norms(functions, weights, sub, found.point)
            rounding = 4e-16 * (1 + (pull + loss.curvature_bound) * np.linalg.norm(found.point, axis=1))
            assert (np.abs(true - found.gradient_norm) <= rounding).all()
            assert (found.gradient_norm <= 1e-9).all()


@pytest.mark.usefixtures("_always")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("n", "d"), [(2, 5), (20, 3)])
def test_what_is_not_refused_is_solved(loss, n, d):
    """A release fails by public numbers alone: extreme records, at the smallest tolerance that these allow."""
    weights = np.full(1, 0.5)
    for functions in risks(n, d, loss):
        solver = prepare_release(functions, weights, 1.0)
        assert type(solver.solver) is MatrixFreeSolver
        for each in subproblems(d):
            least = largest_term(each, functions.constants, weights) * solver.rounded
            solver.solver.tolerance = least
            assert solver.solve(each).gradient_norm.max() <= least


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 25),
    st.sampled_from(STORES),
    st.sampled_from((Logistic(), Huber(0.3), SmoothedHinge(0.5))),
    st.floats(-3, 1),
)
def test_the_optimum_of_random_problems(seed, n, d, store, loss, log_pull):
    """Against SciPy, and against the solver with whole matrices: the strong convexity bounds how far apart they are."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4) / np.sqrt(d)
    labels = rng.choice([-1.0, 1.0], n) if loss != Huber(0.3) else rng.normal(size=n)
    functions = EmpiricalRisk(Silos.from_parts([store(rows)], [labels], 10.0), loss, 0.01)
    sub, tolerance = subproblem(functions, replicas=1, seed=seed, pull=10.0**log_pull), 1e-10
    sub = Subproblem(sub.lin, sub.centre, sub.pull, sub.start + rng.normal())
    ours, plain = (kind(functions, np.ones(1), tolerance).solve(sub) for kind in (MatrixFreeSolver, MajoriserSolver))
    convexity = 0.01 + 10.0**log_pull
    assert np.linalg.norm(ours.point - plain.point) <= 2 * tolerance / convexity

    def objective(x):
        away = x - sub.centre[0, :, 0]
        value = float(functions.value(x[None, :, None])[0, 0]) + sub.lin[0, :, 0] @ x + sub.pull[0] / 2 * away @ away
        return value, functions.gradient(x[None, :, None])[0, :, 0] + sub.lin[0, :, 0] + sub.pull[0] * away

    start = np.zeros(d)
    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 0.0})
    gap = tolerance + np.linalg.norm(objective(found.x)[1])
    assert np.linalg.norm(ours.point[0, :, 0] - found.x) <= gap / convexity


@pytest.mark.parametrize("is_overwritten", [False, True])
def test_a_warm_solve_is_the_fresh_one(is_overwritten):
    """To the last bit, with a pass less; the answer may be its owner's scratch, and is then another point."""
    functions = risk(Logistic(), (40, 25), 30, is_sparse=True)
    warm, fresh = (MatrixFreeSolver(functions, np.ones(2), 1e-10) for _ in range(2))
    point = warm.solve(subproblem(functions)).point
    if is_overwritten:
        point *= 1.5
    sub = subproblem(functions, seed=2)
    ours, plain = (each.solve(Subproblem(sub.lin, sub.centre, sub.pull, point)) for each in (warm, fresh))
    np.testing.assert_array_equal(ours.point, plain.point)
    np.testing.assert_array_equal(plain.passes - ours.passes, 0 if is_overwritten else 1)


@pytest.mark.parametrize("store", STORES)
def test_newton_finishes_what_is_left(monkeypatch, store):
    """By conjugate gradients, to the same point, and what is kept belongs to it."""
    functions = hard(Logistic(), n=60, d=30, store=store)
    sub = subproblem(functions, replicas=2, pull=1e-3)
    expected = MatrixFreeSolver(functions, np.ones(2), 1e-11).solve(sub)
    monkeypatch.setattr(module, "_MATRIX_FREE_PASSES", 2)
    solver = MatrixFreeSolver(functions, np.ones(2), 1e-11)
    found = solver.solve(sub)
    assert (found.passes > 2).all()
    assert (residual_norms(functions, np.ones(2), sub, found.point) <= 1.01e-11).all()
    np.testing.assert_allclose(found.point, expected.point, rtol=0, atol=4e-8)
    for agent, kept in enumerate(solver._last):
        for r in range(2):
            np.testing.assert_array_equal(kept.slope[:, r], solver._singles.slope(agent, kept.point[:, r].copy()))


def test_steps_that_go_too_far_are_shortened():
    """Equal columns: the diagonal knows a twentieth of the curvature, so that a plain step is twenty times too long."""
    rows = sparse.csr_array(np.full((50, 20), 1.0))
    functions = EmpiricalRisk(Silos.from_parts([rows], [np.ones(50)], 5.0), Squared())
    columns, metric = SingleColumns(functions, np.full(1, 1 / 50)), Metric.diagonal(rows, np.full(50, 1 / 50))
    start = np.zeros(20)
    first = columns.solve(0, metric, 1e-3, np.zeros(20), start, None, 1e-12, 2)
    assert first.norm > 1e-12  # the whole step is taken back ...
    np.testing.assert_array_equal(first.point, start)
    found = columns.solve(0, metric, 1e-3, np.zeros(20), start, None, 1e-10, 6)
    assert found.norm <= 1e-10  # ... and its twentieth ends at the minimum
    np.testing.assert_allclose(found.point, 1 / (20 + 1e-3), rtol=1e-9)


class TestMetric:
    rows = np.random.default_rng(0).normal(size=(90, 70)) @ np.diag(np.geomspace(1, 1e-2, 70))
    weights = np.random.default_rng(1).uniform(0.1, 1.0, 90)

    @pytest.mark.parametrize("store", [sparse.csr_array, centred])
    def test_diagonal(self, store):
        found = Metric.diagonal(store(self.rows), self.weights)
        np.testing.assert_allclose(found.rest, np.diag(gram(self.rows, self.weights)), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.inverse(0.5)[2], 1 / (found.rest + 0.5), rtol=1e-15)

    def test_low_rank_has_the_largest_directions_and_the_trace(self):
        found, whole = Metric.low_rank(self.rows, self.weights), gram(self.rows, self.weights)
        values = np.linalg.eigvalsh(whole)[::-1]
        assert found.vectors.shape == (70, 50)
        np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(50), atol=1e-13)
        np.testing.assert_allclose((found.values + found.rest[0])[:20], values[:20], rtol=1e-3)
        assert found.values.sum() + found.rest.sum() == pytest.approx(np.trace(whole), rel=1e-6)

    @pytest.mark.parametrize("shape", [(90, 70), (90, 30), (8, 30), (0, 4), (1, 1)])
    def test_the_inverse_is_that_of_the_metric(self, shape):
        rows = self.rows[: shape[0], : shape[1]]
        for found in (
            Metric.low_rank(rows, self.weights[: shape[0]]),
            Metric.of_spectrum(Spectrum.of_rows(rows, 0.3)),
            Metric.diagonal(sparse.csr_array(rows), self.weights[: shape[0]]),
        ):
            vectors, gains, spread = found.inverse(0.1)
            inverse = vectors * gains @ vectors.T + np.diag(spread)
            whole = found.vectors * found.values @ found.vectors.T + np.diag(found.rest + 0.1)
            np.testing.assert_allclose(inverse @ whole, np.eye(shape[1]), atol=1e-9)

    def test_conjugate_gradients(self):
        whole = gram(self.rows, self.weights) + 0.1 * np.eye(70)
        right = np.random.default_rng(2).normal(size=70)
        vectors, gains, spread = Metric.low_rank(self.rows, self.weights).inverse(0.1)
        used = []

        def times(v):
            used.append(1)
            return whole @ v

        found, _ = conjugate_gradients(
            times, right, 1e-4 * np.linalg.norm(right), 500, lambda v: vectors @ (gains * (vectors.T @ v)) + spread * v
        )
        assert np.linalg.norm(whole @ found - right) <= 1.1e-4 * np.linalg.norm(right)
        assert len(used) < 15  # without a metric it takes twice as many


def large(n=3000, d=20_000, entries=20, silos=3):
    rng = np.random.default_rng(0)
    values = rng.uniform(0.1, 1.0, (n, entries)) / entries
    indices = np.sort((rng.random((n, entries)) ** 3 * d).astype(np.int32), axis=1)
    rows = sparse.csr_array((values.ravel(), indices.ravel(), np.arange(0, n * entries + 1, entries)), shape=(n, d))
    rows.sum_duplicates()
    labels = np.where(rows @ rng.normal(size=d) > 0, 1.0, -1.0)
    parts = [slice(i, None, silos) for i in range(silos)]
    return Silos.from_parts([rows[part] for part in parts], [labels[part] for part in parts], row_norm=1.0)


class TestLarge:
    def run(self, rounds, **options):
        problem = Problem.of(EmpiricalRisk(large(), Logistic(), 1e-3))
        engine = LocalEngine(progress=False, threads=options.pop("threads", 1))
        return engine.run(PADMM(eta=0.01), problem, Stopping(rounds=rounds), ring(3), Shaken(), **options)

    def test_memory_is_linear_in_what_is_stored(self):
        """A 20,000 x 20,000 matrix has 3.2 GB, one row of it for every record half a gigabyte; rows here have 1 MB."""
        tracemalloc.start()
        try:
            run = self.run(2)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert np.isfinite(run.estimate).all()
        assert peak < 40e6

    def test_rows_are_not_copied_to_be_looked_at(self):
        """Copies of an agent's rows, once a round for the history, were half of the time."""
        functions = EmpiricalRisk(large(n=40_000, d=600), Logistic(), 1e-3)
        w = np.zeros((3, 600, 1))
        tracemalloc.start()
        try:
            functions.value(w)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 0.25 * functions.silos.features.data.nbytes

    def test_a_resumed_run_and_any_number_of_threads_have_the_same_bits(self):
        whole = self.run(4)
        resumed = self.run(4, after=self.run(2), threads=2)
        np.testing.assert_array_equal(resumed.models, whole.models)
        np.testing.assert_array_equal(resumed.estimate, whole.estimate)


class Shaken:
    """Seeded noise on messages, the same in a round whether or not others came before it."""

    def perturb(self, kind, k, agents, values):
        return values + 0.1 * np.random.default_rng(k).standard_normal(values.shape)

    def total(self, kind, k, messages):
        raise NotImplementedError


class TestChoice:
    @pytest.mark.parametrize(("store", "limit"), [(np.asarray, 400), (sparse.csr_array, 500), (centred, 500)])
    def test_by_dimension_and_storage(self, store, limit):
        """What the rows hold makes no difference."""
        for rows in (np.zeros((2, limit + 1)), np.eye(2, limit + 1), np.full((2, limit + 1), 1e-3)):
            for loss, other in ((Logistic(), MajoriserSolver), (Squared(), SquaredSolver)):
                for d, kind in ((limit, other), (limit + 1, MatrixFreeSolver)):
                    silos = Silos.from_parts([store(rows[:, :d])], [np.ones(2)], row_norm=1.0)
                    assert type(prepare(EmpiricalRisk(silos, loss), np.ones(1))) is kind

    def test_one_record_each_has_its_closed_form(self):
        silos = Silos.one_record_each(np.eye(2, 600), np.ones(2), row_norm=1.0)
        assert type(prepare(EmpiricalRisk(silos, Logistic()), np.ones(2))) is RankOneSolver


@pytest.mark.parametrize("store", STORES)
def test_rows_that_count_less(store):
    """Persons with several rows, two each."""
    rng = np.random.default_rng(0)
    rows, people = rng.normal(size=(30, 6)) / 4, [PersonRows.of(np.arange(30) // 2).people]
    silos = Silos.from_parts([store(rows)], [rng.choice([-1.0, 1.0], 30)], 4.0, people=people)
    functions = EmpiricalRisk(silos, Logistic(), 0.01)
    sub = subproblem(functions)
    ours, plain = (kind(functions, np.ones(1), 1e-11).solve(sub) for kind in (MatrixFreeSolver, MajoriserSolver))
    np.testing.assert_allclose(ours.point, plain.point, rtol=0, atol=1e-10)


@pytest.mark.parametrize("store", STORES)
def test_an_answer_that_its_owner_overwrites_is_another_start(store):
    """A solver that looked into it would take the slope of the point that was there, with which this one is solved."""
    rng = np.random.default_rng(0)
    silos = Silos.from_parts([store(rng.normal(size=(30, 6)) / 4)], [rng.choice([-1.0, 1.0], 30)], 4.0)
    functions = EmpiricalRisk(silos, Logistic(), 0.01)
    sub, solver = subproblem(functions, replicas=1), MatrixFreeSolver(functions, np.ones(1), 1e-11)
    start = solver.solve(sub).point
    start += 0.5
    again = Subproblem(sub.lin - 0.5 * (sub.pull[0] + 0.01), sub.centre, sub.pull, start)
    assert residual_norms(functions, np.ones(1), again, solver.solve(again).point).max() <= 1.1e-11


def test_an_empty_silo_is_solved():
    """Where numbers of records are nominal a silo may have none."""
    for store in (np.asarray, sparse.csr_array):
        silos = Silos.from_parts([store(np.empty((0, 4)))], [np.empty(0)], 1.0, nominal=[10])
        functions = EmpiricalRisk(silos, Logistic(), 0.5)
        sub = subproblem(functions)
        found = MatrixFreeSolver(functions, np.ones(1), 1e-12).solve(sub)
        expected = (sub.pull[0] * sub.centre - sub.lin) / (sub.pull[0] + 0.5)
        np.testing.assert_allclose(found.point, expected, rtol=0, atol=1e-11)
