"""Round 0: the noise of a profile is that of its certificate, and sums of counts are exact before they get it."""

from dataclasses import replace

import numpy as np
import pytest
from tests.builders import Bare

from dpadmm.core.release import PlannedNoise, noisy_values, open_release
from dpadmm.core.spec import ReleaseFacts
from dpadmm.errors import InputError
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit, View
from dpadmm.queries.column_profile import ColumnProfile

TARGET = Target(1.0, 1e-5)
M = m_of(1.0, 1e-5)
SIZE = 30


def setting(sizes=(50, 2), protection=ONE_RECORD, is_pooled=False):
    return ReleaseFacts(sizes, protection, is_pooled)


COUNTED = ColumnProfile(n_numeric=1, n_categorical=4, size=SIZE, target=TARGET)


def planned(where, is_pooled=False, is_secure=False):
    return COUNTED.noise_plan(replace(where, is_pooled=is_pooled), is_secure)


def draw_profile(plan, counts, sampler):
    with open_release(plan, sampler, label="profile", n_agents=len(counts)) as release:
        return release.total(COUNTED, plan, counts)


class Heard:
    """Notes what gets noise, and adds none."""

    def perturb(self, kind, k, agents, values):
        self.heard = (kind, k, agents.tolist(), values.copy())
        return values

    def total(self, kind, k, messages):
        return self.perturb(kind, k, np.array([COORDINATOR]), messages.sum(axis=0, keepdims=True))


class TestNoise:
    @pytest.mark.parametrize("is_secure", [False, True])
    def test_each_silo_spends_the_target(self, is_secure):
        plan = planned(setting(protection=Protection(records_per_person=3)), is_secure=is_secure)
        large, small = sorted(plan, key=lambda one: one.agent)
        assert (large.bound, small.bound) == (6.0, 4.0)  # D_0 = 2; the small silo has two records in all
        for one in (large, small):
            assert one.noise_std == pytest.approx(one.bound / M, rel=1e-6)
        assert plan.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        assert plan.account().theorems == (("C11 + C8",) if is_secure else ("C11",))

    def test_one_noise_for_all_silos(self):
        (one,) = planned(setting(protection=Protection(records_per_person=3, silos_per_person=2)), is_pooled=True)
        assert (one.agent, one.round, one.bound) == (COORDINATOR, 0, 12.0)
        assert one.certificate.protection.view is View.PUBLIC
        assert one.noise_std == pytest.approx(12.0 / M, rel=1e-6)

    def test_a_grid_costs_records_nothing_and_users_a_rounding(self):
        for unit in (Unit.RECORD, Unit.USER):
            own = Protection(unit=unit)
            exact, placed = (next(iter(planned(setting(protection=own), is_secure=s))) for s in (False, True))
            rounding = placed.certificate.grid * np.sqrt(SIZE) if unit is Unit.USER else 0.0
            assert placed.bound == exact.bound + rounding
            assert placed.certificate.grid_dimension == SIZE


class TestPooling:
    COUNTS = np.random.default_rng(0).dirichlet(np.ones(SIZE), 500)

    def test_shares_of_users_are_rounded_one_by_one(self):
        """So that their sum does not depend on the order in which they are added."""
        plan = planned(setting((1,) * 500, Protection(unit=Unit.USER)), is_pooled=True, is_secure=True)
        grid = next(iter(plan)).certificate.grid
        noisy = noisy_values(COUNTED, plan, self.COUNTS[:, :, None], PlannedNoise(plan, Bare()))
        whole = [sum(int(np.rint(share / grid)) for share in column) for column in self.COUNTS.T]
        assert (noisy[0, :, 0] / grid).tolist() == whole

    def test_silos_with_their_own_noise_are_not_touched(self):
        noise = Heard()
        noisy_values(COUNTED, planned(setting((4, 4))), self.COUNTS[:2, :, None], noise)
        assert noise.heard[2] == [0, 1]
        assert np.array_equal(noise.heard[3][:, :, 0], self.COUNTS[:2])

    @pytest.mark.parametrize("is_pooled", [False, True])
    def test_what_is_drawn(self, is_pooled):
        """The sum of the counts, within 7 standard deviations of the noise that is said to be in it."""
        for is_secure, sampler in ((False, SimulatedSampler(1)), (True, SecureSampler())):
            plan = planned(setting((40, 60)), is_pooled=is_pooled, is_secure=is_secure)
            counts = np.arange(2.0 * SIZE).reshape(2, SIZE) / 2
            pooled, std = draw_profile(plan, counts, sampler)
            assert std == pytest.approx(2.0 / M * (1 if is_pooled else np.sqrt(2)), rel=1e-6)
            assert np.max(np.abs(pooled - counts.sum(axis=0))) < 7 * std
            assert np.std(pooled - counts.sum(axis=0)) > 0.2 * std

    def test_silos_that_were_planned_and_did_not_come_are_noticed(self):
        """The noise of a sum is said to be that of all silos."""
        plan = planned(setting((50, 2, 3), Protection(records_per_person=3)))
        with pytest.raises(InputError, match="for 0"):
            draw_profile(plan, np.ones((2, SIZE)), SimulatedSampler(1))
