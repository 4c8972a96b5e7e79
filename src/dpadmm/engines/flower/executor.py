"""Does a SuperNode's tasks with the installed client app, in one warm process; code that was shipped never runs.

Whoever reaches the control API can make a silo answer signed requests of approved runs, and nothing else.
"""

import logging
import threading
import time
from pathlib import Path

from dpadmm.engines.flower.client_app import app
from dpadmm.engines.flower.runtime import Runtime, heartbeat

_log = logging.getLogger("dpadmm.silo")


def serve(address: str, secret: Path, stop: threading.Event) -> None:
    """Take tasks from the SuperNode's runtime API at `address` (loopback) until `stop` is set."""
    from flwr.supercore.constant import TaskType

    runtime = Runtime(address)
    runtime.take_tasks(TaskType.CLIENT_APP, secret, lambda token: _work(runtime, token), stop)


def _work(runtime: Runtime, token: str) -> None:
    """Do one task with the installed app; a failure becomes an error reply, as in Flower's own process."""
    from flwr.app import Error, Message
    from flwr.common.constant import ErrorCode, SubStatus
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

    context, status, detail = None, SubStatus.FAILED, "the silo failed"
    began = time.perf_counter()
    with runtime.client("flwr-clientapp", RuntimeTokenHttpInterceptor(token)) as client, heartbeat(client):
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
