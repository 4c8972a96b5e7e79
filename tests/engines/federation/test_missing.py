"""A silo that does not answer: wait, stop, or go on without it - with the certificates of those who are left."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dpadmm.engines.federation import messages
from dpadmm.engines.federation.agreement import Missing, Participant
from dpadmm.engines.federation.messages import Join, Refused, Stepped
from dpadmm.engines.federation.outcome import outcome_of
from dpadmm.engines.federation.refusal import FederationStopped
from dpadmm.engines.federation.terms import agreed_run
from dpadmm.engines.local import LocalEngine, Stopping
from dpadmm.errors import InputError
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.privacy.accounting import compose

COMPLETE = ((0, 1), (0, 2), (1, 2))


def make(worlds, place, rule, **terms):
    """Return three silos, all joined to each other, under a rule for missing ones."""
    return worlds.make(place, edges=COMPLETE, missing=rule, wait_seconds=30.0, **terms)


@pytest.mark.parametrize(
    ("method", "settings", "delta"), [("p-admm", {"eta": 0.05}, 1e-5), ("dvp", {"eta": 0.05}, 0.0)]
)
@pytest.mark.parametrize("answers", [1, 3])  # joined only; after two rounds
def test_going_on_without_a_silo(worlds, tmp_path, method, settings, delta, answers):
    world = make(worlds, tmp_path, Missing.WITHOUT, method=method, settings=settings, delta=delta)
    coordinator = world.coordinator()
    world.drive(coordinator, world.transport(worlds.losing("s1", answers)))
    heir = coordinator.agreement
    assert [p.name for p in heir.participants] == ["s0", "s2"]
    assert heir.left == ("s1",)
    # The second part is exactly the in-process run of the two that are left, under its own certificates.
    terms = agreed_run(heir)
    noise = PlannedNoise(terms.plan, SimulatedSampler(seed=heir.seed))
    run = LocalEngine(progress=False).run(
        terms.algorithm, world.problem(heir), Stopping(rounds=4), terms.network, noise
    )
    np.testing.assert_allclose(outcome_of(coordinator).estimate, run.estimate[:, 0], rtol=0, atol=1e-12)
    # Both parts together stay within the agreed epsilon, by the accountant and by the ledger.
    spent = answers  # rounds that s0 was asked for before s1 was given up
    first = agreed_run(world.agreement)
    for name in ("s0", "s2"):
        before = [r for k in range(1, spent + 1) for r in first.releases(world.agreement.agent(name), k)]
        after = [replace(r, agent=0) for r in terms.all_releases(heir.agent(name))]
        both = compose([replace(r, agent=0) for r in before] + after)
        assert both.epsilon(delta) <= 1.0
        assert world.statement(name).releases == spent + 4
        assert world.statement(name).spent_epsilon <= 1.0
    assert both.epsilon(delta) > 0.8  # and it is nearly all used


@pytest.mark.parametrize("silos", [1, 2, 3])
def test_what_was_spent_before_counts_in_every_silo_of_a_person(worlds, tmp_path, silos):
    """The budget is a person's: m^2 of the rounds before adds up over as many silos as hold records of theirs (C0)."""
    world = make(worlds, tmp_path, Missing.WITHOUT, approves=False, silos_per_person=silos)
    terms = agreed_run(world.agreement)
    squares = [sum(one.cost.m_squared for one in terms.releases_through(agent, 2)) for agent in range(3)]
    assert terms.without(("s1",), 2).spent_m == pytest.approx(np.sqrt(silos * max(squares)), rel=1e-6)


@pytest.mark.parametrize(("method", "delta"), [("p-admm", 1e-5), ("dvp", 0.0)])
def test_what_was_spent_before_the_first_left_still_counts_when_the_second_leaves(worlds, tmp_path, method, delta):
    three = make(worlds, tmp_path, Missing.WITHOUT, method=method, delta=delta, approves=False).agreement
    people = (*three.participants, Participant("s3", 40, "ab" * 32))
    four = agreed_run(replace(three, participants=people, edges=tuple(combinations(range(4), 2))))
    once = agreed_run(four.without(("s1",), 2))
    twice = once.without(("s2",), 1)

    def spent(terms, rounds):  # m^2, or epsilon
        costs = [[one.cost for one in terms.releases_through(i, rounds)] for i in range(len(terms.problem.weights))]
        return max(sum(cost.m_squared if delta else cost.epsilon for cost in own) for own in costs)

    told = twice.spent_m**2 if delta else twice.spent_epsilon
    assert told == pytest.approx(spent(four, 2) + spent(once, 1), rel=1e-6)


def test_fewer_neighbours_mean_more_noise(worlds, tmp_path):
    world = make(worlds, tmp_path, Missing.WITHOUT)
    first = agreed_run(world.agreement)
    second = agreed_run(first.without(("s1",), 2))
    before, after = first.releases(0, 1)[0], second.releases(0, 1)[0]
    assert after.certificate.bound > before.certificate.bound
    assert after.noise_std > before.noise_std


@pytest.mark.parametrize(
    ("names", "rounds", "words"),
    [(("s0", "s1"), 1, "must remain"), ((), 1, "must remain"), (("s9",), 1, "does not take part")],
)
def test_who_cannot_leave(worlds, tmp_path, names, rounds, words):
    world = make(worlds, tmp_path, Missing.WITHOUT)
    with pytest.raises(InputError, match=words):
        agreed_run(world.agreement).without(names, rounds)


def test_nothing_is_left_after_the_last_round(worlds, tmp_path):
    world = make(worlds, tmp_path, Missing.WITHOUT)
    with pytest.raises(InputError, match="no budget left"):
        agreed_run(agreed_run(world.agreement).without(("s1",), 4))
    coordinator = world.coordinator()
    with pytest.raises(FederationStopped, match="cannot continue without"):
        world.drive(coordinator, world.transport(worlds.losing("s1", 4)))
    assert coordinator.round == 3  # what was reached stays


def test_the_rule_stop(worlds, tmp_path):
    world = make(worlds, tmp_path, Missing.STOP)
    coordinator = world.coordinator()
    with pytest.raises(FederationStopped, match="No usable answer from s1 in round 2"):
        world.drive(coordinator, world.transport(worlds.losing("s1", 2)))
    coordinator.close()
    world = worlds.reopened(world)
    again = world.coordinator()
    world.drive(again)  # the silo is back: the same run continues
    assert again.is_done
    assert world.statement("s0").releases == 4


def test_the_rule_wait(worlds, tmp_path):
    """A silo that comes back long after the time is waited for."""
    world = make(worlds, tmp_path, Missing.WAIT)

    coordinator = world.coordinator()
    carried = world.drive(coordinator, world.transport(worlds.losing("s1", 2, until=6))).carried
    assert sum(one.is_request and one.node == "s1" for one in carried) > 6
    assert coordinator.is_done


def ask_join(world, terms, parent, left_in):
    envelope = world.key.seal(Join(terms.as_json(), parent, left_in).encode())
    return messages.read(world.first.answer(envelope)[64:])


def test_a_coordinator_cannot_use_missing_silos_to_spend_more(worlds, tmp_path):
    world = make(worlds, tmp_path, Missing.WITHOUT)
    coordinator = world.coordinator()
    world.drive(coordinator, world.transport(worlds.losing("s1", 3)))  # s0 answered three rounds, then went on
    first = agreed_run(world.agreement)
    parent = world.agreement.digest
    other = first.without(("s2",), 3)
    answer = ask_join(world, other, parent, 3)
    assert isinstance(answer, Refused)
    assert "has already continued" in answer.reason
    early = first.without(("s1",), 1)  # claims that less was spent
    assert isinstance(ask_join(world, early, parent, 1), Refused)
    assert isinstance(ask_join(world, replace(early, epsilon=5.0), parent, 1), Refused)
    assert "do not follow" in ask_join(world, replace(coordinator.agreement, rounds=9), parent, 3).reason
    # s1 comes back, and has all that s0 would need for one more round of the old form of the run.
    query = "SELECT envelope FROM answers WHERE phase = 0 AND round = ? AND agent = ?"

    def answered(k, agent):
        return bytes(coordinator._connection.execute(query, (k, agent)).fetchone()[0])

    def step(agent, k, *relay):
        return world.key.seal(messages.Step(parent, agent, k, np.zeros((0, 3)), relay).encode())

    late = world.silos["s1"].answer(step(1, 3, answered(2, 0), answered(2, 2)))
    assert isinstance(messages.read(late[64:]), Stepped)
    old = messages.read(world.first.answer(step(0, 4, late, answered(3, 2)))[64:])
    assert "its earlier terms are closed" in old.reason
    assert world.statement("s0").spent_epsilon <= 1.0


def test_sampled_methods_do_not_go_on_without(worlds, tmp_path):
    world = make(worlds, tmp_path, Missing.WAIT)
    settings = (("rho", 0.3), ("step", 0.3), ("inner_steps", 3.0), ("batch", 5.0))
    with pytest.raises(InputError, match="cannot continue without"):
        agreed_run(replace(world.agreement, method="ps-admm", settings=settings, missing=Missing.WITHOUT, edges=()))
