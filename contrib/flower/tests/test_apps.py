"""What the two apps refuse, what they tell outside, and what a SuperNode's memory is good for."""

import ast
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[flower]")

from flwr.app import ConfigRecord, Message, RecordDict

import dpadmm_flower as flower
from dpadmm.errors import InputError
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_loop import drive
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.errors import FederationStopped
from dpadmm.federation.https.service import request_run
from dpadmm.federation.party_directory import exclusive_lock
from dpadmm.federation.silo import Silo
from dpadmm.federation.terms import write_federation
from dpadmm_flower import server
from dpadmm_flower.transport import ASKED, FlowerTransport, content

pytestmark = pytest.mark.usefixtures("task")
PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp"}


def test_only_public_names_of_flower_are_imported():
    """Modules by whole names, and nothing from them that begins with an underscore."""
    found = set()
    for path in Path(flower.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not [each for each in node.names if each.name.split(".")[0] == "flwr"], path
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
                found.add(node.module)
                assert not [each for each in node.names if each.name.startswith("_")], path
    assert found == PUBLIC


# --- the ClientApp ---------------------------------------------------------------------------------------------------


@pytest.fixture
def nodes(grids, world):
    """A SuperNode for each silo of a world."""
    return grids.SuperNodes(*(world.place / name for name in world.silos))


def asked(nodes, carried: RecordDict | bytes, number: int = 100) -> Message:
    """Return what a SuperNode replies to some content, or to an envelope."""
    made = content(carried) if isinstance(carried, bytes) else carried
    return nodes.answered(Message(made, number, ASKED))


def refused(reply: Message) -> bool:
    """Say whether a SuperNode has failed; what it tells outside is the same for every failure."""
    assert not reply.has_error() or "SuperNode" in reply.error.reason
    return reply.has_error()


def test_no_text_of_an_exception_leaves(nodes, monkeypatch, caplog):
    """Flower would send it: it may quote a record."""

    def stumble(silo, envelope):
        raise ValueError("the cell is 17.3")

    monkeypatch.setattr(Silo, "answer", stumble)
    reply = asked(nodes, b"x" * 100)
    assert refused(reply)
    assert "17.3" not in reply.error.reason + caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.parametrize("kind", [sqlite3.OperationalError, InputError])
def test_the_owner_reads_why_a_machine_has_failed(nodes, monkeypatch, caplog, kind):
    def fail(silo, envelope):
        raise kind("the disk is full")

    monkeypatch.setattr(Silo, "answer", fail)
    assert refused(asked(nodes, b"x" * 100))
    assert "the disk is full" in caplog.text


@pytest.mark.parametrize(
    ("config", "args"),
    [
        ({}, "names no silo"),
        ({"silo": 3}, "names no silo"),
        ({"silo": "/no/such/place"}, "no silo's directory"),
    ],
    ids=["none", "a number", "elsewhere"],
)
def test_a_supernode_that_names_no_silo(nodes, caplog, config, args):
    nodes.contexts[100].node_config = config
    assert refused(asked(nodes, b"x" * 100))
    assert args in caplog.text


@pytest.mark.parametrize("record", [{}, {"envelope": "text"}], ids=["nothing", "text"])
def test_messages_of_other_apps(nodes, caplog, record):
    for made in (RecordDict(), RecordDict({"dpadmm": ConfigRecord(record)})):
        assert refused(asked(nodes, made))
    assert caplog.text.count("no envelope") == 2


def test_a_silo_that_another_process_serves(nodes, world, caplog):
    with exclusive_lock(world.first.files.lock, "This silo"):
        assert refused(asked(nodes, world.invite()))
    assert "already running" in caplog.text
    assert not refused(asked(nodes, world.invite()))


def test_a_directory_put_back_under_a_running_supernode_is_refused(nodes, world, calm, caplog):
    """The SuperNode's memory says that others have confirmed; it also knows the head of the ledger."""
    run, place = world.coordinator(), world.place / "s0"
    transport, kept = FlowerTransport(nodes, run.invitation, tuple(world.keys)), world.place / "kept"

    def receive(original=transport.receive):
        """Answer three rounds, put back what was there after two, and ask for the third once more."""
        if run.round == 2 and not kept.exists():
            world.first.close()
            shutil.copytree(place, kept)
        if run.round == 3:
            raise KeyboardInterrupt
        return original()

    transport.receive = receive
    with pytest.raises(KeyboardInterrupt):
        drive(run, transport, lambda: 0.0)
    third = run._step(0, 3)
    shutil.rmtree(place)
    kept.rename(place)
    assert refused(asked(nodes, world.key.seal(third.encode())))
    assert "older copy" in caplog.text


# --- the ServerApp ---------------------------------------------------------------------------------------------------


@pytest.fixture
def place(world):
    """The coordinator of a world in a directory of its own, and the terms in a file."""
    files = CoordinatorFiles(world.place / "coordinator")
    files.create(world.key)
    write_federation(world.place / "federation.toml", world.terms)
    return files


def configured(world, **change: str) -> SimpleNamespace:
    """Return the context of a run."""
    usual = {"coordinator": str(world.place / "coordinator"), "federation": str(world.place / "federation.toml")}
    return SimpleNamespace(run_config=usual | change)


def test_a_run_is_driven_to_its_end_and_read_without_anybody_who_serves(nodes, world, place, calm, capsys):
    server.app(nodes, configured(world))
    assert request_run(place, world.terms, away_seconds=0.0).estimate.tolist() == calm[-1]
    said = capsys.readouterr().err
    assert "s0 has joined" in said
    assert f"round 4 of {world.terms.rounds} is complete" in said


def test_a_coordinator_that_is_served_already(nodes, world, place):
    with (
        exclusive_lock(place.lock, "The coordinator of this directory"),
        pytest.raises(InputError, match="is already running"),
    ):
        server.app(nodes, configured(world))


def test_why_a_run_has_stopped_is_shown_to_flower_and_written_down_and_it_goes_on(nodes, world, place, calm):
    policy = world.first.files.policy
    rules = policy.read_text()
    policy.write_text(rules.replace("least_noise = 0.0", "least_noise = 1e9"))
    with pytest.raises(FederationStopped, match="s0 refuses"):
        server.app(nodes, configured(world))
    with closing(open_run(place, world.terms)) as run:
        assert "s0 refuses" in run.stored.state()[1]
    policy.write_text(rules)
    server.app(nodes, configured(world))
    assert request_run(place, world.terms, away_seconds=0.0).estimate.tolist() == calm[-1]


@pytest.mark.parametrize("name", ["coordinator", "federation"])
@pytest.mark.parametrize("path", ["", "here"])
def test_paths_must_be_absolute(nodes, world, place, name, path):
    with pytest.raises(InputError, match=f"{name!r} as an absolute path"):
        server.app(nodes, configured(world, **{name: path}))


def test_a_directory_that_is_no_coordinators(nodes, world, place):
    with pytest.raises(InputError, match="a silo's directory"):
        server.app(nodes, configured(world, coordinator=str(world.place / "s0")))
