"""`dpadmm silo new-data`, `silo rotate-key` and `coordinator rotate-key`: what they pass on and say.

What they do to keys, ledgers and runs is tested in tests/federation/admin.
"""

import re

import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from tests.cli.conftest import approve, without_keys

from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.keys import SigningKey
from dpadmm.federation.messages import Join
from dpadmm.federation.party_directory import exclusive_lock
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory


@pytest.fixture
def joined(cli, place, terms):
    """North has approved a run and joined it; a later table of north has one more row."""
    assert approve(cli, terms).exit_code == 0
    silo = Silo(place / "north")
    silo.answer(CoordinatorFiles(place / "coordinator").key().seal(Join(terms).encode()))
    silo.close()
    (place / "later.csv").write_text((place / "north.csv").read_text() + ",3,1\n")


NEW_DATA = ("silo", "new-data", "north", "--data", "later.csv")
ROTATE = ("silo", "rotate-key", "north")


def test_new_data(cli, place, joined, snapshot):
    """Cells are read as before unless something else is said, and a run under way must be given up by name."""
    assert cli.run(*NEW_DATA).exit_code == 2
    assert "Unfinished runs: 'trial'" in cli.run(*NEW_DATA, "--missing", "fill").stderr
    done = cli.run(*NEW_DATA, "--missing", "fill", "--abandon")
    snapshot("terminal/new-data.txt", without_keys(f"{done.stderr}\n{done.stdout}"))
    assert SiloEntry.load(place / "north" / "silo.entry").records == 41
    policy = Policy.load(place / "north" / "policy.toml")
    assert (policy.data, policy.screening.missing) == (str(place / "later.csv"), "fill")
    assert "version 2" in cli.run(*NEW_DATA).stdout


@pytest.mark.parametrize("args", [NEW_DATA, ROTATE], ids=["data", "key"])
def test_a_silo_that_serves_is_left_alone(cli, place, joined, args):
    before = (place / "north" / "silo.key").read_bytes()
    with exclusive_lock(SiloDirectory(place / "north").lock, "test"):
        assert "already running" in cli.run(*args).stderr
    assert (place / "north" / "silo.key").read_bytes() == before


def test_a_new_key_and_what_to_do_next(cli, place, terms, snapshot):
    approve(cli, terms)
    done = cli.run(*ROTATE)
    snapshot("terminal/rotate-key.txt", without_keys(done.stdout))
    key = SigningKey.load(place / "north" / "silo.key").public
    assert f'key = "{key}"' in done.stdout
    assert key != terms.participants[0].key
    kept = re.search(r"The old key is kept in (\S+),", done.stdout)[1]
    assert SigningKey.load(place / kept).public == terms.participants[0].key
    assert SiloEntry.load(place / "north" / "silo.entry").key == key
    assert approve(cli, terms).exit_code == 2


def test_a_key_may_be_forgotten_and_runs_given_up(cli, place, joined):
    assert "Unfinished runs" in cli.run(*ROTATE).stderr
    done = cli.run(*ROTATE, "--forget", "--abandon")
    assert "is destroyed" in done.stdout
    assert "Ended for good: 'trial'." in done.stdout
    assert not list((place / "north").glob("silo-*.key"))


def test_a_coordinators_new_key(cli, place, terms):
    files, args = CoordinatorFiles(place / "coordinator"), ("coordinator", "rotate-key", "coordinator")
    with exclusive_lock(files.lock, "test"):
        assert "already running" in cli.run(*args).stderr
    open_run(files, terms).close()
    assert "Unfinished runs: 'trial'" in cli.run(*args).stderr
    done = cli.run(*args, "--abandon")
    assert f'coordinator = "{files.key().public}"' in done.stdout
    assert files.key().public != terms.coordinator
    assert approve(cli, terms).exit_code == 0
    stopped = cli.run("federate", "run", "federation.toml", "--coordinator", "coordinator", "--schema", "schema.json")
    assert (stopped.exit_code, "key has changed" in stopped.stderr) == (2, True)
