"""Accountants: closed forms, merging, refusals, people in several silos."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.certificates import by_agent, changed

from dpadmm.privacy.accounting import (
    Target,
    account_for,
    calibrate_gaussian,
    compose,
    curve_if_silos_collude,
    worst_person,
)
from dpadmm.privacy.curves import GaussianCurve, InfiniteCurve, PureCurve
from dpadmm.privacy.protection import (
    ONE_RECORD,
    Certificate,
    NeighbouringRelation,
    Norm,
    Protection,
    Strength,
    Unit,
    View,
)
from dpadmm.privacy.releases import (
    BareRelease,
    CoordinateLaplaceRelease,
    FixedSizeSampling,
    GaussianRelease,
    ObjectiveRelease,
    PoissonSampling,
    SampledGaussianRelease,
    SphericalLaplaceRelease,
    SummedGaussianRelease,
    objective_epsilon,
)

quick = settings(deadline=None, derandomize=True, max_examples=100)
BASE = Certificate(
    bound=1.0, protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER), theorem="C1", assumptions=("norm <= 1",)
)


def gaussian(bound=1.0, std=1.0, agent=0, count=1, **terms):
    certificate = changed(BASE, bound=bound, **terms)
    return GaussianRelease(certificate=certificate, noise_std=std, agent=agent, round=0, count=count)


def spherical(bound=1.0, rate=1.0, agent=0, count=1, **terms):
    certificate = changed(BASE, bound=bound, **terms)
    return SphericalLaplaceRelease(certificate=certificate, rate=rate, agent=agent, round=0, count=count)


def sampled(std=2.0, rate=0.1, agent=0, count=1, **terms):
    return SampledGaussianRelease(
        certificate=changed(BASE, **terms),
        noise_std=std,
        sampling=PoissonSampling(rate=rate),
        agent=agent,
        round=0,
        count=count,
    )


@quick
@given(st.lists(st.tuples(st.floats(1e-3, 10), st.floats(1e-2, 100), st.integers(1, 50)), min_size=1, max_size=8))
def test_gaussians_add_in_squares(parts):
    curve = compose(gaussian(bound, std, count=count) for bound, std, count in parts)
    assert curve.m == pytest.approx(math.sqrt(sum(c * (b / s) ** 2 for b, s, c in parts)), rel=1e-14)


@pytest.mark.parametrize("make", [gaussian, spherical], ids=["gaussian", "spherical"])
def test_k_releases_equal_one_of_count_k(make):
    for k in (2, 7, 10_000):
        assert compose([make(bound=0.3)] * k) == compose([make(bound=0.3, count=k)])


def test_k_sampled_or_mixed_releases_equal_one_of_count_k():
    for make in (sampled, lambda count=1: spherical(rate=0.1, count=count)):
        many = compose([make()] * 6 + [gaussian(std=5.0)])
        once = compose([gaussian(std=5.0), make(count=6)])
        assert many.epsilon(1e-5) == once.epsilon(1e-5)


def test_pure_releases_add_up():
    coordinate = CoordinateLaplaceRelease(
        certificate=changed(BASE, bound=3.0, norm=Norm.L1), scale=6.0, agent=0, round=0, count=2
    )
    curve = compose([spherical(bound=0.5, rate=0.4, count=3), coordinate])
    assert isinstance(curve, PureCurve)
    assert curve.total == pytest.approx(0.6 + 1.0)


def test_objective_perturbation_pays_its_jacobian_only_below_the_free_rate():
    # C2, logistic: bound 2G/n, t = 1/(4 n s), free from alpha = 1/s on.
    n, s = 50, 0.2
    certificate = changed(BASE, bound=2 / n, log_jacobian=math.log1p(0.25 / (n * s)), jacobian_free_rate=1 / s)
    below, above = 0.99 / s, 1 / s
    assert objective_epsilon(certificate, below) == pytest.approx(below * 2 / n + math.log1p(0.25 / (n * s)))
    assert objective_epsilon(certificate, above) == pytest.approx(2 * above / n)
    releases = [ObjectiveRelease(certificate=certificate, rate=r, agent=0, round=0, count=2) for r in (below, above)]
    expected = 2 * (below + above) * 2 / n + 2 * math.log1p(0.25 / (n * s))
    assert compose(releases).epsilon(0.0) == pytest.approx(expected)
    never_free = replace(certificate, jacobian_free_rate=None)
    assert objective_epsilon(never_free, 1e6) == pytest.approx(1e6 * 2 / n + certificate.log_jacobian)


def test_mixtures_cost_at_least_each_part_and_at_most_the_sum():
    parts = [gaussian(std=3.0), spherical(rate=0.2, count=2), sampled(count=5)]
    whole = compose(parts).epsilon(1e-5)
    assert whole > max(compose([part]).epsilon(1e-5) for part in parts)
    assert whole < sum(compose([part]).epsilon(1e-5 / 3) for part in parts)


def test_sampling_amplifies_and_never_hurts():
    full = compose([sampled(rate=1.0, count=10)])
    assert full.m == pytest.approx(math.sqrt(10))
    fixed = replace(sampled(count=10), sampling=FixedSizeSampling(size=10, population=100))
    poisson, fixed = compose([sampled(count=10)]).epsilon(1e-5), compose([fixed]).epsilon(1e-5)
    assert poisson < fixed < full.epsilon(1e-5)
    add = compose([sampled(count=10, relation=NeighbouringRelation.ADD_OR_REMOVE)]).epsilon(1e-5)
    assert add < poisson


def test_several_records_take_part_more_often():
    three = compose([sampled(rate=0.1, records_per_person=3)])
    assert three.epsilon(1e-5) == compose([sampled(rate=-math.expm1(3 * math.log1p(-0.1)))]).epsilon(1e-5)


def test_bare_and_noiseless_releases_are_infinite():
    bare = BareRelease(reason="debug", agent=0, round=0)
    for releases in ([bare], [gaussian(), bare], [gaussian(std=0.0)], [sampled(std=0.0)]):
        assert compose(releases) == InfiniteCurve()
        assert worst_person(releases) == InfiniteCurve()


def test_nothing_to_hide_costs_nothing():
    assert compose([]).epsilon(0.0) == 0.0
    assert compose([gaussian(bound=0.0, std=0.0), sampled(std=0.0, bound=0.0)]).epsilon(0.0) == 0.0


def test_worst_person_in_several_silos():
    gaussians = [gaussian(std=s, agent=i, silos_per_person=2) for i, s in enumerate((1.0, 2.0, 0.5, 4.0))]
    assert worst_person(gaussians).m == pytest.approx(math.sqrt(4.0 + 1.0))
    pures = [spherical(rate=r, agent=i, silos_per_person=2) for i, r in enumerate((0.1, 0.5, 0.5, 0.2))]
    assert worst_person(pures) == PureCurve(1.0)
    one = worst_person([gaussian(std=1.0, agent=0), gaussian(std=2.0, agent=1)])
    assert one == GaussianCurve(1.0)


@pytest.mark.parametrize("makes", [(gaussian,), (spherical,), (gaussian, spherical)], ids=["squares", "pure", "mixed"])
def test_what_reaches_everybody_counts_beside_all_silos_of_a_person(makes):
    def of(*agents):
        return [make(bound=0.2, agent=agent, silos_per_person=2) for make in makes for agent in agents]

    three, two = compose(of(-1, 0, 1)).epsilon(1e-5), compose(of(-1, 0)).epsilon(1e-5)
    assert worst_person(of(-1, 0, 1, 2)).epsilon(1e-5) == pytest.approx(three, rel=1e-9)
    assert by_agent(of(-1, 0, 1))[1].epsilon(1e-5) == pytest.approx(two, rel=1e-9)


def test_a_person_in_two_silos_that_release_the_same_mixture_pays_for_both():
    terms = {"silos_per_person": 2}
    alike = [kind(agent=i, **terms) for i in range(3) for kind in (gaussian, spherical)]
    both = compose([gaussian(count=2, **terms), spherical(count=2, **terms)])
    assert worst_person(alike).epsilon(1e-5) == pytest.approx(both.epsilon(1e-5), rel=1e-3)


def test_worst_person_of_unlike_agents_is_the_envelope():
    releases = [gaussian(std=1.0, agent=0), spherical(rate=2.0, agent=1), spherical(rate=2.0, agent=2)]
    worst = worst_person(releases)
    for delta in (0.2, 1e-2, 1e-6):
        assert worst.epsilon(delta) == max(curve.epsilon(delta) for curve in by_agent(releases).values())
    pairs = worst_person([replace(r, certificate=changed(r.certificate, silos_per_person=2)) for r in releases])
    both = compose([spherical(rate=2.0, count=2)])
    assert pairs.epsilon(1e-6) == max(compose(releases[:2]).epsilon(1e-6), both.epsilon(1e-6))


def test_strength_is_the_weakest():
    full, floats = gaussian(), gaussian(strength=Strength.UP_TO_FLOATING_POINT)
    solver = gaussian(strength=Strength.UP_TO_SOLVER_ERROR)
    assert account_for([full, full]).strength is Strength.FULL
    assert account_for([full, floats]).strength is Strength.UP_TO_FLOATING_POINT
    assert account_for([solver, full, floats]).strength is Strength.UP_TO_SOLVER_ERROR


def test_statement_names_everything():
    other = gaussian(std=2.0, agent=1, theorem="C6", assumptions=("lam <= 1/2", "norm <= 1"))
    said = account_for([gaussian(), other])
    assert said.curve == GaussianCurve(1.0)
    assert said.protection == ONE_RECORD
    assert said.theorems == ("C1", "C6")
    assert said.assumptions == ("norm <= 1", "lam <= 1/2")


def summed(silos, colluders, epsilon=1.0, delta=1e-5, count=1):
    """A sum under masks that spends exactly (epsilon, delta), all `count` of them together."""
    (std,) = calibrate_gaussian(Target(epsilon, delta), [1.0], [1.0])
    certificate = changed(BASE, view=View.AGGREGATE, colluders=colluders)
    noise = float(std) * math.sqrt(count)
    return SummedGaussianRelease(certificate=certificate, noise_std=noise, silos=silos, agent=-1, round=0, count=count)


@pytest.mark.parametrize(
    ("silos", "colluders", "one", "everyone"), [(5, 1, None, 2.15), (5, 0, 1.13, 2.44), (2, 0, 1.47, 1.47)]
)
def test_more_silos_that_look_see_more(silos, colluders, one, everyone):
    # Golden numbers: 1.13, 1.47 and 2.15 are those of the design of C12 (m sqrt(N/(N - 1)) and m sqrt(N - t)).
    said = account_for([summed(silos, colluders, count=7)])
    assert said.curve.epsilon(1e-5) == pytest.approx(1.0, abs=1e-6)
    assert said.if_all_collude.epsilon(1e-5) == pytest.approx(everyone, abs=0.006)
    assert said.if_all_collude.m == pytest.approx(said.curve.m * math.sqrt(silos - colluders), rel=1e-12)
    assert (said.if_one_colludes is None) is (one is None)
    if one is not None:
        assert said.if_one_colludes.epsilon(1e-5) == pytest.approx(one, abs=0.006)


@quick
@given(silos=st.integers(3, 30), data=st.data())
def test_as_many_lookers_as_are_certified_see_what_is_certified(silos, data):
    colluders = data.draw(st.integers(0, silos - 2))
    own = changed(gaussian(std=3.0).certificate, view=View.AGGREGATE, colluders=colluders)
    releases = [summed(silos, colluders), GaussianRelease(certificate=own, noise_std=3.0, agent=-1, round=1)]
    certified = worst_person(releases)
    assert curve_if_silos_collude(releases, colluders).m == pytest.approx(certified.m, rel=1e-12)
    alone = math.sqrt((1 / 3.0) ** 2 + (silos - colluders) * (certified.m**2 - (1 / 3.0) ** 2))
    assert curve_if_silos_collude(releases).m == pytest.approx(alone, rel=1e-12)  # unshared noise stays as it is
    assert curve_if_silos_collude(releases, silos - 1) == curve_if_silos_collude(releases)


def test_without_sums_nothing_is_said_about_lookers():
    said = account_for([gaussian()])
    assert said.if_one_colludes is said.if_all_collude is None


def test_shares_stay_what_they_are_whatever_they_are_counted_against():
    release = summed(6, 2)
    for colluders in (0, 1, 2):
        other = release.counted_for(colluders)
        assert other.share_std == pytest.approx(release.share_std, rel=1e-12)
        assert other.total_std == pytest.approx(release.total_std, rel=1e-12)
        assert account_for([other]).if_all_collude.m == pytest.approx(
            account_for([release]).if_all_collude.m, rel=1e-12
        )
