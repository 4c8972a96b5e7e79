"""Runs the installed client app for a SuperNode, in one warm process; code that a coordinator ships never runs.

The SuperNode is started with `--isolation process`: it starts no code itself and waits for someone to take its tasks.
Stock Flower's SuperExec would install the app it was sent and run it, one new process per message. Here every task is
given to the `ClientApp` of this package instead, whatever app came with it; so whoever reaches the control API can make
a silo answer signed requests of approved runs, and nothing else.
"""

import logging
import secrets
import threading
import time
from pathlib import Path
from typing import Any

from dpadmm.engines.flower.client_app import app
from dpadmm.engines.flower.keys import write_private

POLL_SECONDS = 0.2
_log = logging.getLogger("dpadmm.silo")


def auth_secret(directory: Path) -> Path:
    """Return the file with the secret by which the SuperNode knows this executor; made if it is not there."""
    path = directory / "executor.secret"
    if not path.exists():
        write_private(path, secrets.token_bytes(48))
    return path


def serve(address: str, secret: Path, stop: threading.Event) -> None:
    """Take tasks from the SuperNode's runtime API at `address` (loopback) until `stop` is set."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.interceptors import SuperExecAuthHttpInterceptor

    methods = frozenset({"/flwr.proto.Runtime/AcquireTask"})
    guard = SuperExecAuthHttpInterceptor(master_secret=secret.read_bytes(), protected_methods=methods)
    client = _client(address, guard)
    while not stop.is_set():
        try:
            given = client.AcquireTask(AcquireTaskRequest(supported_task_types={TaskType.CLIENT_APP}))
        except Exception as problem:  # noqa: BLE001 - whatever the node's API does, the silo keeps asking
            _log.debug("the node does not answer: %s", problem)
            stop.wait(1.0)
            continue
        if given.HasField("task") and given.token:
            try:
                _work(address, given.token)
            except Exception:  # noqa: BLE001 - the node may refuse the end of a task whose run is gone; others come
                _log.exception("the node did not take the end of a task")
        else:
            stop.wait(POLL_SECONDS)
    client.close()


def _work(address: str, token: str) -> None:
    """Do one task with the installed app; a failure becomes an error reply, as in Flower's own process."""
    from flwr.app import Error, Message
    from flwr.common.constant import ErrorCode, SubStatus
    from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

    client = _client(address, RuntimeTokenHttpInterceptor(token))
    pulse = HeartbeatSender(make_task_heartbeat_fn_http(client))
    pulse.start()
    context, status, detail = None, SubStatus.FAILED, "the silo failed"
    began = time.perf_counter()
    try:
        message, context, _run, _shipped = pull_task_input(client)
        pulled = time.perf_counter()
        try:
            reply = app(message=message, context=context)
            status, detail = SubStatus.COMPLETED, ""
        except Exception:  # noqa: BLE001 - whatever it is, the node must get an answer
            _log.exception("the silo failed")
            failure = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason="the silo failed; see its own log")
            reply = Message(failure, reply_to=message)
        computed = time.perf_counter()
        push_message(client, reply, context)
        times = (pulled - began, computed - pulled, time.perf_counter() - computed)
        _log.info("answered: %.3f s to fetch the request, %.3f s in the silo, %.3f s to hand over", *times)
    except Exception:  # noqa: BLE001 - the node may be gone; the coordinator asks again
        _log.exception("a task could not be finished")
    finally:
        push_task_output(client=client, context=context, sub_status=status, details=detail)
        pulse.stop()
        client.close()


def _client(address: str, interceptor: Any) -> Any:
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
    from flwr.supercore.retry import make_simple_http_retry_invoker
    from flwr.supercore.runtime import RuntimeHttpClient

    retry = make_simple_http_retry_invoker()
    retry.max_tries = 3
    return RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"), interceptor],
        retry_invoker=retry,
    )
