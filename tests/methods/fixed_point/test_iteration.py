"""Algorithm 1, and its instances against the updates written down directly."""

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.methods.base import MESSAGE, Agents, Silence
from dpadmm.methods.fixed_point import CentralisedADMM, CoordinateDescent, Participation
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.testing import Stopping
from dpadmm_research.papers.fixed_point.iteration import FixedPointIteration


def gradient_operator(gradient, smoothness):
    """`R(u) = u - (2/beta) grad f(u)`, non-expansive if f is convex and beta-smooth."""
    return lambda u: u - (2 / smoothness) * gradient(u)


def dp_sgd(gradient, sampled_gradient, smoothness, step):
    """DP-SGD as an instance (Proposition 1): `u <- u - step (grad f(u; batch_k) + (beta/2) noise)`."""
    operator, lam = gradient_operator(gradient, smoothness), step * smoothness / 2
    if sampled_gradient is None:
        return FixedPointIteration(operator, lam)
    return FixedPointIteration(
        operator, lam, error=lambda k, u: (2 / smoothness) * (gradient(u) - sampled_gradient(k, u))
    )


@pytest.fixture(scope="module")
def one_silo():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    silos = Silos.from_parts([rows], [rng.choice([-1.0, 1.0], 40)], row_norm=1.0)
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.1))


def test_inactive_blocks_stay(keyed):
    method = FixedPointIteration(lambda u: -u, 0.25, participation=Participation.of(3, [[1], [0]]))
    u = np.arange(6.0).reshape(3, 2, 1)
    noise = keyed()
    after = method.step(1, u, noise)
    np.testing.assert_array_equal(after[[0, 2]], u[[0, 2]])
    np.testing.assert_allclose(after[1], 0.75 * u[1] + 0.25 * (-u[1] + noise.draw(MESSAGE, 1, 1, (2, 1))), atol=1e-15)


def test_error_enters_before_the_relaxation():
    method = FixedPointIteration(lambda u: 0 * u, 0.5, error=lambda k, u: np.full_like(u, k))
    assert method.step(4, np.full((1, 1, 1), 2.0), Silence()).item() == 2 + 0.5 * (0 + 4 - 2)


@pytest.mark.parametrize("is_sampled", [False, True])
def test_dp_sgd_is_an_instance(one_silo, keyed, is_sampled):
    """Proposition 1: `u - step (grad f(u; batch) + (beta/2) noise)` to rounding error, 30 steps."""
    risk, noise = one_silo.functions, keyed()
    beta, step = risk.constants.smoothness, 0.7
    rows, order = risk.folded(risk.part(0)), np.random.default_rng(1).permutation(40)

    def batch_gradient(k, u):
        batch = order[(np.arange(4) + 4 * k) % 40]
        slope = risk.loss.slope(rows[batch] @ u[0])
        return (rows[batch].T @ slope / 4)[None] + risk.mu * u

    method = dp_sgd(risk.gradient, batch_gradient if is_sampled else None, beta, step)
    assert method.lam == step * beta / 2
    u = direct = np.zeros((1, 5, 2))
    for k in range(1, 31):
        u = method.step(k, u, noise)
        gradient = batch_gradient(k, direct) if is_sampled else risk.gradient(direct)
        direct = direct - step * (gradient - beta / 2 * noise.draw(MESSAGE, k, 0, (5, 2)))
    np.testing.assert_allclose(u, direct, rtol=0, atol=1e-13)


def test_dp_cd_is_an_instance(one_silo, keyed, quiet):
    """Proposition 2: the engine's DP-CD, the directly written update, and Algorithm 1 on five blocks agree."""
    risk, noise, step = one_silo.functions, keyed(), 0.9
    order = Participation.permuted(5, 23, np.random.default_rng(2))
    run = quiet.run(CoordinateDescent(step, order), one_silo, Stopping(rounds=23), noise=noise)
    beta = risk.constants.smoothness

    class PerBlock:
        """The engine's noise of the silo, on the scale of Algorithm 1 (2/beta times that of the gradient)."""

        def perturb(self, kind, k, blocks, values):
            return values - 2 / beta * noise.draw(kind, k, 0, (1, 1))

    blocks = FixedPointIteration(
        gradient_operator(lambda u: risk.gradient(u.reshape(1, 5, 1)).reshape(5, 1, 1), beta),
        step * beta / 2,
        None,
        order,
    )
    direct, u = np.zeros(5), np.zeros((5, 1, 1))
    for k in range(1, 24):
        b = int(order.agents(k)[0])
        gradient = risk.gradient(direct[None, :, None])[0, b, 0]
        direct[b] -= step * (gradient + noise.draw(MESSAGE, k, 0, (1, 1)).item())
        u = blocks.step(k, u, PerBlock())
    np.testing.assert_allclose(run.estimate[:, 0], direct, atol=1e-14)
    np.testing.assert_allclose(u.ravel(), direct, atol=1e-14)


def test_consensus_admm_is_an_instance(logistic, keyed, quiet):
    """The engine's trajectory is Algorithm 1 with R = R_f R_g, noise and sampled blocks included."""
    order = Participation.subsets(4, 2, 12, np.random.default_rng(3))
    method = CentralisedADMM(gamma=0.8, lam=0.7, participation=order)
    agents = Agents.of(logistic, None, 1e-12, 1)

    def reflections(u):
        z = logistic.regulariser.prox(u.mean(axis=0, keepdims=True), 0.8)
        return u + 2 * (method.minimiser(agents, 2 * z - u, 0 * u) - z)

    iteration = FixedPointIteration(reflections, 0.7, participation=order)
    u = np.zeros((4, 4, 1))
    for k in range(1, 13):
        u = iteration.step(k, u, keyed())
    run = quiet.run(method, logistic, Stopping(rounds=12), noise=keyed())
    np.testing.assert_allclose(run.state[0], u, atol=1e-9)
    np.testing.assert_allclose(run.estimate, u.mean(axis=0), atol=1e-9)


def test_bad_input(one_silo):
    for bad in (0, 1.5, float("nan")):
        with pytest.raises(InputError, match="lam"):
            FixedPointIteration(lambda u: u, bad)
    with pytest.raises(InputError, match="lam"):
        dp_sgd(one_silo.functions.gradient, None, smoothness=1.0, step=2.5)
    with pytest.raises(InputError, match="3 agents"):
        FixedPointIteration(lambda u: u, 1.0, participation=Participation.in_turn(3, 2)).step(
            1, np.zeros((2, 1, 1)), Silence()
        )
