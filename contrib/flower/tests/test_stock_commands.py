"""Flower's own commands with real processes: the page as it is given, over TLS; a SuperNode that is killed."""

import shutil
from contextlib import closing

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[flower]")

from tests.contracts.in_memory import InMemory

from dpadmm.core.model import ReleasedModel
from dpadmm.federation.admin.rehearsal import p_admm_terms, prepare_rehearsal, rehearsal_policy
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_loop import drive
from dpadmm.federation.silo import Silo

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower")]

OPEN = ("flower-superlink", "--insecure", "--disable-runtime-dependency-installation", "--port")


@pytest.fixture
def federated(setups, tmp_path):
    """Return what makes a federation with a round 0 under `tmp_path`, ready to run, and its model in memory."""

    def make(names, rounds):
        tables = dict(zip(names, setups.tables((40, 30, 50)).values(), strict=False))
        build = p_admm_terms(setups.SCHEMA, rounds, 1.0, clip_radius=0.6, profile_share=0.2)
        made = prepare_rehearsal(tmp_path, tables, setups.SCHEMA, build, rehearsal_policy, (2.0, 1e-5))
        copy = shutil.copytree(tmp_path, tmp_path / "copy")
        silos = {name: Silo(copy / name) for name in names}
        with closing(open_run(type(made.coordinator)(copy / "coordinator"), made.terms)) as run:
            transport = InMemory({name: (lambda silo=silo: silo) for name, silo in silos.items()}, made.terms)
            drive(run, transport, transport.clock)
            calm = run.estimates().tolist()
        for silo in silos.values():
            silo.close()
        return made, calm

    return make


@pytest.fixture
def stock(stocks, tmp_path):
    """A folder for commands."""
    with stocks.stock(tmp_path) as made:
        yield made


def estimates(federation) -> list:
    with closing(open_run(federation.coordinator, federation.terms)) as run:
        assert run.is_done
        return run.estimates().tolist()


def test_the_page_over_tls_with_registered_supernodes(stocks, stock, federated):
    names = ("clinic", "north")
    federation, calm = federated(names, 1)
    stocks.write_certificates(stock.place)
    stock.configure()
    stock.superlink(*stock.args(stocks.page_command("flower-superlink")))
    for name in names:
        stocks.write_node_key(stock.place, name)
        stock.run(*stock.args(stocks.page_command("flwr supernode register"), name))
        stock.supernode(name, *stock.args(stocks.page_command("flower-supernode"), name))
    stock.run(*stock.args(stocks.page_command("flwr run")))
    assert estimates(federation) == calm
    said = stock.run(*stock.args(stocks.page_command("dpadmm federate")))
    assert "Done after 1 rounds" in said
    assert "<svg" in (stock.place / "report.html").read_text()
    assert len(ReleasedModel.load(stock.place / "model.json").coefficients) == federation.terms.dimension


def test_a_supernode_that_is_killed_and_started_again_changes_nothing(stock, federated):
    names = ("s0", "s1", "s2")
    federation, calm = federated(names, 2)
    stock.configure("insecure = true")
    stock.superlink(*OPEN, str(stock.port))
    near = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{stock.port}", "--node-config")
    for name in names:
        stock.supernode(name, *near, f"silo='{stock.place / name}'")
    config = f"coordinator='{federation.coordinator.directory}' federation='{stock.place / 'federation.toml'}'"
    stock.start("run", "flwr", "run", "dpadmm-flower", "federation", "--stream", "--run-config", config)
    stock.wait("run", "round 1 of 2 is complete")
    stock.kill("s1")
    stock.supernode("s1 again", *near, f"silo='{stock.place / 's1'}'")
    stock.started["run"].wait(600)
    # It joins, says that it is unsure, is vouched for, and answers: nothing was remembered.
    assert stock.log("s1 again").count("Receiving: query") >= 4
    assert estimates(federation) == calm


def test_a_supernode_that_trusts_signed_apps_alone_refuses_this_one(stock, federated):
    federation, _ = federated(("s0", "s1"), 1)
    stock.configure("insecure = true")
    stock.superlink(*OPEN, str(stock.port))
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q nobody"
    (stock.place / "trusted.yaml").write_text(f"fpk_00000000-0000-0000-0000-000000000000: '{key}'\n")
    near = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{stock.port}", "--node-config")
    stock.supernode("s0", *near, f"silo='{stock.place / 's0'}'", "--trusted-entities", "trusted.yaml")
    config = f"coordinator='{federation.coordinator.directory}' federation='{stock.place / 'federation.toml'}'"
    stock.run("flwr", "run", "dpadmm-flower", "federation", "--run-config", config)
    stock.wait("s0", "could not be verified")
    with closing(Silo(stock.place / "s0")) as silo:
        assert [entry.event for entry in silo.store.log()] == ["confirmed", "approved"]
