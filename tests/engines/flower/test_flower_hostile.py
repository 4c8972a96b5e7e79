"""Over real Flower and TLS: a coordinator that has the keys but not the manners, a silo that sends what it likes."""

import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from flwr.common.serde import run_from_proto
from flwr.proto.runtime_pb2 import PullTaskInputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from dpadmm.engines.federation import messages
from dpadmm.engines.federation.keys import SigningKey, open_envelope
from dpadmm.engines.federation.messages import Join, Joined, Refused, Step, Stepped
from dpadmm.engines.federation.refusal import FederationStopped, MessageError
from dpadmm.engines.federation.rehearsal_terms import p_admm_terms, rehearsal_policy
from dpadmm.engines.federation.silo import Silo
from dpadmm.engines.flower.grid import GridTransport
from dpadmm.engines.flower.processes import Process, flower_environment
from dpadmm.engines.flower.rehearsal import prepared, running, wait_until
from dpadmm.engines.flower.runtime import auth_secret, heartbeat

pytestmark = pytest.mark.slow
NOTHING = np.zeros((0, 3))


def three(worlds, place):
    """Return three silos on a path that are ready to run."""
    build = p_admm_terms(worlds.SCHEMA, 3, 1.0)

    def terms(people, key, digest):
        return replace(build(people, key, digest), edges=((0, 1), (1, 2)))

    return prepared(place, worlds.tables((40, 30, 50)), worlds.SCHEMA, terms, rehearsal_policy, (2.0, 1e-5))


class Hostile:
    """The coordinator, played by the test: it has the key, the SuperLink and its secret, and asks what it likes."""

    def __init__(self, rehearsal):
        self.rehearsal, self.terms, self.key = rehearsal, rehearsal.agreement, rehearsal.coordinator.key()
        self.silos = [Silo(files.directory) for files in rehearsal.silos.values()]
        self.transport, self.nodes = None, []

    def play(self, act) -> None:
        """Start a run at the SuperLink, take its task, and call `act`; what it raises is raised here."""
        stop, failed = threading.Event(), []
        runtime = self.rehearsal.coordinator.runtime()

        def work(token):
            grid = HttpGrid(runtime.address, root_certificates=runtime.ca.read_bytes(), token=token)
            credential = RuntimeTokenHttpInterceptor(token)
            try:
                with runtime.client("flwr-serverapp", credential) as client, heartbeat(client):
                    given = client.PullTaskInput(PullTaskInputRequest())
                    TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
                    TaskIdentity.node_id = given.context.node_id
                    grid.set_run(run_from_proto(given.run))
                    wait_until(lambda: len(list(grid.get_node_ids())) == len(self.silos), 90, "all nodes")
                    self.transport, self.nodes = GridTransport(grid), list(grid.get_node_ids())
                    act()
            except BaseException as problem:  # noqa: BLE001 - raised below, outside the service that goes on
                failed.append(problem)
            finally:
                grid.close()
                stop.set()

        self.rehearsal.coordinator.control().start(self.rehearsal.coordinator.directory / "app", {})
        runtime.take_tasks(TaskType.SERVER_APP, auth_secret(self.rehearsal.coordinator.directory), work, stop)
        if failed:
            raise failed[0]

    def told(self, node, envelope) -> tuple[bytes, object]:
        """Send an envelope; return the answer, as bytes and read."""
        self.transport.send(node, envelope)
        end = time.monotonic() + 90
        while time.monotonic() < end:
            for _, reply in self.transport.receive():
                assert reply is not None, "the silo failed"
                return reply, messages.read(opened(reply, [silo.public_key for silo in self.silos]))
        raise AssertionError("no answer")

    def invite(self, terms=None, key=None) -> bytes:
        return (key or self.key).seal(Join((terms or self.terms).as_json(), "", 0).encode())

    def ask(self, k, agent, relay=(), key=None) -> bytes:
        return (key or self.key).seal(Step(self.terms.digest, agent, k, NOTHING, tuple(relay)).encode())

    def refused(self, agent, envelope, words) -> None:
        """Check that a silo refuses for this reason, and says so in its own log."""
        _, answer = self.told(self.nodes[agent], envelope)
        assert isinstance(answer, Refused), answer
        assert words in answer.reason, answer.reason
        assert self.silos[agent].log()[-1].event == "refused"

    def seat(self) -> None:
        """Let all silos join, and put the nodes in the silos' order."""
        seats = {}
        for node in self.nodes:
            _, answer = self.told(node, self.invite())
            assert isinstance(answer, Joined)
            seats[answer.agent] = node
        self.nodes = [seats[agent] for agent in range(len(self.silos))]


def opened(envelope: bytes, keys) -> bytes:
    """Return the body, signed by one of these keys."""
    for key in keys:
        with suppress(MessageError):
            return open_envelope(envelope, key)
    raise AssertionError("signed by nobody")


def test_a_hostile_coordinator(worlds, tmp_path):
    """Everything but what was agreed is refused over the wire as well, and the ledgers show what was agreed only."""
    rehearsal = three(worlds, tmp_path)
    world = Hostile(rehearsal)
    stranger = SigningKey.create(tmp_path / "stranger.key")

    def before_joining() -> None:
        node = world.nodes[0]
        for envelope, words in {
            b"": "",
            b"give me your data": "",
            world.ask(1, 0): "has not joined",
            world.invite(key=stranger): "signature",
            world.invite(replace(world.terms, coordinator=stranger.public), stranger): "approved",
        }.items():
            _, answer = world.told(node, envelope)
            assert isinstance(answer, Refused)
            assert words in answer.reason
        for change in (
            {"epsilon": 1.5},
            {"delta": 1e-4},
            {"method": "p-admm-recycled"},
            {"settings": (("eta", 0.5),)},  # a heavier penalty moves less, so less noise
            {"rounds": 4},
            {"edges": ((0, 1), (0, 2), (1, 2))},
        ):
            _, answer = world.told(node, world.invite(replace(world.terms, **change)))
            assert isinstance(answer, Refused)
            assert "has approved" in answer.reason
        assert worlds.releases(rehearsal) == [0, 0, 0]

    def forged(vector, k=1, agent=1, key=None) -> bytes:
        answer = Stepped(world.terms.digest, agent, k, np.array(vector))
        return (key or world.silos[1]._key).seal(answer.encode())

    def act() -> None:
        before_joining()
        world.seat()
        world.refused(0, world.ask(2, 0), "round 1 is due")
        world.refused(0, world.ask(1, 1), "this is silo 0")
        world.refused(0, world.ask(1, 0, key=stranger), "signature")
        first = [world.told(world.nodes[i], world.ask(1, i))[0] for i in range(3)]
        assert world.told(world.nodes[0], world.ask(1, 0))[0] == first[0]  # asked again: bit for bit
        assert worlds.releases(rehearsal) == [1, 1, 1]
        for vector, words in {
            (np.nan, 0.0, 0.0): "not finite",
            (1e300, 1e300, 0.0): "norm",
            (1.0, 2.0): "shape",
        }.items():
            world.refused(0, world.ask(2, 0, [forged(vector)]), words)
        world.refused(0, world.ask(2, 0, [forged((0.0, 0.0, 0.0), key=stranger)]), "signature")
        world.refused(0, world.ask(2, 0, [first[2]]), "signature")  # another silo's
        world.refused(0, world.ask(2, 0, [forged((0.0, 0.0, 0.0), k=3)]), "replayed")
        world.refused(0, world.ask(3, 0, [first[1]]), "round 2 is due")
        second, answer = world.told(world.nodes[0], world.ask(2, 0, [first[1]]))
        assert isinstance(answer, Stepped)
        world.refused(0, world.ask(2, 0, [forged((0.0, 0.0, 0.0))]), "answered to another request")
        assert world.told(world.nodes[0], world.ask(1, 0))[0] == first[0]  # an old request: its old answer
        assert world.told(world.nodes[0], world.ask(2, 0, [first[1]]))[0] == second
        assert worlds.releases(rehearsal) == [2, 1, 1]

    with running(rehearsal):
        rehearsal.conductor.stop()  # the coordinator does its tasks by itself
        rehearsal.conductor = None
        world.play(act)


@pytest.mark.parametrize(
    ("vector", "words"),
    [((np.nan, 0.0, 0.0), "not finite"), ((1e300, 1e300, 0.0), "norm"), ((1.0, 2.0), "shape")],
    ids=["nan", "huge", "short"],
)
def test_a_silo_that_sends_what_it_likes_stops_the_federation(worlds, tmp_path, vector, words):
    rehearsal = three(worlds, tmp_path)
    np.array(vector).tofile(tmp_path / "vector")
    files, ca = rehearsal.silos["s1"], str(rehearsal.coordinator.directory / "ca.pem")
    try:
        rehearsal.start_superlink()
        rehearsal.start_conductor()
        for name, each in rehearsal.silos.items():
            rehearsal.coordinator.control().register(each.directory / "node.pub", name)
        script = [sys.executable, str(Path(__file__).with_name("trapped.py")), "liar", str(tmp_path / "vector")]
        environment = flower_environment(files.directory / "flower")
        arguments = [*script, str(files.directory), rehearsal.address, ca]
        rehearsal.nodes["s1"] = Process.start(arguments, environment, tmp_path / "liar.log")
        for name in ("s0", "s2"):
            rehearsal.start_silo(name)
        with pytest.raises(FederationStopped, match=words) as stopped:
            rehearsal.federate()
    finally:
        rehearsal.stop()
    assert "s1" in str(stopped.value)
    assert max(worlds.releases(rehearsal)) == 1
