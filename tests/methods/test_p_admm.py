"""P-ADMM: the optimum without noise, the certificate C1, the budget."""

import numpy as np
import pytest
from tests.contracts.graph_method_contract import ENGINE, ConvergenceContract, PrivateContract, risk
from tests.contracts.transcript_contract import worst_c1_ratio

from dpadmm.methods.base import Setting
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring
from dpadmm.noise.mechanisms import Geometric
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Strength
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.problems.regularisers import Box, ElasticNet, GroupLasso, Simplex
from dpadmm.testing import Stopping, plan_noise


class TestPADMM(ConvergenceContract, PrivateContract):
    method = PADMM(eta=0.01)
    name = "p-admm"
    target = Target(epsilon=2.0, delta=1e-5)


def test_same_transcript_stays_within_the_certificate():
    assert 0.98 <= worst_c1_ratio(PADMM(eta=0.02)) <= 1 + 1e-9


REGULARISERS = (ElasticNet(0.02, 0.1), GroupLasso(0.03, [0, 0, 1, 1, 2, 2]), Box(-0.2, (0.1,) * 6), Simplex(0.5))


@pytest.mark.parametrize("regulariser", REGULARISERS, ids=repr)
def test_zero_noise_is_optimal_for_every_convex_regulariser(regulariser):
    """Agents share it, g/N each; at optima with zeros, walls or whole groups of zeros."""
    problem = Problem.of(risk(Huber(0.5), mu=0.02), Weighting.POOLED, regulariser)
    run = ENGINE.run(DecentralisedADMM(eta=0.02), problem, Stopping(rounds=300), ring(5))
    found = regulariser.prox(run.estimate - problem.gradient(run.estimate), 1.0)  # itself at the optimum
    np.testing.assert_allclose(found, run.estimate, atol=1e-6)
    assert np.linalg.norm(problem.gradient(found)) > 1e-3  # the regulariser holds it there


@pytest.mark.parametrize("regulariser", [ElasticNet(0.5, 3.0), GroupLasso(0.5, [0, 0, 1]), Box((-np.inf, -1, -1), 1e9)])
def test_every_regulariser_cancels_in_the_certificate(regulariser):
    assert 0.98 <= worst_c1_ratio(PADMM(eta=0.02), regulariser=regulariser) <= 1 + 1e-9


def test_a_regulariser_that_is_not_convex_is_caught():
    class Concave(ElasticNet):
        def prox(self, v, step):
            return v / (1 - 0.03 * step)

    with pytest.raises(AssertionError):
        worst_c1_ratio(PADMM(eta=0.02), regulariser=Concave(0.5))


def test_a_capped_loss_has_the_smaller_certificate_and_keeps_it():
    """The bounds of the plain loss times the cap, and nearly attained."""
    assert 0.98 <= worst_c1_ratio(PADMM(eta=0.02), loss=Logistic(0.7)) <= 1 + 1e-9
    bounds = [
        PADMM(eta=0.02).mechanisms(Setting(Problem.of(risk(loss)), 1, 1e-15, ring(5)))[0].rows[0].certificates[0].bound
        for loss in (Logistic(0.7), Logistic())
    ]
    assert bounds[0] == pytest.approx(0.7 * bounds[1], rel=1e-9)


def test_an_agent_that_reuses_its_own_model_is_caught():
    """Eq. 10 read literally: the noise-free x_i enters the centre, and differences pile up."""

    class Literal(PADMM):
        def local_step(self, k, agents, state, inbox, noise):
            state, message = super().local_step(k, agents, state, inbox, noise)
            return state._replace(x=state.guess), message

    with pytest.raises(AssertionError):
        worst_c1_ratio(Literal(eta=0.02))


def test_noise_decays_as_scheduled_and_is_larger_for_smaller_silos():
    plan = plan_noise(PADMM(eta=0.01), Problem.of(risk()), 5, Target(1.0, 1e-5), ring(5), Geometric(0.8), ENGINE)
    stds = np.array([[r.noise_std for r in plan.releases[kind, k].values()] for kind, k in sorted(plan.releases)])
    np.testing.assert_allclose(stds[1:] / stds[:-1], 0.8**0.5, rtol=1e-9)
    # w_i = n_i/n cancels the n_i in 2 G w_i/(n_i s): only mu w_i differs.
    assert (np.diff(stds[0]) > 0).all()
    assert plan.account().strength is Strength.FULL
