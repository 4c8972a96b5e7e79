"""Merging releases changes no figure, and the shortcut never lets through what the accountant would refuse."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.ledger import tools

from dpadmm.privacy.accounting import compose
from dpadmm.privacy.curves import GaussianCurve, PureCurve, m_of
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.ledger.spending import Mechanism, SpentBySilo, SpentReleases, gaussian_square
from dpadmm.privacy.protection import ONE_RECORD, Certificate, NeighbouringRelation, Norm, Protection, Strength, Unit
from dpadmm.privacy.releases import (
    CoordinateLaplaceRelease,
    GaussianRelease,
    ObjectiveRelease,
    PoissonSampling,
    SampledGaussianRelease,
)

QUICK = settings(deadline=None, derandomize=True, max_examples=40)
SIZES = st.floats(0.001, 0.3)


def spent(releases, protection=None):
    reached = SpentReleases(protection or Protection())
    for release in releases:
        reached.add(release)
    return reached


@QUICK
@given(st.lists(st.tuples(SIZES, st.integers(1, 5)), min_size=1, max_size=30))
def test_gaussians_merge_into_one_of_the_same_cost_rounded_up(sizes):
    releases = [tools.gaussian(k, ratio=ratio, count=count) for k, (ratio, count) in enumerate(sizes)]
    (merged,) = spent(releases).merged()
    exact = math.fsum(count * ratio**2 for ratio, count in sizes)
    m = merged.certificate.bound / merged.noise_std
    assert m**2 >= exact * (1 - 1e-16)
    assert m**2 == pytest.approx(exact, rel=1e-14)
    assert compose([merged]).epsilon(1e-5) == pytest.approx(compose(releases).epsilon(1e-5), rel=1e-10)


@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_a_budget_ends_where_it_says(delta):
    """Neither a Gaussian nor a pure release a millionth above it is let through, and one as much below it is."""
    budget = Budget(epsilon=1.0, delta=delta)
    for factor, fits in ((1 - 1e-6, True), (1 + 1e-6, False)):
        curve = GaussianCurve(m_of(factor, delta)) if delta else PureCurve(factor)
        assert budget.allows(curve) is fits


def test_others_are_counted_by_what_they_cost():
    same = [replace(tools.pure(k, agent=k), count=2) for k in range(4)]
    weaker = replace(
        same[0], certificate=replace(same[0].certificate, protection=Protection(unit=Unit.USER), theorem="C9")
    )
    (merged,) = spent([*same, weaker]).merged()
    assert merged.count == 10
    assert merged.certificate.protection.unit is Unit.RECORD
    assert len(spent([*same, tools.pure(epsilon=0.2)]).merged()) == 2


def test_merging_leaves_the_real_accountants_figure():
    objective = tools.certificate(0.02, log_jacobian=0.01, jacobian_free_rate=9.0)
    releases = [
        *(tools.gaussian(k, ratio=0.05, strength=Strength.UP_TO_SOLVER_ERROR) for k in range(9)),
        *(ObjectiveRelease(certificate=objective, rate=2.0, agent=0, round=k) for k in range(4)),
        CoordinateLaplaceRelease(certificate=tools.certificate(0.1, norm=Norm.L1), scale=2.0, agent=0, round=0),
    ]
    plain = [replace(r, certificate=replace(r.certificate, strength=Strength.FULL)) for r in releases]
    merged = spent(releases).merged()
    assert len(merged) == 3
    for delta in (1e-3, 1e-6):
        assert compose(merged).epsilon(delta) == pytest.approx(compose(plain).epsilon(delta), rel=1e-6)


@QUICK
@given(st.lists(SIZES, max_size=6), st.lists(SIZES, min_size=1, max_size=6), st.sampled_from([0.0, 1e-9, 1e-5, 0.1]))
def test_the_shortcut_never_allows_more_than_the_accountant(ratios, epsilons, delta):
    """The bound of its own that it rests on, `delta_m(epsilon - E)`: what is composed on a grid may be above it."""
    releases = [tools.gaussian(ratio=r) for r in ratios] + [tools.pure(epsilon=e) for e in epsilons]
    curve = tools.compose(releases)
    edge = curve.epsilon(delta)
    for epsilon in (0.5, edge * (1 - 1e-9), edge * 0.99, edge * 1.01):
        if math.isfinite(epsilon) and spent(releases)._is_clearly_within(Budget(epsilon=epsilon, delta=delta)):
            assert curve.delta(epsilon) <= delta
            assert compose(releases).delta(epsilon + 0.001) <= delta


@QUICK
@given(st.lists(st.lists(st.tuples(st.booleans(), SIZES), max_size=4), min_size=1, max_size=5), st.integers(2, 4))
def test_people_in_several_silos_pay_at_least_what_any_of_them_released(silos, s):
    counted = SpentBySilo(Protection(silos_per_person=s))
    kinds = [[tools.gaussian(ratio=r) if g else tools.pure(epsilon=r) for g, r in row] for row in silos]
    for i, releases in enumerate(kinds):
        for release in releases:
            counted.add(release, f"silo {i}")
    counted.add(tools.gaussian(ratio=0.1), None)
    ((_, reached),) = counted.people().items()
    counted = tools.compose(reached.merged())
    for chosen in combinations(range(len(kinds)), min(s, len(kinds))):
        theirs = tools.compose([tools.gaussian(ratio=0.1), *(r for i in chosen for r in kinds[i])])
        assert counted.m >= theirs.m * (1 - 1e-12)
        assert counted.pure >= theirs.pure * (1 - 1e-12)
    if all(isinstance(r, GaussianRelease) for releases in kinds for r in releases):  # and not more, where it is exact
        squares = sorted((sum(r.certificate.bound**2 for r in releases) for releases in kinds), reverse=True)
        assert counted.m**2 == pytest.approx(sum(squares[:s]) + 0.01, rel=1e-9)


def test_with_the_real_accountant(path):
    """Golden: m = 0.5 at delta 1e-5 costs 1.993091 (closed form); a sampled run goes through its loss distribution."""
    with Ledger.create(path, tools.data, Budget(epsilon=2.5, delta=1e-5)) as ledger:
        tools.reserve(ledger, *(tools.gaussian(k, ratio=0.1) for k in range(25)))
        assert ledger.statement().spent_epsilon == pytest.approx(1.993091, abs=1e-6)
        sampled = SampledGaussianRelease(
            certificate=tools.certificate(1.0),
            noise_std=10.0,
            sampling=PoissonSampling(rate=0.01),
            agent=0,
            round=25,
            count=100,
        )
        tools.reserve(ledger, sampled)
        statement = ledger.statement()
        direct = compose([tools.gaussian(ratio=0.1, count=25), sampled]).epsilon(1e-5)
        assert statement.spent_epsilon == pytest.approx(direct, rel=1e-6)
        assert 1.993091 < statement.spent_epsilon < 2.5
        assert not statement.holds_adaptively


@pytest.mark.parametrize("relation", NeighbouringRelation)
def test_a_sampled_step_costs_a_person_with_several_records_what_it_costs_alone(relation):
    """A person is in a batch with a chance that grows with their records, which the ledger must not forget."""
    people = Protection(relation=relation, records_per_person=3)
    certificate = Certificate(bound=1.0, protection=people, theorem="C4", assumptions=("bounded",))
    sampling = PoissonSampling(rate=0.1)
    release = SampledGaussianRelease(certificate=certificate, noise_std=2.0, sampling=sampling, agent=0, round=1)
    counted = Mechanism.of(release, people).release
    assert counted.cost == release.cost
    assert counted.cost.step.rate == pytest.approx(1 - 0.9**3)


def test_discrete_noise_is_charged_for_its_grid():
    """Discrete noise is a little less than Gaussian (C8): m grows by `1 + grid^2/(4 noise_std^2)`."""
    certificate = Certificate(bound=1.0, protection=ONE_RECORD, theorem="C1", assumptions=("bounded",))
    plain = GaussianRelease(certificate=certificate, noise_std=2.0, agent=0, round=1)
    coarse = replace(plain, certificate=replace(certificate, grid=2.0**-4, grid_dimension=1))
    ratio = gaussian_square(coarse) / gaussian_square(plain)
    assert float(ratio) == pytest.approx((1 + (2.0**-4 / 4) ** 2) ** 2, rel=1e-12)
    assert ratio > Fraction(1)
