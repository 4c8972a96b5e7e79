"""The process of one run: `python -m dpadmm.engines.flower.server_task HOST:PORT DIR`, the task on its input."""

import base64
import logging
import os
import sys
from pathlib import Path
from typing import Any

from flwr.superlink.grid import HttpGrid

from dpadmm.engines.flower.coordinator_files import DIRECTORY, CoordinatorFiles
from dpadmm.engines.flower.runtime import Runtime, heartbeat, retries


class _Grid(HttpGrid):
    """Flower's grid, but a SuperLink that is away is an error after seconds; Flower's own would wait for ever."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._retry_invoker = retries()


def run_task(runtime: Runtime, token: str, task: bytes) -> None:
    """Drive the run of a task, as the conductor has pulled it, with the installed server app."""
    from flwr.common.constant import SubStatus
    from flwr.common.serde import context_from_proto, run_from_proto
    from flwr.proto.runtime_pb2 import PullTaskInputResponse, PushTaskOutputRequest
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
    from flwr.supercore.task_identity import TaskIdentity

    from dpadmm.engines.flower.server_app import app

    given = PullTaskInputResponse.FromString(task)
    context, run = context_from_proto(given.context), run_from_proto(given.run)
    context.run_config = dict(run.override_config)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, run.run_id, context.node_id
    ca = None if runtime.ca is None else runtime.ca.read_bytes()
    grid = _Grid(runtime.address, insecure=ca is None, root_certificates=ca, token=token)
    grid.set_run(run)
    status, detail = SubStatus.FAILED, "the server app failed; see the coordinator's log"
    with runtime.client("flwr-serverapp", RuntimeTokenHttpInterceptor(token)) as client, heartbeat(client):
        try:
            app(grid=grid, context=context)
            status, detail = SubStatus.COMPLETED, ""
        finally:
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=detail))
            grid.close()


def main() -> None:
    """Do the task on the input: its token, and what was pulled for it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it reports every poll
    address, directory = sys.argv[1], Path(sys.argv[2])
    os.environ[DIRECTORY] = str(directory)
    token, task = sys.stdin.read().split("\n")
    run_task(Runtime(address, CoordinatorFiles(directory).ca), token, base64.b64decode(task))


if __name__ == "__main__":
    main()
