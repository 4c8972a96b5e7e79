"""`status` and `doctor` as commands: what is printed where, how wide, and how they end."""

import json
import os
import pty
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.cli import terminal
from dpadmm.cli.main import app
from dpadmm.data.reading import read_file
from dpadmm.data.schema import Schema
from dpadmm.federation.admin.rehearsal import p_admm_terms, prepare_rehearsal, rehearsal_policy, wait_until
from dpadmm.federation.https.service import free_port

RUN_KEYS = "run digest method round rounds delta state spent_epsilon epsilon reason seconds_per_round silos"
PROCESS_KEYS = "pid started coordinator is_connected connection since skew_seconds answered"
KEYS = {
    "silo status": "command name directory noise is_serving process budget data runs refusals",
    "coordinator status": "command directory is_serving process runs",
    "silo doctor": "command directory has_problem checks",
    "coordinator doctor": "command directory has_problem checks",
}


PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def keys_of(told):
    """All keys within a JSON value."""
    inside = told.values() if isinstance(told, dict) else told if isinstance(told, list) else ()
    return {*(told if isinstance(told, dict) else ()), *(key for each in inside for key in keys_of(each))}


@pytest.fixture
def federation(place):
    """A coordinator and the silos north and south, which have approved three rounds with test noise."""
    tables = {name: read_file(place / f"{name}.csv").frame for name in ("north", "south")}
    schema = Schema.load("schema.json")
    return prepare_rehearsal(place, tables, schema, p_admm_terms(schema, 3, 1.0), rehearsal_policy, (2.0, 1e-5))


def narrow(*words):
    """Return what a command prints in a terminal of 80 columns."""
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "80", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    return " ".join(result.stdout.split())


@pytest.mark.parametrize("words", KEYS)
def test_the_keys_of_json_stay(federation, cli, words):
    what, command = words.split()
    result = cli.run(what, command, "coordinator" if what == "coordinator" else "north", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert sorted(told) == sorted(KEYS[words].split())
    assert all(f"`{key}`" in PAGE.read_text() for key in keys_of(told))
    if words == "silo status":
        assert set(told["runs"][0]) == set(RUN_KEYS.split())
        assert told["runs"][0]["state"] == "approved"
    if command == "doctor":
        assert {"check", "level", "text", "advice"} == set(told["checks"][0])
        assert {each["level"] for each in told["checks"]} == {"ok", "warning"}


def test_a_federation_as_its_administrators_see_it(federation, programs, cli):
    """Serving, connected, awaited by name, joined, finished, stopped; while another process does it."""
    port = free_port()
    silo = ("--coordinator", f"127.0.0.1:{port}")
    assert "NO" in narrow("silo", "status", "north")
    served = programs.start("coordinator", "run", "coordinator", "--port", str(port))
    programs.wait(served, "listens on")
    north = programs.start("silo", "run", "north", *silo)
    programs.wait(north, "no open run or invitation has this key")
    watched = programs.start("federate", "federation.toml", "--coordinator", "coordinator")
    programs.wait(watched, "round 0/3; waiting for south; epsilon: north 0, south 0")

    told = narrow("coordinator", "status", "coordinator")
    assert f"on 127.0.0.1, port {port}" in told
    assert "north: connected, joined, epsilon 0" in told
    assert "south: away, has not joined, AWAITED, epsilon 0" in told
    wait_until(lambda: "connected to 127.0.0.1" in narrow("silo", "status", "north"), 20.0, "the silo's notice")
    told = cli.ask("silo", "status", "north")
    assert told["is_serving"]
    assert set(told["process"]) == set(PROCESS_KEYS.split())
    assert told["process"]["is_connected"]
    assert told["process"]["pid"] == north.popen.pid
    assert told["runs"][0]["state"] == "joined"
    assert "the coordinator answers, and has an open run" in narrow(
        "silo", "doctor", "north", "--coordinator", f"127.0.0.1:{port}"
    )

    programs.start("silo", "run", "south", *silo)
    programs.wait(watched, "Done after 3 rounds")
    assert "finished, p-admm, round 3 of 3; epsilon 1 of 1" in narrow("silo", "status", "north")
    assert "finished, p-admm, round 3 of 3" in narrow("coordinator", "status", "coordinator")
    assert programs.end(served, signal.SIGTERM) == 0
    assert "run 'rehearsal': round 3 of 3 is complete" in served.log.read_text()
    assert "NO; the last process was started" in narrow("coordinator", "status", "coordinator")


@pytest.mark.parametrize("words", [("silo", "status", "north"), ("coordinator", "status", "coordinator")])
def test_a_screen_that_is_watched_ends_with_ctrl_c(federation, programs, words):
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        programs.words(*words, "--watch"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while b"Serving" not in shown:
        shown += os.read(ours, 65536)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(120) == 0
    os.close(ours)


def test_the_doctors_exit_code_says_whether_anything_must_be_done(federation, cli):
    assert cli.run("silo", "doctor", "north").exit_code == 0
    assert cli.run("coordinator", "doctor", "coordinator").exit_code == 0
    Path("north/silo.key").chmod(0o644)
    result = cli.run("silo", "doctor", "north")
    assert result.exit_code == 1
    assert "PROBLEM" in result.stdout
    assert cli.run("silo", "doctor", "nowhere").exit_code == 2


def test_compiled_code_finds_a_private_place_where_nothing_can_be_written(monkeypatch):
    """As for a service's user without a home, of a program that root has installed."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    terminal._find_place_for_kernels()
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(os, "access", lambda *_: False)
    terminal._find_place_for_kernels()
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    terminal._find_place_for_kernels()
    assert os.environ["NUMBA_CACHE_DIR"] == str(place)
    place.rmdir()
