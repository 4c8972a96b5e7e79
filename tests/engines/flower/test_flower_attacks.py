"""Over real Flower: keys that are not registered, plain clients, foreign certificates, foreign apps, and kill -9."""

import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from dpadmm.engines.flower import processes
from dpadmm.engines.flower.agreement import NoiseOrigin
from dpadmm.engines.flower.coordinator import Coordinator
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.processes import FlowerError, Process, flower_environment
from dpadmm.engines.flower.rehearsal import prepared, running, wait_until
from dpadmm.engines.flower.rehearsal_terms import p_admm_terms, rehearsal_policy
from dpadmm.engines.flower.silo import Silo
from dpadmm.engines.flower.tls import create_certificates, create_node_key
from dpadmm.privacy.ledger.reading import open_for_reading

pytestmark = pytest.mark.slow


def small(worlds, place, rounds):
    """Return two silos that are ready to run."""
    build = p_admm_terms(worlds.SCHEMA, rounds, 1.0)
    return prepared(place, worlds.tables((40, 30)), worlds.SCHEMA, build, rehearsal_policy, (2.0, 1e-5))


def supernode(rehearsal, place: Path, *security: str) -> Process:
    """Start a SuperNode that nobody has invited."""
    arguments = [processes.command("flower-supernode"), "--superlink", rehearsal.address, "--isolation", "process"]
    arguments += ["--port", str(processes.free_port()), "--max-retries", "2", "--max-wait-time", "10", *security]
    return Process.start(arguments, flower_environment(place), place / "stranger.log")


def releases(rehearsal) -> list[int]:
    """Return how many releases each silo's ledger holds."""
    found = []
    for files in rehearsal.silos.values():
        with open_for_reading(files.ledger(NoiseOrigin.TEST)) as ledger:
            found.append(ledger.statement().releases)
    return found


def test_strangers_cannot_connect(worlds, tmp_path):
    rehearsal = small(worlds, tmp_path, rounds=1)
    place = tmp_path / "stranger"
    place.mkdir()
    create_node_key(place)
    create_certificates(place, ["127.0.0.1"])  # another CA
    ca, key = str(rehearsal.coordinator.directory / "ca.pem"), str(place / "node.key")
    try:
        rehearsal.start_superlink()
        for what, security in {
            "unregistered key": ("--root-certificates", ca, "--auth-supernode-private-key", key),
            "no key": ("--root-certificates", ca),
            "plain client": ("--insecure",),
            "foreign CA": ("--root-certificates", str(place / "ca.pem"), "--auth-supernode-private-key", key),
        }.items():
            node = supernode(rehearsal, place, *security)
            wait_until(lambda node=node: not node.is_alive, 90, f"the refusal of {what}")
            assert node.popen.returncode != 0, what
            node.stop()
        assert "SuperNode ID" not in (place / "stranger.log").read_text()
        other = CoordinatorFiles(tmp_path / "other")
        other.create(["127.0.0.1"])
        with pytest.raises(FlowerError, match="did not"):  # the control API under another CA
            type(rehearsal.coordinator.control())(rehearsal.address, tmp_path / "other" / "ca.pem").register(
                place / "node.pub", "stranger"
            )
    finally:
        rehearsal.stop()


_SPY_CLIENT = """
from pathlib import Path
Path({marker!r}).write_text("imported")
from flwr.clientapp import ClientApp
app = ClientApp()

@app.query()
def steal(message, context):
    Path({marker!r}).write_text("called")
    return message
"""

_SPY_SERVER = """
import time
from pathlib import Path
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < 2:
        time.sleep(0.2)
    contents = [RecordDict({{}}), RecordDict({{"dpadmm": ConfigRecord({{"envelope": b"give me your data"}})}})]
    messages = [Message(content=c, dst_node_id=n, message_type=MessageType.QUERY)
                for n in grid.get_node_ids() for c in contents]
    waiting, found = set(grid.push_messages(messages)), []
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            waiting.discard(reply.metadata.reply_to_message_id)
            found.append(bytes(reply.content["dpadmm"]["envelope"]) if reply.has_content() else b"")
        time.sleep(0.2)
    Path({replies!r}).write_bytes(b"\\n".join(found))
"""


def test_an_unapproved_app_does_not_run_in_a_silo(worlds, tmp_path):
    """Whoever reaches the control API can ship code; the silos run their own, which refuses what is not signed."""
    rehearsal = small(worlds, tmp_path, rounds=1)
    marker, replies = tmp_path / "stolen", tmp_path / "replies"
    app = tmp_path / "spy"
    code = app / "dpadmm_federation"
    code.mkdir(parents=True)
    (app / "pyproject.toml").write_text((rehearsal.coordinator.directory / "app" / "pyproject.toml").read_text())
    (code / "__init__.py").write_text("")
    (code / "client.py").write_text(_SPY_CLIENT.format(marker=str(marker)))
    (code / "server.py").write_text(_SPY_SERVER.format(replies=str(replies)))
    with running(rehearsal):
        rehearsal.coordinator.control().start(app, {})
        wait_until(replies.exists, 180, "the silos' answers")
    assert not marker.exists()
    assert replies.read_bytes().count(b'"kind":"refused"') == 4
    for files in rehearsal.silos.values():
        assert [entry.event for entry in Silo(files.directory).log()[-2:]] == ["refused", "refused"]
    assert releases(rehearsal) == [0, 0]


SILO_POINTS = [
    "s0:answer:before:1",  # joining
    "s0:commit:after:1",  # joined, not said
    "s0:reserve:before:1",
    "s0:reserve:after:1",
    "s0:compute:after:1",
    "s0:store:after:1",
    "s0:commit:after:1",  # stored, not sent
    "s0:answer:after:2",
]
SERVER_POINTS = [
    "server:joined:after:1",
    "server:request:before:1",
    "server:accept:before:1",
    "server:accept:after:1",
    "server:complete:before:1",
    "server:complete:after:1",
]
SUPERLINK_ROUNDS = [1, 2, 3, 4, 6, 8]


def test_the_crash_matrix_over_flower(worlds, tmp_path):
    """Twenty kills of silo, coordinator app and SuperLink in one federation: the same model, nothing spent twice."""
    rounds = 10
    calm = worlds.make(tmp_path / "calm", sizes=(40, 30), rounds=rounds, settings={"eta": 0.01}, seed=7)
    reference = calm.coordinator()
    calm.drive(reference)
    rehearsal = small(worlds, tmp_path / "real", rounds)
    place, here = rehearsal.place, Path(__file__).parent
    (place / "silo.points").write_text("\n".join(SILO_POINTS))
    (place / "server.points").write_text("\n".join(SERVER_POINTS))
    server = rehearsal.coordinator.directory / "app" / "dpadmm_federation" / "server.py"
    arming = f"import sys\nfrom pathlib import Path\nsys.path.insert(0, {str(here)!r})\nimport trapped\n"
    server.write_text(f"{arming}trapped.arm(Path({str(place / 'server.points')!r}))\n" + server.read_text())

    def start_trapped() -> Process:
        files = rehearsal.silos["s0"]
        ca = str(rehearsal.coordinator.directory / "ca.pem")
        script = [sys.executable, str(here / "trapped.py"), str(place / "silo.points")]
        environment = flower_environment(files.directory / "flower")
        return Process.start([*script, str(files.directory), rehearsal.address, ca], environment, place / "s0.log")

    outcome, failures, killed = [], [], {"silo": 0, "superlink": 0}

    def federate() -> None:
        try:
            from dpadmm.engines.flower.federate import watch

            outcome.append(watch(rehearsal.coordinator, rehearsal.agreement, submissions=60))
        except BaseException as problem:
            failures.append(problem)
            raise

    try:
        rehearsal.start_superlink()
        for name, files in rehearsal.silos.items():
            rehearsal.coordinator.control().register(files.directory / "node.pub", name)
        rehearsal.start_silo("s1")
        rehearsal.nodes["s0"] = start_trapped()
        worker = threading.Thread(target=federate)
        worker.start()
        due, path = list(SUPERLINK_ROUNDS), rehearsal.coordinator.run_file(rehearsal.agreement)
        end = time.monotonic() + 1500
        while worker.is_alive() and time.monotonic() < end:
            time.sleep(0.5)
            if not rehearsal.nodes["s0"].is_alive:
                killed["silo"] += rehearsal.nodes["s0"].popen.returncode == -9
                rehearsal.nodes["s0"].stop()
                rehearsal.nodes["s0"] = start_trapped()
            if due and path.exists():
                watcher = Coordinator(path, rehearsal.coordinator.key(), time.time)
                reached = watcher.round
                watcher.close()
                if reached >= due[0]:
                    due.pop(0)
                    rehearsal.superlink.kill()
                    killed["superlink"] += 1
                    rehearsal.start_superlink()
        worker.join(60)
    finally:
        rehearsal.stop()
    assert not failures, failures
    assert killed["silo"] == len(SILO_POINTS)
    assert killed["superlink"] == len(SUPERLINK_ROUNDS)
    assert (place / "server.points").read_text() == ""
    assert outcome[0].estimate.tolist() == reference.estimates()[-1].tolist()
    assert releases(rehearsal) == [rounds, rounds]
