"""Newton's method for single columns: full steps, shortened steps, limits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse
from tests.contracts.centred_rows import centred

from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge
from dpadmm.solvers.newton import NewtonColumns


def case(loss, n=60, d=4, sigma=1e-4, store=np.asarray, seed=0):
    """A column problem and its push, with the gradient written out plainly."""
    rng = np.random.default_rng(seed)
    rows, shifts = rng.normal(size=(n, d)) / 3, np.zeros(n)
    if isinstance(loss, Huber):
        shifts = 3 * rng.normal(size=n)

    def gradient(x, constant):
        return rows.T @ loss.slope(rows @ x - shifts[:, None]) / n + sigma * x + constant

    return NewtonColumns(store(rows), shifts, loss, 1 / n, sigma, gradient), 0.01 * rng.normal(size=d)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array, centred])
@pytest.mark.parametrize(("n", "d"), [(60, 4), (3, 8)])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.1), SmoothedHinge(0.01), SmoothedHinge(1.0)], ids=repr)
def test_reaches_the_root_that_scipy_finds(loss, n, d, store):
    newton, push = case(loss, n, d, sigma=1e-2, store=store)
    x, norm, steps = newton.solve(np.zeros(d), push, 1e-12, 100)
    assert norm <= 1e-12
    assert 0 < steps < 60
    assert np.linalg.norm(newton.gradient(x[:, None], push[:, None])) == pytest.approx(norm, abs=1e-15)
    found = optimize.root(lambda z: newton.gradient(z[:, None], push[:, None])[:, 0], x + 1e-4, tol=1e-13)
    assert np.linalg.norm(found.fun) <= 1e-11
    np.testing.assert_allclose(x, found.x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("start", [0.0, 200.0])
@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.01)], ids=repr)
def test_rows_of_weight_one_quarter_are_a_quarter_of_the_loss(loss, start):
    """The same steps to the last bit, full and shortened ones: a power of four rounds nothing, nor does its root."""
    newton, push = case(loss)
    quartered = replace(
        newton,
        scale=4 * newton.scale,
        weights=np.full(len(newton.shifts), 0.25),
    )
    found, wanted = (each.solve(np.full(4, start), push, 1e-10, 200) for each in (quartered, newton))
    np.testing.assert_array_equal(found[0], wanted[0])
    assert found[1:] == wanted[1:]


@pytest.mark.parametrize("start", [-200.0, 0.0, 200.0])
@pytest.mark.parametrize("loss", [Logistic(), Logistic(0.6), Huber(0.1), SmoothedHinge(0.01)], ids=repr)
def test_converges_from_far_away(loss, start):
    newton, push = case(loss)
    x, norm, _ = newton.solve(np.full(4, start), push, 1e-10, 200)
    assert norm <= 1e-10
    near, _, _ = newton.solve(np.zeros(4), push, 1e-10, 200)
    np.testing.assert_allclose(x, near, rtol=0, atol=4e-6)  # 2 * tolerance / sigma


def test_full_steps_that_overshoot_are_shortened():
    """From 200 a full step lands on the far side, where the loss climbs again; its share ends below the turn."""
    newton, push = case(Logistic())
    x = np.full(4, 200.0)
    gradient = newton.gradient(x[:, None], push[:, None])[:, 0]
    step = -gradient / newton.sigma
    margins = newton.rows @ x
    share = newton._shorten(margins, step, gradient)
    slopes = [newton.gradient((x + s * step)[:, None], push[:, None])[:, 0] @ step for s in (0.0, share, 1.0)]
    assert slopes[2] > 0
    assert 0.1 * slopes[0] <= slopes[1] <= 0
    assert 0 < share < 1


def test_stops_at_the_limit_and_tells_the_norm():
    newton, push = case(SmoothedHinge(0.01))
    x, norm, steps = newton.solve(np.zeros(4), push, 1e-12, 2)
    assert steps == 2
    assert norm > 1e-12
    assert np.linalg.norm(newton.gradient(x[:, None], push[:, None])) == pytest.approx(norm, rel=1e-12)


def test_a_solved_column_costs_no_step():
    newton, push = case(Logistic())
    x, _, _ = newton.solve(np.zeros(4), push, 1e-12, 100)
    again, norm, steps = newton.solve(x, push, 1e-12, 100)
    assert steps == 0
    assert norm <= 1e-12
    np.testing.assert_array_equal(again, x)
