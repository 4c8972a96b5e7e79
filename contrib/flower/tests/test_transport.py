"""Flower's messages keep the contract of all transports, with the ClientApp behind them."""

from contextlib import contextmanager

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[flower]")

from tests.contracts.transport_contract import TransportContract

from dpadmm.federation.coordinator_loop import drive
from dpadmm_flower import transport
from dpadmm_flower.transport import FlowerTransport

pytestmark = pytest.mark.usefixtures("task")


@pytest.fixture
def nodes(grids, world):
    """A SuperNode for each silo of a world."""
    return grids.SuperNodes(*(world.place / name for name in world.silos))


def transport_to(nodes, world) -> FlowerTransport:
    return FlowerTransport(nodes, world.invite(), tuple(world.keys))


class TestFlower(TransportContract):
    @pytest.fixture
    def carry(self, grids, monkeypatch):
        """Flower's nodes are shown what they sign in any case, so that also bits that mean nothing find their way."""
        monkeypatch.setattr(transport, "RETRY_SECONDS", 0.0)

        @contextmanager
        def carried(world):
            yield transport_to(grids.SuperNodes(*(world.place / name for name in world.silos)), world)

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
    monkeypatch.setattr(transport, "RETRY_SECONDS", 0.0)
    drive(run, transport_to(nodes, world), iter(range(10_000)).__next__, resend_seconds=20.0)
    assert run.estimates().tolist() == calm
    assert len({*nonces, nonce_of(nodes, list(nodes.contexts)[-1])}) == 3
    assert [world.statement(name).releases for name in world.silos] == [world.terms.rounds] * 3


def nonce_of(nodes, number) -> str:
    """Return what others confirm over, as a SuperNode remembers it."""
    return nodes.contexts[number].state.config_records["dpadmm"]["nonce"]


def test_a_silo_that_flower_does_not_know_any_more_is_looked_for(nodes, world):
    carried, key = transport_to(nodes, world), world.first.public_key
    (found,) = {who for _ in range(2) for who, _ in [*carried.receive()]} or {None}
    assert found is None  # nobody is asked before anything is to be sent
    carried.send(key, world.invite())
    assert key in dict(carried.receive())
    first = carried._nodes[key]
    silo = nodes.contexts[first].node_config["silo"]
    nodes.kill(first)
    nodes.start(silo)
    carried.send(key, world.invite())
    while key not in dict(carried.receive()):
        pass
    assert carried._nodes[key] != first


def test_a_stranger_with_a_participants_texts_is_nobody(nodes, world, monkeypatch):
    """Its answer is signed by none of the keys, or by the silo that it repeats: whose answer that is stays so."""
    carried = transport_to(nodes, world)
    monkeypatch.setattr(carried, "keys", tuple(world.keys[1:]))
    carried.send(world.keys[1], world.invite())
    assert world.keys[0] not in dict(carried.receive())
