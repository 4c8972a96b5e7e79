"""`dpadmm silo run`, `coordinator run` and rehearsals as processes: what they say, what they refuse, how they end."""

import contextlib
import signal
import socket
import socketserver
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")


from dpadmm.core.model import ReleasedModel
from dpadmm.data.reading import read_file
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.federation.admin.rehearsal import p_admm_terms, prepare_rehearsal, rehearsal_policy, wait_until
from dpadmm.federation.https.client import SiloClient
from dpadmm.federation.https.service import free_port, listen
from dpadmm.federation.process_lock import sole

NOWHERE = "127.0.0.1:9"


@pytest.fixture
def federation(place):
    """A coordinator and the silos north and south, which have approved three rounds with test noise."""
    schema, tables = (
        Schema.load("schema.json"),
        {name: read_file(place / f"{name}.csv").frame for name in ("north", "south")},
    )
    return prepare_rehearsal(place, tables, schema, p_admm_terms(schema, 3, 1.0), rehearsal_policy, (2.0, 1e-5))


def test_everybody_may_end_at_any_time_and_come_back(federation, programs, cli):
    """The run rests while somebody is away, and goes on when nobody watches it."""
    start, wait, end = programs.start, programs.wait, programs.end
    port = free_port()
    coordinator = ("coordinator", "run", "coordinator", "--port", str(port))
    silo = {name: ("silo", "run", name, "--coordinator", f"127.0.0.1:{port}") for name in ("north", "south")}
    federate = ("federate", "federation.toml", "--coordinator", "coordinator")
    north = start(*silo["north"])
    wait(north, "silo 'north' is running; approved: 'rehearsal'; coordinator at 127.0.0.1")
    wait(north, "the coordinator cannot be reached")
    served = start(*coordinator)
    wait(served, f"The coordinator of coordinator listens on 127.0.0.1, port {port}")
    wait(north, "no open run")
    watched = start(*federate)
    wait(watched, "round 0/3; waiting for north, south; epsilon: north 0, south 0")
    wait(north, "TLS 1.3; waiting for requests")
    wait(served, "run 'rehearsal': north has joined")
    wait(watched, "round 0/3; waiting for south; epsilon: north 0, south 0")

    assert end(north, signal.SIGTERM) == 0
    wait(north, "silo 'north' ends")
    assert end(watched, signal.SIGINT) == 130
    wait(watched, "Interrupted: the run goes on while the coordinator is serving")
    assert end(served, signal.SIGINT) == 0
    wait(served, "Stopped. All runs are kept where they are.")

    served, north, south = start(*coordinator), start(*silo["north"]), start(*silo["south"])
    wait(served, "run 'rehearsal': round 3 of 3 is complete")
    wait(south, "answered: round 3 of 3, run 'rehearsal'; epsilon 1 so far")
    for running, words in ((served, coordinator), (north, silo["north"])):
        again = cli.run(*words)
        assert again.exit_code == 2
        assert "is already running" in again.stderr
        assert running.is_alive
    done = cli.run(*federate, "--out", "model.json", "--schema", "schema.json")
    assert done.exit_code == 0, done.stderr
    assert "Done after 3 rounds" in done.stdout
    assert ReleasedModel.load("model.json").choice.rounds == 3
    assert end(south, signal.SIGINT) == 0
    assert end(served, signal.SIGTERM) == 0
    wait(north, "the coordinator cannot be reached")
    assert end(north, signal.SIGTERM) == 0
    for process in programs.started:
        assert "Traceback" not in process.log.read_text()


def test_a_silo_waits_for_its_owners_approval(place, cli, programs):
    words = ("--data", "north.csv", "--schema", "schema.json", "--budget-epsilon", "2", "--delta", "1e-5")
    assert cli.run("silo", "init", "north", *words).exit_code == 0
    north = programs.start("silo", "run", "north", "--coordinator", NOWHERE)
    programs.wait(north, "no terms are approved yet (`dpadmm silo approve`); waiting")
    assert programs.end(north, signal.SIGINT) == 0
    programs.wait(north, "silo 'north' ends")


def test_refusals_before_anything_is_served(federation, cli):
    silo, coordinator = partial(cli.run, "silo", "run"), partial(cli.run, "coordinator", "run")
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        for done, said in (
            (silo("coordinator", "--coordinator", NOWHERE), "coordinator is a coordinator's directory."),
            (silo(".", "--coordinator", NOWHERE), ". is no silo's directory: it has no policy.toml."),
            (silo("nowhere", "--coordinator", NOWHERE), "nowhere is no silo's directory"),
            (silo("north", "--coordinator", "host:port"), "must be HOST or HOST:PORT, got 'host:port'"),
            (coordinator("north"), "north is a silo's directory."),
            (coordinator("nowhere"), "nowhere is no coordinator's directory."),
            (coordinator("coordinator", "--port", str(port)), f"port {port}: Address already in use"),
        ):
            assert done.exit_code == 2
            assert said in done.stderr
            assert done.stdout == ""
    assert "1<=x<=65535" in coordinator("coordinator", "--port", "65536").stderr


@pytest.mark.parametrize("name", ["north", "coordinator"])
def test_one_process_serves_a_directory(federation, programs, name):
    words = ("coordinator", "run", name) if name == "coordinator" else ("silo", "run", name, "--coordinator", NOWHERE)
    with sole(Path(name) / "running.lock", "This test"):
        done = programs.run(*words)
    assert done.returncode == 2
    assert f"is already running (it holds {name}/running.lock). Stop it first." in done.stderr


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":9092",
        "host:",
        "host:0",
        "host:65536",
        "host:port",
        "a b:1",
        "host/x",
        "me@host",
        "http://host",
        "::1",
        "h?x",
    ],
)
def test_an_address_is_a_host_and_a_port(address):
    with pytest.raises(InputError, match="HOST or HOST:PORT"):
        SiloClient(None, address, None)


def test_a_silo_talks_to_nobody_but_the_coordinator_of_its_terms(federation, cli, programs):
    """As one that sits where the coordinator should be, or a proxy that opens TLS."""
    cli.run("coordinator", "init", "other")
    port = free_port()
    other = programs.start("coordinator", "run", "other", "--port", str(port))
    programs.wait(other, "listens on")
    north = programs.start("silo", "run", "north", "--coordinator", f"127.0.0.1:{port}")
    programs.wait(north, "the server there is not the coordinator of any approved terms")


class Passing(socketserver.StreamRequestHandler):
    """A proxy that passes connections through; its server remembers where to."""

    def handle(self) -> None:
        method, place, _ = self.rfile.readline().decode().split()
        while self.rfile.readline().strip():
            pass
        self.server.asked.add(f"{method} {place}")
        host, _, port = place.rpartition(":")
        with socket.create_connection((host, int(port))) as far:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self.carry, args=(far, self.connection))
            back.start()
            self.carry(self.connection, far)
            back.join()

    @staticmethod
    def carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of the loopback")
def test_silos_dial_through_the_proxy_of_their_environment(federation, programs, monkeypatch):
    port = free_port("127.0.0.2")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Passing) as proxy:
        proxy.asked = set()
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_address[1]}")
        served = programs.start("coordinator", "run", "coordinator", "--host", "127.0.0.2", "--port", str(port))
        programs.wait(served, "listens on")
        for name in ("north", "south"):
            programs.start("silo", "run", name, "--coordinator", f"127.0.0.2:{port}")
        done = programs.run("federate", "federation.toml", "--coordinator", "coordinator")
        programs.stop()
        proxy.shutdown()
    assert "Done after 3 rounds" in done.stdout
    assert proxy.asked == {f"CONNECT 127.0.0.2:{port}"}


def processes_in(folder: Path) -> list[int]:
    """Return the processes whose command names a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_there = str(folder).encode() in each.read_bytes()
        except OSError:  # it has just ended
            continue
        if is_there:
            found.append(int(each.parent.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_a_rehearsal_that_is_ended_leaves_nothing_behind(programs, monkeypatch, how):
    """Neither tables nor processes; kill -9 leaves the folder, which nobody can help, but no process."""
    folder = programs.folder / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    rehearsal = programs.start("federate", "--local", "2", "--rounds", "2000", "--epsilon", "0.5")
    programs.wait(rehearsal, "epsilon: silo-0 0.")  # something is spent, so rounds are answered
    assert len(processes_in(folder)) == 2
    assert list(folder.rglob("*.csv"))
    code = programs.end(rehearsal, how)
    wait_until(lambda: not processes_in(folder), 30.0, "the silos to end")
    if how is signal.SIGTERM:
        assert code == 130
        assert "asked to end; nothing of the rehearsal was kept" in rehearsal.tail()
        assert list(folder.iterdir()) == []
