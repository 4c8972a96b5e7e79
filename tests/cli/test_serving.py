"""`dpadmm silo run`, `coordinator run`, `status`, `doctor` and rehearsals as processes: what they say, how they end."""

import contextlib
import os
import pty
import signal
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.proxy import Proxy
from tests.waiting import wait_until
from typer.testing import CliRunner

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from tests.cli.conftest import init

from dpadmm.cli.main import app
from dpadmm.core.model import ReleasedModel
from dpadmm.errors import InputError
from dpadmm.federation.https.client import Address
from dpadmm.federation.https.service import free_port, listen
from dpadmm.federation.party_directory import exclusive_lock

NOWHERE = "127.0.0.1:9"
RUN_KEYS = "run digest method round rounds delta state spent_epsilon epsilon reason seconds_per_round silos"
PROCESS_KEYS = "pid started coordinator is_connected connection since skew_seconds answered"
KEYS = {
    "silo status": "command name directory noise is_serving process budget data runs refusals",
    "coordinator status": "command directory is_serving process runs",
    "silo doctor": "command directory has_problem checks",
    "coordinator doctor": "command directory has_problem checks",
}
PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def narrow(*command):
    """Return what a command prints in a terminal of 80 columns."""
    result = CliRunner().invoke(app, list(command), env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    return " ".join(result.stdout.split())


def test_everybody_may_end_at_any_time_and_come_back(rehearsal, programs, cli):
    """The run rests while somebody is away, and goes on when nobody watches it; status says it all."""
    start, wait, end = programs.start, programs.wait, programs.end
    port = free_port()
    coordinator = ("coordinator", "run", "coordinator", "--port", str(port))
    silo = {name: ("silo", "run", name, "--coordinator", f"127.0.0.1:{port}") for name in ("north", "south")}
    federate = ("federate", "run", "federation.toml", "--coordinator", "coordinator")
    assert "NO" in narrow("silo", "status", "north")
    north = start(*silo["north"])
    wait(north, "the coordinator cannot be reached")
    served = start(*coordinator)
    wait(served, "listens on")
    wait(north, "no open run")
    watched = start(*federate)
    wait(served, "run 'rehearsal': north has joined")
    wait(watched, "round 0/3; waiting for south; epsilon: north 0, south 0")

    shown = narrow("coordinator", "status", "coordinator")
    assert f"on 127.0.0.1, port {port}" in shown
    assert "north: connected, joined, epsilon 0" in shown
    assert "south: away, has not joined, AWAITED, epsilon 0" in shown
    wait_until(lambda: "connected to 127.0.0.1" in narrow("silo", "status", "north"), 20.0, "the silo's notice")
    said = cli.ask("silo", "status", "north")
    assert set(said["process"]) == set(PROCESS_KEYS.split())
    assert (said["is_serving"], said["process"]["is_connected"], said["runs"][0]["state"]) == (True, True, "joined")
    assert said["process"]["pid"] == north.popen.pid
    assert "has an open run" in narrow("silo", "doctor", *silo["north"][2:])

    assert end(north, signal.SIGTERM) == 0
    assert end(watched, signal.SIGINT) == 130
    wait(watched, "Interrupted: the run goes on while the coordinator is serving")
    assert end(served, signal.SIGINT) == 0

    served, north, south = start(*coordinator), start(*silo["north"]), start(*silo["south"])
    wait(served, "run 'rehearsal': round 3 of 3 is complete")
    wait(south, "answered: round 3 of 3, run 'rehearsal'; epsilon 1 so far")
    for running, command in ((served, coordinator), (north, silo["north"])):
        again = cli.run(*command)
        assert (again.exit_code, "is already running" in again.stderr, running.is_alive) == (2, True, True)
    done = cli.run(*federate, "--out", "model.json", "--schema", "schema.json")
    assert done.exit_code == 0, done.stderr
    assert ReleasedModel.load("model.json").choice.rounds == 3
    assert "finished, p-admm, round 3 of 3; epsilon 1 of 1" in narrow("silo", "status", "north")
    assert "finished, p-admm, round 3 of 3" in narrow("coordinator", "status", "coordinator")
    assert end(south, signal.SIGINT) == 0
    assert end(served, signal.SIGTERM) == 0
    assert "NO; the last process was started" in narrow("coordinator", "status", "coordinator")
    wait(north, "the coordinator cannot be reached")
    assert end(north, signal.SIGTERM) == 0
    for process in programs.started:
        assert "Traceback" not in process.log.read_text()


def keys_of(value):
    """All keys within a JSON value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {*(value if isinstance(value, dict) else ()), *(key for each in inside for key in keys_of(each))}


def test_the_keys_of_json_stay(rehearsal, cli):
    page = PAGE.read_text()
    for command, keys in KEYS.items():
        said = cli.ask(*command.split(), "coordinator" if command.startswith("coordinator") else "north")
        assert sorted(said) == sorted(keys.split())
        assert [key for key in keys_of(said) if f"`{key}`" not in page] == []
        if command == "silo status":
            assert set(said["runs"][0]) == set(RUN_KEYS.split())
            assert said["runs"][0]["state"] == "approved"
        if command.endswith("doctor"):
            assert {"check", "level", "text", "advice"} == set(said["checks"][0])


def test_the_doctors_exit_code_says_whether_anything_must_be_done(rehearsal, cli):
    assert cli.run("silo", "doctor", "north").exit_code == 0
    assert cli.run("coordinator", "doctor", "coordinator").exit_code == 0
    Path("north/silo.key").chmod(0o644)
    result = cli.run("silo", "doctor", "north")
    assert (result.exit_code, "PROBLEM" in result.stdout) == (1, True)


def test_a_port_that_is_taken_and_a_directory_that_is_served(rehearsal, cli):
    with listen("127.0.0.1", 0) as taken:
        done = cli.run("coordinator", "run", "coordinator", "--port", str(taken.getsockname()[1]))
    assert (done.exit_code, "in use" in done.stderr) == (2, True)
    for command in (("coordinator", "run", "coordinator"), ("silo", "run", "north", "--coordinator", NOWHERE)):
        with exclusive_lock(Path(command[2]) / "running.lock", "This test"):
            done = cli.run(*command)
        assert (done.exit_code, "is already running" in done.stderr) == (2, True)


WRONG = ("", ":9092", "host:", "host:0", "host:65536", "host:port", "a b:1", "host/x", "me@host", "http://host", "::1")


@pytest.mark.parametrize("address", [*WRONG, "h?x"])
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(InputError, match="HOST:PORT"):
        Address.parse(address)


def test_a_silo_waits_for_its_owners_approval(place, cli, programs):
    assert init(cli, "north").exit_code == 0
    north = programs.start("silo", "run", "north", "--coordinator", NOWHERE)
    programs.wait(north, "no terms are approved yet (`dpadmm silo approve`); waiting")
    assert programs.end(north, signal.SIGINT) == 0


def test_a_silo_talks_to_nobody_but_the_coordinator_of_its_terms(rehearsal, cli, programs):
    """As one that sits where the coordinator should be, or a proxy that opens TLS."""
    cli.run("coordinator", "init", "other")
    port = free_port()
    programs.wait(programs.start("coordinator", "run", "other", "--port", str(port)), "listens on")
    north = programs.start("silo", "run", "north", "--coordinator", f"127.0.0.1:{port}")
    programs.wait(north, "the server there is not the coordinator of any approved terms")


@pytest.mark.parametrize("command", [("silo", "status", "north"), ("coordinator", "status", "coordinator")])
def test_a_screen_that_is_watched_ends_with_ctrl_c(rehearsal, programs, command):
    ours, theirs = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    watching = subprocess.Popen(programs.args(*command, "--watch"), **streams, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = b""
    while b"Serving" not in shown:
        shown += os.read(ours, 65536)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(120) == 0
    os.close(ours)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of the loopback")
def test_silos_connect_through_the_proxy_of_their_environment(rehearsal, programs, monkeypatch):
    port = free_port("127.0.0.2")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Proxy) as proxy:
        proxy.asked = set()
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
        served = programs.start("coordinator", "run", "coordinator", "--host", "127.0.0.2", "--port", str(port))
        programs.wait(served, "listens on")
        for name in ("north", "south"):
            programs.start("silo", "run", name, "--coordinator", f"127.0.0.2:{port}")
        done = programs.run("federate", "run", "federation.toml", "--coordinator", "coordinator")
        programs.stop()
        proxy.shutdown()
    assert "Done after 3 rounds" in done.stdout
    assert proxy.asked == {f"CONNECT 127.0.0.2:{port}"}


def processes_in(folder: Path) -> list[int]:
    """Return the processes whose command names a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if str(folder).encode() in each.read_bytes():
                found.append(int(each.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_a_rehearsal_that_is_ended_leaves_nothing_behind(programs, monkeypatch, how):
    """Neither tables nor processes; kill -9 leaves the folder, which nobody can help, but no process."""
    folder = programs.folder / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    rehearsal = programs.start("federate", "rehearse", "--rounds", "2000", "--epsilon", "0.5")
    programs.wait(rehearsal, "epsilon: silo-0 0.")  # something is spent, so rounds are answered
    assert len(processes_in(folder)) == 2
    assert list(folder.rglob("*.csv"))
    code = programs.end(rehearsal, how)
    wait_until(lambda: not processes_in(folder), 30.0, "the silos to end")
    if how is signal.SIGTERM:
        assert (code, list(folder.iterdir())) == (130, [])
        assert "nothing of the rehearsal was kept" in rehearsal.tail()
