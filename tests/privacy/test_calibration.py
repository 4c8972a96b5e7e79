"""Calibration spends the budget: never more, hardly less."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.certificates import changed

from dpadmm.errors import InputError
from dpadmm.privacy.accounting import (
    PureTarget,
    Target,
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_objective,
    calibrate_scale,
    compose,
    objective_rate,
    worst_person,
)
from dpadmm.privacy.protection import Certificate, NeighbouringRelation, Norm, Protection, Unit, View
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    FixedSizeSampling,
    GaussianRelease,
    ObjectiveRelease,
    PoissonSampling,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
    objective_epsilon,
)

BASE = Certificate(
    bound=1.0, protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER), theorem="C1", assumptions=("norm <= 1",)
)
many = settings(deadline=None, derandomize=True, max_examples=300)
epsilons = st.floats(-3, 2).map(lambda x: 10**x)
deltas = st.floats(-12, -0.05).map(lambda x: 10**x)
positives = st.floats(-6, 6).map(lambda x: 10**x)


def rows(*values):
    return st.lists(st.tuples(*values), min_size=1, max_size=6)


def gaussian(bound, std, agent=0, **terms):
    return GaussianRelease(
        certificate=changed(BASE, bound=float(bound), **terms), noise_std=float(std), agent=agent, round=0
    )


def sampled(noise_std):
    sampling = PoissonSampling(rate=0.1)
    return SampledGaussianRelease(certificate=BASE, noise_std=noise_std, sampling=sampling, agent=0, round=0)


@many
@given(epsilons, deltas, rows(positives, positives))
def test_gaussian_spends_exactly(epsilon, delta, pairs):
    bounds, shape = np.array(pairs).T
    stds = calibrate_gaussian(Target(epsilon, delta), bounds, shape)
    spent = compose(gaussian(b, s) for b, s in zip(bounds, stds, strict=True)).epsilon(delta)
    assert epsilon * (1 - 1e-6) <= spent <= epsilon
    np.testing.assert_allclose(stds / stds[0], shape / shape[0], rtol=1e-12)


@many
@given(epsilons, rows(positives, positives))
def test_laplace_spends_exactly(epsilon, pairs):
    bounds, shape = np.array(pairs).T
    rates = calibrate_laplace(PureTarget(epsilon), bounds, shape)
    releases = [
        SphericalLaplaceRelease(certificate=changed(BASE, bound=b), rate=r, agent=0, round=0)
        for b, r in zip(bounds.tolist(), rates.tolist(), strict=True)
    ]
    assert epsilon * (1 - 1e-6) <= compose(releases).epsilon(0.0) <= epsilon
    np.testing.assert_allclose(rates * shape, rates[0] * shape[0], rtol=1e-12)


def test_every_agent_spends_its_own_budget():
    target, bounds = Target(1.0, 1e-5), np.array([[1.0, 2.0, 0.5], [0.1, 0.0, 0.3]])
    stds = calibrate_gaussian(target, bounds, [1.0, 2.0, 4.0])
    assert stds.shape == (2, 3)
    for agent in range(2):
        spent = compose(gaussian(b, s) for b, s in zip(bounds[agent], stds[agent], strict=True)).epsilon(1e-5)
        assert 1 - 1e-6 <= spent <= 1


def test_a_person_in_several_silos_stays_within_the_target():
    target, bounds = Target(2.0, 1e-6), np.array([[1.0, 1.0], [3.0, 0.2], [0.1, 0.1]])
    stds = calibrate_gaussian(target, bounds, silos_per_person=2)
    releases = [gaussian(bounds[i, k], stds[i, k], i, silos_per_person=2) for i in range(3) for k in range(2)]
    assert 2.0 * (1 - 1e-6) <= worst_person(releases).epsilon(1e-6) <= 2.0
    rates = calibrate_laplace(PureTarget(1.0), bounds, silos_per_person=2)
    assert (rates * bounds).sum(axis=1).max() == pytest.approx(0.5, rel=1e-9)


def test_coordinate_laplace_from_the_rates():
    bounds = np.array([0.3, 0.7, 1.1])
    scales = 1 / calibrate_laplace(PureTarget(0.4), bounds)
    releases = [
        CoordinateLaplaceRelease(certificate=changed(BASE, bound=b, norm=Norm.L1), scale=s, agent=0, round=0)
        for b, s in zip(bounds.tolist(), scales.tolist(), strict=True)
    ]
    assert 0.4 * (1 - 1e-6) <= compose(releases).epsilon(0.0) <= 0.4


@many
@given(epsilons, st.floats(-4, 1).map(lambda x: 10**x), st.floats(0, 2), st.one_of(st.none(), positives))
def test_objective_rate_is_the_largest_admissible(epsilon, bound, jacobian, free):
    certificate = changed(BASE, bound=bound, log_jacobian=jacobian, jacobian_free_rate=free)
    payable = epsilon > jacobian * (1 + 1e-9) + 1e-11 * epsilon
    reachable = free is not None and free * bound <= epsilon * (1 - 1e-11)
    if payable or reachable:
        rate = objective_rate(certificate, epsilon)
        assert objective_epsilon(certificate, rate) <= epsilon
        assert objective_epsilon(certificate, rate * (1 + 1e-9) + 1e-9 * epsilon / bound) > epsilon
    elif epsilon < jacobian and (free is None or free * bound > epsilon * (1 + 1e-9)):
        with pytest.raises(InputError, match="Jacobian"):
            objective_rate(certificate, epsilon)


def test_objective_rounds_spend_exactly():
    certificates = [changed(BASE, bound=0.04, log_jacobian=0.01 * k, jacobian_free_rate=8.0) for k in range(1, 4)]
    rates = calibrate_objective(PureTarget(0.9), certificates, [1.0, 1.0, 2.0])
    halves = calibrate_objective(PureTarget(0.9), certificates, [1.0, 1.0, 2.0], silos_per_person=2)
    assert sum(map(objective_epsilon, certificates, halves)) == pytest.approx(0.45, rel=1e-9)  # in each of two silos
    assert rates[2] == pytest.approx(0.45 / 0.04)  # above the free rate
    assert rates[0] == pytest.approx((0.225 - 0.01) / 0.04)  # below it
    releases = [
        ObjectiveRelease(certificate=c, rate=float(r), agent=0, round=k)
        for k, (c, r) in enumerate(zip(certificates, rates, strict=True))
    ]
    assert 0.9 * (1 - 1e-6) <= compose(releases).epsilon(0.0) <= 0.9


@pytest.mark.parametrize(
    ("sampling", "relation", "rounds", "target"),
    [
        (PoissonSampling(rate=0.01), NeighbouringRelation.REPLACE_ONE, 1000, Target(1.0, 1e-5)),
        (PoissonSampling(rate=0.1), NeighbouringRelation.ADD_OR_REMOVE, 50, Target(0.3, 1e-6)),
        (FixedSizeSampling(size=50, population=1000), NeighbouringRelation.REPLACE_ONE, 200, Target(4.0, 1e-5)),
        (PoissonSampling(rate=1.0), NeighbouringRelation.REPLACE_ONE, 10, Target(1.0, 1e-5)),
    ],
    ids=["poisson", "add-or-remove", "fixed", "everyone"],
)
def test_sampled_spends_within_a_thousandth(sampling, relation, rounds, target):
    certificate = changed(BASE, bound=0.02, relation=relation)
    loud = [
        SampledGaussianRelease(certificate=certificate, noise_std=1.0, sampling=sampling, agent=0, round=k)
        for k in range(rounds)
    ]
    factor = calibrate_scale(target, loud)
    releases = [release.scale_noise(factor) for release in loud]
    assert target.epsilon * (1 - 1e-3) <= compose(releases).epsilon(target.delta) <= target.epsilon


@pytest.mark.parametrize("start", [1e-9, 1.0, 1e9])
def test_a_mixture_is_scaled_together_from_any_start(start):
    # PS-ADMM's split (C4): a full gradient and a sampled correction, and a Laplace release besides.
    sampling = PoissonSampling(rate=0.05)
    templates = [
        gaussian(0.1, 0.3 * start),
        SampledGaussianRelease(certificate=BASE, noise_std=start, sampling=sampling, agent=0, round=0, count=20),
        SphericalLaplaceRelease(certificate=BASE, rate=0.1 / start, agent=0, round=0),
    ]
    factor = calibrate_scale(Target(1.0, 1e-5), templates) * start
    scaled = [
        gaussian(0.1, 0.3 * factor),
        replace(templates[1], noise_std=factor),
        replace(templates[2], rate=0.1 / factor),
    ]
    assert (1 - 2e-3) <= compose(scaled).epsilon(1e-5) <= 1 + 1e-9
