"""Over real Flower: keys that are not registered, plain clients, foreign certificates, foreign apps, and kill -9."""

import signal
import ssl
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from dpadmm.engines.federation.coordinator import Coordinator
from dpadmm.engines.federation.rehearsal_terms import p_admm_terms, rehearsal_policy
from dpadmm.engines.flower import processes
from dpadmm.engines.flower.coordinator_files import CoordinatorFiles
from dpadmm.engines.flower.processes import FlowerError, Process, flower_environment
from dpadmm.engines.flower.rehearsal import prepared, running, wait_until
from dpadmm.engines.flower.tls import create_certificates, create_node_key

pytestmark = pytest.mark.slow


def small(worlds, place, rounds, **encoding):
    """Return two silos that are ready to run."""
    build = p_admm_terms(worlds.SCHEMA, rounds, 1.0, **encoding)
    return prepared(place, worlds.tables((40, 30)), worlds.SCHEMA, build, rehearsal_policy, (2.0, 1e-5))


def supernode(rehearsal, place: Path, *security: str) -> Process:
    """Start a SuperNode that nobody has invited."""
    arguments = [processes.command("flower-supernode"), "--superlink", rehearsal.address, "--isolation", "process"]
    arguments += ["--port", str(processes.free_port()), "--max-retries", "2", "--max-wait-time", "10", *security]
    return Process.start(arguments, flower_environment(place), place / "stranger.log")


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


_SPY = """
from pathlib import Path
Path({marker!r}).write_text("imported")
from flwr.{side}app import {kind}App
app = {kind}App()
"""


def spying_app(rehearsal, place: Path, marker: Path) -> Path:
    """Return an app that leaves a mark where it runs, named as the approved one is."""
    code = place / "dpadmm_federation"
    code.mkdir(parents=True)
    (place / "pyproject.toml").write_text((rehearsal.coordinator.directory / "app" / "pyproject.toml").read_text())
    (code / "__init__.py").write_text("")
    for side in ("client", "server"):
        text = _SPY.format(marker=str(marker), side=side, kind=side.capitalize())
        (code / f"{side}.py").write_text(text)
    return place


def test_an_unapproved_app_does_not_run_at_the_coordinator(worlds, tmp_path):
    """Whoever reaches the control API can ship code; the coordinator runs its own, which wants a run it has made."""
    rehearsal = small(worlds, tmp_path, rounds=1)
    marker, log = tmp_path / "stolen", rehearsal.coordinator.directory / "server.log"
    app = spying_app(rehearsal, tmp_path / "spy", marker)
    with running(rehearsal):
        control = rehearsal.coordinator.control()
        for settings in ({}, {"run": "../../coordinator"}, {"run": "0" * 64}):
            run = control.start(app, settings)
            wait_until(lambda run=run: control.is_over(run), 90, "the end of a foreign run")
        rehearsal.coordinator.open_run(rehearsal.agreement).close()
        run = control.start(app, {"run": rehearsal.agreement.digest})  # it exists, but nobody asks for it now
        wait_until(lambda: control.is_over(run), 90, "the end of an unwanted run")
        said = log.read_text()
        assert said.count("refused: A run is named by the digest of its terms") == 2
        assert "refused: There is no file" in said
        assert "refused: Nobody has asked for the run" in said
        outcome = rehearsal.federate()  # and the approved run is not disturbed
    assert not marker.exists()
    assert outcome.rounds == 1
    assert worlds.releases(rehearsal) == [1, 1]


def test_only_the_coordinator_takes_the_superlinks_tasks(worlds, tmp_path):
    """Tasks carry the answers of the silos: a stranger who asks for them is refused, with or without a secret."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, SuperExecAuthHttpInterceptor

    rehearsal = small(worlds, tmp_path, rounds=1)
    methods = frozenset({"/flwr.proto.Runtime/AcquireTask"})
    strangers = [
        SuperExecAuthHttpInterceptor(master_secret=b"guessed" * 7, protected_methods=methods),
        RuntimeTokenHttpInterceptor("no token of ours"),
    ]
    try:
        rehearsal.start_superlink()
        rehearsal.coordinator.control().start(rehearsal.coordinator.directory / "app", {"run": "0" * 64})
        for stranger in strangers:
            with rehearsal.coordinator.runtime().client("SuperExec", stranger) as client:
                with pytest.raises(httpx.HTTPStatusError) as refused:
                    client.AcquireTask(AcquireTaskRequest(supported_task_types={TaskType.SERVER_APP}))
                assert refused.value.response.status_code in (401, 403)
        trust = ssl.create_default_context(cafile=str(rehearsal.coordinator.ca))
        with httpx.Client(base_url=f"https://{rehearsal.address}", verify=trust) as anybody:
            paths = anybody.get("/openapi.json").json()["paths"]
            guarded = [path for path in paths if path.startswith(("/v1/runtime/", "/v1/fleet/"))]
            assert len(guarded) > 20
            for path in guarded:
                headers = {"content-type": "application/protobuf", "accept": "application/protobuf"}
                assert anybody.post(path, headers=headers, content=b"").status_code in (401, 403), path
    finally:
        rehearsal.stop()


def test_a_coordinator_ends_with_everything_it_started(worlds, tmp_path):
    rehearsal = small(worlds, tmp_path, rounds=1)
    port = processes.free_port()
    words = ["coordinator", "run", str(rehearsal.coordinator.directory), "--port", str(port)]
    environment = flower_environment(tmp_path / "home")
    coordinator = Process.start([processes.command("dpadmm"), *words], environment, tmp_path / "coordinator.log")
    try:
        coordinator.wait_for_port(port, 120)
        again = Process.start([processes.command("dpadmm"), *words], environment, tmp_path / "again.log")
        wait_until(lambda: not again.is_alive, 60, "the refusal of a second one")
        again.stop()
        assert "is running already" in again.tail()
        coordinator.popen.send_signal(signal.SIGINT)
        wait_until(lambda: not coordinator.is_alive, 60, "its end")
        assert coordinator.popen.returncode == 0, coordinator.tail()
        assert not processes.is_listening("127.0.0.1", port)
    finally:
        coordinator.stop()


SILO_POINTS = ["s0:store:after:1"]  # stored, not durable
SERVER_POINTS = ["server:complete:before:1"]
SUPERLINK_ROUNDS = [1]


def test_kills_of_every_process_over_flower(worlds, tmp_path):
    """Silo and coordinator app in round 0, and later the SuperLink: the same model, nothing spent twice.

    Every single point of a crash is in federation/test_transport.py.
    """
    rounds, terms = 2, {"settings": {"eta": 0.01}, "seed": 7} | worlds.COUNTED
    calm = worlds.make(tmp_path / "calm", sizes=(40, 30), rounds=rounds, **terms)
    reference = calm.coordinator()
    calm.drive(reference)
    rehearsal = small(worlds, tmp_path / "real", rounds, reach=0.6, profile_share=0.2)
    place, here = rehearsal.place, Path(__file__).parent
    (place / "silo.points").write_text("\n".join(SILO_POINTS))
    (place / "server.points").write_text("\n".join(SERVER_POINTS))

    def start_trapped_conductor() -> Process:
        script = [sys.executable, str(here / "trapped.py"), "conductor", str(place / "server.points")]
        directory = rehearsal.coordinator.directory
        environment = flower_environment(rehearsal.coordinator.home)
        return Process.start([*script, str(directory)], environment, directory / "server.log")

    def start_trapped() -> Process:
        files = rehearsal.silos["s0"]
        ca = str(rehearsal.coordinator.directory / "ca.pem")
        script = [sys.executable, str(here / "trapped.py"), "silo", str(place / "silo.points")]
        environment = flower_environment(files.directory / "flower")
        return Process.start([*script, str(files.directory), rehearsal.address, ca], environment, place / "s0.log")

    outcome, failures, killed = [], [], {"silo": 0, "superlink": 0}

    def federate() -> None:
        try:
            from dpadmm.engines.flower.federate import watch

            outcome.append(watch(rehearsal.coordinator, rehearsal.agreement, submissions=10))
        except Exception as problem:  # noqa: BLE001 - looked at below
            failures.append(problem)

    try:
        rehearsal.start_superlink()
        for name, files in rehearsal.silos.items():
            rehearsal.coordinator.control().register(files.directory / "node.pub", name)
        rehearsal.conductor = start_trapped_conductor()
        rehearsal.start_silo("s1")
        rehearsal.nodes["s0"] = start_trapped()
        worker = threading.Thread(target=federate)
        worker.start()
        due, path = list(SUPERLINK_ROUNDS), rehearsal.coordinator.run_named(rehearsal.agreement.digest)
        end = time.monotonic() + 500
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
    assert worlds.releases(rehearsal) == [rounds + 1, rounds + 1]
