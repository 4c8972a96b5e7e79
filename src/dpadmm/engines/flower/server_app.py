"""The Flower ServerApp, and the process of one run: `python -m dpadmm.engines.flower.server_app HOST:PORT DIR`.

Drives a run of the coordinator in `DPADMM_COORDINATOR` over Flower's grid; the process finds its task on its input.
"""

import base64
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from dpadmm.engines.flower.coordinator_files import DIRECTORY, CoordinatorFiles
from dpadmm.engines.flower.grid import GridTransport
from dpadmm.engines.flower.runtime import Runtime, heartbeat, retries

app = ServerApp()


@app.main()
def drive(grid: Grid, context: Context) -> None:
    """Drive the run to its end; a run that was interrupted continues where its file says."""
    from dpadmm.engines.federation.coordinator import Coordinator
    from dpadmm.engines.federation.drive import Drive

    files = CoordinatorFiles(Path(os.environ[DIRECTORY]))
    run = Coordinator(files.run_named(str(context.run_config.get("run", ""))), files.key(), time.time)
    Drive(run, GridTransport(grid), time.monotonic, is_wanted=lambda: run.signs.is_wanted).serve()


def run_task(runtime: Runtime, token: str, task: bytes) -> None:
    """Drive the run of a task, as the conductor has pulled it."""
    from flwr.common.constant import SubStatus
    from flwr.common.serde import context_from_proto, run_from_proto
    from flwr.proto.runtime_pb2 import PullTaskInputResponse, PushTaskOutputRequest
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.grid import HttpGrid

    given = PullTaskInputResponse.FromString(task)
    context, run = context_from_proto(given.context), run_from_proto(given.run)
    context.run_config = dict(run.override_config)
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, run.run_id, context.node_id
    ca = None if runtime.ca is None else runtime.ca.read_bytes()
    grid: Any = HttpGrid(runtime.address, insecure=ca is None, root_certificates=ca, token=token)
    grid._retry_invoker = retries()  # a SuperLink that is away is an error after seconds; Flower waits for ever
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
