"""The control problem: its matrices against a simulation of the system, its optimum against a KKT system."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.methods.consensus_dp import ConsensusDPADMM, LinearTermsDiffer
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.regularisers import Quadratic
from dpadmm.testing import LocalEngine, Recording, Stopping
from dpadmm_research.datasets.control import random_control


@pytest.fixture
def problem():
    return random_control(7, 5, 2, 3, rng=np.random.default_rng(4))


def simulate(problem, u):
    """Run (23b) step by step; return the states x_1..x_m."""
    states, x = [], problem.start
    for control in u.reshape(problem.horizon, -1):
        x = problem.transition @ x + problem.actuation @ control
        states.append(x)
    return np.array(states)


def agent_cost(problem, i, u):
    """Agent i's share of (23a), from simulated states."""
    return sum(x @ problem.state_costs[i] @ x + problem.state_slopes[i] @ x for x in simulate(problem, u))


def test_states_are_linear_in_the_inputs(problem):
    u = np.random.default_rng(0).normal(size=problem.dimension)
    predicted = problem.state_map @ u + problem.free_states
    np.testing.assert_allclose(predicted, simulate(problem, u).ravel(), rtol=1e-12, atol=1e-13)


def test_agents_are_the_simulated_costs_up_to_a_constant(problem):
    rng, agents = np.random.default_rng(0), problem.agents()
    zero = np.zeros(problem.dimension)
    for _ in range(3):
        u = rng.normal(size=problem.dimension)
        values = agents.value(u[None, :, None])[:, 0]
        expected = [agent_cost(problem, i, u) - agent_cost(problem, i, zero) for i in range(7)]
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)


def test_the_regulariser_is_the_controllers_cost(problem):
    u = np.random.default_rng(0).normal(size=problem.dimension)
    quadratic, linear = problem.regulariser()
    expected = sum(c @ problem.input_cost @ c + problem.input_slope @ c for c in u.reshape(problem.horizon, -1))
    assert u @ quadratic @ u / 2 + linear @ u == pytest.approx(expected)


def test_assumption_1_holds_and_is_not_wasteful():
    problem = random_control(500, 6, 2, 3, rng=np.random.default_rng(5))
    tau, smoothness = problem.bounds
    spectra = np.linalg.eigvalsh(problem.agents().curvatures)
    assert tau > 0
    assert tau * (1 - 1e-9) <= spectra.min() < 1.5 * tau
    assert 0.67 * smoothness < spectra.max() <= smoothness * (1 + 1e-9)
    assert problem.agents().bounds == problem.bounds


def test_assumptions_2_and_3(problem):
    quadratic, _ = problem.regulariser()
    assert problem.regulariser_smoothness == pytest.approx(np.linalg.eigvalsh(quadratic)[-1])
    assert problem.regulariser_smoothness <= 2 * np.sqrt(problem.horizon) * np.linalg.norm(problem.input_cost, 2)
    assert problem.least_penalty == max(2 * problem.bounds[1], problem.regulariser_smoothness / 7)
    weak = replace(problem, actuation=problem.actuation * 1e-3)
    assert weak.least_penalty == pytest.approx(weak.regulariser_smoothness / 7)


def test_the_reference_solution_solves_the_original_constrained_problem(problem):
    """Solve (23) in states and inputs together by its KKT system, without eliminating the states."""
    m, (w, r) = problem.horizon, problem.actuation.shape
    total = problem.state_costs.sum(axis=0)
    hessian = np.zeros((m * (w + r), m * (w + r)))
    hessian[: m * w, : m * w] = np.kron(np.eye(m), 2 * total)
    hessian[m * w :, m * w :] = np.kron(np.eye(m), 2 * problem.input_cost)
    slope = np.concatenate([np.tile(problem.state_slopes.sum(axis=0), m), np.tile(problem.input_slope, m)])
    dynamics = np.hstack(
        [np.kron(np.eye(m, k=-1), problem.transition) - np.eye(m * w), np.kron(np.eye(m), problem.actuation)]
    )
    right = np.zeros(m * w)
    right[:w] = -problem.transition @ problem.start
    system = np.block([[hessian, dynamics.T], [dynamics, np.zeros((m * w, m * w))]])
    optimum = np.linalg.solve(system, np.concatenate([-slope, right]))
    np.testing.assert_allclose(problem.solution(), optimum[m * w : m * (w + r)], rtol=1e-9, atol=1e-11)


def test_random_data_are_as_stated():
    problem = random_control(200, 4, 2, 3, rng=np.random.default_rng(1), start_norm=0.5)
    assert np.linalg.norm(problem.start) == pytest.approx(0.5)
    spectra = np.linalg.eigvalsh(problem.state_costs)
    np.testing.assert_allclose(spectra[:, 0], 0.3)
    np.testing.assert_allclose(spectra[:, -1], 1.0)
    spectrum = np.linalg.eigvalsh(problem.input_cost)
    assert (spectrum[0], spectrum[-1]) == (pytest.approx(0.3), pytest.approx(1.0))
    for entries in (problem.state_slopes, problem.actuation, problem.input_slope):
        assert np.abs(entries).max() <= 1
    assert problem.state_slopes.min() < -0.9


def test_the_transition_is_uniform_and_not_scaled():
    """Mean 0 and variance 1/3 of 9 x 400 entries, to six standard errors; both stable and unstable draws occur."""
    draws = [random_control(1, 1, rng=np.random.default_rng(seed)) for seed in range(400)]
    entries = np.array([draw.transition for draw in draws])
    assert np.abs(entries).max() <= 1
    assert abs(entries.mean()) < 6 * np.sqrt(1 / 3 / entries.size)
    assert abs(np.square(entries).mean() - 1 / 3) < 6 * np.sqrt(4 / 45 / entries.size)
    stable = np.mean([draw.spectral_radius < 1 for draw in draws])
    assert 0.35 < stable < 0.65  # half of 400, six standard errors


def test_the_start_changes_its_length_only():
    near, far = (random_control(3, 4, rng=np.random.default_rng(2), start_norm=norm) for norm in (1.0, 100.0))
    np.testing.assert_allclose(far.start, 100 * near.start, rtol=1e-12)
    np.testing.assert_array_equal(far.state_costs, near.state_costs)
    np.testing.assert_array_equal(far.transition, near.transition)


def test_the_spectral_radius_is_the_rate_of_free_states():
    """x_t = A^t x_0 shrinks or grows by the largest |eigenvalue| a step in the end."""
    problem = random_control(1, 400, 2, 3, rng=np.random.default_rng(3))
    states = np.linalg.norm(problem.free_states.reshape(400, 3), axis=1)
    assert (states[-1] / states[199]) ** (1 / 200) == pytest.approx(problem.spectral_radius, rel=0.01)


def draw(*sizes, **options):
    return random_control(*sizes, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: draw(2, 3, 4, 3), "n_inputs must be at most n_states"),
        (lambda problem: replace(problem, actuation=np.ones((3, 2))), "full column rank"),
        (lambda problem: replace(problem, eigenvalue_bounds=(0.3, 0.9)), r"eigenvalues in \[0.3, 0.9\]"),
        (lambda problem: replace(problem, eigenvalue_bounds=(0.0, 1.0)), "0 < lower <= upper"),
        (lambda _: draw(2, 3, start_norm=-1.0), "start_norm"),
        (lambda _: draw(2, 0), "horizon must be"),
    ],
)
def test_bad_input_is_refused(problem, make, message):
    with pytest.raises(InputError, match=message):
        make(problem)


def test_control_equals_the_direct_solve():
    control = random_control(60, 6, rng=np.random.default_rng(1))
    problem = Problem.of(control.agents(), Weighting.EQUAL, Quadratic(*control.regulariser()))
    rho = float(np.sqrt(np.prod(control.bounds)))
    exact = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-11)
    run = exact.run(ConsensusDPADMM(rho, LinearTermsDiffer(1.0)), problem, Stopping(rounds=400))
    np.testing.assert_allclose(run.estimate[:, 0], control.solution(), atol=1e-6)


def test_the_controllers_cost():
    control = random_control(2, 3, rng=np.random.default_rng(2))
    inputs = np.random.default_rng(3).standard_normal((control.dimension, 1))
    steps = inputs.reshape(3, -1)
    expected = sum(u @ control.input_cost @ u + control.input_slope @ u for u in steps)
    g = Quadratic(*control.regulariser())
    assert g.value(inputs)[0] == pytest.approx(expected, rel=1e-13)
    assert g.smoothness == pytest.approx(control.regulariser_smoothness, rel=1e-12)
