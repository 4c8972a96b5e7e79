"""Attacks on whole sums under masks: silos that are missing or late, words that are no part of the sum."""

import json

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.federation.errors import FederationStopped, Refusal
from dpadmm.federation.inbox import read_answer
from dpadmm.federation.masked_sums import TakenSum, total_of
from dpadmm.federation.messages import Answer, Joined, Vector
from dpadmm.noise.masks import sum_uint64
from dpadmm.noise.mechanisms import MessageKind

ZERO = np.zeros((2, 3))  # a broadcast of noisy gradients


@pytest.fixture
def world(masked_world):
    """Three silos under masks, one of which may look."""
    return masked_world


def test_a_sum_without_somebody_means_nothing(setups, world, monkeypatch):
    bare, roster, terms = setups.recorded_shares(monkeypatch), world.roster(), world.terms
    answers = [world.silos[name].answer(world.ask(1, agent, relay=roster)) for agent, name in enumerate(world.silos)]
    parts = [read_answer(envelope, terms, agent, 1) for agent, envelope in enumerate(answers)]
    assert np.isfinite(total_of(terms, 1, parts)).all()
    with pytest.raises(Refusal, match="2 have answered"):
        total_of(terms, 1, parts[1:])
    left = sum_uint64(parts[1:]) - sum_uint64([bare[agent, 1] for agent in (1, 2)])
    assert np.all(np.abs(left.view(np.int64).astype(float)) > 2.0**40)


def test_a_replayed_answer_of_another_run_or_round_is_refused(world):
    roster, _ = world.two_rounds()
    coordinator = world.join(world.coordinator())
    first, second = (world.first.answer(request) for request in (world.ask(1, relay=roster), world.ask(2, inbox=ZERO)))
    with pytest.raises(FederationStopped, match="replayed"):
        coordinator.accept(world.keys[0], second)
    with pytest.raises(FederationStopped, match="signature"):
        coordinator.accept(world.keys[1], first)
    assert coordinator.accept(world.keys[0], first) is False
    assert coordinator.waiting_for() == [1, 2]


# --- what the coordinator gets ---------------------------------------------------------------------------------------


def answered(world, agent, args, k=1):
    """Return words that a registered but malicious silo signs."""
    made = Answer(world.terms.digest, agent, k, Vector.of(np.asarray(args, dtype=np.uint64)))
    return world.silos[f"s{agent}"].key.seal(made.encode())


def test_texts_that_are_no_part_of_the_sum_are_refused(world):
    coordinator, seal = world.join(world.coordinator()), world.silos["s1"].key.seal
    good = answered(world, 1, [1, 2, 3])
    body = json.loads(good[64:])
    values = body["values"]
    for wrong, args in (
        (answered(world, 1, [1, 2]), "s1 sent 2 words, not 3"),
        (answered(world, 1, [1, 2, 3, 4]), "s1 sent 4 words, not 3"),
        (answered(world, 1, []), "s1 sent 0 words, not 3"),
        (answered(world, 1, [1, 2, 3], k=2), "replayed"),
        (seal(Answer(world.terms.digest, 1, 1, Vector.of(np.zeros(3))).encode()), "not an answer in u8"),
        (seal(json.dumps(body | {"values": values | {"data": values["data"][:-4]}}).encode()), "do not make an array"),
        (seal(json.dumps(body | {"values": values | {"data": values["data"][:-1]}}).encode()), "must be base64"),
        (seal(json.dumps(body | {"values": [1, 2, 3]}).encode()), "must be an object"),
        (good[:-5], "signature"),
        (good[:40], "too short to hold a signature"),
    ):
        with pytest.raises(FederationStopped, match=args):
            coordinator.accept(world.keys[1], wrong)
    assert coordinator.waiting_for() == [0, 1, 2]


@pytest.mark.parametrize(
    ("lie", "args"),
    [
        (lambda parts: [0, 0, 0], "the masks do not match"),  # its masks stay in the others' words
        (lambda parts: np.zeros(3, dtype=np.uint64) - sum_uint64(parts) + np.uint64(2**63 - 1), "the sum overflowed"),
        (lambda parts: np.zeros(3, dtype=np.uint64) - sum_uint64(parts) + np.uint64(2**53), "norm"),
    ],
    ids=["no masks", "wrap-around", "huge"],
)
def test_a_sum_that_means_nothing_stops_the_run(world, lie, args):
    """Also for whoever opens it again; nothing is broadcast."""
    roster, wire = world.two_rounds()
    coordinator = world.join(world.coordinator())
    for agent in (0, 1):
        coordinator.accept(world.keys[agent], world.silos[f"s{agent}"].answer(world.ask(1, agent, relay=roster)))
    with pytest.raises(FederationStopped, match=f"{args}.*There is no way to tell"):
        coordinator.accept(world.keys[2], answered(world, 2, lie([wire[0, 1], wire[1, 1]])))
    again = world.coordinator()
    assert again.round == 0
    with pytest.raises(FederationStopped, match=args):
        again.waiting_for()
    assert [event for event, _ in again.stored.logged()] == ["refused", "refused"]


def test_a_silo_with_another_grid_is_refused_when_it_joins(world):
    coordinator, terms = world.coordinator(), world.terms
    for agent in (0, 2):
        coordinator.accept(world.silos[f"s{agent}"].public_key, world.silos[f"s{agent}"].answer(coordinator.invitation))
    with pytest.raises(FederationStopped, match="different noise"):
        coordinator.accept(world.keys[1], world.keyed(1, plan=terms.plan_mark[::-1]))
    plain = Joined(world.terms.digest, 1, terms.plan_mark)
    with pytest.raises(FederationStopped, match="without a mask key"):
        coordinator.accept(world.keys[1], world.silos["s1"].key.seal(plain.encode()))
    assert coordinator.absent == [1]


def test_an_exchange_reads_the_sum_of_its_round_and_nothing_else():
    taken = TakenSum(MessageKind("sum"), 2, np.ones((1, 3, 1)))
    with pytest.raises(InputError, match="did not read the sum"):
        taken.check_drawn(2, None)
    for kind, k in ((MessageKind("sum"), 1), (MessageKind("other"), 2)):
        with pytest.raises(InputError, match="silos sent the sum"):
            taken.total(kind, k, np.zeros((2, 3, 1)))
    with pytest.raises(InputError, match="the coordinator adds none"):
        taken.perturb(MessageKind("sum"), 2, np.array([-1]), np.zeros((1, 3, 1)))
    assert (taken.total(MessageKind("sum"), 2, np.zeros((2, 3, 1))) == 1.0).all()
    taken.check_drawn(2, None)
