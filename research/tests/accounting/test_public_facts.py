"""Every method keeps the promises of the interface: parallel records, calibration within budget, claims apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.local_facts import of

from dpadmm.errors import InputError
from dpadmm.methods.base import by_name
from dpadmm.noise.mechanisms import Family
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.certificates.hidden_state import consensus_broadcast_records
from dpadmm.privacy.protection import Strength, Unit
from dpadmm.privacy.releases import objective_epsilon
from dpadmm_research.accounting.best_noise import largest_rate
from dpadmm_research.accounting.facts import NoiseName
from dpadmm_research.accounting.public_facts import asked, claimed_agent, is_accountable, numbers, one_agent
from dpadmm_research.claims.base import NoiseKind
from dpadmm_research.claims.registry import ClaimedAgent, claims_of


def agent(name, **reported):
    """The agent of a method that these numbers describe."""
    return one_agent(by_name()[name], **reported)


def on_paper(name, **reported):
    """What the paper says of it."""
    return claimed_agent(by_name()[name], **reported)


GRAPH = {"records": 1000, "degree": 2, "eta": 0.05, "mu": 0.01}
FUNCTIONS = {"number": 100, "rho": 5.0, "mu": 1.0, "smoothness": 2.0, "gradient_distance": 1.0, "rounds": 6}
USERS = {"gamma": 0.5, "gradient_bound": 1.0, "number": 100}
EXAMPLES = {
    "p-admm": agent("p-admm", **GRAPH, rounds=6),
    "p-admm for people": agent("p-admm", **GRAPH, rounds=6, recycled=True, silos_per_person=2, records_per_person=3),
    "p-admm-recycled": agent("p-admm-recycled", **GRAPH, rounds=6),
    "dvp": agent("dvp", **GRAPH, rounds=6, logistic=True),
    "dvp smoothed": agent("dvp", **GRAPH, rounds=6, tolerance=1e-8, smoothing_rate=1e3, silos_per_person=2),
    "m-admm": agent("m-admm", **GRAPH, rounds=6, growth=1.1),
    "r-admm": agent("r-admm", **GRAPH, rounds=6),
    "consensus": agent("consensus", **FUNCTIONS),
    "consensus of quadratics": agent("consensus", **FUNCTIONS, noise=NoiseName.GAUSSIAN, quadratic=True),
    "consensus-gaussian": agent("consensus-gaussian", **FUNCTIONS, noise=NoiseName.GAUSSIAN),
    "ps-admm": agent("ps-admm", records=2000, rounds=3, inner_steps=4, batch=100),
    "ps-admm, one step": agent("ps-admm", records=2000, rounds=3, inner_steps=1),
    "fp-centralised": agent("fp-centralised", **USERS, rounds=6),
    "fp-federated": agent("fp-federated", **USERS, sampled=10, rounds=6, participations=4),
    "fp-walk": agent("fp-walk", **USERS, participations=4, records=50),
    "fp-coordinator": agent("fp-coordinator", **USERS, rounds=6),
    "fp-coordinator for people": agent(
        "fp-coordinator", **USERS, rounds=6, records=50, smoothness=0.3, silos_per_person=2
    ),
    "fp-lasso": agent("fp-lasso", gamma=0.5, clip=0.1, number=100, rounds=6),
    "noisy-gradients": agent("noisy-gradients", gradient_bound=1.0, number=100, rounds=6),
    "noisy-gradients for people": agent(
        "noisy-gradients", gradient_bound=1.0, number=100, rounds=6, records=50, silos_per_person=2
    ),
    "dp-sgd": agent("dp-sgd", records=2000, batch=50, clip=0.5, rounds=6),
    "dp-prox-sgd": agent("dp-prox-sgd", records=2000, batch=50, gradient_bound=0.5, rounds=6),
    "dp-gd": agent("dp-gd", records=2000, rounds=6, weight=0.3),
    "dp-cd": agent("dp-cd", records=2000, rounds=6),
    "dp-dgd": agent("dp-dgd", records=1000, rounds=6, step=0.1, decay=0.9, dimension=4, noise=NoiseName.COORDINATE),
    "linearised-admm": agent("linearised-admm", records=1000, rho=0.5, step=0.5, rounds=6),
    "output-perturbation": agent("output-perturbation", records=1000, mu=0.01, noise=NoiseName.LAPLACE),
}
every = pytest.mark.parametrize("one", EXAMPLES.values(), ids=EXAMPLES)


def test_every_method_that_numbers_describe_has_an_example():
    names = {name for name, method in by_name().items() if is_accountable(method)}
    assert {one.algorithm.about.name for one in EXAMPLES.values()} == names
    others = {name for name, method in by_name().items() if method.about.is_private} - names
    # A matrix is no option; and rounds that release one have noise of two kinds.
    assert others == {"fp-general", "dp-gd-preconditioned", "noisy-gradients-preconditioned"}


@every
def test_numbers_that_no_certificate_depends_on_are_not_asked(one):
    """Those a method calls free: twice as large, or half, they change no promise."""
    method = type(one.algorithm)
    options = numbers(method) | asked(method)
    for name in method.about.free:
        assert name not in options
        value = getattr(one.algorithm, name, None)
        if isinstance(value, float | int) and name != "noise_decay":  # this one is a schedule, told by --schedule
            other = value / 2 if name == "momentum" else value * 2 or 1  # momentum stays below 1
            changed = replace(one.algorithm, **{name: other})
            assert changed.mechanisms(one.setting) == one.algorithm.mechanisms(one.setting)


@every
def test_certificates_and_releases_agree(one):
    levels = np.linspace(2.0, 3.0, len(one.private_rounds))
    releases = one.releases(levels)
    assert sorted(map(repr, (release.certificate for release in releases))) == sorted(map(repr, one.certificates))
    numbers_of_rounds = [release.round for release in releases]
    assert sorted(set(numbers_of_rounds)) == list(one.private_rounds)
    assert numbers_of_rounds == sorted(numbers_of_rounds)
    assert {release.agent for release in releases} == {-1 if one.algorithm.about.trusts_coordinator else 0}


@every
def test_calibration_spends_the_target_and_scales_the_shape(one):
    target = Target(0.8, 1e-5) if not one.family.is_pure else PureTarget(0.8)
    shape = np.geomspace(1.0, 0.5, len(one.private_rounds))
    noise = one.calibrate(target, shape)
    relative = noise if not one.family.is_pure else 1 / noise
    assert relative / relative[0] == pytest.approx(shape, rel=1e-12)
    spent = one.account(noise).curve.epsilon(getattr(target, "delta", 0.0))
    loss = (
        4e-3
        if one.algorithm.about.name == "ps-admm"
        else 1.1e-3
        if Family.SAMPLED in one.algorithm.about.noise
        else 1e-6
    )
    assert 0.8 * (1 - loss) <= spent <= 0.8


@pytest.mark.parametrize(
    "one", [e for e in EXAMPLES.values() if e.family.is_pure], ids=lambda one: one.algorithm.about.name
)
def test_pure_methods_can_use_a_delta(one):
    target = Target(0.8, 0.01)
    assert one.account(one.calibrate(target)).curve.epsilon(0.01) == pytest.approx(0.8, rel=1e-9)


@every
def test_more_noise_costs_less(one):
    quiet = 1.0 if not one.family.is_pure else 20.0
    loud = 2.0 if not one.family.is_pure else 10.0
    delta = 1e-5 if not one.family.is_pure else 0.0
    assert one.account(loud).curve.epsilon(delta) < one.account(quiet).curve.epsilon(delta)


@every
def test_claims_stay_claims_and_invert(one):
    target = Target(0.8, 1e-5) if not one.family.is_pure else PureTarget(0.8)
    paper = ClaimedAgent(one, claims_of(one.algorithm, one.setting))
    if not paper.epsilon(5.0, 1e-5):
        with pytest.raises(InputError):
            paper.noise(target)
        return
    claimed = paper.noise(target)
    assert len(claimed.values) == len(one.private_rounds)
    assert claimed.kind is (NoiseKind.GAUSSIAN_STD if not one.family.is_pure else NoiseKind.SPHERICAL_LAPLACE_RATE)
    back = paper.epsilon(claimed.values, 1e-5)[0]
    assert back.value == pytest.approx(0.8, rel=1e-9)
    assert claimed.label.startswith("[claimed")


def test_claims_about_one_record_are_marked_when_a_person_has_more():
    reported = {"records": 1000, "degree": 2, "eta": 0.05, "rounds": 6}
    assert on_paper("p-admm", **reported).epsilon(1.0, 1e-5)[0].conditions_hold
    assert not on_paper("p-admm", **reported, records_per_person=2).epsilon(1.0, 1e-5)[0].conditions_hold


def test_constant_noise_is_the_limit_of_theorem_3():
    (claim,) = on_paper("p-admm", **GRAPH, rounds=6).epsilon(2.0, 1e-4)
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
    one = agent("m-admm", records=50, degree=1, eta=eta, rounds=rounds, growth=growth, logistic=True)
    units = np.array(data.draw(st.lists(st.floats(0.1, 10.0), min_size=rounds, max_size=rounds)))
    certificates = one.certificates

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
    reported = {"number": agents, "rho": rho, "mu": mu, "smoothness": mu, "records": records, "gradient_bound": 1}
    method = agent("consensus", **reported, rounds=1, silos_per_person=2)
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
    (certificate,) = method.certificates
    assert one == pytest.approx(raw.bound, rel=1e-12)
    assert two > 1.5 * raw.bound
    assert two == pytest.approx(certificate.bound, rel=1e-12)
    assert certificate.protection.silos_per_person == 2
    assert method.copies == 1


def test_any_split_of_ps_admm_is_accounted_and_the_default_is_near_the_best():
    reported = {"records": 2000, "rounds": 3, "inner_steps": 20, "batch": 20}
    one = agent("ps-admm", **reported)
    chosen = one.account(0.3).curve.epsilon(1e-5)
    others = [
        agent("ps-admm", **reported, split=share).account(0.3).curve.epsilon(1e-5)
        for share in (0.02, 0.1, 0.2, 0.33, 0.6, 0.9)
    ]
    assert chosen <= min(others) * 1.03
    assert max(others) > 1.2 * chosen
    first = one.releases(0.3)[:2]
    assert math.hypot(*(release.noise_std for release in first)) == pytest.approx(0.3, rel=1e-12)
    assert [release.count for release in first] == [20, 19]  # the first step has no correction


def test_units_and_strengths_follow_the_settings():
    assert EXAMPLES["consensus"].certificates[0].protection.unit is Unit.FUNCTION
    walk = {**USERS, "participations": 4}
    assert agent("fp-walk", **walk).certificates[0].protection.unit is Unit.USER
    assert agent("fp-walk", **walk, records=50).certificates[0].protection.unit is Unit.RECORD
    assert agent("fp-walk", **walk, tolerance=1e-8).certificates[0].strength is Strength.FULL
    laplace = agent("output-perturbation", records=10, mu=1, noise=NoiseName.LAPLACE, tolerance=1e-8)
    assert laplace.certificates[0].strength is Strength.UP_TO_FLOATING_POINT


def test_private_rounds_and_their_penalties():
    assert agent("p-admm", **GRAPH, rounds=6).private_rounds == (1, 2, 3, 4, 5, 6)
    assert agent("p-admm", **GRAPH, rounds=6, recycled=True).private_rounds == (1, 3, 5)
    grown = on_paper("r-admm", **GRAPH, rounds=6, growth=2.0)
    assert grown.agent.private_rounds == (1, 3, 5)
    assert [one.eta for one in grown.claims.objectives] == pytest.approx((0.1, 0.4, 1.6), rel=1e-15)
    bounds = [c.log_jacobian for c in agent("m-admm", **GRAPH, rounds=2, growth=2.0).certificates]
    assert bounds == pytest.approx([math.log1p(0.25 / (1000 * 0.41)), math.log1p(0.25 / (1000 * 0.81))], rel=1e-12)


def test_a_person_in_several_silos_costs_what_each_of_them_costs():
    """Three silos with noise of their own: squares add. The walk visits all of them as often as told."""
    for name, reported in (
        ("p-admm", {**GRAPH, "rounds": 6}),
        ("fp-walk", {**USERS, "participations": 4, "records": 50}),
    ):
        one, three = agent(name, **reported), agent(name, **reported, silos_per_person=3)
        assert three.copies == 3
        spread = one.account(1.0 / math.sqrt(3)).curve.epsilon(1e-5)
        assert three.account(1.0).curve.epsilon(1e-5) == pytest.approx(spread, rel=1e-9)


def test_bad_noise_is_refused():
    one = agent("dp-gd", records=10, rounds=3)
    for noise in (0.0, -1.0, math.nan, math.inf, [1.0, 2.0]):
        with pytest.raises(InputError, match="noise"):
            one.releases(noise)


def test_what_is_not_shown_is_asked_for():
    with pytest.raises(InputError, match="records, degree"):
        agent("p-admm", eta=1.0, rounds=3)


def test_too_much_to_list_is_refused_at_once():
    with pytest.raises(InputError, match="be listed"):
        agent("p-admm", **GRAPH, rounds=6, silos_per_person=10**12)
    with pytest.raises(InputError, match="10000000"):
        agent("fp-centralised", **USERS | {"number": 10**12}, rounds=6)
