"""Attacks of a review on older copies and confirmations: unpaid answers, long nonces, live files, late messages."""

import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.errors import LedgerError
from dpadmm.federation import messages, rollback_detection
from dpadmm.federation.coordinator import Coordinator
from dpadmm.federation.coordinator_loop import drive
from dpadmm.federation.errors import FederationStopped, MessageError
from dpadmm.federation.messages import (
    Answer,
    ConfirmationRequest,
    Confirmations,
    Confirmed,
    ConfirmPeers,
    PeersConfirmed,
    Refused,
    largest_answer,
)
from dpadmm.federation.rollback_detection import RollbackQuestions, Session
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import Missing, NoiseOrigin

BROADCAST = np.zeros((2, 3))


@pytest.fixture
def make(setups, tmp_path):
    """Return what makes three silos on a star with secure noise."""
    made = []

    def world(method="fp-federated", **terms):
        usual = {"noise": NoiseOrigin.SECURE, "rounds": 3, "edges": ()}
        made.append(setups.make(tmp_path / f"world{len(made)}", method, {"gamma": 1.0}, **(usual | terms)))
        return made[-1]

    yield world
    for each in made:
        for silo in each.silos.values():
            silo.close()


def files(directory, names=None) -> dict[str, bytes]:
    """Return what is in some files of a directory, or in all."""
    return {each.name: each.read_bytes() for each in directory.iterdir() if names is None or each.name in names}


def overwrite(directory, kept) -> None:
    """Write files over those that are there, in place."""
    for name, content in kept.items():
        (directory / name).write_bytes(content)


def joined(world) -> Coordinator:
    """Return a coordinator whom all silos have joined."""
    coordinator = world.coordinator()
    world.join(coordinator)
    return coordinator


def test_a_session_that_is_kept_in_memory_knows_an_older_copy_in_another_process(make):
    """As where each request has a process of its own: confirmed once, and what has left is remembered."""
    world, session = make(), Session()
    world.first.answer(world.invite())
    world.silos["s1"].answer(world.invite())
    directory = world.first.files.directory
    world.first.close()

    def ask(envelope):
        nonlocal session
        session = Session(session.nonce, set(session.confirmed), session.head)
        with closing(Silo(directory, session=session)) as silo:
            return silo.answer(envelope)

    question = ask(world.ask(1))
    ask(world.handed(world.seen(question)))
    first = ask(world.ask(1))
    older = files(directory)
    second = ask(world.ask(2, inbox=BROADCAST))
    assert [type(messages.read(each[64:])) for each in (question, first, second)] == [
        ConfirmationRequest,
        Answer,
        Answer,
    ]
    overwrite(directory, older)
    with pytest.raises(LedgerError, match="older copy"):
        ask(world.ask(2, inbox=BROADCAST))


def padded(world, name, message) -> bytes:
    """Return a message as its silo could sign it with much around it."""
    return world.silos[name].key.seal(message.encode() + b" " * 9000)


def test_a_question_that_others_could_not_answer_in_a_message_of_allowed_size_is_its_senders_fault(make):
    world = make()
    coordinator, digest = joined(world), world.terms.digest
    plain = ConfirmationRequest(digest, 0, "0" * 32)
    for nonce in ("", "0" * 31, "0" * 33, "G" * 32, "0" * (largest_answer(world.terms) - 400)):
        body = json.dumps(json.loads(plain.encode()) | {"nonce": nonce}, sort_keys=True, separators=(",", ":"))
        with pytest.raises(FederationStopped, match=r"s0(.|\n)*nonce"):
            coordinator.accept(world.keys[0], world.first.key.seal(body.encode()))
        with pytest.raises(MessageError, match="nonce"):
            messages.read(body.encode())
    with pytest.raises(FederationStopped, match=r"s0(.|\n)*canonical"):
        coordinator.accept(world.keys[0], padded(world, "s0", plain))
    assert not coordinator._questions.is_asking(0)
    coordinator.close()


def test_a_confirmation_with_much_around_it_is_its_senders_fault(make):
    world = make()
    coordinator, digest = joined(world), world.terms.digest
    coordinator.accept(world.keys[0], world.first.key.seal(ConfirmationRequest(digest, 0, "0" * 32).encode()))
    seen = padded(world, "s1", messages.Confirmation(digest, 1, 0, "0" * 32, {}))
    with pytest.raises(FederationStopped, match=r"s1(.|\n)*canonical"):
        coordinator.accept(world.keys[1], world.silos["s1"].key.seal(PeersConfirmed(digest, 1, (seen,)).encode()))
    coordinator.close()


def test_nobody_confirms_for_more_silos_than_take_part(make):
    world = make()
    joined(world).close()
    asked = world.first.key.seal(ConfirmationRequest(world.terms.digest, 0, "0" * 32).encode())
    reported = world.reply("s1", world.key.seal(ConfirmPeers(world.terms.digest, 1, (asked,) * 4).encode()))
    assert isinstance(reported, Refused)
    reported = world.reply("s1", world.key.seal(ConfirmPeers(world.terms.digest, 1, (asked,) * 3).encode()))
    assert isinstance(reported, PeersConfirmed)


def test_a_confirmation_tells_of_its_own_run_however_many_others_came_later(make, monkeypatch):
    """And of the latest of the others, as many as it may hold."""
    monkeypatch.setattr(rollback_detection, "MOST_RUNS", 2)
    world = make(rounds=2, epsilon=0.2)
    runs = [world.terms, *(replace(world.terms, run=f"run {number}") for number in range(3))]
    for run in runs:
        if run is not world.terms:
            world.approve(run)
        world.silos["s1"].answer(world.invite(run))
        for k in (1, 2):
            world.reply("s1", world.ask(k, 1, inbox=None if k == 1 else BROADCAST, terms=run))
    asked = world.first.key.seal(ConfirmationRequest(world.terms.digest, 0, "0" * 32).encode())
    (seen,) = world.seen(asked)
    assert dict(messages.read(seen[64:]).seen) == {world.terms.digest: 2, runs[-1].digest: 2}


def test_a_silo_that_asks_is_not_given_up_while_another_is_waited_for_in_vain(make, setups):
    """Everybody is waited for no longer than half of what the terms allow; s0 is not asked before round 3."""
    world = make("fp-walk", missing=Missing.STOP, wait_seconds=6.0, rounds=2, sizes=(30, 30, 30))
    for silo in world.silos.values():
        silo.close()
    transport = world.processes(setups.losing("s0", 1))
    coordinator = world.coordinator()
    coordinator._questions.clock = transport.clock
    assert [coordinator.terms.agents_of(k) for k in (1, 2)] == [[2], [2]]
    drive(coordinator, transport, transport.clock)
    assert coordinator.is_done
    assert 3.0 <= transport.clock() < 6.0
    coordinator.close()


def test_a_clock_that_is_set_back_does_not_make_anybody_wait(make):
    world = make()
    now = [5000.0]
    questions, digest = (
        RollbackQuestions(joined(world).terms, lambda: now[0]),
        world.terms.digest,
    )
    asked = ConfirmationRequest(digest, 0, "0" * 32)
    envelope = world.first.key.seal(asked.encode())
    assert questions.take(0, envelope, asked)
    seen = world.silos["s1"].key.seal(messages.Confirmation(digest, 1, 0, "0" * 32, {}).encode())
    assert questions.take(1, b"", PeersConfirmed(digest, 1, (seen,)))
    assert [type(reported) for _, reported in questions.due([0])] == [ConfirmPeers]
    now[0] = 1000.0
    assert [type(reported) for _, reported in questions.due([0])] == [ConfirmPeers, Confirmations]


def test_a_coordinator_keeps_confirmations_of_their_own_silo_and_for_this_question_only(make):
    world = make()
    questions, digest = RollbackQuestions(joined(world).terms, lambda: 0.0), world.terms.digest
    asked = ConfirmationRequest(digest, 0, "1" * 32)
    questions.take(0, world.first.key.seal(asked.encode()), asked)
    right = messages.Confirmation(digest, 1, 0, "1" * 32, {})

    def kept(sender, seen):
        envelope = world.silos[f"s{seen.agent}"].key.seal(seen.encode())
        questions.take(sender, b"", PeersConfirmed(digest, sender, (envelope,)))
        return list(questions._open[0].confirmations)

    assert kept(2, right) == []  # handed on by another silo
    assert kept(1, replace(right, nonce="2" * 32)) == []  # for a process that has ended
    assert kept(1, replace(right, about=2)) == []
    assert kept(1, right) == [1]
    again = replace(asked, nonce="3" * 32)  # a new process: what was said to the one before is no use
    questions.take(0, world.first.key.seal(again.encode()), again)
    assert not questions._open[0].confirmations


def test_who_is_confirmed_for_one_run_asks_again_for_another(make):
    world = make()
    other = replace(world.terms, run="another")
    world.approve(other)
    for silo in world.silos.values():
        for run in (world.terms, other):
            silo.answer(world.invite(run))
    with closing(Silo(world.first.files.directory)) as silo:
        asked = silo.answer(world.ask(1))
        seen = world.seen(asked)
        assert isinstance(messages.read(silo.answer(world.handed(seen))[64:]), Confirmed)
        reported = messages.read(silo.answer(world.ask(1, terms=other))[64:])
        assert isinstance(reported, ConfirmationRequest)
        assert reported.digest == other.digest
        replayed = messages.read(silo.answer(world.handed(seen, other))[64:])
        assert isinstance(replayed, Refused)


def test_every_process_of_a_silo_has_a_nonce_of_its_own(make):
    """Otherwise confirmations of yesterday would do for a directory that was put back today."""
    world = make()
    world.first.answer(world.invite())
    found = set()
    for _ in range(2):
        with closing(Silo(world.first.files.directory)) as silo:
            found.add(messages.read(silo.answer(world.ask(1))[64:]).nonce)
    assert len(found) == 2


def test_who_says_nothing_is_missing_not_who_waits_for_confirmations(make):
    world = make(missing=Missing.STOP)
    coordinator = joined(world)
    with pytest.raises(FederationStopped, match="from s0, s1, s2 in round 1"):
        coordinator.apply_missing_rule()
    coordinator.accept(
        world.keys[1], world.silos["s1"].key.seal(ConfirmationRequest(world.terms.digest, 1, "0" * 32).encode())
    )
    with pytest.raises(FederationStopped, match="from s0, s2 in round 1"):
        coordinator.apply_missing_rule()
    coordinator.close()
