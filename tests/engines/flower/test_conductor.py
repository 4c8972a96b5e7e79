"""Which runs a coordinator drives, for whom, and what it does about twins and absent processes."""

import socket
import threading
import time
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from dpadmm.engines.federation.refusal import FederationStopped
from dpadmm.engines.flower import federate, processes
from dpadmm.engines.flower.conductor import Conductor, run_coordinator
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.federate import Watch
from dpadmm.engines.flower.grid import GridTransport
from dpadmm.engines.flower.processes import FlowerError
from dpadmm.engines.flower.runtime import auth_secret
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
    conductor._driving[digest] = SimpleNamespace(is_alive=True), time.monotonic()
    run.rest()
    conductor.check(digest)  # it has begun, and ended
    run._sign("drive", time.time() - 20)
    conductor.check(digest)  # it has begun, and hangs
    run._sign("drive", time.time() + 3600)
    conductor.check(digest)  # the clock was set back
    conductor._driving[digest] = SimpleNamespace(is_alive=False), time.monotonic()
    conductor.check(digest)
    run.close()


def arrived(transport, number):
    """Return what arrives within some seconds, until there is so much."""
    found, end = [], time.monotonic() + 20
    while len(found) < number and time.monotonic() < end:
        found += transport.receive()
    return found


@pytest.fixture
def identity(monkeypatch):
    """Flower's messages know whose they are."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


def test_bytes_that_cannot_be_read_are_their_senders_failure_only(identity):
    request = httpx.Request("POST", "http://127.0.0.1/")
    bad = httpx.HTTPStatusError("bad", request=request, response=httpx.Response(500, request=request))
    problems = {"to 1": KeyError("Garbage"), "to 2": bad}

    def pull(names):
        if names[0] in problems:
            raise problems[names[0]]
        return [SimpleNamespace(has_error=lambda: True)]

    transport = GridTransport(
        SimpleNamespace(pull_messages=pull, push_messages=lambda m: [f"to {m[0].metadata.dst_node_id}"])
    )
    for node in (1, 2, 3):
        transport.send(node, b"envelope")
    assert sorted(arrived(transport, 3)) == [(1, None), (2, None), (3, None)]


def test_a_node_that_never_finishes_its_answer_delays_nobody(identity):
    """A stranger may announce an answer and upload nothing; Flower's pull of it then takes minutes."""
    end, asked = threading.Event(), []

    def pull(names):
        asked.extend(names)
        if names[0].startswith("to 1"):
            end.wait(60)
        return [SimpleNamespace(has_error=lambda: True)] if names[0].startswith("to 2") else []

    def push(messages):
        return [f"to {messages[0].metadata.dst_node_id} {len(asked)} {time.monotonic()}"]

    transport = GridTransport(SimpleNamespace(pull_messages=pull, push_messages=push))
    for _ in range(5):
        transport.send(1, b"envelope")
        transport.send(3, b"envelope")  # online, and silent
    transport.send(2, b"envelope")
    assert arrived(transport, 1) == [(2, None)]
    assert len(transport._pulling[3]._open) == 2  # what was sent again is not asked for any more
    end.set()


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
    with pytest.raises(InputError, match=r"not for 10\.0\.0\.7"):
        run_coordinator(files, "10.0.0.7", 1)
    with pytest.raises(InputError, match=r"coordinator\.key"):
        run_coordinator(CoordinatorFiles(files.directory / "nothing"), "127.0.0.1", 1)
    assert not (files.directory / "address").exists()


@pytest.mark.parametrize(("host", "near"), [("0.0.0.0", "127.0.0.1"), ("::", "localhost"), ("10.0.0.7", "10.0.0.7")])
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


def test_a_run_that_is_driven_already_is_watched_not_submitted(world, files, monkeypatch):
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
            world.drive(other)

    assert Watch(files, run, world.agreement, show).is_done_after_one_run()
    assert shown[-1] == world.agreement.rounds
    run.close()
    other.close()


def test_a_reason_to_stop_is_not_lost_between_two_looks(world, files, monkeypatch):
    """The process stops for good just before the watcher looks whether anybody drives the run."""
    run, other, submitted = files.open_run(world.agreement), files.open_run(world.agreement), []
    monkeypatch.setattr(CoordinatorFiles, "submit", lambda files, agreement: submitted.append(1) or 1)
    control = SimpleNamespace(is_over=lambda run: True, stop=lambda run: None)
    monkeypatch.setattr(CoordinatorFiles, "control", lambda files: control)
    monkeypatch.setattr(federate, "_CHECK_SECONDS", 0.0)

    def sleep(seconds):
        other.beat()
        other.stopped("s1 refuses")
        other.rest()

    monkeypatch.setattr(federate, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    with pytest.raises(FederationStopped, match="s1 refuses"):
        federate.watch(files, world.agreement)
    assert submitted == [1]
    run.close()
    other.close()


def test_runs_of_earlier_versions_are_read(world, files):
    run = files.open_run(world.agreement)
    run._connection.execute("DROP TABLE signs")
    run.close()
    with pytest.raises(InputError, match="Nobody has asked"):
        Conductor(files).check(world.agreement.digest)
    again = files.open_run(world.agreement)
    again.want()
    Conductor(files).check(world.agreement.digest)
    again.close()
