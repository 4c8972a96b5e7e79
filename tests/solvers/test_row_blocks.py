"""Blocks of rows: their bounds, their sums against the definition, and bits that no number of threads changes."""

import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contracts.centred_rows import as_array
from tests.contracts.solver_contract import EXTENDED, plain_slope, residual_norms, risk, subproblem

from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete
from dpadmm.problems import silos as silos_module
from dpadmm.problems.losses import Huber, LabelKind, Logistic, SmoothedHinge, Softmax, Squared
from dpadmm.problems.problem import Problem, SoftmaxRisk
from dpadmm.problems.silos import PART, Silos, row_bounds
from dpadmm.solvers.closed_forms import SquaredSolver
from dpadmm.solvers.columns import MajoriserSolver, MatrixFreeSolver, SingleColumns, slope_sum, softmax_sum
from dpadmm.solvers.kernels import dense_sum
from dpadmm.solvers.solver import Metric, block_gram, for_each_block, sum_blocks
from dpadmm.testing import LocalEngine, Stopping

SIZES = (301, 45, 60)
KINDS = ({}, {"is_sparse": True}, {"is_sparse": True, "is_centred": True})
LOSSES = (Logistic(), Logistic(0.6), Huber(0.5), SmoothedHinge(0.5))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """So that the first agent has several blocks and the others one."""
    monkeypatch.setattr(silos_module, "_DENSE_NUMBERS", 400)
    monkeypatch.setattr(silos_module, "_SPARSE_ROWS", 40)


@given(st.integers(0, 10**7), st.integers(0, 10**8), st.integers(1, 10**5), st.booleans())
def test_bounds_cut_the_rows_evenly(start, n, d, is_sparse):
    bounds = row_bounds(slice(start, start + n), d, is_sparse)
    assert (bounds[0], bounds[-1]) == (start, start + n)
    sizes = np.diff(bounds)
    assert 1 <= len(sizes) <= max(16, math.ceil(n / PART))
    assert sizes.max() <= PART  # what certificates count (C7)
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) == 1 or (sizes.min() >= d if is_sparse else sizes.min() * d >= 400 - d)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.3)], ids=repr)
@pytest.mark.parametrize("d", [1, 3, 7, 8, 9, 16, 21, 40, 67])
def test_a_dense_pass_against_the_definition(loss, d):
    """In extended precision, for numbers of rows around the blocks' and the lanes' and a part in the middle."""
    rng = np.random.default_rng(d)
    for n in (0, 1, 3, 4, 30, 16_384 // d + 5):
        rows, shifts, x = rng.normal(size=(n + 5, d)) / d, rng.normal(size=n + 5), rng.normal(size=d)
        weights, signs, none = rng.random(n + 5), rng.choice([-1.0, 1.0], n + 5), np.empty(0)
        for own, side, counted in ((shifts, none, weights), (none, none, none), (none, signs, none)):
            out = np.full(d, np.nan)
            dense_sum(rows, own, side, counted, 2, 2 + n, x, loss.form.numbers, loss.form.is_logistic, out)
            part, here = rows[2 : 2 + n].astype(EXTENDED), slice(2, 2 + n)
            part = part * side[here, None] if side.size else part
            pulls = plain_slope(loss, part @ x.astype(EXTENDED) - (own[here] if own.size else 0))
            expected = part.T @ (pulls * (counted[here] if counted.size else 1))
            np.testing.assert_allclose(out, expected.astype(float), rtol=0, atol=1e-12 * max(1, n / d))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [1, 3])
def test_a_pass_has_the_same_bits_on_any_number_of_threads(loss, kind, columns):
    functions = risk(loss, SIZES, 9, **kind)
    x = np.random.default_rng(0).normal(size=(9, columns))
    alone, *others = (slope_sum(functions, 0, x, threads) for threads in (1, 2, 3))
    for each in others:
        np.testing.assert_array_equal(each, alone)
    part = functions.part(0)
    rows = as_array(functions.silos.features[part])
    if loss.target is LabelKind.SIGNS:
        rows = rows * functions.silos.labels[part][:, None]
    shifts = functions.shifts[part, None] if functions.shifts.size else 0
    expected = rows.T @ loss.slope(rows @ x - shifts)
    np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_column_of_sparse_rows_has_the_same_bits_alone(kind):
    functions = risk(Logistic(), SIZES, 9, **kind)
    x = np.random.default_rng(0).normal(size=(9, 5))
    whole = slope_sum(functions, 0, x, 2)
    for r in range(5):
        np.testing.assert_array_equal(slope_sum(functions, 0, x[:, r : r + 1], 3)[:, 0], whole[:, r])


@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_solve_and_that_on_threads_have_the_same_bits(kind):
    """Also where it stops early, where steps are shortened, and where the slope at the start is known."""
    functions = risk(Logistic(), SIZES, 9, mu=0.0, row_norm=8.0, **kind)
    columns, rng = SingleColumns(functions, 1.0 / functions.sizes), np.random.default_rng(1)
    assert columns.blocks[0] > 1
    metric = Metric(np.empty((9, 0)), np.empty(0), np.full(9, 0.01))  # far too flat: steps are too long
    for start in (np.zeros(9), 30 * rng.normal(size=9)):
        for known in (None, columns.slope(0, start)):
            for most in (1, 2, 1000):
                task = (metric, 1e-3, rng.normal(size=9) / 50, start, known, 1e-12, most)
                ours, others = columns.solve(0, *task), columns.solve(0, *task, threads=2)
                np.testing.assert_array_equal(ours.point, others.point)
                np.testing.assert_array_equal(ours.slope, others.slope)
                assert (ours.norm, ours.passes) == (others.norm, others.passes)
                np.testing.assert_array_equal(ours.slope, columns.slope(0, ours.point))
    assert 20 < ours.passes < 1000  # many of them shortened
    assert ours.norm <= 1e-12


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", [MajoriserSolver, MatrixFreeSolver])
def test_solvers_have_the_same_bits_on_any_number_of_threads(solver, kind, replicas):
    """With an agent of many rows among others, which gets the same point where it is alone."""
    functions = risk(Logistic(), SIZES, 9, **kind)
    sub = subproblem(functions, replicas=replicas)
    one, two, three = (solver(functions, np.ones(3), 1e-11, threads).solve(sub) for threads in (1, 2, 3))
    for each in (two, three):
        np.testing.assert_array_equal(each.point, one.point)
        np.testing.assert_array_equal(each.gradient_norm, one.gradient_norm)
        np.testing.assert_array_equal(each.passes, one.passes)
    assert (residual_norms(functions, np.ones(3), sub, one.point) <= 1.01e-11).all()
    for agent in range(3):
        here = solver(functions.take(np.array([agent])), np.ones(1), 1e-11, 2)
        own = type(sub)(*(part[[agent]] for part in (sub.lin, sub.centre, sub.pull, sub.start)))
        np.testing.assert_array_equal(here.solve(own).point[0], one.point[agent])


@pytest.mark.parametrize("kind", KINDS)
def test_squares_and_gram_matrices(kind):
    functions = risk(Squared(), SIZES, 9, **kind)
    rows, roots = functions.silos.features, np.random.default_rng(0).random(sum(SIZES))
    expected = as_array(rows) * roots[:, None]
    np.testing.assert_allclose(block_gram(rows, roots, 2), expected.T @ expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(block_gram(rows, roots, 1), block_gram(rows, roots, 3))
    sub = subproblem(functions)
    one, two = (SquaredSolver(functions, np.ones(3), 1e-10, threads).solve(sub) for threads in (1, 2))
    np.testing.assert_array_equal(one.point, two.point)


def test_softmax_gradients():
    rng = np.random.default_rng(0)
    silos = Silos.from_parts([rng.normal(size=(300, 5))], [rng.integers(0, 3, 300).astype(float)], row_norm=9.0)
    functions, w = SoftmaxRisk(silos, Softmax(3), 0.1), rng.normal(size=(15, 2))
    one, two = (softmax_sum(functions, 0, w, threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one / 300 + 0.1 * w, functions.gradient(w[None])[0], rtol=0, atol=1e-12)


RUNS = [
    (NoisyGradients(step=2.0), (301,)),
    (NoisyGradients(step=2.0), SIZES),
    (DPGD(step=2.0), (301,)),
    (PADMM(eta=0.05), SIZES),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("method", "sizes"), RUNS)
def test_runs_have_the_same_bits_on_any_number_of_threads_and_where_they_are_resumed(method, sizes, kind):
    problem = Problem.of(risk(Logistic(), sizes, 9, **kind))
    network = complete(len(sizes)) if isinstance(method, PADMM) else None
    one, two = (LocalEngine(threads=threads, progress=False) for threads in (1, 2))
    whole = one.run(method, problem, Stopping(6), network)
    np.testing.assert_array_equal(two.run(method, problem, Stopping(6), network).models, whole.models)
    resumed = two.run(method, problem, Stopping(6), network, after=two.run(method, problem, Stopping(2), network))
    np.testing.assert_array_equal(resumed.models, whole.models)


def test_sums_are_added_up_in_order():
    """Whatever block is done first: numbers whose sum depends on the order."""
    values = np.array([1e16, 1.0, -1e16, 1.0])
    for threads in (1, 2, 4):
        assert sum_blocks(lambda part: values[part].sum(keepdims=True), np.arange(5), threads) == [0.0]


def test_blocks_that_are_left_are_waited_for():
    """Where one fails, the others still write to memory that their owner may use again."""
    seen = []

    def work(first, last):
        if first == 0:
            raise ValueError("the first")
        seen.append(first)

    with pytest.raises(ValueError, match="the first"):
        for_each_block(work, 50, 1, 2)
    assert sorted(seen) == list(range(1, 50))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_starts_its_own_threads():
    done = []
    for_each_block(lambda first, last: done.append(first), 4, 1, 2)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        for_each_block(lambda first, last: done.append(first), 4, 1, 2)
        os._exit(len(done))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8
