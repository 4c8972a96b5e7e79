"""Does a SuperNode's tasks with the installed client app, in one warm process; code that was shipped never runs.

Whoever reaches the control API can make a silo answer signed requests of approved runs, and nothing else.
"""

import logging
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpadmm.engines.federation.silo import reason_of
from dpadmm.engines.flower.client_app import app
from dpadmm.engines.flower.runtime import Runtime, heartbeat

if TYPE_CHECKING:
    from flwr.app import Context, Message

PULL_SECONDS = 60.0
"""How long the rest of an announced request may take to arrive."""

_log = logging.getLogger("dpadmm.silo")


def serve(address: str, secret: Path, stop: threading.Event, stuck: threading.Event) -> None:
    """Take tasks from the SuperNode's runtime API at `address` (loopback) until `stop` is set.

    `stuck` is set when a task ended without a reply: a SuperNode then waits for it and does nothing else.
    """
    from flwr.supercore.constant import TaskType

    runtime = Runtime(address)

    def work(token: str) -> None:
        try:
            _work(runtime, token)
        except Exception:
            stuck.set()
            raise

    runtime.take_tasks(TaskType.CLIENT_APP, secret, work, stop)


def _work(runtime: Runtime, token: str) -> None:
    """Do one task with the installed app; a failure becomes an error reply, as in Flower's own process."""
    from flwr.common.constant import SubStatus
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
    from flwr.supernode.runtime.run_clientapp import push_message, push_task_output

    began = time.perf_counter()
    with runtime.client("flwr-clientapp", RuntimeTokenHttpInterceptor(token)) as client, heartbeat(client):
        context, status, detail = None, SubStatus.FAILED, "the silo failed"
        try:
            message, context, is_whole = _pulled(client)
            pulled = time.perf_counter()
            reply = _answer(message, context) if is_whole else _failure(message, "the request did not arrive whole")
            computed = time.perf_counter()
            push_message(client, reply, context)
            status, detail = SubStatus.COMPLETED, ""
            times = (pulled - began, computed - pulled, time.perf_counter() - computed)
            _log.info("answered: %.3f s to fetch the request, %.3f s in the silo, %.3f s to hand over", *times)
        finally:
            push_task_output(client=client, context=context, sub_status=status, details=detail)


def _pulled(client: Any) -> tuple["Message", "Context", bool]:
    """Return the message of a task, and whether it is whole; if not, its content is empty.

    When a SuperLink dies in the middle of a message, the rest never comes; Flower's own process would wait two hours.
    """
    from flwr.app import Message
    from flwr.common.serde import context_from_proto, message_from_proto
    from flwr.proto.node_pb2 import Node
    from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullTaskInputRequest
    from flwr.supercore.inflatable import inflatable_protobuf_utils, inflatable_utils
    from flwr.supercore.task_identity import TaskIdentity

    given = client.PullTaskInput(PullTaskInputRequest())
    context = context_from_proto(given.context)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, context.run_id, context.node_id
    announced = client.PullMessages(PullAppMessagesRequest())
    is_whole = True
    tree, whose = announced.message_object_trees[0], (Node(node_id=context.node_id), context.run_id)
    try:
        message = inflatable_utils.pull_and_inflate_object_from_tree(
            tree,
            inflatable_protobuf_utils.make_pull_object_fn_protobuf(client.PullObject, *whose),
            inflatable_protobuf_utils.make_confirm_message_received_fn_protobuf(client.ConfirmMessageReceived, *whose),
            return_type=Message,
            max_time=PULL_SECONDS,
            backoff_cap=1.0,
        )
    except inflatable_utils.ObjectPullError as problem:
        _log.warning("a request did not arrive whole: %s", problem)
        message, is_whole = message_from_proto(announced.messages_list[0]), False
    message.metadata.__dict__["_message_id"] = tree.object_id  # as Flower does: it is not part of what is pulled
    return message, context, is_whole


def _answer(message: "Message", context: "Context") -> "Message":
    try:
        return app(message=message, context=context)
    except Exception as failure:  # noqa: BLE001 - whatever it is, the node must get an answer
        places = "".join(traceback.format_list(traceback.extract_tb(failure.__traceback__)))
        _log.error("the silo failed: %s\n%s", reason_of(failure), places)
        return _failure(message, "the silo failed; see its own log")


def _failure(message: "Message", reason: str) -> "Message":
    from flwr.app import Error, Message
    from flwr.common.constant import ErrorCode

    return Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason), reply_to=message)
