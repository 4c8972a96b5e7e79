"""Every method keeps the promises of the interface: parallel records, calibration within budget, claims apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.local_facts import of

from dpadmm.errors import InputError
from dpadmm.privacy.calibration import PureTarget, Target
from dpadmm.privacy.certificates import consensus_broadcast_records
from dpadmm.privacy.claims import NoiseKind
from dpadmm.privacy.methods import (
    METHODS,
    Centralised,
    Consensus,
    CoordinatorNoise,
    DpGd,
    DpSgd,
    Dvp,
    Family,
    Federated,
    MAdmm,
    OutputPerturbation,
    PAdmm,
    PsAdmm,
    RAdmm,
    Walk,
)
from dpadmm.privacy.methods.objective import largest_rate
from dpadmm.privacy.protection import Strength, Unit
from dpadmm.privacy.records import objective_epsilon

GRAPH = {"records": 1000, "degree": 2, "eta": 0.05, "mu": 0.01}
EXAMPLES = [
    PAdmm(**GRAPH, rounds=6),
    PAdmm(**GRAPH, rounds=6, recycled=True, silos_per_person=2, records_per_person=3),
    Dvp(**GRAPH, rounds=6, logistic=True),
    Dvp(**GRAPH, rounds=6, tolerance=1e-8, smoothing_rate=1e3, silos_per_person=2),
    MAdmm(**GRAPH, rounds=6, penalty_growth=1.1),
    RAdmm(**GRAPH, rounds=6),
    Consensus(agents=100, rho=5, mu=1, smoothness=2, gradient_distance=1, rounds=6),
    Consensus(
        agents=100, rho=5, mu=1, smoothness=2, gradient_distance=1, rounds=6, noise=Family.GAUSSIAN, quadratic=True
    ),
    PsAdmm(records=2000, rounds=3, inner_steps=4, batch=100),
    PsAdmm(records=2000, rounds=3, inner_steps=1),
    Centralised(gamma=0.5, lipschitz=1.0, users=100, rounds=6),
    Federated(gamma=0.5, lipschitz=1.0, users=100, sampled=10, rounds=6, participations=4),
    Walk(gamma=0.5, lipschitz=1.0, users=100, participations=4, records=50),
    CoordinatorNoise(gamma=0.5, lipschitz=1.0, users=100, rounds=6),
    CoordinatorNoise(gamma=0.5, lipschitz=1.0, users=100, rounds=6, records=50, smoothness=0.3, silos_per_person=2),
    DpSgd(records=2000, batch=50, clip=0.5, rounds=6),
    DpGd(records=2000, rounds=6, weight=0.3),
    OutputPerturbation(records=1000, mu=0.01, noise=Family.LAPLACE),
]
every = pytest.mark.parametrize("method", EXAMPLES, ids=lambda method: method.name)


def test_every_method_has_an_example():
    assert {method.name for method in EXAMPLES} == set(METHODS)
    assert all(METHODS[method.name] is type(method) for method in EXAMPLES)


@every
def test_certificates_and_releases_run_in_parallel(method):
    levels = np.linspace(2.0, 3.0, len(method.private_rounds()))
    releases = method.releases(levels)
    assert tuple(release.certificate for release in releases) == method.certificates()
    numbers = [release.round for release in releases]
    assert sorted(set(numbers)) == list(method.private_rounds())
    assert numbers == sorted(numbers)
    assert {release.agent for release in releases} == {-1 if "coordinator" in method.noised + method.title else 0}
    moved = method.releases(levels, agent=7, rounds=[10 * k for k in method.private_rounds()])
    assert [(release.agent, release.round) for release in moved] == [(7, 10 * k) for k in numbers]


@every
def test_calibration_spends_the_target_and_scales_the_shape(method):
    target = Target(0.8, 1e-5) if method.family is Family.GAUSSIAN else PureTarget(0.8)
    shape = np.geomspace(1.0, 0.5, len(method.private_rounds()))
    noise = method.calibrate(target, shape)
    relative = noise if method.family is Family.GAUSSIAN else 1 / noise
    assert relative / relative[0] == pytest.approx(shape, rel=1e-12)
    spent = method.statement(noise).curve.epsilon(getattr(target, "delta", 0.0))
    loss = 4e-3 if isinstance(method, PsAdmm) else 1.1e-3 if isinstance(method, DpSgd) else 1e-6
    assert 0.8 * (1 - loss) <= spent <= 0.8


@pytest.mark.parametrize("method", [e for e in EXAMPLES if e.family is Family.LAPLACE], ids=lambda method: method.name)
def test_pure_methods_can_use_a_delta(method):
    target = Target(0.8, 0.01)
    assert method.statement(method.calibrate(target)).curve.epsilon(0.01) == pytest.approx(0.8, rel=1e-9)


@every
def test_more_noise_costs_less(method):
    quiet = 1.0 if method.family is Family.GAUSSIAN else 20.0
    loud = 2.0 if method.family is Family.GAUSSIAN else 10.0
    delta = 1e-5 if method.family is Family.GAUSSIAN else 0.0
    assert method.statement(loud).curve.epsilon(delta) < method.statement(quiet).curve.epsilon(delta)


@every
def test_claims_stay_claims_and_invert(method):
    target = Target(0.8, 1e-5) if method.family is Family.GAUSSIAN else PureTarget(0.8)
    if not method.claimed_epsilon(5.0, 1e-5):
        with pytest.raises(InputError):
            method.claimed_noise(target)
        return
    claimed = method.claimed_noise(target)
    assert len(claimed.values) == len(method.private_rounds())
    assert claimed.kind is (
        NoiseKind.GAUSSIAN_STD if method.family is Family.GAUSSIAN else NoiseKind.SPHERICAL_LAPLACE_RATE
    )
    back = method.claimed_epsilon(claimed.values, 1e-5)[0]
    assert back.value == pytest.approx(0.8, rel=1e-9)
    assert claimed.label.startswith("[claimed")


def test_claims_about_one_record_are_marked_when_a_person_has_more():
    alone = PAdmm(records=1000, degree=2, eta=0.05, rounds=6)
    assert alone.claimed_epsilon(1.0, 1e-5)[0].conditions_hold
    assert not replace(alone, records_per_person=2).claimed_epsilon(1.0, 1e-5)[0].conditions_hold


def test_constant_noise_is_the_limit_of_theorem_3():
    (claim,) = PAdmm(**GRAPH, rounds=6).claimed_epsilon(2.0, 1e-4)
    rho = 6 * (1 / (0.05 * 2) / 2.0) ** 2 / 2
    assert claim.value == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e4)), rel=1e-9)
    assert "limit" in claim.theorem


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    growth=st.floats(1.0, 1.6),
    rounds=st.integers(1, 8),
    epsilon=st.floats(0.01, 20.0),
    eta=st.floats(1e-4, 1.0),
    data=st.data(),
)
def test_largest_rate_is_admissible_and_no_larger_one_on_a_grid_is(growth, rounds, epsilon, eta, data):
    method = Dvp(records=50, degree=1, eta=eta, rounds=rounds, penalty_growth=growth, logistic=True)
    units = np.array(data.draw(st.lists(st.floats(0.1, 10.0), min_size=rounds, max_size=rounds)))
    certificates = method.certificates()

    def cost(c: float) -> float:
        return math.fsum(
            objective_epsilon(certificate, c * u) for certificate, u in zip(certificates, units, strict=True)
        )

    turns = [c.jacobian_free_rate / u for c, u in zip(certificates, units, strict=True)]
    try:
        found = largest_rate(certificates, units, epsilon)
    except InputError:
        assert all(cost(c) > epsilon * (1 - 1e-9) for c in [*np.geomspace(1e-6, 1e6, 200), *turns])
        return
    assert cost(found) <= epsilon
    assert all(cost(c) > epsilon for c in [found * (1 + 1e-9), *found * np.geomspace(1.001, 1e3, 100)])
    assert all(cost(c) > epsilon * (1 - 1e-9) for c in turns if c > found * (1 + 1e-9))


def test_two_silos_behind_one_noise_move_the_broadcast_twice_as_far():
    """For fixed broadcasts the changes of two agents add up: the bound of one silo is passed, that of two attained."""
    agents, rho, mu, records = 10, 5.0, 1.0, 100
    shift = 2 / records  # of the linear term, when one record of gradient norm 1 is replaced by its opposite

    def broadcast(changed: int) -> float:
        linear = np.zeros(agents)
        linear[:changed] = shift
        x = (rho * 0.3 - linear) / (rho + mu)  # x_i minimises mu x^2/2 + c_i x + rho (x - zhat)^2/2, zhat = 0.3, a = 0
        return float((x + (x - 0.3)).mean())

    one, two = abs(broadcast(1) - broadcast(0)), abs(broadcast(2) - broadcast(0))
    method = Consensus(
        agents=agents, rho=rho, mu=mu, smoothness=mu, records=records, gradient_bound=1, rounds=1, silos_per_person=2
    )
    (raw,) = of(
        consensus_broadcast_records,
        rounds=1,
        gradient_bound=1,
        n_records=records,
        n_agents=agents,
        penalty=rho,
        strong_convexity=mu,
        smoothness=mu,
    )
    (certificate,) = method.certificates()
    assert one == pytest.approx(raw.bound, rel=1e-12)
    assert two > 1.5 * raw.bound
    assert two == pytest.approx(certificate.bound, rel=1e-12)
    assert certificate.silos_per_person == 2
    assert method.copies == 1


def test_any_split_of_ps_admm_is_accounted_and_the_default_is_near_the_best():
    method = PsAdmm(records=2000, rounds=3, inner_steps=20, batch=20)
    chosen = method.statement(0.3).curve.epsilon(1e-5)
    others = [
        replace(method, split=share).statement(0.3).curve.epsilon(1e-5) for share in (0.02, 0.1, 0.2, 0.33, 0.6, 0.9)
    ]
    assert chosen <= min(others) * 1.03
    assert max(others) > 1.2 * chosen
    std = [release.noise_std for release in method.releases(0.3)[:3]]
    assert std[0] == 0.3
    assert math.hypot(std[1], std[2]) == pytest.approx(0.3, rel=1e-12)
    assert [release.count for release in method.releases(0.3)[:3]] == [1, 19, 19]


def test_units_and_strengths_follow_the_settings():
    assert EXAMPLES[6].certificates()[0].unit is Unit.FUNCTION
    walk = Walk(gamma=0.5, lipschitz=1.0, users=100, participations=4)
    assert walk.certificates()[0].unit is Unit.USER
    assert replace(walk, records=50).certificates()[0].unit is Unit.RECORD
    solved = replace(walk, tolerance=1e-8)
    assert solved.certificates()[0].strength is Strength.FULL
    laplace = OutputPerturbation(records=10, mu=1, noise=Family.LAPLACE, tolerance=1e-8)
    assert laplace.certificates()[0].strength is Strength.UP_TO_FLOATING_POINT


def test_private_rounds_and_their_penalties():
    assert PAdmm(**GRAPH, rounds=6).private_rounds() == (1, 2, 3, 4, 5, 6)
    assert PAdmm(**GRAPH, rounds=6, recycled=True).private_rounds() == (1, 3, 5)
    grown = RAdmm(**GRAPH, rounds=6, penalty_growth=2.0)
    assert grown.private_rounds() == (1, 3, 5)
    assert grown.penalties() == pytest.approx((0.1, 0.4, 1.6), rel=1e-15)
    bounds = [c.log_jacobian for c in MAdmm(**GRAPH, rounds=2, penalty_growth=2.0).certificates()]
    assert bounds == pytest.approx([math.log1p(0.25 / (1000 * 0.41)), math.log1p(0.25 / (1000 * 0.81))], rel=1e-12)


def test_bad_noise_is_refused():
    method = DpGd(records=10, rounds=3)
    for noise in (0.0, -1.0, math.nan, math.inf, [1.0, 2.0]):
        with pytest.raises(InputError, match="noise"):
            method.releases(noise)
    with pytest.raises(InputError, match="private rounds"):
        method.releases(1.0, rounds=[1, 2])


def test_too_many_releases_to_list_are_refused_at_once():
    method = PAdmm(**GRAPH, rounds=6, silos_per_person=10**12)
    with pytest.raises(InputError, match="releases to list"):
        method.statement(1.0)
