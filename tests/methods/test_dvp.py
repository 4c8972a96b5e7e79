"""DVP: objective perturbation in every round (C2), with and without smoothing (C7)."""

import numpy as np
import pytest
from tests.contracts.graph_method_contract import ENGINE, ConvergenceContract, PrivateContract, risk
from tests.contracts.transcript_contract import TiltContract

from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.dvp import DVP, OBJECTIVE, SMOOTHING
from dpadmm.networks import ring
from dpadmm.noise.mechanisms import Custom, MechanismSpec
from dpadmm.noise.plan import calibrate
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import PureTarget
from dpadmm.privacy.protection import Strength
from dpadmm.privacy.releases import objective_epsilon
from dpadmm.problems.losses import Logistic, SmoothedHinge
from dpadmm.problems.problem import Problem
from dpadmm.testing import LocalEngine, Stopping, plan_noise, run_private


class TestDVP(ConvergenceContract, PrivateContract, TiltContract):
    method = DVP(eta=0.01)
    name = "dvp"
    target = PureTarget(epsilon=20.0)

    def certified_penalty(self, k):
        return np.full(3, 0.01)


class TestSmoothed(PrivateContract, TiltContract):
    method = DVP(eta=0.01, smoothing=0.1)
    name = "dvp"
    target = PureTarget(epsilon=20.0)

    def certified_penalty(self, k):
        return np.full(3, 0.01)

    def test_both_slots_share_epsilon(self):
        plan = plan_noise(self.method, Problem.of(risk()), 4, self.target, ring(5), engine=ENGINE)
        spent = {SMOOTHING: 0.0, OBJECTIVE: 0.0}
        for (kind, _), row in plan.releases.items():
            release = row[2]
            jacobian = objective_epsilon(release.certificate, release.rate) if kind == OBJECTIVE else None
            spent[kind] += release.rate * release.certificate.bound if jacobian is None else jacobian
        assert spent[SMOOTHING] == pytest.approx(2.0, rel=1e-9)
        assert spent[OBJECTIVE] == pytest.approx(18.0, rel=1e-9)
        assert plan.account().strength is Strength.UP_TO_FLOATING_POINT

    def test_noise_of_the_smoothing_is_proportional_to_the_tolerance(self):
        def rate(tolerance):
            engine = LocalEngine(progress=False, tolerance=tolerance)
            plan = plan_noise(self.method, Problem.of(risk()), 4, self.target, ring(5), engine=engine)
            return plan.releases[SMOOTHING, 1][0].rate

        assert rate(1e-11) / rate(1e-9) == pytest.approx(100)
        modulus = 4 * 0.01 + 0.5 * 0.05
        assert rate(1e-9) == pytest.approx(2.0 / 4 / (2e-9 / modulus))

    def test_every_later_step_reads_the_smoothed_value(self):
        class Overwritten:
            def perturb(self, kind, k, agents, values):
                return np.full_like(values, 7.0) if kind == SMOOTHING else values

        run = ENGINE.run(self.method, Problem.of(risk()), Stopping(rounds=1), ring(5), Overwritten())
        assert (run.models == 7.0).all()


def test_without_smoothing_the_certificate_says_up_to_solver_error():
    plan = plan_noise(DVP(0.01), Problem.of(risk()), 3, PureTarget(1.0), ring(5))
    assert plan.account().strength is Strength.UP_TO_SOLVER_ERROR
    assert plan.account().theorems == ("C2",)


def test_without_noise_it_is_decentralised_admm():
    one = ENGINE.run(DVP(0.01), Problem.of(risk()), Stopping(rounds=20), ring(5))
    two = ENGINE.run(DecentralisedADMM(0.01), Problem.of(risk()), Stopping(rounds=20), ring(5))
    np.testing.assert_array_equal(one.models, two.models)


def test_the_jacobian_is_free_for_the_logistic_loss_only():
    def certificate(loss):
        plan = plan_noise(DVP(0.01), Problem.of(risk(loss)), 2, PureTarget(3.0), ring(5))
        return plan.releases[OBJECTIVE, 1][0].certificate

    assert certificate(None).jacobian_free_rate is not None
    assert certificate(Logistic(cap=0.7)).jacobian_free_rate is None
    hinge = certificate(SmoothedHinge(0.5))
    assert hinge.jacobian_free_rate is None
    assert hinge.log_jacobian == pytest.approx(np.log1p(0.5 * 2.0 / (150 * (4 * 0.01 + 0.5 * 0.05))))


def test_drawn_noise_has_the_planned_norm():
    """The norm of b is Gamma(d, 1/rate): over 4000 draws its mean is d/rate within 6 standard errors."""
    problem, engine = Problem.of(risk()), LocalEngine(replicas=800, progress=False, tolerance=1e-6)
    plan = plan_noise(DVP(0.01), problem, 1, PureTarget(1.0), ring(5), engine=engine)
    done = run_private(DVP(0.01), problem, 1, PureTarget(1.0), SimulatedSampler(seed=5), ring(5), engine=engine)
    assert done.plan.releases == plan.releases
    rates = np.array([plan.releases[OBJECTIVE, 1][i].rate for i in range(5)])
    # First round, from x = a = 0: b = -(4 eta x + w grad f(x)).
    x = done.run.models
    b = -(4 * 0.01 * x + problem.weights[:, None, None] * problem.functions.gradient(x))
    scaled = np.linalg.norm(b, axis=1) * rates[:, None]
    assert abs(scaled.mean() - 6) <= 6 * np.sqrt(6 / scaled.size)


def test_schedule_splits_epsilon():
    plan = plan_noise(DVP(0.01), Problem.of(risk()), 2, PureTarget(3.0), ring(5), schedule=Custom((2.0, 1.0)))
    for agent in range(5):
        spent = [objective_epsilon(r.certificate, r.rate) for r in plan if r.agent == agent]
        np.testing.assert_allclose(spent, [1.0, 2.0], rtol=1e-9)


def test_slots_of_two_families_must_share_epsilon_out():
    problem = Problem.of(risk())
    main, extra = DVP(0.01, smoothing=0.5).mechanisms(Setting(problem, 2, 1e-9, ring(5)))
    for shares in ((None, None), (0.5, None), (0.5, 0.4)):
        parts = [
            MechanismSpec(p.kind, p.family, p.rows, share=share) for p, share in zip((main, extra), shares, strict=True)
        ]
        with pytest.raises(InputError, match="sum to"):
            calibrate(parts, PureTarget(1.0))
