"""Flower's messages keep the contract of all transports, with the ClientApp behind them."""

from contextlib import contextmanager

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[flower]")

from tests.contracts.transport_contract import TransportContract, letter

from dpadmm.federation.drive import Drive
from dpadmm.federation.rollback_detection import Session
from dpadmm_flower.transport import FlowerTransport

pytestmark = pytest.mark.usefixtures("task")


@pytest.fixture
def nodes(grids, world):
    """A SuperNode for each silo of a world."""
    return grids.SuperNodes(*(world.place / name for name in world.silos))


class TestFlower(TransportContract):
    @pytest.fixture
    def carry(self, grids):
        @contextmanager
        def carried(world):
            yield FlowerTransport(grids.SuperNodes(*(world.place / name for name in world.silos)))

        return carried


@pytest.mark.parametrize("has_key", [False, True], ids=["as another node", "as the same node"])
def test_a_supernode_that_was_killed_comes_back_and_the_run_goes_on(world, nodes, calm, monkeypatch, has_key):
    """It ends while it is asked, in two rounds. Its memory is gone, so that the others confirm over a new nonce."""
    run, rounds, nonces, pull = world.coordinator(), [1, 3], [], nodes.pull_messages
    silo = nodes.contexts[100].node_config["silo"]

    def pulled(names):
        (number,) = [each for each, context in nodes.contexts.items() if context.node_config["silo"] == silo]
        if run.round in rounds:
            rounds.remove(run.round)
            nonces.append(nonce_of(nodes, number))
            nodes.kill(number)
            nodes.start(silo, number=number if has_key else None)
        return pull(names)

    monkeypatch.setattr(nodes, "pull_messages", pulled)
    Drive(run, FlowerTransport(nodes), iter(range(10_000)).__next__).run()
    assert run.estimates().tolist() == calm
    assert len({*nonces, nonce_of(nodes, list(nodes.contexts)[-1])}) == 3
    assert [world.statement(name).releases for name in world.silos] == [world.agreement.rounds] * 3


def nonce_of(nodes, number) -> str:
    """Return what others confirm over, as a SuperNode remembers it."""
    return Session.from_json(nodes.contexts[number].state.config_records["dpadmm"]["session"]).nonce


def test_a_node_that_flower_does_not_know_is_lost(nodes):
    transport = FlowerTransport(nodes)
    transport.send(7, letter(1, 100))
    assert list(transport.receive()) == [(7, None)]
    assert list(transport.receive()) == []


def test_a_node_that_ends_before_it_answers_is_lost_and_known_by_what_it_was_asked(nodes):
    transport, (first, second, _) = FlowerTransport(nodes), nodes.get_node_ids()
    for node in (first, second):
        transport.send(node, letter(node, 100))
    nodes.kill(first)
    found = dict(transport.receive())
    assert found[first] is None
    assert found[second] is not None
    assert list(transport.receive()) == []
