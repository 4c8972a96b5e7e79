"""Files put back from a backup, of the state, of state and ledger, of a whole directory: nothing is drawn again."""

import shutil
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest
from tests.contracts.in_memory import Crashed
from tests.federation.protocol.durable_steps import DurableSteps

from dpadmm.errors import LedgerError
from dpadmm.federation import messages, sqlite_file
from dpadmm.federation.coordinator_loop import Interrupted, drive
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.keys import SigningKey
from dpadmm.federation.messages import (
    Answer,
    Confirmation,
    ConfirmationRequest,
    Confirmed,
    ConfirmPeers,
    Refused,
)
from dpadmm.federation.rollback_detection import seen_of
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.ledger import store

FILE = ("silo.db", "silo.db-journal", "silo.db.key")


@pytest.fixture
def world(setups, tmp_path):
    """Three silos on a star with secure noise, which have approved their terms."""
    made = setups.make(tmp_path / "world", "fp-federated", {"gamma": 1.0}, noise=NoiseOrigin.SECURE, rounds=3, edges=())
    yield made
    for silo in made.silos.values():
        silo.close()


@pytest.fixture
def draws(monkeypatch):
    """Count what is drawn."""
    original, calls = SecureSampler.perturb, []

    def counted(*args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    monkeypatch.setattr(SecureSampler, "perturb", counted)
    return calls


@contextmanager
def snapshots(directory, place):
    """Copy a silo's directory before and after everything that its process makes durable, there and in its ledger."""
    taken = []

    def take() -> None:
        taken.append(place / str(len(taken)))
        shutil.copytree(directory, taken[-1])

    def transaction(original):
        @contextmanager
        def watched(connection, *reading):
            with original(connection, *reading):
                yield
                if not reading:
                    take()
            if not reading:
                take()

        return watched

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "exclusive", transaction(sqlite_file.exclusive))
        patch.setattr(store, "transaction", transaction(store.transaction))
        yield taken


def put_back(backup, directory, names) -> None:
    """Replace these files by those of a backup; one that it does not have is removed."""
    for name in names:
        (directory / name).unlink(missing_ok=True)
        if (backup / name).exists():
            shutil.copy2(backup / name, directory / name)


def ask_two_rounds(world, setups):
    """Let the first silo answer two rounds; return what it was asked and what it has answered."""
    world.first.answer(world.invite())
    asked = [world.ask(1), world.ask(2, inbox=np.zeros((2, 3)))]
    return asked, [world.first.answer(each) for each in asked]


def test_a_file_put_back_at_any_point_never_leads_to_a_second_draw(setups, world, tmp_path, draws):
    """Beside the anchor, which is newer; among the points are those within the one transaction of a round."""
    directory = world.first.files.directory
    with snapshots(directory, tmp_path) as taken:
        asked, answers = ask_two_rounds(world, setups)
    assert all(isinstance(messages.read(each[64:]), Answer) for each in answers)
    world.first.close()
    shutil.copytree(directory, tmp_path / "newest")
    before, refused = len(draws), 0
    assert len(taken) == 2 * 3  # joining and two rounds, one transaction each
    for backup in taken:
        shutil.rmtree(directory)
        shutil.copytree(tmp_path / "newest", directory)
        put_back(backup, directory, FILE)
        try:
            silo = setups.alone(directory)
        except LedgerError:
            refused += 1
            continue
        for envelope, answer in zip(asked, answers, strict=True):
            reported = silo.answer(envelope)
            assert reported == answer or isinstance(messages.read(reported[64:]), Refused)
            refused += reported != answer
        silo.close()
    assert len(draws) == before
    assert refused > len(taken) // 2


def test_an_answer_that_leaves_after_a_crash_has_moved_the_anchor(setups, world, tmp_path):
    """The process ended between the commit and the anchor; an older file must not fit what has left since."""
    file = world.first.ledger.path
    world.first.answer(world.invite())
    older = file.read_bytes()
    with DurableSteps(("", 2, "before")).watched(), pytest.raises(Crashed):
        world.first.answer(world.ask(1))
    world = setups.reopened(world)
    assert isinstance(world.reply("s0", world.ask(1)), Answer)
    setups.closed(world)
    file.write_bytes(older)
    with pytest.raises(LedgerError, match="older copy"):
        setups.alone(file.parent)


# --- a whole directory -----------------------------------------------------------------------------------------------


def driven(world, name, rounds=None):
    """Drive a run to its end, or until so many rounds are complete."""
    coordinator, transport = world.coordinator(name=name), world.processes()

    def clock() -> float:
        if rounds is not None and coordinator.round >= rounds:
            raise Interrupted
        return transport.clock()

    with suppress(Interrupted):
        drive(coordinator, transport, clock)
    coordinator.close()
    return transport


def test_the_last_round_alone_is_not_seen_by_others(setups, world, tmp_path, draws):
    """Documented as unprotected: nobody was asked for anything after it. An honest coordinator has its answer."""
    directory = world.first.files.directory
    for silo in world.silos.values():
        silo.close()
    driven(world, "run.db", rounds=2)
    shutil.copytree(directory, tmp_path / "backup")
    driven(world, "run.db")
    shutil.rmtree(directory)
    shutil.copytree(tmp_path / "backup", directory)
    before = len(draws)
    driven(world, "run.db")  # it is done; the same coordinator asks nobody
    assert len(draws) == before
    driven(world, "again.db")
    assert len(draws) == before + 1


def test_a_new_process_asks_the_others_once_for_each_run(setups, world):
    for silo in world.silos.values():
        silo.close()
    carried = driven(world, "run.db").carried
    kinds = [messages.read(each.envelope[64:]).__class__.__name__ for each in carried if not each.is_request]
    assert (kinds.count("ConfirmationRequest"), kinds.count("PeersConfirmed"), kinds.count("Confirmed")) == (3, 3, 3)


@pytest.fixture
def confirmation_request(world):
    """The first silo as a new process that has been asked for round 1, and its question."""
    for silo in world.silos.values():
        silo.answer(world.invite())
    silo = Silo(world.first.files.directory)
    asked = silo.answer(world.ask(1))
    assert isinstance(messages.read(asked[64:]), ConfirmationRequest)
    yield silo, asked
    silo.close()


def confirmations(world, asked, names=("s1", "s2")):
    """Return what these silos have to say."""
    return tuple(each for name in names for each in world.seen(asked, by=name))


def handed(world, silo, relay, key=None):
    """Hand confirmations to the first silo; return its answer."""
    return messages.read(silo.answer(world.handed(relay, key=key))[64:])


def test_one_honest_confirmation_more_than_may_collude_is_enough(world, confirmation_request):
    silo, asked = confirmation_request
    assert isinstance(handed(world, silo, confirmations(world, asked, ["s1"])), Confirmed)
    assert isinstance(messages.read(silo.answer(world.ask(1))[64:]), Answer)


def test_confirmations_that_do_not_count(setups, world, confirmation_request, draws):
    """Of nobody, of other questions, of other processes: the same question comes back. Forged ones are refused."""
    silo, asked = confirmation_request
    right = confirmations(world, asked, ["s1"])[0]
    reported = messages.read(right[64:])
    stranger = SigningKey.create(world.place / "stranger.key")
    for useless in (
        (),
        (world.silos["s0"].key.seal(replace(reported, agent=0).encode()),),  # its own
        (world.silos["s1"].key.seal(replace(reported, nonce="0" * 32).encode()),),  # of another process
        (world.silos["s1"].key.seal(replace(reported, about=2).encode()),),
    ):
        assert handed(world, silo, useless) == messages.read(asked[64:])
    for forged, command in (
        (stranger.seal(reported.encode()), "signature"),
        (world.silos["s2"].key.seal(reported.encode()), "signature"),
        (world.silos["s1"].key.seal(replace(reported, digest="0" * 64).encode()), "about these terms"),
        (world.silos["s1"].key.seal(replace(reported, agent=7).encode()), "about these terms"),
        (asked, "about these terms"),
    ):
        assert command in handed(world, silo, [forged]).reason, command
    assert "signature" in handed(world, silo, [right], stranger).reason  # not from the coordinator
    assert isinstance(messages.read(silo.answer(world.ask(1))[64:]), ConfirmationRequest)
    assert not draws
    assert isinstance(handed(world, silo, [right]), Confirmed)


def test_more_silos_must_confirm_where_more_may_collude(setups, tmp_path):
    world = setups.masked(tmp_path, sizes=(20, 20, 20, 20), colluders=2)
    roster, silo = world.roster(), Silo(world.first.files.directory)
    asked = silo.answer(world.ask(1, relay=roster))
    two = confirmations(world, asked)
    assert isinstance(handed(world, silo, two), ConfirmationRequest)
    assert isinstance(handed(world, silo, two + two), ConfirmationRequest)  # each counts once
    assert isinstance(handed(world, silo, confirmations(world, asked, ("s1", "s2", "s3"))), Confirmed)


def test_one_silo_that_has_seen_more_outweighs_all_others(world, confirmation_request):
    silo, asked = confirmation_request
    one, two = confirmations(world, asked)
    more = world.silos["s2"].key.seal(replace(messages.read(two[64:]), seen={world.terms.digest: 3}).encode())
    assert isinstance(handed(world, silo, [one, more]), Refused)
    assert "its own files know of none" in world.first.store.log()[-1].detail


def test_who_is_asked_to_confirm_checks_who_asks(world, confirmation_request):
    _, asked = confirmation_request
    digest = world.terms.digest
    stranger = SigningKey.create(world.place / "stranger.key")
    for request, key, command in (
        (ConfirmPeers(digest, 1, (asked,)), stranger, "signature"),
        (ConfirmPeers(digest, 2, (asked,)), world.key, "this is silo 1"),
        (ConfirmPeers(digest, 1, (world.key.seal(asked[64:]),)), world.key, "signature"),
        (ConfirmPeers("0" * 64, 1, (asked,)), world.key, "has not joined"),
    ):
        answer = world.reply("s1", key.seal(request.encode()))
        assert command in answer.reason


def test_what_a_silo_has_seen_of_another(setups, tmp_path):
    fixed = {"edges": (), "settings": {"gamma": 1.0}}
    star = setups.make(tmp_path / "star", rounds=5, method="fp-federated", **fixed).terms
    assert [seen_of(star, 0, last) for last in (None, 1, 2, 5)] == [0, 0, 2, 5]
    counted = setups.make(tmp_path / "counted", rounds=5, **setups.COUNTED).terms
    assert [seen_of(counted, 0, last) for last in (None, 0, 1, 2)] == [0, 0, 1, 2]
    walk = setups.make(tmp_path / "walk", rounds=9, method="fp-walk", **fixed).terms
    (visited,) = {walk.agents_of(9)[0]}
    own = [k for k in range(1, 9) if visited in walk.agents_of(k)]
    assert seen_of(walk, visited, 9) == (own[-1] + 1 if own else 0)


def test_a_confirmation_says_no_more_than_it_has_to(world, confirmation_request):
    _, asked = confirmation_request
    reported = messages.read(confirmations(world, asked, ["s1"])[0][64:])
    assert reported == Confirmation(world.terms.digest, 1, 0, messages.read(asked[64:]).nonce, {})


def test_a_directory_that_has_forgotten_another_run_is_refused_too(setups, world, tmp_path, draws):
    """All silos have finished one run; one is put back from before it, with its ledger, and asked for the next."""
    directory = world.first.files.directory
    for silo in world.silos.values():
        silo.close()
    shutil.copytree(directory, tmp_path / "backup")
    driven(world, "run.db")
    shutil.rmtree(directory)
    shutil.copytree(tmp_path / "backup", directory)
    again = replace(setups.reopened(world), terms=replace(world.terms, run="another"))
    again.approve(again.terms)
    for silo in again.silos.values():
        silo.close()
    before = len(draws)
    with pytest.raises(FederationStopped, match=r"s0(.|\n)*own log"):
        driven(again, "another.db")
    assert len(draws) == before
    with closing(Silo(directory)) as silo:
        assert f"answer round 2 of the run {world.terms.digest[:16]}" in silo.store.log()[-1].detail
