"""Damaged files of silos and coordinators: read, or refused in one sentence that quotes no cell of the table."""

import json
import sqlite3
from contextlib import closing

import pytest
from tests.contracts import damage

from dpadmm.errors import InputError
from dpadmm.federation.admin.status import coordinator_status, silo_status
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.https.processes import CoordinatorProcess, SiloProcess, read_status
from dpadmm.federation.keys import SigningKey
from dpadmm.federation.policy import Policy, SiloEntry
from dpadmm.federation.silo import Silo
from dpadmm.federation.studies import Invitation
from dpadmm.federation.terms import read_federation, stored_terms, write_federation

CELL = "73.125"
NUMBER = [25, pytest.param(500, marks=pytest.mark.slow)]
STATUS = {
    "pid": 1,
    "started": "2026-01-01T00:00:00+00:00",
    "host": "127.0.0.1",
    "port": 5,
    "connected": ["k"],
    "seen": {"k": "2026-01-01T00:00:00+00:00"},
    "joined": {"x": ["a"]},
}


def checked(load, path, number, *kinds, least=0.5):
    """Damage a file and load it; at the end it is as it was, and loads."""
    content = path.read_bytes()
    refused = damage.check(load, path, damage.attempts(1, number, content, *kinds), secret=CELL)
    assert refused > least * number or not least
    load(damage.written(path, content))


@pytest.mark.parametrize("number", NUMBER)
def test_policies(federation, number):
    checked(Policy.load, federation.north.policy, number, damage.of_toml, damage.of_bytes)


@pytest.mark.parametrize("number", NUMBER)
def test_terms(federation, tmp_path, number):
    path = tmp_path / "federation.toml"
    write_federation(path, federation.rehearsal.terms)
    checked(read_federation, path, number, damage.of_toml, damage.of_bytes)
    path.write_text(federation.rehearsal.terms.as_json())
    checked(lambda path: stored_terms(path.read_bytes().decode(errors="replace")), path, number, damage.of_json)


@pytest.mark.parametrize("number", NUMBER)
def test_entries_and_keys(federation, tmp_path, number):
    with closing(Silo(federation.north.directory)) as silo:
        silo.entry().save(tmp_path / "silo.entry")
    checked(SiloEntry.load, tmp_path / "silo.entry", number, damage.of_toml, damage.of_bytes)
    checked(SigningKey.load, federation.north.key, number, damage.of_bytes)


@pytest.mark.parametrize("number", NUMBER)
def test_invitations(federation, tmp_path, number):
    path = tmp_path / "north.invite"
    Invitation(
        study="one",
        silo="north",
        address="127.0.0.1:9092",
        coordinator="ab" * 32,
        schema=federation.north.schema.read_text(),
        epsilon=1.0,
        delta=1e-6,
        secret=SigningKey.new().secret,
    ).save(path)

    def load(path):
        found = Invitation.load(path)
        assert found.target, found.protection
        assert found.table, found.key

    checked(load, path, number, damage.of_toml, damage.of_bytes)


@pytest.mark.parametrize("number", NUMBER)
def test_status(tmp_path, number):
    path = tmp_path / "file"
    path.write_text(json.dumps(STATUS))
    for kind in (SiloProcess, CoordinatorProcess):  # None where a process tells nothing that can be read
        checked(lambda path, kind=kind: read_status(path, kind), path, number, damage.of_json, damage.of_bytes, least=0)


def at_rest(path):
    """Take the side files of an earlier copy away, and let the file be whole without them."""
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("kind", [damage.of_cells, damage.of_bytes])
def test_state_files(federation, kind, number):
    federation.drive(5)

    def load(path):
        at_rest(path)
        silo_status(federation.north.directory)
        with closing(Silo(federation.north.directory)) as silo:
            silo.store.log()
            silo.store.rounds()
            for terms in silo.store.all_terms():
                silo.store.joined(terms.digest)
                silo.store.last(terms.digest)

    checked(load, federation.ledger, number, kind, least=0.2)


@pytest.mark.parametrize("number", NUMBER)
@pytest.mark.parametrize("kind", [damage.of_cells, damage.of_bytes])
def test_a_coordinators_file(federation, kind, number):
    federation.drive(5)

    def load(path):
        at_rest(path)
        coordinator_status(federation.rehearsal.coordinator.directory)
        with closing(open_run(federation.rehearsal.coordinator, federation.rehearsal.terms)) as run:
            run.progress()
            run.estimates()
            run.stored.state()
            run.stored.logged()

    rest_in_one_file(federation.file)
    checked(load, federation.file, number, kind, least=0.2)


def rest_in_one_file(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


@pytest.mark.parametrize(
    ("name", "value"), [("data", "5"), ("methods", "5"), ("coordinators", "5"), ("name", "[]"), ("schema", "5")]
)
def test_a_policy_with_a_value_of_another_kind(federation, name, value):
    lines = federation.north.policy.read_text().splitlines()
    changed = [f"{name} = {value}" if line.startswith(f"{name} =") else line for line in lines]
    federation.north.policy.write_text("\n".join(changed))
    with pytest.raises(InputError, match=rf"policy.toml is not a usable policy: it\.{name} must be"):
        Policy.load(federation.north.policy)


@pytest.mark.parametrize("text", ["participants = 5", "participants = [5]", "graph = 'ring'\nparticipants = 5"])
def test_terms_with_participants_of_another_kind(tmp_path, text):
    path = tmp_path / "federation.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"federation.toml"):
        read_federation(path)
