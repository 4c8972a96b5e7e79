"""P-ADMM: the optimum without noise, the certificate C1, the budget."""

import numpy as np
import pytest
from tests.contracts.graph_method_contract import ENGINE, ConvergenceContract, PrivateContract, risk
from tests.contracts.transcript_contract import worst_c1_ratio

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring
from dpadmm.noise.mechanisms import Geometric
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.protection import Strength
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import Problem
from dpadmm.testing import plan_noise


class TestPADMM(ConvergenceContract, PrivateContract):
    method = PADMM(eta=0.01)
    name = "p-admm"
    target = Target(epsilon=2.0, delta=1e-5)


def test_same_transcript_stays_within_the_certificate():
    assert 0.98 <= worst_c1_ratio(PADMM(eta=0.02)) <= 1 + 1e-9


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


def test_refusals():
    for bad in (0, -1.0, float("nan"), True):
        with pytest.raises(InputError, match="eta"):
            PADMM(eta=bad)
    with pytest.raises(InputError, match="no pure epsilon"):
        plan_noise(PADMM(0.1), Problem.of(risk()), 2, PureTarget(1.0), ring(5))
