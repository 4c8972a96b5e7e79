"""Attacks on plans: rows that stand for all, kinds that do not line up, counts, and secure noise drawn twice."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.contracts.certificates import by_agent
from tests.contracts.local_facts import of

from dpadmm.core.release import PlannedNoise
from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec, MessageKind
from dpadmm.noise.plan import calibrate, vector_on_grid
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target, calibrate_gaussian, compose
from dpadmm.privacy.certificates.gradients import sampled_gradient
from dpadmm.privacy.certificates.local import p_admm
from dpadmm.privacy.certificates.objective import dvp
from dpadmm.privacy.curves import GaussianCurve, m_of
from dpadmm.privacy.releases import PoissonSampling
from dpadmm_research.levels import at_levels

MESSAGE, OTHER = MessageKind("message"), MessageKind("other")
TARGET = Target(epsilon=1.0, delta=1e-5)


def certificate(n_records, silos=1):
    return of(
        p_admm,
        gradient_bound=1,
        n_records=n_records,
        edge_penalty=0.01,
        degree=2,
        solver_tolerance=0.0,
        silos_per_person=silos,
    )


def mechanism(kind, sizes, agents=None, rounds=(1,), silos=1, **kwargs):
    agents = range(len(sizes)) if agents is None else agents
    rows = [
        AgentReleases(i, rounds, (certificate(n, silos),) * len(rounds)) for i, n in zip(agents, sizes, strict=True)
    ]
    return MechanismSpec(kind, Family.GAUSSIAN, tuple(rows), **kwargs)


class TestRowsThatStandForAll:
    def test_a_common_slot_has_the_noise_that_the_neediest_agent_needs(self):
        plan = calibrate([mechanism(MESSAGE, (1000,), is_common=True), mechanism(OTHER, (1000, 10))], TARGET)
        common = plan.releases[MESSAGE, 1][None]
        for own in plan.releases[OTHER, 1].values():
            assert compose([common, own]).epsilon(TARGET.delta) <= TARGET.epsilon

    def test_the_same_on_a_grid_and_beside_a_sampled_slot(self):
        pair = [mechanism(MESSAGE, (1000,), is_common=True), mechanism(OTHER, (1000, 10))]
        plan = calibrate(pair, TARGET, on_grid=partial(vector_on_grid, dimension=4))
        common = plan.releases[MESSAGE, 1][None]
        assert all(2**24 <= r.noise_std / r.certificate.grid < 2**26 for r in plan)
        for own in plan.releases[OTHER, 1].values():
            assert compose([common, own]).epsilon(TARGET.delta) <= TARGET.epsilon
        small, large = (of(sampled_gradient, batch_size=b, gradient_bound=1.0) for b in (200, 2))
        rows = tuple(AgentReleases(i, (1,), (c,), PoissonSampling(rate=0.1)) for i, c in enumerate((small, large)))
        plan = calibrate([pair[0], MechanismSpec(OTHER, Family.SAMPLED, rows)], TARGET)
        common = plan.releases[MESSAGE, 1][None]
        for own in plan.releases[OTHER, 1].values():
            assert compose([common, own]).epsilon(TARGET.delta) <= TARGET.epsilon

    @pytest.mark.parametrize("silos", [1, 2, 5])
    def test_the_statement_counts_it_in_every_silo_of_a_person(self, silos):
        plan = calibrate([mechanism(MESSAGE, (100,), silos=silos, is_common=True)], TARGET, silos_per_person=silos)
        release = plan.releases[MESSAGE, 1][None]
        m = math.sqrt(silos) * release.certificate.bound / release.noise_std
        assert plan.account().curve.epsilon(1e-5) == pytest.approx(GaussianCurve(m).epsilon(1e-5), rel=1e-9)
        assert plan.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)

    def test_the_statement_counts_it_beside_the_worst_agents_own_releases(self):
        pair = [mechanism(MESSAGE, (1000,), is_common=True), mechanism(OTHER, (1000, 10))]
        plan = at_levels(pair, [[1.0], [1.0]])
        worst = compose([plan.releases[MESSAGE, 1][None], plan.releases[OTHER, 1][1]])
        assert plan.account().curve.epsilon(1e-5) == pytest.approx(worst.epsilon(1e-5), rel=1e-12)

    def test_of_pure_families_too_the_neediest_agent_decides(self):
        pair = [mechanism(MESSAGE, (1000,), is_common=True), mechanism(OTHER, (1000, 10))]
        plan = calibrate([replace(each, family=Family.SPHERICAL) for each in pair], PureTarget(1.0))
        for own in plan.releases[OTHER, 1].values():
            assert compose([plan.releases[MESSAGE, 1][None], own]).epsilon(0.0) <= 1.0

    def test_every_silo_pays_for_it_and_for_what_the_coordinator_releases(self):
        both = [mechanism(MESSAGE, (100,), is_common=True), mechanism(OTHER, (100,), agents=(COORDINATOR,))]
        plan = calibrate(both, TARGET)
        assert [release.agent for release in plan.by(range(3))] == [0, 1, 2, COORDINATOR]
        assert [release.agent for release in plan.by(range(2, 3))] == [2, COORDINATOR]

    def test_beside_a_coordinators_release_people_still_have_several_silos(self):
        both = [mechanism(MESSAGE, (100, 100), silos=2), mechanism(OTHER, (100,), agents=(COORDINATOR,), silos=2)]
        assert calibrate(both, TARGET, silos_per_person=2).account().curve.epsilon(1e-5) <= 1.0

    def test_a_coordinators_release_counts_for_the_agents_too(self):
        both = [mechanism(MESSAGE, (100, 100)), mechanism(OTHER, (100,), agents=(COORDINATOR,))]
        plan = calibrate(both, TARGET)
        assert plan.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        assert by_agent(plan)[1].epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)


class TestRowsThatDoNotLineUp:
    def test_a_slot_reserved_twice_is_refused(self):
        with pytest.raises(InputError, match="same kind"):
            calibrate([mechanism(MESSAGE, (100,)), mechanism(MESSAGE, (100,))], TARGET)
        with pytest.raises(InputError, match="same kind"):
            at_levels([mechanism(MESSAGE, (100,)), mechanism(MESSAGE, (100,))], [[1.0], [1.0]])


class TestCalibration:
    @pytest.mark.parametrize("count", [1, 3])
    def test_objective_noise_drawn_several_times_a_round(self, count):
        c = of(dvp, gradient_bound=1, curvature_bound=0.25, n_records=100, edge_penalty=0.1, degree=2, is_logistic=True)
        plan = calibrate(
            [MechanismSpec(MESSAGE, Family.OBJECTIVE, (AgentReleases(0, (1, 2), (c, c)),), count=count)],
            PureTarget(1.0),
        )
        assert compose(plan).epsilon(0.0) == pytest.approx(1.0, rel=1e-6)
        assert compose(plan).epsilon(0.0) <= 1.0

    @pytest.mark.parametrize("count", [1, 3])
    def test_spherical_noise_drawn_several_times_a_round(self, count):
        each = replace(mechanism(MESSAGE, (100,), rounds=(1, 2), count=count), family=Family.SPHERICAL)
        assert compose(calibrate([each], PureTarget(1.0))).epsilon(0.0) == pytest.approx(1.0, rel=1e-6)

    @pytest.mark.parametrize("bound", [1e-300, 1e-170, 1e-161, 1.0, 1e160, 1e300])
    def test_bounds_of_any_size(self, bound):
        stds = calibrate_gaussian(TARGET, [bound, 2 * bound])
        m = math.hypot(*(np.array([bound, 2 * bound]) / stds))
        assert m_of(1.0, 1e-5) * (1 - 1e-12) <= m <= m_of(1.0, 1e-5) * (1 + 1e-12)


class TestSecureNoiseIsDrawnOnce:
    def hook(self, sampler, count=1):
        plan = calibrate(
            [mechanism(MESSAGE, (100, 100), count=count)], TARGET, on_grid=partial(vector_on_grid, dimension=3)
        )
        return plan, PlannedNoise(plan, sampler)

    def test_a_second_value_under_the_same_name_is_refused(self):
        _, hook = self.hook(SecureSampler())
        hook.perturb(MESSAGE, 1, np.array([1]), np.zeros((1, 3, 1)))
        with pytest.raises(InputError, match="Agent 1"):
            hook.perturb(MESSAGE, 1, np.arange(2), np.ones((2, 3, 1)))
        hook.perturb(MESSAGE, 1, np.array([0]), np.zeros((1, 3, 1)))
        for step in (0, 1):
            with pytest.raises(InputError, match="released all"):
                hook.perturb(MessageKind("message", step), 1, np.array([0]), np.ones((1, 3, 1)))

    def test_as_often_as_planned(self):
        _, hook = self.hook(SecureSampler(), count=2)
        for step in (1, 2):
            hook.perturb(MessageKind("message", step), 1, np.arange(2), np.zeros((2, 3, 1)))
        with pytest.raises(InputError, match="released all"):
            hook.perturb(MessageKind("message", 3), 1, np.arange(2), np.zeros((2, 3, 1)))

    def test_all_that_is_reserved_must_be_drawn(self):
        _, hook = self.hook(SecureSampler(), count=2)
        hook.perturb(MESSAGE, 1, np.arange(2), np.zeros((2, 3, 1)))
        with pytest.raises(InputError, match="promised 2"):
            hook.check_drawn()

    def test_seeded_noise_may_be_drawn_again(self):
        _, hook = self.hook(SimulatedSampler(seed=1))
        first, second = (hook.perturb(MESSAGE, 1, np.arange(2), np.zeros((2, 3, 1))) for _ in range(2))
        np.testing.assert_array_equal(first, second)
