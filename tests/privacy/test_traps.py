"""Traps of dp-accounting 0.6.0 that the accountant here steps around; each shown, then our way shown right."""

import math
from importlib.metadata import version

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution, privacy_loss_mechanism
from dp_accounting.rdp import RdpAccountant

from dpadmm.privacy.accounting import compose
from dpadmm.privacy.curves import GaussianCurve, delta_of_epsilon, epsilon_of_delta
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import GaussianRelease, PoissonSampling, SampledGaussianRelease, SphericalLaplaceRelease
from dpadmm.privacy.sampled import compose_losses, fft_slack

pytestmark = pytest.mark.skipif(version("dp-accounting") != "0.6.0", reason="shows the behaviour of version 0.6.0")


def certificate(bound):
    return Certificate(
        bound=bound,
        protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
        theorem="test",
        assumptions=("none",),
    )


def rdp_epsilon(relation):
    accountant = RdpAccountant(neighboring_relation=relation)
    accountant.compose(dp_accounting.GaussianDpEvent(2.0))
    return accountant.get_epsilon(1e-5)


def test_rdp_ignores_replace_one_for_gaussians():
    replace, add = rdp_epsilon(NeighboringRelation.REPLACE_ONE), rdp_epsilon(NeighboringRelation.ADD_OR_REMOVE_ONE)
    assert replace == add  # the trap: a swap moves the value twice as far
    assert replace < epsilon_of_delta(1.0, 1e-5)
    # Ours takes the replace-one bound itself: 2 terms of 1 over noise 2.
    release = GaussianRelease(certificate=certificate(2.0), noise_std=2.0, agent=0, round=0)
    assert compose([release]).epsilon(1e-5) == pytest.approx(epsilon_of_delta(1.0, 1e-5))


@pytest.mark.parametrize("noise", [0.8, 2.0, 10.0])
def test_pld_doubles_under_replace_one(noise):
    doubled = privacy_loss_distribution.from_gaussian_mechanism(
        noise, sampling_prob=1.0, neighboring_relation=NeighboringRelation.REPLACE_ONE
    )
    for delta in (1e-3, 1e-6):
        assert doubled.get_epsilon_for_delta(delta) == pytest.approx(epsilon_of_delta(2 / noise, delta), rel=1e-3)
    everyone = SampledGaussianRelease(
        certificate=certificate(1.0), noise_std=noise, sampling=PoissonSampling(rate=1.0), agent=0, round=0
    )
    assert compose([everyone]) == GaussianCurve(2 / noise)
    nearly = SampledGaussianRelease(
        certificate=certificate(1.0), noise_std=noise, sampling=PoissonSampling(rate=1 - 1e-9), agent=0, round=0
    )
    assert compose([nearly]).epsilon(1e-5) == pytest.approx(epsilon_of_delta(2 / noise, 1e-5), rel=1e-3)


def test_pld_forgets_the_count_of_pure_events():
    # Randomised response is the pure event the PLD accountant takes under replace-one.
    def epsilon(count):
        accountant = PLDAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
        accountant.compose(dp_accounting.SelfComposedDpEvent(dp_accounting.RandomizedResponseDpEvent(0.5, 2), count))
        return accountant.get_epsilon(0.0)

    assert epsilon(10) == epsilon(1)  # the trap
    one = SphericalLaplaceRelease(certificate=certificate(1.0), rate=0.3, agent=0, round=0)
    ten = SphericalLaplaceRelease(certificate=certificate(1.0), rate=0.3, agent=0, round=0, count=10)
    assert compose([ten]).epsilon(0.0) == pytest.approx(3.0)
    assert compose([one] * 10) == compose([ten])
    # and in a mixture, where the distribution is built by the library
    few, many = compose_losses(0.1, {0.3: 1}, {}), compose_losses(0.1, {0.3: 10}, {})
    assert many.epsilon(1e-4) > 2 * few.epsilon(1e-4)


def test_pld_at_tiny_noise_would_need_many_gigabytes():
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(1e-3, sampling_prob=0.01)
    bounds = loss.connect_dots_bounds()
    points = (bounds.epsilon_upper - bounds.epsilon_lower) / 1e-4
    assert 8 * points > 30e9  # the trap: bytes of one array at the default grid
    for noise in (1e-3, 1e-1):
        tiny = SampledGaussianRelease(
            certificate=certificate(1.0), noise_std=noise, sampling=PoissonSampling(rate=0.01), agent=0, round=0
        )
        curve = compose([tiny])
        assert getattr(curve, "distribution", None) is None or curve.distribution._pmf_remove.size < 1_000_000
        assert 10 < curve.epsilon(1e-5) < epsilon_of_delta(2 / noise, 1e-5) * (1 + 1e-6)


def test_fft_rounding_makes_pld_optimistic_and_the_slack_covers_it():
    count, noise = 100_000, 1000.0
    m = math.sqrt(count) / noise
    total = privacy_loss_distribution.from_gaussian_mechanism(
        noise, value_discretization_interval=1 / noise / 32
    ).self_compose(count)
    shortfalls = []
    for delta in (1e-10, 1e-11, 1e-12, 1e-13, 1e-14):
        eps = epsilon_of_delta(m, delta)
        shortfalls.append(delta_of_epsilon(m, eps) - total.get_delta_for_epsilon(eps))
    assert max(shortfalls) > 1e-13  # the trap: below the exact delta
    assert max(shortfalls) < fft_slack(count)
