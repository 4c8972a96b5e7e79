"""Which runs a coordinator drives, for whom, and what it does about strangers, twins and absent processes."""

import socket
import time
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from dpadmm.engines.flower import federate, processes
from dpadmm.engines.flower.agreement import Missing
from dpadmm.engines.flower.conductor import Conductor, run_coordinator
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.drive import Drive, Unattended
from dpadmm.engines.flower.federate import Watch
from dpadmm.engines.flower.processes import FlowerError
from dpadmm.engines.flower.refusal import FederationStopped
from dpadmm.engines.flower.runtime import auth_secret
from dpadmm.engines.flower.server_app import GridTransport
from dpadmm.errors import InputError, ResumeError


@pytest.fixture
def files(world, tmp_path):
    """The directory of a coordinator that has the world's key."""
    made = CoordinatorFiles(tmp_path / "coordinator")
    made.create(["127.0.0.1"])
    (made.directory / "coordinator.key").write_bytes((world.place / "coordinator.key").read_bytes())
    return made


def test_only_runs_that_are_made_wanted_and_not_driven_are_started(world, files):
    conductor, digest = Conductor(files), world.agreement.digest
    for name in ("", "../../coordinator", "0" * 63, digest.upper()):
        with pytest.raises(InputError, match="named by the digest"):
            conductor.check(name)
    with pytest.raises(ResumeError, match="There is no file"):
        conductor.check(digest)
    run = files.open_run(world.agreement)
    with pytest.raises(InputError, match="Nobody has asked"):
        conductor.check(digest)
    run.want()
    conductor.check(digest)
    conductor._driving[digest] = SimpleNamespace(is_alive=True), time.monotonic()
    with pytest.raises(InputError, match="driven already"):  # it is about to begin
        conductor.check(digest)
    conductor._driving[digest] = SimpleNamespace(is_alive=True), time.monotonic() - 1000
    conductor.check(digest)  # it never began
    run.beat()
    with pytest.raises(InputError, match="driven already"):
        conductor.check(digest)
    run.rest()
    conductor.check(digest)
    conductor._driving[digest] = SimpleNamespace(is_alive=False), time.monotonic()
    conductor.check(digest)
    run.close()


def test_a_run_that_nobody_wants_asks_nobody(world, worlds):
    transport = worlds.Direct(world.silos)
    coordinator = world.coordinator()
    with pytest.raises(Unattended):
        Drive(coordinator, transport, time.time, is_wanted=lambda: False).run()
    assert not transport.sent
    assert not coordinator.signs.is_driven


def test_two_processes_decide_once_to_go_on_without_a_silo(worlds, tmp_path):
    """The slower one takes over what the faster one has decided, and goes on with the new terms."""
    world = worlds.make(tmp_path, edges=((0, 1), (0, 2), (1, 2)), missing=Missing.WITHOUT, wait_seconds=30.0)
    one, two = world.coordinator(), world.coordinator()
    present = {name: silo for name, silo in world.silos.items() if name != "s2"}
    slow = Drive(two, worlds.Direct(present), time.time)
    slow._invite()  # it has begun with the old terms
    one.go_on_without([2])
    two.go_on_without([2])
    assert one.phase == two.phase == 1
    assert one.agreement.digest == two.agreement.digest
    two.phase = 0  # as if it had not noticed
    slow.run()
    assert one.is_done
    assert [event for _, event, _ in one.log()] == ["missing", "missing"]
    assert one.estimates().tolist() == two.estimates().tolist()


def test_an_answer_to_terms_that_were_left_is_no_reason_to_stop(worlds, tmp_path):
    world = worlds.make(tmp_path, edges=((0, 1), (0, 2), (1, 2)), missing=Missing.STOP, wait_seconds=30.0)
    coordinator = world.coordinator()
    drive = Drive(coordinator, worlds.Direct(world.silos), time.time)
    refusal = world.silos["s0"].answer(b"x" * 100)  # signed, but not about this invitation
    assert coordinator.accept_joined(refusal) is None
    drive._take("somewhere", refusal)
    assert coordinator.absent == [0, 1, 2]
    drive.run()
    assert coordinator.is_done


def test_a_stranger_who_repeats_a_participants_words_is_ignored(world, worlds):
    """On a graph every neighbour holds signed answers; shown by another node they blame nobody."""
    calm = world.coordinator(name="calm.db")
    first = worlds.Direct(world.silos)
    world.drive(calm, first)
    stolen = next(envelope for node, envelope in reversed(first.answers) if node == "s0")

    class Haunted(worlds.Direct):
        def nodes(self):
            return ["stranger", *super().nodes()]

        def send(self, node, envelope):
            if node == "stranger":
                self.waiting.append((node, stolen))
            else:
                super().send(node, envelope)

    coordinator = world.coordinator(name="again.db")
    world.drive(coordinator, Haunted(world.silos))  # the silos repeat what they have answered
    assert coordinator.is_done
    assert coordinator.estimates().tolist() == calm.estimates().tolist()
    assert not coordinator.log()


def test_bytes_that_cannot_be_read_are_their_senders_failure_only():
    def pull(names):
        if names == ["a"]:
            raise KeyError("Garbage")
        return [SimpleNamespace(has_error=lambda: True)]

    transport = GridTransport(SimpleNamespace(pull_messages=pull))
    transport._pending = {"a": 1, "b": 2}
    assert transport.receive() == [(1, None), (2, None)]
    assert not transport._pending


def test_secrets_are_whole_and_private(tmp_path):
    path = auth_secret(tmp_path)
    assert auth_secret(tmp_path) == path
    path.chmod(0o644)
    with pytest.raises(InputError, match="can be read by others"):
        auth_secret(tmp_path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(InputError, match="Delete it"):
        auth_secret(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["executor.secret"]


def test_a_coordinator_starts_once_and_on_a_free_port(files):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="listens on port"):
            run_coordinator(files, "127.0.0.1", taken.getsockname()[1])
    with (
        processes.sole(files.directory / "running.lock", "It"),
        pytest.raises(InputError, match="running already"),
    ):
        run_coordinator(files, "127.0.0.1", 1)
    with pytest.raises(InputError, match=r"coordinator\.key"):
        run_coordinator(CoordinatorFiles(files.directory / "nothing"), "127.0.0.1", 1)
    assert not (files.directory / "address").exists()


@pytest.mark.parametrize(("host", "near"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.7", "10.0.0.7")])
def test_a_server_on_all_addresses_is_reached_by_the_loopback(host, near):
    assert processes.reachable(host) == near


def test_whoever_waits_for_nobody_is_told(world, files, monkeypatch):
    run = files.open_run(world.agreement)
    monkeypatch.setattr(federate, "_CHECK_SECONDS", 0.0)
    watching = Watch(files, run, world.agreement, lambda _: None, away_seconds=0.0, start_seconds=0.0)
    with pytest.raises(InputError, match="dpadmm coordinator run"):  # never started here
        watching.is_done_after_one_run()
    (files.directory / "address").write_text(f"127.0.0.1:{processes.free_port()}")
    with pytest.raises(FederationStopped, match=r"did not start a run(.|\n)*dpadmm coordinator run"):
        watching.is_done_after_one_run()
    control = SimpleNamespace(is_over=lambda run: False, stop=lambda run: None)
    monkeypatch.setattr(CoordinatorFiles, "submit", lambda files, agreement: 1)
    monkeypatch.setattr(CoordinatorFiles, "control", lambda files: control)
    with pytest.raises(FederationStopped, match="nobody has driven it"):
        watching.is_done_after_one_run()
    assert run.signs.is_wanted
    run.close()


def test_a_run_that_is_driven_already_is_watched_not_submitted(world, worlds, files, monkeypatch):
    run = files.open_run(world.agreement)
    run.beat()

    def never(*_):
        raise FlowerError("submitted")

    monkeypatch.setattr(CoordinatorFiles, "submit", never)
    other = files.open_run(world.agreement)
    shown = []

    def show(progress):
        shown.append(progress.round)
        if not other.is_done:
            Drive(other, worlds.Direct(world.silos), time.time).run()

    assert Watch(files, run, world.agreement, show).is_done_after_one_run()
    assert shown[-1] == world.agreement.rounds
    run.close()
    other.close()
