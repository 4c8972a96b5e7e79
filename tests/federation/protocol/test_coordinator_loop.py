"""One loop drives a run: strangers, liars, owners and silos that let it wait, and which runs are wanted."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.federation import messages
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_loop import Interrupted, drive, drive_for_others
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.https.service import request_run
from dpadmm.federation.keys import SigningKey, body_of
from dpadmm.federation.messages import Step
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import Missing

COMPLETE = {"edges": ((0, 1), (0, 2), (1, 2)), "wait_seconds": 30.0}


def test_a_run_is_wanted_until_it_stops_and_when_somebody_asks_again(world):
    coordinator = world.coordinator()
    assert coordinator.stored.state() == ("new", None)
    coordinator.ask()
    coordinator.ask()
    assert coordinator.stored.state() == ("wanted", None)
    coordinator.stop("s1 is gone.")
    assert coordinator.stored.state() == ("stopped", "s1 is gone.")
    coordinator.ask()
    assert coordinator.stored.state() == ("wanted", None)
    assert [event for event, _ in coordinator.stored.logged()] == ["wanted", "stopped", "wanted"]
    world.drive(coordinator)
    coordinator.ask()
    coordinator.stop("too late")
    assert coordinator.stored.state() == ("done", None)


def test_what_a_round_amounted_to_is_written_once(world):
    """Of two processes each draws the coordinator's noise: if the second draw took the first one's place, both left."""
    one, two = world.coordinator(), world.coordinator()
    world.drive(one)
    before, inbox = one.estimates(), one.stored.inbox(1)
    two._store_round(1, inbox + 1.0, before[0] + 1.0)
    np.testing.assert_array_equal(one.estimates(), before)
    np.testing.assert_array_equal(two.stored.inbox(1), inbox)


def test_a_coordinator_that_ends_before_it_completes_a_round_completes_it(world, calm, monkeypatch):
    coordinator = world.coordinator()
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "_finish_round", lambda k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.drive(coordinator)
    coordinator.close()
    again = world.coordinator()
    assert (again.round, len(again.stored.answers(1))) == (0, 3)
    world.drive(again)
    assert again.estimates().tolist() == calm


def test_two_runs_in_one_file_know_nothing_of_each_other(world, calm):
    later = replace(world.terms, run="later")
    world.approve(later)
    one, two = world.coordinator(), world.coordinator(later)
    world.drive(one)
    assert (two.round, two.stored.answers(1), two.stored.logged()) == (0, {}, [])
    world.drive(two)
    assert one.estimates().tolist() == calm
    assert two.store.runs() == [world.terms.digest, later.digest]


def test_what_is_no_answer_to_an_invitation_changes_nothing(world):
    coordinator, silo = world.coordinator(), world.silos["s0"]
    for key, envelope in (
        (silo.public_key, silo.answer(b"x" * 100)),  # signed, but not about this invitation
        (silo.public_key, world.silos["s1"].answer(coordinator.invitation)),  # of another silo
        (SigningKey.new().public, silo.answer(coordinator.invitation)),  # brought by a stranger
    ):
        assert not coordinator.accept(key, envelope)
    assert coordinator.absent == [0, 1, 2]
    world.drive(coordinator)
    assert coordinator.is_done


def test_a_run_is_driven_with_the_key_of_its_terms_alone(world):
    coordinator = world.coordinator()
    coordinator._key = SigningKey.new()
    with pytest.raises(InputError):
        world.drive(coordinator)
    with pytest.raises(InputError):
        type(coordinator).start(coordinator.store, replace(world.terms, run="new"), coordinator._key)
    assert coordinator.store.runs() == [world.terms.digest]


def test_an_owner_who_has_not_approved_yet_is_waited_for(setups, world):
    """As where a silo is served already, for another study."""
    later = replace(world.terms, run="later")
    for name in ("s1", "s2"):
        world.silos[name].approve(later)

    class Looking(setups.InMemory):
        def receive(self):
            if self.clock() == 90.0:
                assert world.statement("s0").releases == 0
                world.first.approve(later)
            return super().receive()

    coordinator = world.coordinator(later, "later.db")
    transport = Looking(world.transport().silos, later)
    drive(coordinator, transport, transport.clock)
    assert coordinator.is_done
    refused = [entry for entry in world.first.store.log() if entry.event == "refused"]
    assert len(refused) == 1
    assert "not been approved by the owner of this silo yet" in refused[0].detail


# --- silos that do not answer ----------------------------------------------------------------------------------------


@dataclass
class Failing:
    """A silo whose machine fails when it is asked for a step."""

    silo: Silo
    steps: int = 0

    def answer(self, envelope: bytes) -> bytes:
        if isinstance(messages.read(body_of(envelope)), Step):
            self.steps += 1
            assert self.steps < 100, "it is asked for ever"
            raise OSError("no room on the disk")
        return self.silo.answer(envelope)


def test_a_silo_that_joins_and_fails_again_and_again_is_missing_in_the_end(setups, tmp_path):
    world = setups.make(tmp_path, missing=Missing.STOP, **COMPLETE)
    failing = Failing(world.silos["s1"])
    with pytest.raises(FederationStopped, match="s1"):
        world.drive(world.coordinator(), world.transport(s1=failing))
    assert failing.steps == 2


def test_the_rule_stop(setups, tmp_path):
    world = setups.make(tmp_path, missing=Missing.STOP, **COMPLETE)
    coordinator = world.coordinator()
    with pytest.raises(FederationStopped, match=r"s1 in round 2"):
        world.drive(coordinator, world.transport(setups.losing("s1", 2)))
    coordinator.close()
    world = setups.reopened(world)
    again = world.coordinator()
    world.drive(again)  # the silo is back: the same run continues
    assert again.is_done
    assert world.statement("s0").releases == 4


def test_the_rule_wait(setups, tmp_path):
    """A silo that comes back long after the time is waited for."""
    world = setups.make(tmp_path, missing=Missing.WAIT, **COMPLETE)
    coordinator = world.coordinator()
    carried = world.drive(coordinator, world.transport(setups.losing("s1", 2, until=6))).carried
    assert sum(one.is_request and one.node == "s1" for one in carried) > 6
    assert coordinator.is_done


def test_a_transport_that_is_gone_leaves_the_run_as_it_is(setups, world):
    """Another drive ends the run."""

    class Gone(setups.InMemory):
        def receive(self):
            if self.carried:
                raise Interrupted("no network")
            return super().receive()

    transport = Gone(world.transport().silos, world.terms)
    drive_for_others(world.coordinator(), transport, transport.clock)
    again = world.coordinator()
    assert not again.stored.logged()
    world.drive(again)
    assert again.is_done


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(world, tmp_path):
    """The coordinator of a world in a directory of its own."""
    made = CoordinatorFiles(tmp_path / "coordinator")
    made.create(world.key)
    return made


def test_a_file_that_is_damaged_while_it_is_watched(world, files):
    def damaged():
        with closing(sqlite3.connect(files.database)) as other:
            other.execute("DROP TABLE IF EXISTS round")

    with pytest.raises(FederationStopped, match=r"damaged; restore it from a backup\."):
        request_run(files, world.terms, away_seconds=5.0, check=damaged)


def test_a_file_that_was_replaced_is_noticed(world, files, tmp_path):
    """Whoever watched or drove it would wait for ever: nothing changes any more in the file that they have open."""

    def replaced():
        shutil.copyfile(files.database, tmp_path / "copy")
        (tmp_path / "copy").replace(files.database)

    with pytest.raises(FederationStopped, match="replaced or removed"):
        request_run(files, world.terms, away_seconds=float("inf"), check=replaced)
    run = open_run(files, world.terms)
    files.database.unlink()
    with pytest.raises(FederationStopped, match="replaced or removed"):
        world.drive(run)
    run.close()
