"""Who does Flower's tasks outlives whatever Flower does, and is never interrupted by it."""

import logging
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from flwr.supercore.run import RunNotRunningException

from dpadmm.engines.flower.runtime import Runtime, auth_secret, heartbeat, retries


def test_tasks_that_fail_and_an_api_that_is_away_do_not_end_the_service(monkeypatch, tmp_path):
    stop, seen = threading.Event(), []
    given = [ConnectionError("away"), "first", "second"]

    def acquire(request):
        now = given.pop(0)
        if isinstance(now, Exception):
            raise now
        return SimpleNamespace(token=now, HasField=lambda name: True)

    @contextmanager
    def client(runtime, component, credential, tries):
        yield SimpleNamespace(AcquireTask=acquire)

    def work(token):
        seen.append(token)
        if token == "first":
            raise ConnectionError("the run is gone")
        stop.set()

    monkeypatch.setattr(Runtime, "client", client)
    Runtime("127.0.0.1:1").take_tasks("flwr-clientapp", auth_secret(tmp_path), work, stop)
    assert seen == ["first", "second"]


@pytest.mark.parametrize(("status", "tries"), [(401, 1), (403, 1), (404, 1), (503, 3)])
def test_a_refused_call_is_an_error_here_not_a_signal_to_the_process(status, tries):
    """Flower's own retries answer a 401 with SIGINT to the process, which would end a silo whose task has expired."""
    calls = []

    def call():
        calls.append(status)
        request = httpx.Request("POST", "http://127.0.0.1/")
        raise httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status, request=request))

    again = retries()
    again.wait_function = lambda seconds: None
    with pytest.raises(httpx.HTTPStatusError):
        again.invoke(call)
    assert len(calls) == tries


@pytest.mark.parametrize("answer", [SimpleNamespace(success=False), ConnectionError("gone")])
def test_a_heartbeat_that_is_not_wanted_disturbs_nobody(answer):
    """Flower's own heartbeat interrupts the process, and its end raises if the beat has failed."""
    beaten = threading.Event()

    def send(request):
        beaten.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    with heartbeat(SimpleNamespace(SendTaskHeartbeat=send)):
        assert beaten.wait(10)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("get_node_ids", httpx.ConnectError("gone")),
        ("push_messages", httpx.ConnectError("gone")),
        ("push_messages", ValueError("The push session may have expired.")),
        ("pull_messages", httpx.ReadTimeout("gone")),
        ("pull_messages", RunNotRunningException()),
    ],
)
def test_a_lost_superlink_is_not_the_end_of_the_federation(call, problem, monkeypatch):
    """The run continues as another one; only what the coordinator itself decides is final."""
    from flwr.supercore.task_identity import TaskIdentity

    from dpadmm.engines.federation.transport import Interrupted
    from dpadmm.engines.flower.grid import GridTransport

    for name in ("task_id", "run_id", "node_id"):  # a message knows whose it is
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)

    def fails(*_):
        raise problem

    calls = {"get_node_ids": lambda: [1], "push_messages": lambda messages: ["a"], "pull_messages": lambda names: []}
    transport = GridTransport(SimpleNamespace(**(calls | {call: fails})))

    def everything() -> None:
        transport.nodes()
        transport.send(1, b"envelope")
        for _ in range(50):
            transport.receive()

    with pytest.raises(Interrupted):
        everything()


def test_a_request_that_never_arrives_whole_is_answered_with_an_error(monkeypatch):
    """A SuperLink killed in the middle of a message leaves the rest announced for ever; the node waits for a reply."""
    from flwr.app import Context, Message, RecordDict
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import context_to_proto, message_to_proto
    from flwr.proto.message_pb2 import PullObjectResponse
    from flwr.proto.runtime_pb2 import PullAppMessagesResponse, PullTaskInputResponse
    from flwr.supercore.inflatable.inflatable_object import get_object_tree
    from flwr.supercore.task_identity import TaskIdentity

    from dpadmm.engines.flower import executor

    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)
    monkeypatch.setattr(executor, "PULL_SECONDS", 0.0)
    message = Message(content=RecordDict({}), dst_node_id=7, message_type="query")
    message.metadata.__dict__["_message_id"] = message.object_id
    context = Context(run_id=1, node_id=7, node_config={}, state=RecordDict({}), run_config={})
    announced = PullAppMessagesResponse(
        messages_list=[message_to_proto(remove_content_from_message(message))],
        message_object_trees=[get_object_tree(message)],
    )
    client = SimpleNamespace(
        PullTaskInput=lambda request: PullTaskInputResponse(context=context_to_proto(context), task_id=1),
        PullMessages=lambda request: announced,
        PullObject=lambda request: PullObjectResponse(object_found=True, object_available=False),
        ConfirmMessageReceived=None,  # nothing was received
    )
    pulled, _, is_whole = executor._pulled(client)
    assert not is_whole
    reply = executor._failure(pulled, "the request did not arrive whole")
    assert reply.has_error()
    assert reply.metadata.reply_to_message_id == message.metadata.message_id


def test_a_task_without_a_reply_has_its_node_started_again(monkeypatch, tmp_path):
    from dpadmm.engines.flower import executor

    stop, stuck = threading.Event(), threading.Event()

    def fails(runtime, token):
        stop.set()
        raise ConnectionError("the reply was not taken")

    @contextmanager
    def client(runtime, component, credential, tries):
        yield SimpleNamespace(AcquireTask=lambda request: SimpleNamespace(token="a", HasField=lambda name: True))

    monkeypatch.setattr(Runtime, "client", client)
    monkeypatch.setattr(executor, "_work", fails)
    executor.serve("127.0.0.1:1", auth_secret(tmp_path), stop, stuck)
    assert stuck.is_set()


def test_the_log_of_a_failed_silo_quotes_no_record(monkeypatch, caplog):
    """The text of somebody else's error may hold a cell; its place in the program is enough to find it."""
    from dpadmm.engines.flower import executor

    cell = "SECRET" + str(17)  # not as one word in the source, whose lines the log may show

    def failing(*, message, context):
        raise ValueError(f"could not convert {cell}")

    monkeypatch.setattr(executor, "app", failing)
    monkeypatch.setattr(executor, "_failure", lambda message, reason: reason)
    with caplog.at_level(logging.ERROR, logger="dpadmm.silo"):
        told = executor._answer(None, None)
    assert cell not in caplog.text + told
    assert "ValueError" in caplog.text
    assert "in failing" in caplog.text
