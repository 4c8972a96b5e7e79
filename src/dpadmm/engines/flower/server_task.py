"""The process of one run: `python -m dpadmm.engines.flower.server_task HOST:PORT DIR`, the token on its input."""

import logging
import os
import sys
from pathlib import Path

from dpadmm.engines.flower.coordinator_files import DIRECTORY, CoordinatorFiles
from dpadmm.engines.flower.runtime import Runtime, heartbeat

_log = logging.getLogger("dpadmm.coordinator")


def run_task(runtime: Runtime, token: str) -> None:
    """Drive the run that the task names with the installed server app; the app that came with it is left unopened."""
    from flwr.common.constant import SubStatus
    from flwr.common.serde import context_from_proto, run_from_proto
    from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
    from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.grid import HttpGrid

    from dpadmm.engines.flower.server_app import app

    ca = None if runtime.ca is None else runtime.ca.read_bytes()
    grid = HttpGrid(runtime.address, insecure=ca is None, root_certificates=ca, token=token)
    with runtime.client("flwr-serverapp", RuntimeTokenHttpInterceptor(token)) as client, heartbeat(client):
        status, detail = SubStatus.FAILED, "the server app failed; see the coordinator's log"
        try:
            given = client.PullTaskInput(PullTaskInputRequest())
            context, run = context_from_proto(given.context), run_from_proto(given.run)
            context.run_config = dict(run.override_config)
            TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, run.run_id
            TaskIdentity.node_id = context.node_id
            grid.set_run(run)
            app(grid=grid, context=context)
            status, detail = SubStatus.COMPLETED, ""
        finally:
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=detail))
            grid.close()


def main() -> None:
    """Serve the task on the input."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it reports every poll
    address, directory = sys.argv[1], Path(sys.argv[2])
    os.environ[DIRECTORY] = str(directory)
    run_task(Runtime(address, CoordinatorFiles(directory).ca), sys.stdin.read())


if __name__ == "__main__":
    main()
