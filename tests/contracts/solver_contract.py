"""What every solver of subproblems has to keep. A test class inherits `SolverContract` and says what it solves:

    class TestMine(SolverContract):
        cases = (functions_1, functions_2)

Points are compared with a root found by SciPy, and gradients are recomputed from the definition in extended
precision, record by record, without any code of the package but the numbers that describe the loss.
"""

from functools import singledispatch
from typing import ClassVar

import numpy as np
import pytest
from scipy import optimize, sparse
from tests.contracts.centred_rows import as_array, random_centred

from dpadmm.errors import SolverError
from dpadmm.problems.losses import EpsilonInsensitive, Huber, LabelKind, Logistic, Quantile, SmoothedHinge, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.silos import Silos
from dpadmm.solvers.solver import Subproblem, prepare

EXTENDED = np.longdouble


@singledispatch
def plain_slope(loss, t):
    """The slope of a loss, from its definition."""
    raise NotImplementedError


@plain_slope.register
def _(loss: Logistic, t):
    # Written for both signs of t, so that nothing overflows.
    small = np.exp(-np.abs(t))
    plain = np.where(t > 0, -small / (1 + small), -1 / (1 + small))
    return np.maximum(plain, -t.dtype.type(loss.cap))


@plain_slope.register
def _(loss: Squared, t):
    return t


@plain_slope.register
def _(loss: Huber, t):
    return np.where(t > loss.threshold, loss.threshold, np.where(t < -loss.threshold, -loss.threshold, t))


@plain_slope.register
def _(loss: SmoothedHinge, t):
    width = t.dtype.type(loss.width)
    return np.where(t > 1, 0, np.where(t < 1 - width, -1, (t - 1) / width))


@plain_slope.register
def _(loss: Quantile, t):
    width, level = t.dtype.type(loss.width), t.dtype.type(loss.level)
    return np.where(t > (1 - level) * width, 1 - level, np.where(t < -level * width, -level, t / width))


@plain_slope.register
def _(loss: EpsilonInsensitive, t):
    width, margin = t.dtype.type(loss.width), t.dtype.type(loss.margin)
    return np.sign(t) * np.clip((np.abs(t) - margin) / width, 0, 1)


@singledispatch
def plain_gradient(functions, agent, x):
    """The gradient of one agent's function at x (d,), in the precision of x."""
    raise NotImplementedError


@plain_gradient.register
def _(functions: EmpiricalRisk, agent, x):
    features, labels = functions.silos.part(agent)
    rows = as_array(features).astype(x.dtype)
    labels = labels.astype(x.dtype)
    if functions.loss.target is LabelKind.SIGNS:
        slopes = labels * plain_slope(functions.loss, labels * (rows @ x))
    else:
        slopes = plain_slope(functions.loss, rows @ x - labels)
    return rows.T @ slopes / len(labels) + x.dtype.type(functions.mu) * x


@plain_gradient.register
def _(functions: QuadraticAgents, agent, x):
    return functions.curvatures[agent].astype(x.dtype) @ x + functions.slopes[agent].astype(x.dtype)


def residuals(functions, weights, sub, point):
    """The gradient of every subproblem at `point`, (m, d, R), in extended precision."""
    out = np.empty(point.shape, dtype=EXTENDED)
    for row, agent in enumerate(sub.agent_index()):
        for r in range(point.shape[2]):
            x = point[row, :, r].astype(EXTENDED)
            out[row, :, r] = EXTENDED(weights[agent]) * plain_gradient(functions, int(agent), x)
            out[row, :, r] += sub.lin[row, :, r] + EXTENDED(sub.pull[row]) * (x - sub.centre[row, :, r])
    return out


def residual_norms(functions, weights, sub, point):
    """The norms of `residuals`, (m, R)."""
    return np.sqrt((residuals(functions, weights, sub, point) ** 2).sum(axis=1)).astype(float)


def force_sizes(sub, point):
    """The sizes of the terms that cancel in the gradient: rounding is relative to them."""
    spread = np.linalg.norm(sub.centre, axis=1) + np.linalg.norm(point, axis=1)
    return 1 + np.linalg.norm(sub.lin, axis=1) + np.maximum(1, sub.pull)[:, None] * spread


def reference(functions, weights, sub, row, r):
    """The minimiser of one subproblem: the root of its gradient that SciPy finds."""
    agent = int(sub.agent_index()[row])

    def gradient(x):
        forces = sub.lin[row, :, r] + sub.pull[row] * (x - sub.centre[row, :, r])
        return weights[agent] * plain_gradient(functions, agent, x) + forces

    found = optimize.root(gradient, sub.centre[row, :, r], method="hybr", options={"xtol": 1e-14, "maxfev": 20_000})
    assert np.linalg.norm(gradient(found.x)) <= 1e-9
    return found.x


def risk(loss, sizes, d, *, mu=0.05, is_sparse=False, is_centred=False, seed=0, row_norm=1.0):
    """An empirical risk on random silos; a third of the table's entries are 0, before centring if wanted."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.67) for n in sizes]
    parts = [row_norm * part / np.maximum(1, np.linalg.norm(part, axis=1, keepdims=True)) for part in parts]
    signs = loss.target is LabelKind.SIGNS
    labels = [rng.choice([-1.0, 1.0], n) if signs else 2 * rng.normal(size=n) for n in sizes]
    if is_sparse:
        parts = [sparse.csr_array(part) for part in parts]
    if is_centred:
        parts = random_centred(rng, sizes, d, row_norm=row_norm)
    return EmpiricalRisk(Silos.from_parts(parts, labels, row_norm), loss, mu)


def weights_of(functions):
    """Weights other than 1, all different."""
    return np.linspace(0.4, 1.7, functions.n_agents)


def subproblem(functions, replicas=3, seed=1, spread=1.0, pull=None, agents=None):
    """Random forces for all agents; penalties that differ from agent to agent."""
    rng = np.random.default_rng(seed)
    shape = (functions.n_agents, functions.dimension, replicas)
    lin, centre = rng.normal(size=shape), spread * rng.normal(size=shape)
    pull = np.linspace(0.6, 1.9, shape[0]) if pull is None else np.full(shape[0], pull)
    sub = Subproblem(lin, centre, pull, np.zeros(shape))
    return sub if agents is None else seated(sub, agents)


def seated(sub, agents):
    """The same subproblems for some agents only, in the given order."""
    agents = np.asarray(agents)
    return Subproblem(sub.lin[agents], sub.centre[agents], sub.pull[agents], sub.start[agents], agents)


def columns(sub, chosen):
    """The same subproblems for some replicas only."""
    cut = [np.ascontiguousarray(a[:, :, chosen]) for a in (sub.lin, sub.centre, sub.start)]
    return Subproblem(cut[0], cut[1], sub.pull, cut[2], sub.agents)


class SolverContract:
    """The suite; `functions` runs through the cases of the subclass."""

    cases: ClassVar[tuple]
    tolerance: ClassVar[float] = 1e-11
    # Rounding that the reported gradient norm may leave out, relative to the sizes of the forces: 0 for a true bound.
    slack: ClassVar[float] = 0.0

    def pytest_generate_tests(self, metafunc):
        """Run each test for each case."""
        if "functions" in metafunc.fixturenames:
            names = [f"{i}-{getattr(f, 'loss', 'quadratic')}" for i, f in enumerate(self.cases)]
            metafunc.parametrize("functions", self.cases, ids=names)

    def make(self, functions, threads=1):
        """The solver under test."""
        return prepare(functions, weights_of(functions), self.tolerance, threads)

    def check(self, functions, sub, solution):
        """The reported gradient norm is that of the definition, or a bound on it, and keeps the tolerance."""
        true = residual_norms(functions, weights_of(functions), sub, solution.point)
        assert solution.gradient_norm.shape == true.shape
        assert (true <= solution.gradient_norm + self.slack * force_sizes(sub, solution.point)).all()
        assert (solution.gradient_norm <= self.tolerance).all()

    def test_point_against_scipy(self, functions):
        sub = subproblem(functions)
        point = self.make(functions).solve(sub).point
        for row in range(functions.n_agents):
            expected = reference(functions, weights_of(functions), sub, row, 1)
            np.testing.assert_allclose(point[row, :, 1], expected, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("seed", [1, 2])
    def test_gradient_norm_is_true(self, functions, seed):
        sub = subproblem(functions, seed=seed)
        self.check(functions, sub, self.make(functions).solve(sub))

    @pytest.mark.parametrize("replicas", [1, 3])
    def test_gradient_norm_is_true_where_forces_cancel(self, functions, replicas):
        """lin is the pull towards the centre but for a little: only that little is left of large numbers."""
        sub = subproblem(functions, spread=100.0, replicas=replicas)
        small = 1e-3 * sub.lin
        sub = Subproblem(sub.pull[:, None, None] * sub.centre + small, sub.centre, sub.pull, sub.start)
        self.check(functions, sub, self.make(functions).solve(sub))

    def test_a_tolerance_out_of_reach_is_an_error(self, functions):
        solver = prepare(functions, weights_of(functions), 1e-30)
        if hasattr(solver, "max_passes"):
            solver.max_passes = 100  # more are as much in vain
        with pytest.raises(SolverError, match=r"tolerance 1\.0e-30"):
            solver.solve(subproblem(functions, spread=3.3))

    def test_the_error_names_the_agents(self, functions):
        last = functions.n_agents - 1
        sub = subproblem(functions, agents=[last])
        sub.lin[0, 0, 0] = np.nan
        with pytest.raises(SolverError, match=rf"agents \[{last}\]"):
            self.make(functions).solve(sub)

    def test_penalties_may_change_from_call_to_call(self, functions):
        solver = self.make(functions)
        for pull in (0.5, 2.0, 0.5):
            sub = subproblem(functions, pull=pull)
            self.check(functions, sub, solver.solve(sub))
        sub = subproblem(functions)
        self.check(functions, sub, solver.solve(sub))

    def test_some_agents_only(self, functions):
        solver, everyone = self.make(functions), subproblem(functions)
        full = solver.solve(everyone)
        for agents in ([functions.n_agents - 1, 0], [1]):
            part = solver.solve(seated(everyone, agents))
            np.testing.assert_allclose(part.point, full.point[agents], rtol=0, atol=1e-10)
            self.check(functions, seated(everyone, agents), part)

    def test_order_of_agents_does_not_matter(self, functions):
        order = np.random.default_rng(0).permutation(functions.n_agents)
        sub, weights = subproblem(functions), weights_of(functions)
        full = self.make(functions).solve(sub).point
        cut = Subproblem(sub.lin[order], sub.centre[order], sub.pull[order], sub.start[order])
        shuffled = prepare(functions.take(order), weights[order], self.tolerance).solve(cut).point
        np.testing.assert_allclose(shuffled, full[order], rtol=0, atol=1e-10)

    def test_a_silo_alone_gets_the_same_point(self, functions):
        sub, weights = subproblem(functions), weights_of(functions)
        full = self.make(functions).solve(sub).point
        agent = np.array([functions.n_agents - 1])
        alone = Subproblem(sub.lin[agent], sub.centre[agent], sub.pull[agent], sub.start[agent])
        point = prepare(functions.take(agent), weights[agent], self.tolerance).solve(alone).point
        np.testing.assert_allclose(point, full[agent], rtol=0, atol=1e-10)

    def test_a_replica_alone_gets_the_same_point(self, functions):
        solver, sub = self.make(functions), subproblem(functions, replicas=5)
        full = solver.solve(sub).point
        for r in range(5):
            np.testing.assert_allclose(
                solver.solve(columns(sub, [r])).point[:, :, 0], full[:, :, r], rtol=0, atol=1e-10
            )
        np.testing.assert_allclose(solver.solve(columns(sub, [4, 1])).point, full[:, :, [4, 1]], rtol=0, atol=1e-10)

    def test_number_of_threads_does_not_matter(self, functions):
        sub = subproblem(functions)
        one = self.make(functions).solve(sub)
        for threads in (2, 3):
            many = self.make(functions, threads).solve(sub)
            np.testing.assert_array_equal(many.point, one.point)
            np.testing.assert_array_equal(many.gradient_norm, one.gradient_norm)

    def test_start_does_not_matter(self, functions):
        solver, sub = self.make(functions), subproblem(functions)
        cold = solver.solve(sub).point
        for start in (cold, sub.centre, np.random.default_rng(3).normal(size=cold.shape)):
            warm = solver.solve(Subproblem(sub.lin, sub.centre, sub.pull, start)).point
            np.testing.assert_allclose(warm, cold, rtol=0, atol=1e-10)

    def test_one_replica(self, functions):
        """The closed forms have kernels of their own for it."""
        solver, sub = self.make(functions), subproblem(functions, replicas=1, seed=5)
        self.check(functions, sub, solver.solve(sub))
        sub.lin[0, 0, 0] = np.nan
        with pytest.raises(SolverError, match=r"\(agents \[0\]\)"):
            solver.solve(sub)

    def test_inputs_are_left_alone(self, functions):
        sub = subproblem(functions)
        arrays = (sub.lin, sub.centre, sub.pull, sub.start)
        before = [a.copy() for a in arrays]
        self.make(functions).solve(sub)
        for array, copy in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(array, copy)
