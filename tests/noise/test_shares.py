"""Shares of one noise: drawn by every silo, paid once, summed exactly, with and without masks."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import kstest, norm
from tests.contracts.certificates import changed

from dpadmm.core.release import PlannedNoise
from dpadmm.errors import InputError
from dpadmm.methods.base import BROADCAST
from dpadmm.noise.masks import from_uint64, pairwise_masks, sum_uint64
from dpadmm.noise.mechanisms import COORDINATOR, AgentReleases, Family, MechanismSpec
from dpadmm.noise.plan import NoisePlan, calibrate, vector_on_grid
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.certificates.sums import Shares
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import Certificate, Protection, Unit, View

ONE = Target(epsilon=1.0, delta=1e-5)
PLAIN = Certificate(
    bound=1.0, protection=Protection(unit=Unit.RECORD, view=View.PUBLIC), theorem="C9", assumptions=("bounded",)
)
D = 6


def plan_of(silos=5, colluders=1, rounds=2, dimension=D, certificate=PLAIN):
    when = tuple(range(1, rounds + 1))
    mechanism = MechanismSpec(BROADCAST, Family.GAUSSIAN, (AgentReleases(COORDINATOR, when, (certificate,) * rounds),))
    shares = Shares(silos, colluders)
    on_grid = partial(vector_on_grid, dimension=dimension, shares=shares)
    return calibrate([mechanism], ONE, on_grid=on_grid, shares=shares)


def the_release(plan, k=1):
    (release,) = plan.releases[BROADCAST, k].values()
    return release


def messages_of(silos=5, dimension=D, replicas=1):
    return np.random.default_rng(3).standard_normal((silos, dimension, replicas))


class TestPlan:
    @pytest.mark.parametrize(("silos", "colluders"), [(2, 0), (5, 0), (5, 1), (5, 3), (20, 10)])
    def test_the_noise_that_is_counted_is_that_of_the_honest_silos(self, silos, colluders):
        plan = plan_of(silos, colluders)
        release = the_release(plan)
        assert plan.account().curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        assert release.noise_std == pytest.approx(math.sqrt(2) / m_of(1.0, 1e-5), rel=1e-5)
        assert release.share_std == pytest.approx(release.noise_std / math.sqrt(silos - colluders))
        grid = release.certificate.grid
        assert 2.0**24 <= release.share_std / grid < 2.0**25 * (1 + 1e-6)
        assert release.bound == 1.0 + grid * math.sqrt(D)

    def test_the_rounding_of_all_silos_of_a_person(self):
        release = the_release(plan_of(certificate=changed(PLAIN, silos_per_person=3)))
        assert release.bound == 1.0 + 3 * release.certificate.grid * math.sqrt(D)


class TestTotal:
    def test_masks_change_nothing(self):
        """Masked and unmasked sums of the same test noise agree bit for bit."""
        plan, messages = plan_of(), messages_of()
        for k in (1, 2):
            bare, hidden = (
                PlannedNoise(plan, SimulatedSampler(4), masks=masks).total(BROADCAST, k, messages)
                for masks in (None, pairwise_masks(5, b"run"))
            )
            assert bare.shape == (1, D, 1)
            assert np.array_equal(bare, hidden)

    def test_the_sum_of_what_each_silo_sends(self):
        """A silo alone draws the share that it draws among all."""
        plan, messages = plan_of(), messages_of()
        together = PlannedNoise(plan, SimulatedSampler(4)).total(BROADCAST, 1, messages)
        alone = [
            PlannedNoise(plan, SimulatedSampler(4)).shares(BROADCAST, 1, np.array([i]), messages[i : i + 1])[0]
            for i in range(5)
        ]
        assert np.array_equal(from_uint64(sum_uint64(alone), the_release(plan).certificate.grid), together[0])

    @pytest.mark.parametrize(("silos", "colluders"), [(2, 0), (5, 1), (5, 3)])
    def test_the_noise_of_one_share_and_of_the_sum(self, silos, colluders):
        """Kolmogorov-Smirnov accepts the right scale and rejects a tenth more; false alarms: 1e-6."""
        plan, zeros = plan_of(silos, colluders, dimension=20), np.zeros((silos, 20, 2000))
        release = the_release(plan)
        grid = release.certificate.grid
        hook = PlannedNoise(plan, SimulatedSampler(8), 2000)
        parts = hook.shares(BROADCAST, 1, np.arange(silos), zeros)
        std = math.sqrt(1 / (silos - colluders)) * release.noise_std
        for found, right in (
            (from_uint64(parts[0], grid), std),
            (from_uint64(sum_uint64(parts[: silos - colluders]), grid), release.noise_std),
            (from_uint64(sum_uint64(parts), grid), std * math.sqrt(silos)),
        ):
            assert kstest(found.ravel(), norm(0, right).cdf).pvalue > 1e-6
            assert kstest(found.ravel(), norm(0, 1.1 * right).cdf).pvalue < 1e-6

    def test_secure_shares_lie_on_the_grid(self):
        plan, messages = plan_of(rounds=1), messages_of()
        hook = PlannedNoise(plan, SecureSampler(), masks=pairwise_masks(5, b"run"))
        grid, total = the_release(plan).certificate.grid, hook.total(BROADCAST, 1, messages)
        assert np.array_equal(np.rint(total / grid) * grid, total)
        assert np.abs(total[0] - messages.sum(axis=0)).max() < 12 * the_release(plan).total_std
        hook.check_drawn()

    def test_secure_shares_have_the_planned_noise(self):
        """Within 5.2 standard errors of the variance; a share of 1/N instead of 1/(N - t) is 12 of them away."""
        plan = plan_of(rounds=1, dimension=8000)
        hook, release = PlannedNoise(plan, SecureSampler()), the_release(plan)
        (one,) = hook.shares(BROADCAST, 1, np.array([3]), np.zeros((1, 8000, 1)))
        found = from_uint64(one, release.certificate.grid)
        assert np.mean(found**2) == pytest.approx(release.noise_std**2 / 4, rel=5.2 * math.sqrt(2 / 8000))


class TestPaidOnce:
    def test_a_second_sum_is_refused(self):
        hook = PlannedNoise(plan_of(), SecureSampler())
        hook.total(BROADCAST, 1, messages_of())
        with pytest.raises(InputError, match="released all"):
            hook.total(BROADCAST, 1, messages_of())
        with pytest.raises(InputError, match="released all"):
            hook.shares(BROADCAST, 1, np.array([2]), messages_of()[2:3])
        hook.total(BROADCAST, 2, messages_of())

    def test_a_silo_that_did_not_draw_is_noticed(self):
        hook = PlannedNoise(plan_of(rounds=1), SimulatedSampler(1))
        hook.shares(BROADCAST, 1, np.arange(4), messages_of()[:4])
        hook.check_drawn(agent=0)
        hook.check_drawn(agent=COORDINATOR)  # it draws nothing here
        for agent in (4, None):
            with pytest.raises(InputError, match="not private"):
                hook.check_drawn(agent=agent)
        hook.shares(BROADCAST, 1, np.array([4]), messages_of()[4:])
        hook.check_drawn()

    def test_a_round_without_noise_is_noticed(self):
        hook = PlannedNoise(plan_of(), SimulatedSampler(1))
        hook.total(BROADCAST, 1, messages_of())
        hook.check_drawn(k=1)
        with pytest.raises(InputError, match="round 2"):
            hook.check_drawn()


class TestRefusals:
    def test_shares_of_a_noise_that_is_not_shared(self):
        release = the_release(plan_of())
        alone = {COORDINATOR: replace(release.share(0), agent=COORDINATOR)}
        hook = PlannedNoise(NoisePlan({(BROADCAST, 1): alone}), SimulatedSampler(1))
        with pytest.raises(InputError, match="not split"):
            hook.shares(BROADCAST, 1, np.arange(5), messages_of())


@pytest.mark.parametrize("has_masks", [False, True])
def test_the_history_shows_the_noisy_sum_and_nothing_of_a_silo(has_masks):
    masks = pairwise_masks(5, b"run") if has_masks else None
    noise, messages = PlannedNoise(plan_of(), SecureSampler(), masks=masks), messages_of()
    for k in (1, 2):
        total = noise.total(BROADCAST, k, messages)[0, :, 0]
        shown = noise.history[-1]
        assert shown.norms == pytest.approx((float(np.linalg.norm(total)),), rel=1e-12)
        assert shown.disagreement == 0.0
    assert len(noise.history) == 2
