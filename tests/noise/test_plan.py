"""Plans: mechanisms calibrated to a budget spend exactly it, and nothing unplanned is drawn."""

from functools import partial

import numpy as np
import pytest
from tests.contracts.certificates import by_agent
from tests.contracts.local_facts import of

from dpadmm.core.release import PlannedNoise
from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Constant, Family, Geometric, MechanismSpec, MessageKind
from dpadmm.noise.plan import calibrate, vector_on_grid
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target, compose
from dpadmm.privacy.certificates.gradients import full_gradient
from dpadmm.privacy.certificates.local import p_admm
from dpadmm.privacy.certificates.objective import dvp
from dpadmm.privacy.releases import PoissonSampling

MESSAGE, OTHER = MessageKind("message"), MessageKind("other")
TARGET = Target(epsilon=1.0, delta=1e-5)


def gaussian_rows(sizes, rounds=(1, 2, 3), silos=1):
    rows = []
    for i, n in enumerate(sizes):
        certificate = of(
            p_admm,
            gradient_bound=1,
            n_records=n,
            edge_penalty=0.01,
            degree=2,
            solver_tolerance=0.0,
            silos_per_person=silos,
        )
        rows.append(AgentReleases(i, tuple(rounds), (certificate,) * len(rounds)))
    return tuple(rows)


def message_mechanism(sizes=(100, 400, 1000), **kwargs):
    return MechanismSpec(MESSAGE, Family.GAUSSIAN, gaussian_rows(sizes, **kwargs))


class TestGaussian:
    @pytest.mark.parametrize("schedule", [None, Constant(), Geometric(0.8)])
    def test_every_agent_spends_exactly_the_budget(self, schedule):
        plan = calibrate([message_mechanism()], TARGET, schedule)
        for curve in by_agent(plan).values():
            assert TARGET.epsilon * (1 - 1e-6) <= curve.epsilon(TARGET.delta) <= TARGET.epsilon
        stds = [[plan.of(MESSAGE, k, np.array([i]))[0].noise_std for k in (1, 2, 3)] for i in range(3)]
        assert stds[0][0] / stds[1][0] == pytest.approx(4.0)
        decay = 1.0 if schedule is None or isinstance(schedule, Constant) else 0.8
        assert (stds[0][1] / stds[0][0]) ** 2 == pytest.approx(decay)

    def test_two_slots_share_the_budget(self):
        second = MechanismSpec(OTHER, Family.GAUSSIAN, gaussian_rows((100, 400, 1000), rounds=(2,)), relative=3.0)
        plan = calibrate([message_mechanism(), second], TARGET)
        for curve in by_agent(plan).values():
            assert curve.epsilon(TARGET.delta) == pytest.approx(1.0, rel=1e-6)
        one, other = plan.of(MESSAGE, 2, np.array([0]))[0], plan.of(OTHER, 2, np.array([0]))[0]
        assert other.noise_std == pytest.approx(3 * one.noise_std)

    def test_agents_who_release_less_often_spend_no_more(self):
        rows = (gaussian_rows((100,))[0], AgentReleases(1, (2,), gaussian_rows((100,))[0].certificates[:1]))
        alone = calibrate([MechanismSpec(MESSAGE, Family.GAUSSIAN, rows)], TARGET)
        shared = calibrate([MechanismSpec(MESSAGE, Family.GAUSSIAN, rows, is_noise_shared=True)], TARGET)
        assert by_agent(alone)[1].epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        assert by_agent(shared)[1].epsilon(1e-5) < 0.7
        assert by_agent(shared)[0].epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        pair = shared.of(MESSAGE, 2, np.array([0, 1]))
        assert pair[0].noise_std == pair[1].noise_std

    @pytest.mark.parametrize(("certified", "stated"), [(2, 1), (1, 2), (2, 2)])
    def test_the_larger_number_of_silos_counts_whoever_states_it(self, certified, stated):
        """Two silos of a person see independent noise: each may spend half of m^2."""
        one = calibrate([message_mechanism(sizes=(50, 50, 50))], TARGET)
        two = calibrate([message_mechanism(sizes=(50, 50, 50), silos=certified)], TARGET, silos_per_person=stated)
        stds = [plan.of(MESSAGE, 1, np.array([0]))[0].noise_std for plan in (one, two)]
        assert stds[1] / stds[0] == pytest.approx(np.sqrt(2), rel=1e-6)

    def test_one_row_for_a_million_users(self):
        row = gaussian_rows((10,))[0]
        plan = calibrate([MechanismSpec(MESSAGE, Family.GAUSSIAN, (row,), is_common=True)], TARGET)
        assert len(list(plan)) == 3
        assert plan.of(MESSAGE, 1, np.array([999_999, 3])).agent == 999_999
        assert plan.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)

    def test_secure_plans_pay_for_the_grid_and_can_be_drawn(self):
        plan = calibrate([message_mechanism()], TARGET, on_grid=partial(vector_on_grid, dimension=4))
        for release in plan:
            assert release.certificate.grid is not None
            assert release.certificate.grid_dimension == 4
        assert by_agent(plan)[0].epsilon(TARGET.delta) == pytest.approx(1.0, rel=1e-6)
        drawn = PlannedNoise(plan, SecureSampler()).perturb(MESSAGE, 1, np.arange(3), np.zeros((3, 4, 1)))
        grids = np.array([r.certificate.grid for r in plan.of(MESSAGE, 1, np.arange(3))])[:, None, None]
        np.testing.assert_array_equal(drawn / grids, np.round(drawn / grids))
        assert (drawn != 0).all()


class TestPure:
    def test_spherical(self):
        certificate = of(full_gradient, gradient_bound=1, n_records=10, solver_tolerance=0.0)
        rows = (AgentReleases(COORDINATOR, (1, 2), (certificate, certificate)),)
        plan = calibrate([MechanismSpec(MESSAGE, Family.SPHERICAL, rows)], PureTarget(0.5), Geometric(0.25))
        assert compose(plan).epsilon(0.0) == pytest.approx(0.5, rel=1e-6)
        rates = [release.rate for release in plan]
        assert rates[1] / rates[0] == pytest.approx(2.0)

    def test_objective(self):
        certificate = of(
            dvp, gradient_bound=1, curvature_bound=0.25, n_records=100, edge_penalty=0.5, degree=2, is_logistic=True
        )
        plan = calibrate(
            [MechanismSpec(OTHER, Family.OBJECTIVE, (AgentReleases(0, (1, 3), (certificate,) * 2),))], PureTarget(1.0)
        )
        assert compose(plan).epsilon(0.0) == pytest.approx(1.0, rel=1e-6)
        assert sorted(release.round for release in plan) == [1, 3]


class TestSampled:
    def test_mixture_meets_the_target(self):
        certificate = of(full_gradient, gradient_bound=1, n_records=100, solver_tolerance=0.0)
        rows = tuple(AgentReleases(i, (1, 2), (certificate,) * 2) for i in range(3))
        sampled = MechanismSpec(OTHER, Family.SAMPLED, rows, relative=2.0, sampling=PoissonSampling(rate=0.1), count=5)
        plain = MechanismSpec(MESSAGE, Family.GAUSSIAN, rows)
        plan = calibrate([plain, sampled], TARGET)
        for curve in by_agent(plan).values():
            assert TARGET.epsilon * (1 - 1e-3) <= curve.epsilon(TARGET.delta) <= TARGET.epsilon
        stds = {r.noise_std for r in plan if r.agent == 0}
        assert max(stds) / min(stds) == pytest.approx(2.0)


class TestDrawing:
    def test_what_is_not_planned_is_refused(self):
        hook = PlannedNoise(calibrate([message_mechanism()], TARGET), SimulatedSampler(seed=0))
        values = np.zeros((3, 2, 1))
        with pytest.raises(InputError, match="was planned"):
            hook.perturb(OTHER, 1, np.arange(3), values)
        with pytest.raises(InputError, match="was planned"):
            hook.perturb(MESSAGE, 4, np.arange(3), values)
        with pytest.raises(InputError, match="Agent 7"):
            hook.perturb(MESSAGE, 1, np.array([0, 7]), values[:2])

    def test_budgets_side_by_side_equal_budgets_apart(self):
        plans = [calibrate([message_mechanism()], Target(e, 1e-5)) for e in (0.5, 2.0)]
        values, sampler = np.zeros((3, 5, 4)), SimulatedSampler(seed=3)
        groups = zip(plans, (range(4), range(4, 8)), strict=True)
        hooks = [PlannedNoise(plan, sampler, replicas) for plan, replicas in groups]
        one, other = (hook.perturb(MESSAGE, 2, np.arange(3), values) for hook in hooks)
        alone = PlannedNoise(plans[0], sampler, replicas=4)
        np.testing.assert_array_equal(one, alone.perturb(MESSAGE, 2, np.arange(3), values))
        # Same sampler, other replicas: not the same numbers rescaled.
        assert not np.allclose(one / other, one[0, 0, 0] / other[0, 0, 0])

    def test_scale_is_the_planned_one(self):
        plan = calibrate([message_mechanism()], TARGET)
        noise = PlannedNoise(plan, SimulatedSampler(seed=1), replicas=20_000).perturb(
            MESSAGE, 1, np.arange(3), np.zeros((3, 2, 20_000))
        )
        for i, release in enumerate(plan.of(MESSAGE, 1, np.arange(3))):
            # 40,000 values: the std is known to 0.35 %, so 3 % is more than 8 sigma.
            assert noise[i].std() == pytest.approx(release.noise_std, rel=0.03)

    def test_steps_of_a_round_share_the_plan_but_not_the_noise(self):
        hook = PlannedNoise(calibrate([message_mechanism()], TARGET), SimulatedSampler(seed=0))
        values = np.zeros((3, 2, 1))
        first = hook.perturb(MessageKind("message", 0), 1, np.arange(3), values)
        second = hook.perturb(MessageKind("message", 1), 1, np.arange(3), values)
        assert (first != second).all()
