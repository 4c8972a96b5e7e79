"""Sampled Gaussians and mixtures against quadrature, simulation, closed forms and dp-accounting's RDP."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from dpadmm.privacy.curves import GaussianCurve, PureCurve, delta_of_epsilon
from dpadmm.privacy.releases import SampledStep, Scheme
from dpadmm.privacy.sampled import _as_one_gaussian, compose_losses

X = np.linspace(-40, 40, 400_001)


def pair(step):
    """The two densities of one step, as functions of the output in units of the noise."""
    one, q = 1 / step.ratio, step.rate
    if step.scheme is Scheme.POISSON_REPLACE:
        return (
            lambda x: (1 - q) * norm.pdf(x) + q * norm.pdf(x - one),
            lambda x: (1 - q) * norm.pdf(x) + q * norm.pdf(x + one),
        )
    move = 2 * one if step.scheme is Scheme.FIXED_SIZE_REPLACE else one
    return lambda x: (1 - q) * norm.pdf(x) + q * norm.pdf(x - move), norm.pdf


def one_step_delta(step, eps):
    upper, lower = (density(X) for density in pair(step))
    both = max(np.sum(np.maximum(a - math.exp(eps) * b, 0)) for a, b in ((upper, lower), (lower, upper)))
    return both * (X[1] - X[0])


STEPS = [
    SampledStep(ratio, rate, scheme)
    for scheme in Scheme
    for ratio, rate in [(0.7, 0.01), (1.0, 0.3), (3.0, 0.1), (10.0, 0.9)]
]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_one_step_matches_quadrature(step):
    curve = compose_losses(0.0, {}, {step: 1})
    for eps in (0.0, 0.05, 0.3, 1.0):
        reference = one_step_delta(step, eps)
        assert curve.delta(eps) >= reference - 1e-9
        assert curve.delta(eps) <= reference * (1 + 2e-3) + 1e-9


@pytest.mark.parametrize("scheme", list(Scheme), ids=lambda scheme: scheme.name)
def test_many_steps_match_a_simulation(scheme):
    step, count, samples = SampledStep(1.2, 0.1, scheme), 12, 200_000
    upper, lower = pair(step)
    rng = np.random.default_rng(5)
    move = (2.0 if scheme is Scheme.FIXED_SIZE_REPLACE else 1.0) / step.ratio
    x = rng.normal(size=(count, samples)) + move * (rng.random((count, samples)) < step.rate)
    loss = np.sum(np.log(upper(x) / lower(x)), axis=0)
    curve = compose_losses(0.0, {}, {step: count})
    for eps in (0.2, 1.0, 2.0):
        gain = np.maximum(-np.expm1(eps - loss), 0)
        error = 6 * gain.std() / math.sqrt(samples)
        # One pair of data sets: a lower bound for all schemes, and for Poisson replace-one the worst one itself.
        assert curve.delta(eps) >= gain.mean() - error
        if scheme is Scheme.POISSON_REPLACE:
            assert curve.delta(eps) <= gain.mean() * 1.01 + error


def test_antipodal_records_are_the_worst_for_poisson_replace():
    # Records are vectors: try all directions and shorter ones, on one grid so that its error cancels.
    grid = np.linspace(-8, 8, 321)
    x, y = np.meshgrid(grid, grid, indexing="ij")

    def density(u, v):
        bump = lambda a, b: np.exp(-((x - a) ** 2 + (y - b) ** 2) / 2) / (2 * np.pi)  # noqa: E731
        return 0.8 * bump(0, 0) + 0.2 * bump(u, v)

    def gap(eps, u, v):
        return np.sum(np.maximum(density(1.0, 0.0) - math.exp(eps) * density(u, v), 0)) * 0.05**2

    for eps in (-0.3, 0.0, 0.2, 0.6):
        for length in (0.0, 0.5, 1.0):
            for angle in np.linspace(0, np.pi, 7):
                worst = gap(eps, -1.0, 0.0)
                assert gap(eps, length * math.cos(angle), length * math.sin(angle)) <= worst * (1 + 1e-9)


@pytest.mark.parametrize(("ratio", "size", "count"), [(4.0, 10_000, 1000), (20.0, 100_000, 100), (2.0, 1_000, 1)])
def test_fixed_size_lies_between_one_pair_and_dp_accounting_rdp(ratio, size, count):
    # dp-accounting's event takes the noise over the replace-one sensitivity, that is two terms.
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.SampledWithoutReplacementDpEvent(1_000_000, size, dp_accounting.GaussianDpEvent(ratio / 2))
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, count))
    step = SampledStep(ratio, size / 1_000_000, Scheme.FIXED_SIZE_REPLACE)
    ours = compose_losses(0.0, {}, {step: count}).epsilon(1e-6)
    assert ours < accountant.get_epsilon(1e-6)
    # One pair of data sets: all records -1 but one, which is +1 or -1. Nothing sound can be below it.
    one_pair = privacy_loss_distribution.from_gaussian_mechanism(ratio / 2, sampling_prob=step.rate)
    lower = one_pair.self_compose(count).get_epsilon_for_delta(1e-6)
    assert lower * (1 - 1e-3) < ours < 1.2 * lower


def test_fixed_size_of_nearly_everyone_is_the_plain_gaussian():
    step = SampledStep(10.0, 1 - 1e-12, Scheme.FIXED_SIZE_REPLACE)
    assert compose_losses(0.0, {}, {step: 25}).epsilon(1e-5) == pytest.approx(
        GaussianCurve(1.0).epsilon(1e-5), rel=1e-3
    )


@pytest.mark.parametrize(("m", "epsilon"), [(0.5, 0.3), (1.0, 0.037), (0.05, 2.0), (2.0, 1.0)])
def test_gaussian_with_pure_matches_the_exact_mixture(m, epsilon):
    # Randomised response shifts the Gaussian's loss by +-epsilon.
    p = 1 / (1 + math.exp(-epsilon))

    def gaussian(eps):
        return delta_of_epsilon(m, eps) if eps >= 0 else 1 - math.exp(eps) + math.exp(eps) * delta_of_epsilon(m, -eps)

    curve = compose_losses(m, {epsilon: 1}, {})
    for eps in (0.0, 0.1, epsilon, epsilon + m, epsilon + 3 * m):
        exact = p * gaussian(eps - epsilon) + (1 - p) * gaussian(eps + epsilon)
        assert exact <= curve.delta(eps) <= exact * (1 + 5e-3) + 2e-14


def test_pure_parts_alone_match_binomial_composition():
    # k-fold randomised response: the loss is (2 B - k) eps with B ~ Binomial(k, p).
    k, one = 40, 0.0731
    p = 1 / (1 + math.exp(-one))
    hits = np.arange(k + 1)
    weights = np.array([math.comb(k, int(b)) for b in hits]) * p**hits * (1 - p) ** (k - hits)
    curve = compose_losses(0.0, {one: k}, {})
    for eps in (0.1, 0.5, 1.5):
        exact = np.sum(weights * np.maximum(-np.expm1(eps - (2 * hits - k) * one), 0))
        assert exact <= curve.delta(eps) <= exact * (1 + 1e-2)
    assert curve.epsilon(1e-6) < PureCurve(k * one).epsilon(1e-6)


def test_composed_gaussians_match_the_closed_form_and_dp_accounting():
    parts = [(2.0, 3), (5.0, 10), (1.5, 1)]
    m = math.sqrt(sum(count / std**2 for std, count in parts))
    total = privacy_loss_distribution.identity()
    for std, count in parts:
        total = total.compose(privacy_loss_distribution.from_gaussian_mechanism(std).self_compose(count))
    for delta in (1e-3, 1e-6, 1e-9):
        exact = GaussianCurve(m).epsilon(delta)
        assert total.get_epsilon_for_delta(delta) == pytest.approx(exact, rel=1e-3)
        assert compose_losses(m, {}, {}).epsilon(delta) == pytest.approx(exact, rel=1e-3)
        assert compose_losses(m, {}, {}).epsilon(delta) >= exact * (1 - 1e-9)


@pytest.mark.parametrize("scheme", list(Scheme), ids=lambda scheme: scheme.name)
def test_tiny_noise_is_bounded_in_size(scheme):
    for ratio in (0.01, 0.03, 0.1):
        curve = compose_losses(0.1, {0.1: 2}, {SampledStep(ratio, 0.01, scheme): 3})
        sure = GaussianCurve(math.sqrt(0.15 + 3 * (2 / ratio) ** 2)).epsilon(1e-5)
        assert 1 < curve.epsilon(1e-5) <= 1.01 * sure
        assert getattr(curve, "distribution", None) is None or curve.distribution._pmf_remove.size < 2_000_000


def test_far_too_little_noise_falls_back_to_one_gaussian():
    step = SampledStep(1e-4, 0.01, Scheme.POISSON_REPLACE)
    curve = compose_losses(0.5, {1.0: 4}, {step: 100})
    # A pure epsilon is the Gaussian whose curve touches it on the diagonal.
    m = -2 * norm.ppf(1 / (1 + math.e))
    assert curve.m == pytest.approx(math.sqrt(0.25 + 4 * m * m + 100 * 2e4**2))
    for eps in np.linspace(0, 1, 11):
        assert PureCurve(1.0).delta(eps) <= delta_of_epsilon(m, eps) + 1e-15


def test_the_crude_bound_counts_pure_releases_too():
    """Where no grid fits, everything is taken for one Gaussian: never less than what the pure ones alone cost."""
    crude = _as_one_gaussian(0.0, {1.0: 2}, {})
    for delta in (1e-8, 1e-4, 1e-2):
        assert crude.epsilon(delta) >= PureCurve(2.0).epsilon(delta)
    assert _as_one_gaussian(0.5, {1.0: 2}, {}).m > crude.m
