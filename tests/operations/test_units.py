"""Units for systemd: words that it reads back as they were, and a program that starts by them."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.engines.https.processes import Process
from dpadmm.errors import InputError
from dpadmm.operations import units
from dpadmm.operations.units import coordinator_unit, quoted, silo_unit

NOWHERE = "127.0.0.1:9"


def settings(text: str) -> dict[str, list[str]]:
    """The values of each setting of a unit, comments left out."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def words(value: str) -> list[str]:
    """A command as systemd splits and expands it: its quotes and backslashes are a shell's."""
    return [
        re.sub(r"\$(\$|\w+)", lambda found: "$" * (found[1] == "$"), specified(word)) for word in shlex.split(value)
    ]


def specified(word: str) -> str:
    """A word once specifiers are expanded: `%%` is a percent, any other stands for something else."""
    return re.sub("%(.)", lambda found: "%" if found[1] == "%" else f"<{found[1]}>", word)


@pytest.fixture
def awkward(federation, tmp_path):
    """The silo north in a folder whose name needs quoting."""
    place = tmp_path / 'the 100% "clinic" of $HOME'
    shutil.move(federation.north.directory, place)
    return place


def test_what_a_silo_may_do_and_no_more(federation):
    unit = silo_unit(federation.north.directory, "federation.example.org:9092")
    told = settings(unit.text)
    assert unit.name == "dpadmm-silo-north"
    assert words(told["ExecStart"][0])[1:] == [
        "silo",
        "run",
        str(federation.north.directory),
        "--coordinator",
        "federation.example.org:9092",
    ]
    assert Path(words(told["ExecStart"][0])[0]).is_absolute()
    assert told["ReadWritePaths"] == [str(federation.north.directory)]
    assert told["ReadOnlyPaths"] == [f"-{federation.rehearsal.place / 'north.csv'}"]
    assert told["ProtectSystem"] == ["strict"]
    assert told["CapabilityBoundingSet"] == [""]
    assert "AmbientCapabilities" not in told
    assert "MemoryMax" not in told
    assert told["After"] == ["network-online.target time-sync.target"]


def test_it_runs_as_the_owner_of_the_directory(federation, monkeypatch):
    monkeypatch.setattr(units, "user_name", lambda number: {os.geteuid(): "clinic"}[number])
    assert settings(silo_unit(federation.north.directory, NOWHERE).text)["User"] == ["clinic"]
    monkeypatch.setattr(units, "user_name", lambda _: "root")
    assert any("runs as root" in hint for hint in silo_unit(federation.north.directory, NOWHERE).hints)


@pytest.mark.parametrize(("port", "right"), [(9092, ""), (443, "CAP_NET_BIND_SERVICE")])
def test_a_coordinator_may_have_a_low_port(federation, port, right):
    told = settings(coordinator_unit(federation.rehearsal.coordinator.directory, "0.0.0.0", port).text)
    assert words(told["ExecStart"][0])[-4:] == ["--host", "0.0.0.0", "--port", str(port)]
    assert told["CapabilityBoundingSet"] == [right]
    assert told.get("AmbientCapabilities", [""]) == [right]


@pytest.mark.parametrize(
    ("place", "home", "temporary"),
    [
        ("/srv", "yes", "yes"),
        (str(units._HOMES[0] / "x"), "read-only", "yes"),
        ("/var/tmp/x", "yes", "no"),
        ("/homestead", "yes", "yes"),
    ],
)
def test_what_it_must_see_is_not_hidden(federation, monkeypatch, place, home, temporary):
    monkeypatch.setattr(units, "_installed", lambda: [Path(place, "bin", "python")])
    monkeypatch.setattr(units, "_TEMPORARY", tuple(path for path in units._TEMPORARY if path != Path("/tmp")))
    told = settings(silo_unit(federation.north.directory, NOWHERE).text)
    assert (told["ProtectHome"], told["PrivateTmp"]) == ([home], [temporary])


def test_a_proxy_of_this_terminal_is_not_the_services(federation, monkeypatch):
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    before = silo_unit(federation.north.directory, NOWHERE).hints
    monkeypatch.setenv("HTTPS_PROXY", "http://user:word@proxy:3128")
    unit = silo_unit(federation.north.directory, NOWHERE)
    assert len(unit.hints) == len(before) + 1
    assert not any("word" in text for text in (unit.text, *unit.hints))


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1).map(str.strip).filter(bool))
def test_words_come_back_as_they_were(text):
    if text.endswith("\\"):
        return
    assert list(map(specified, shlex.split(quoted(text)))) == [text]


@pytest.mark.parametrize("text", ["a\nb", " a", "a\\", "a\x1bb"])
def test_what_no_unit_can_hold_is_refused(text):
    with pytest.raises(InputError, match="rename it"):
        quoted(text)


def complaints(place: Path, text: str) -> list[str]:
    """What systemd says of a unit; of others on this machine it may say more."""
    place.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", place], capture_output=True, text=True, timeout=60)
    return [line for line in (done.stdout + done.stderr).splitlines() if place.name in line]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_it(awkward, federation, tmp_path, monkeypatch):
    """Paths with blanks, quotes, percent and dollar signs included; it complains of what it does not understand."""
    program = tmp_path / "my programs" / "dpadmm"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(units, "program", lambda: [str(program)])
    for unit in (
        silo_unit(awkward, NOWHERE),
        coordinator_unit(federation.rehearsal.coordinator.directory, "0.0.0.0", 443),
    ):
        assert complaints(tmp_path / f"{unit.name}.service", unit.text) == []
        wrong = unit.text.replace("ProtectSystem=strict", "ProtectSystem=perhaps")
        assert len(complaints(tmp_path / f"{unit.name}.service", wrong)) == 1


def test_awkward_paths_come_back(awkward):
    told = settings(silo_unit(awkward, NOWHERE).text)
    assert words(told["ExecStart"][0])[3] == str(awkward)
    assert specified(told["WorkingDirectory"][0]) == str(awkward)
    assert list(map(specified, shlex.split(told["ReadWritePaths"][0]))) == [str(awkward)]


def test_the_program_starts_by_it(awkward, tmp_path):
    """With nothing but the unit's environment, no home, and its own folder for compiled code; SIGTERM ends it well."""
    told = settings(silo_unit(awkward, NOWHERE).text)
    cache = tmp_path / "cache"
    cache.mkdir()
    (name, _, value) = shlex.split(told["Environment"][0])[0].partition("=")
    assert (name, value, told["CacheDirectory"]) == ("NUMBA_CACHE_DIR", "%C/%N", ["%N"])
    clean = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", name: str(cache)}
    if "PYTHONPATH" in os.environ:  # where the tests' own sources are
        clean["PYTHONPATH"] = os.environ["PYTHONPATH"]
    command = ["/usr/bin/env", "-i", *(f"{key}={word}" for key, word in clean.items()), *words(told["ExecStart"][0])]
    process = Process.start(command, tmp_path / "log")
    with closing(process._file):
        from dpadmm.operations.rehearsal import wait_until

        wait_until(lambda: "the coordinator cannot be reached" in process.tail(), 60.0, "the silo to dial")
        process.popen.send_signal(getattr(signal, told["KillSignal"][0]))
        assert process.popen.wait(120) == 0
    assert "silo 'north' ends" in process.tail()


def test_the_program_is_found_where_it_is_installed(monkeypatch, tmp_path):
    assert units.program() == [str(Path(sys.executable).with_name("dpadmm"))]
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert units.program() == [str(tmp_path / "python"), "-m", "dpadmm"]
