"""One loop drives a run: what it does about strangers, liars and twins, and which runs are wanted."""

import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.federation import messages
from dpadmm.federation.admin.requested_run import request_run
from dpadmm.federation.agreement import Missing
from dpadmm.federation.coordinator_files import CoordinatorFiles
from dpadmm.federation.drive import Drive
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.keys import open_envelope, split
from dpadmm.federation.messages import Answer, Step
from dpadmm.federation.silo import Silo
from dpadmm.federation.transport import Interrupted


def test_a_run_is_wanted_until_it_stops_and_when_somebody_asks_again(world):
    coordinator = world.coordinator()
    assert not coordinator.is_wanted
    assert coordinator.reason_to_stop() is None
    coordinator.ask()
    coordinator.ask()
    assert coordinator.is_wanted
    coordinator.stopped("s1 is gone.")
    assert not coordinator.is_wanted
    assert coordinator.reason_to_stop() == "s1 is gone."
    coordinator.ask()
    assert coordinator.is_wanted
    assert coordinator.reason_to_stop() is None
    assert [event for _, event, _ in coordinator.log()] == ["asked", "stopped", "asked"]


def test_what_a_round_amounted_to_is_written_once(world):
    """Of two processes each draws the coordinator's noise: if the second draw took the first one's place, both left."""
    one, two = world.coordinator(), world.coordinator()
    world.drive(one)
    before, inbox = one.estimates(), one._stored_inbox(1)
    two._store_round(1, inbox + 1.0, before[0] + 1.0)
    np.testing.assert_array_equal(one.estimates(), before)
    np.testing.assert_array_equal(two._stored_inbox(1), inbox)


def test_an_answer_to_something_else_is_no_reason_to_stop(worlds, tmp_path):
    world = worlds.make(tmp_path, edges=((0, 1), (0, 2), (1, 2)), missing=Missing.STOP, wait_seconds=30.0)
    coordinator, transport = world.coordinator(), world.transport()
    drive = Drive(coordinator, transport, transport.clock)
    refusal = world.silos["s0"].answer(b"x" * 100)  # signed, but not about this invitation
    assert coordinator.accept_joined(refusal) is None
    drive._take("somewhere", refusal)
    assert coordinator.absent == [0, 1, 2]
    drive.run()
    assert coordinator.is_done


@dataclass
class Parrot:
    """A node that holds no silo, and says one thing only."""

    word: bytes

    def answer(self, envelope: bytes) -> bytes:
        return self.word


def test_an_owner_who_has_not_approved_yet_is_waited_for(worlds, world):
    """As where a silo is served already, for another study."""
    later = replace(world.agreement, run="later")
    for name in ("s1", "s2"):
        world.silos[name].approve(later)

    class Looking(worlds.InMemory):
        def receive(self):
            if self.clock() == 90.0:
                assert world.statement("s0").releases == 0
                world.first.approve(later)
            return super().receive()

    coordinator = world.coordinator(later, "later.db")
    transport = Looking(world.transport().silos)
    Drive(coordinator, transport, transport.clock).run()
    assert coordinator.is_done
    refused = [entry for entry in world.first.store.log() if entry.event == "refused"]
    assert len(refused) == 1
    assert "not been approved by the owner of this silo yet" in refused[0].detail


def test_a_stranger_who_repeats_a_participants_words_is_ignored(world):
    """On a graph every neighbour holds signed answers; shown by another node they blame nobody."""
    calm = world.coordinator(name="calm.db")
    carried = world.drive(calm).carried
    stolen = next(one.envelope for one in reversed(carried) if one.node == "s0" and not one.is_request)
    coordinator = world.coordinator(name="again.db")
    world.drive(coordinator, world.transport(stranger=Parrot(stolen)))  # the silos repeat what they have answered
    assert coordinator.is_done
    assert coordinator.estimates().tolist() == calm.estimates().tolist()
    assert not coordinator.log()


@dataclass
class Liar:
    """A participant that signs any vector it likes."""

    silo: Silo
    vector: tuple[float, ...]

    def answer(self, envelope: bytes) -> bytes:
        reply = self.silo.answer(envelope)
        told = messages.read(open_envelope(reply, self.silo.public_key))
        if not isinstance(told, Answer):
            return reply
        return self.silo.key.seal(replace(told, values=messages.Vector.of(np.array(self.vector))).encode())


@pytest.mark.parametrize(
    ("vector", "words"),
    [((np.nan, 0.0, 0.0), "not finite"), ((1e300, 1e300, 0.0), "norm"), ((1.0, 2.0), "shape")],
    ids=["nan", "huge", "short"],
)
def test_a_silo_that_sends_what_it_likes_stops_the_federation(world, vector, words):
    coordinator, transport = world.coordinator(), world.transport(s1=Liar(world.silos["s1"], vector))
    Drive(coordinator, transport, transport.clock).serve()
    assert re.search(f"s1(.|\\n)*{words}", coordinator.reason_to_stop())
    assert [event for _, event, _ in world.coordinator().log()] == ["refused", "stopped"]
    assert max(world.statement(name).releases for name in world.silos) == 1


@dataclass
class Failing:
    """A node whose machine fails when it is asked for a step, from one on."""

    silo: Silo
    steps: int = 0

    def answer(self, envelope: bytes) -> bytes:
        if isinstance(messages.read(split(envelope)[1]), Step):
            self.steps -= 1
            assert self.steps > -100, "it is asked for ever"
            if self.steps < 0:
                raise OSError("no room on the disk")
        return self.silo.answer(envelope)


def test_a_silo_whose_node_is_lost_comes_back_as_another(worlds, world, calm):
    """As where a service has a new name each time it starts."""
    coordinator, lost = world.coordinator(), Failing(world.silos["s1"], steps=2)

    @dataclass
    class Moving(worlds.InMemory):
        def nodes(self):
            return [node for node in self.silos if node != ("s1" if lost.steps < 0 else "elsewhere")]

    transport = Moving(world.transport(s1=lost, elsewhere=world.silos["s1"]).silos)
    Drive(coordinator, transport, transport.clock).run()
    assert coordinator.estimates().tolist() == calm
    assert lost.steps == -1


def test_a_silo_that_joins_and_fails_again_and_again_is_missing_in_the_end(worlds, tmp_path):
    world = worlds.make(tmp_path, edges=((0, 1), (0, 2), (1, 2)), missing=Missing.STOP, wait_seconds=30.0)
    coordinator, failing = world.coordinator(), Failing(world.silos["s1"])
    with pytest.raises(FederationStopped, match="No usable answer from s1"):
        world.drive(coordinator, world.transport(s1=failing))
    assert failing.steps < -3


def test_whoever_waits_reads_why_a_drive_has_ended(worlds, world):
    """A transport that is gone is no reason to stop: the file is as it was, and another drive ends the run."""

    class Gone(worlds.InMemory):
        def receive(self):
            if self.carried:
                raise Interrupted("no network")
            return super().receive()

    transport = Gone(world.transport().silos)
    Drive(world.coordinator(), transport, transport.clock).serve()
    again = world.coordinator()
    assert not again.log()
    world.drive(again)
    assert again.is_done


def test_a_run_is_there_with_its_terms_or_not_at_all(world, monkeypatch):
    """Whoever looks for runs meanwhile, or is killed meanwhile, leaves nothing half made."""
    path = world.place / "made.db"

    def killed(self, place):
        assert not path.exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            world.coordinator(name="made.db")
    assert not path.exists()
    assert world.coordinator(name="made.db").agreement == world.agreement


def test_a_run_file_that_is_damaged_while_it_is_watched(world, tmp_path):
    files = CoordinatorFiles(tmp_path / "coordinator")
    files.create(world.key)

    def damaged():
        (path,) = files.runs()
        with closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE IF EXISTS rounds")

    with pytest.raises(FederationStopped, match=r"cannot be used: it is damaged; restore it from a backup\."):
        request_run(files, world.agreement, away_seconds=5.0, check=damaged)


def test_a_run_file_that_was_replaced_is_noticed(world, tmp_path):
    """Whoever watched or drove it would wait for ever: nothing changes any more in the file that they have open."""
    files = CoordinatorFiles(tmp_path / "coordinator")
    files.create(world.key)

    def replaced():
        (path,) = files.runs()
        shutil.copyfile(path, tmp_path / "copy")
        (tmp_path / "copy").replace(path)

    with pytest.raises(FederationStopped, match="was replaced or removed"):
        request_run(files, world.agreement, away_seconds=float("inf"), check=replaced)
    run = files.open_run(world.agreement)
    (path,) = files.runs()
    path.unlink()
    with pytest.raises(FederationStopped, match="was replaced or removed"):
        world.drive(run)
    run.close()
