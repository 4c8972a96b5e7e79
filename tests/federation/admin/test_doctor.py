"""What the doctors find: every fault by name, none where there is none, and a silo that serves is left in peace."""

import contextlib
import json
import os
import shutil
import socket
import socketserver
import sqlite3
import sys
import threading
from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from email.utils import formatdate
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from tests.proxy import Proxy

from dpadmm.federation.admin import doctor
from dpadmm.federation.admin.doctor import Level, examine_coordinator, examine_silo
from dpadmm.federation.admin.rehearsal import serve_in_thread
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.https import tls
from dpadmm.federation.https.service import free_port, serve_coordinator
from dpadmm.federation.party_directory import exclusive_lock
from dpadmm.federation.silo_store import open_store
from dpadmm.federation.terms import NoiseOrigin


@pytest.fixture(autouse=True)
def no_time_service(monkeypatch):
    """What this machine says of its clock is no matter of these tests."""
    monkeypatch.setattr(doctor, "check_time_service", lambda: iter(()))


def examined(federation, address=None):
    return examine_silo(federation.north.directory, address)


def has_problem(checks):
    return any(each.level is Level.PROBLEM for each in checks)


def found(checks, name):
    """The findings of one check, as health and words."""
    return [(each.level, each.text) for each in checks if each.check == name]


def worst(checks, name):
    """The one finding of a check that is not well."""
    (one,) = [command for health, command in found(checks, name) if health is not Level.OK]
    return one


def test_a_silo_that_is_well(federation):
    federation.drive(answers=12)
    before = {path.name for path in federation.north.directory.iterdir()}
    checks = examined(federation)
    assert {path.name for path in federation.north.directory.iterdir()} == before
    assert not has_problem(checks)
    names = ["installed", "files", "key", "writing", "serving", "policy", "schema", "ledger", "budget", "table", "disk"]
    assert [each.check for each in checks] == [*names, "connection"]
    unwell = {each.check for each in checks if each.level is not Level.OK}
    assert unwell == {"serving", "connection"}  # nobody serves, and no address was given


def test_a_silo_that_was_invited_is_served_without_its_coordinators_address(federation):
    start = f"`dpadmm silo run {federation.north.directory}"
    advice = [each.advice for each in examined(federation) if each.check == "serving"]
    assert advice == [f"{start} --coordinator HOST:PORT`, or start its service"]
    federation.north.address.write_text("localhost:1\n")
    advice = [each.advice for each in examined(federation, None) if each.check == "serving"]
    assert advice == [f"{start}`, or start its service"]


def older_file(federation):
    shutil.copy(federation.ledger, federation.ledger.with_suffix(".old"))
    federation.drive(answers=12)
    federation.ledger.with_suffix(".old").replace(federation.ledger)


def lost_key(federation):
    """One payment's key is gone from the ledger: it could be paid for twice, or not at all."""
    federation.drive(answers=12)
    with closing(sqlite3.connect(federation.ledger, isolation_level=None)) as ledger:
        ledger.execute("DELETE FROM keys WHERE round = 1")


def changed_table(federation):
    table = federation.rehearsal.place / "north.csv"
    table.write_text(table.read_text().replace("73.125", "61.5"))


def broken_table(federation):
    table = federation.rehearsal.place / "north.csv"
    table.write_text(table.read_text().replace("73.125", "secret"))


def other_schema(federation):
    schema = json.loads(federation.north.schema.read_text())
    schema["columns"][0]["upper"] = 130
    federation.north.schema.write_text(json.dumps(schema))


def small_budget(federation):
    from dpadmm.privacy.ledger import Budget, Ledger

    with Ledger.open(federation.ledger) as ledger:
        ledger.set_budget(Budget(epsilon=0.5, delta=1e-5), reason="a test")


def forbidden_method(federation):
    policy = federation.north.policy
    policy.write_text(policy.read_text().replace('"p-admm", ', ""))


def rewritten(name, text):
    return lambda federation: (federation.north.directory / name).write_text(text)


FAULTS = {
    "key": (lambda f: f.north.key.chmod(0o644), "can be read by others; run chmod 600"),
    "files": (lambda f: f.ledger.chmod(0o644), "others can read rehearsal.db"),
    "policy": (rewritten("policy.toml", "name = 3"), "is not a usable policy"),
    "state": (rewritten("rehearsal.db", "nothing"), "not a ledger"),
    "table": (changed_table, "The ledger belongs to other data"),
    "table ": (broken_table, "age"),
    "table  ": (lambda f: (f.rehearsal.place / "north.csv").unlink(), "north.csv"),
    "schema": (other_schema, "rehearsal: the terms name a different schema"),
    "schema ": (lambda f: f.north.schema.write_text("{}"), "schema"),
    "state ": (older_file, "it is an older copy"),
    "state  ": (lost_key, "the table of keys does not match the entries"),
    "budget": (small_budget, "run 'rehearsal' does not fit"),
    "runs": (forbidden_method, "'rehearsal' would be refused: north does not allow the method"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_by_name_and_no_cell_is_shown(federation, fault):
    make, command = FAULTS[fault]
    make(federation)
    checks = examined(federation)
    assert has_problem(checks)
    problems = [each.text for each in checks if each.check == fault.strip() and each.level is Level.PROBLEM]
    assert any(command in each for each in problems), [(each.check, each.text) for each in checks]
    assert not any(cell in json.dumps([each.as_json() for each in checks]) for cell in ("73.125", "61.5", "secret"))


def test_the_text_of_errors_that_are_not_ours_is_not_shown(federation, monkeypatch):
    def stumbles(*_):
        raise ValueError("could not convert 73.125")

    monkeypatch.setattr("dpadmm.federation.admin.doctor.policy_records", stumbles)
    checks = examined(federation)
    assert worst(checks, "table") == "ValueError, whose text may quote a record"
    assert "73.125" not in str(checks)


def test_files_of_another_user(federation, monkeypatch):
    original = doctor._owner
    monkeypatch.setattr(doctor, "_owner", lambda path: 12345 if path.name == "rehearsal.db" else original(path))
    assert "rehearsal.db" in worst(examined(federation), "files")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_a_directory_of_another_user(federation):
    for path in (federation.north.directory, *federation.north.directory.iterdir()):
        os.chown(path, 65534, 65534)
    assert "but this is root" in worst(examined(federation), "files")


@pytest.mark.parametrize(("free", "health"), [(10_000, Level.PROBLEM), (50e6, Level.WARNING), (50e9, Level.OK)])
def test_the_disk_must_last_for_the_rounds_that_are_due(federation, monkeypatch, free, health):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    ((reported, command),) = found(examined(federation), "disk")
    assert reported is health
    assert f"about {free // 5000:,.0f} rounds" in command


def test_a_directory_that_cannot_be_written(federation, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    assert "No space left on device" in worst(examined(federation), "writing")


def test_who_serves(federation):
    with exclusive_lock(federation.north.lock, "This test"):
        assert worst(examined(federation), "serving") == "a process serves it, but reports no status"


@pytest.mark.parametrize(("reported", "health"), [("yes", Level.OK), ("no", Level.WARNING), ("", None)])
def test_the_time_service_of_the_system(monkeypatch, reported, health):
    monkeypatch.undo()
    monkeypatch.setattr("subprocess.run", lambda *_, **__: SimpleNamespace(stdout=f"{reported}\n"))
    assert [each.level for each in doctor.check_time_service()] == ([] if health is None else [health])


def test_nobody_listens(federation):
    checks = examined(federation, f"127.0.0.1:{free_port()}")
    assert "nothing listens on 127.0.0.1" in worst(checks, "port")
    assert not found(checks, "TLS")


def test_a_name_that_nobody_knows(federation):
    checks = examined(federation, "nowhere.invalid:9092")
    assert "nowhere.invalid cannot be resolved here" in worst(checks, "name")
    assert not found(checks, "port")


@contextlib.contextmanager
def answering(say):
    """Somebody else on a port, who answers every connection with some bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def work():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(4096)
                        connection.sendall(say)

        threading.Thread(target=work, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_somebody_without_tls(federation):
    with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") as address:
        checks = examined(federation, address)
    assert "does not speak TLS" in worst(checks, "TLS")
    assert [health for health, _ in found(checks, "port")] == [Level.OK]


def test_another_coordinator_or_a_proxy_that_opens_tls(federation, tmp_path):
    other = CoordinatorFiles(tmp_path / "other")
    other.create()
    port = free_port()
    with serve_in_thread(other, port):
        checks = examined(federation, f"127.0.0.1:{port}")
    assert worst(checks, "TLS") == "the server there is not the coordinator of any approved terms"


class Refusing(socketserver.StreamRequestHandler):
    """A proxy that lets nobody through."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of the loopback")
@pytest.mark.parametrize("kind", [Proxy, Refusing, None])
def test_a_proxy_of_the_environment(federation, monkeypatch, kind):
    far = free_port("127.0.0.2")
    with ExitStack() as ends:
        ends.enter_context(serve_coordinator(federation.rehearsal.coordinator, "127.0.0.2", far))
        port = free_port()
        if kind is not None:
            proxy = ends.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", port), kind))
            ends.callback(proxy.shutdown)
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:word@127.0.0.1:{port}")
        checks = examined(federation, f"127.0.0.2:{far}")
    assert found(checks, "proxy")[0] == (Level.OK, f"connects through 127.0.0.1, port {port}, as HTTPS_PROXY says")
    if kind is Proxy:
        assert not has_problem(checks)
        assert "no open run with this silo's key yet" in found(checks, "HTTP")[0][1]
    elif kind is Refusing:
        assert worst(checks, "proxy") == "it does not let the connection through: 403 Forbidden"
    else:
        assert worst(checks, "port") == f"nothing listens on 127.0.0.1, port {port}"
    assert "word" not in " ".join(each.text for each in checks if each.check in ("proxy", "port", "TLS", "HTTP"))


def test_without_approved_terms_nobody_can_tell_who_it_is(federation, tmp_path):
    with open_store(federation.north, NoiseOrigin.TEST) as store:
        store._write("DELETE FROM run")
    with federation.served() as (_, address):
        checks = examined(federation, address)
    assert not has_problem(checks)
    assert "only approved terms show who runs it" in worst(checks, "TLS")


@pytest.mark.parametrize("host", ["127.0.0.1", "LocalHost"])
def test_the_right_coordinator_without_a_run_is_fine(federation, host):
    with federation.served() as (_, address):
        checks = examined(federation, address.replace("127.0.0.1", host))
        assert not has_problem(checks)
        assert not found(checks, "proxy")
        assert len(found(checks, "name")) == (host != "127.0.0.1")
        ((health, command),) = found(checks, "HTTP")
        assert health is Level.OK
        assert "no open run with this silo's key yet" in command


def test_the_right_coordinator_with_an_open_run(federation, waiting):
    federation.ask()
    with federation.served() as (service, address):
        waiting(lambda: service.status().joined)
        checks = examined(federation, address)
    assert not has_problem(checks)
    assert found(checks, "HTTP") == [(Level.OK, "the coordinator answers, and has an open run with this silo")]
    assert (Level.OK, "it agrees with the coordinator's") in found(checks, "clock")


def test_a_run_that_is_over_is_fine(federation, waiting):
    federation.ask()
    with federation.served() as (service, address):
        waiting(lambda: service.status().joined)
        box = service.queue._runs[0]
        box.close()
        ((health, command),) = found(examined(federation, address), "HTTP")
    assert health is Level.OK
    assert "it has no open run with this silo now" in command


def test_clocks_that_differ(federation, waiting, monkeypatch):
    federation.ask()
    monkeypatch.setattr("dpadmm.federation.https.server.formatdate", lambda **_: formatdate(1e9, usegmt=True))
    with federation.served() as (service, address):
        waiting(lambda: service.status().joined)
        checks = examined(federation, address)
    assert "s ahead of the coordinator's" in worst(checks, "clock")


class Later(datetime):
    """A clock that is some days off."""

    days = 0

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=cls.days)


@pytest.mark.parametrize(
    ("days", "check", "command"),
    [
        (5, "HTTP", "by its clock this silo's certificate is not valid"),
        (5, "clock", "this clock is at least 4 days ahead of the coordinator's"),
        (-1.5, "clock", "this clock is at least 1 day behind the coordinator's"),
    ],
)
def test_a_clock_that_is_days_off(federation, waiting, monkeypatch, days, check, command):
    """It is read off the coordinator's certificate, where it hangs up and tells no time."""
    federation.ask()
    with federation.served() as (service, address):
        waiting(lambda: service.status().joined)
        monkeypatch.setattr(Later, "days", days)
        monkeypatch.setattr(tls, "datetime", Later)
        monkeypatch.setattr(doctor, "datetime", Later)
        assert command in worst(examined(federation, address), check)


def test_a_coordinator_whose_certificate_is_not_valid_yet_by_this_clock(federation, monkeypatch):
    monkeypatch.setattr(Later, "days", 5)
    monkeypatch.setattr(tls, "datetime", Later)
    with federation.served() as (_, address):
        monkeypatch.setattr(Later, "days", 0)
        checks = examined(federation, address)
    assert "not valid by this machine's clock" in worst(checks, "TLS")


def test_a_silo_that_waits_for_requests_is_not_disturbed(federation, waiting):
    """Its wait goes on, its connection stays, its certificate's file is the same, and it gets its next letter."""
    from dpadmm.federation.https.client import Address, SiloClient, open_client
    from dpadmm.federation.silo import Silo

    federation.ask()
    with federation.served() as (service, address), closing(Silo(federation.north.directory)) as silo:
        waiting(lambda: service.status().joined)
        line, key = SiloClient(silo, address, federation.patience), silo.public_key
        with open_client(
            Address.parse(address), silo.key, silo.files.certificate, [federation.rehearsal.terms.coordinator]
        ) as client:
            line.exchange(client)  # joins
            envelopes = []
            waiter = threading.Thread(target=lambda: envelopes.append(client.get("/next").content), daemon=True)
            waiter.start()
            waiting(lambda: key in service.queue._polls)
            poll, certificate = service.queue._polls[key], federation.north.certificate.read_bytes()
            checks = examined(federation, address)
            assert not has_problem(checks)
            assert found(checks, "HTTP") == [(Level.OK, "the coordinator answers, and has an open run with this silo")]
            assert service.queue._polls[key] is poll
            assert not poll.done()
            assert federation.north.certificate.read_bytes() == certificate
            service.queue._runs[0].send(key, silo.key.seal(b"a letter"))
            waiter.join(120)
            assert envelopes == [silo.key.seal(b"a letter")]


def test_a_coordinator_that_is_well(federation, waiting):
    federation.drive(answers=12)
    with federation.served() as (_, address):
        waiting(federation.rehearsal.coordinator.status.exists)
        checks = examine_coordinator(federation.rehearsal.coordinator.directory)
        assert [each.level for each in checks] == [Level.OK] * len(checks)
        port = address.rpartition(":")[2]
        assert found(checks, "port") == [(Level.OK, f"127.0.0.1, port {port} answers with this coordinator's key")]
    checks = examine_coordinator(federation.rehearsal.coordinator.directory)
    assert not has_problem(checks)
    assert worst(checks, "serving") == "no process serves this directory now"


def test_a_coordinator_with_a_damaged_file_and_an_open_key(federation):
    federation.drive()
    federation.file.write_bytes(b"nothing")
    (federation.rehearsal.coordinator.directory / "coordinator.key").chmod(0o644)
    checks = examine_coordinator(federation.rehearsal.coordinator.directory)
    assert "cannot be used" in worst(checks, "runs")
    assert "can be read by others" in worst(checks, "key")
