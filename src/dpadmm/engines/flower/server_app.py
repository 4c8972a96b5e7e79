"""The Flower ServerApp: drives a run of the coordinator in `DPADMM_COORDINATOR` over Flower's grid."""

import logging
import os
import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from dpadmm.engines.flower.client_app import content_of, envelope_in
from dpadmm.engines.flower.coordinator_files import DIRECTORY, CoordinatorFiles

POLL_SECONDS = 0.1
_NODES_SECONDS = 1.0
_log = logging.getLogger("dpadmm.coordinator")
app = ServerApp()


class LostGrid(Exception):
    """The SuperLink, or this run in it, is gone: the coordinator's file is as it was, a new run continues it."""


@contextmanager
def _grid_calls() -> Iterator[None]:
    """Tell a lost SuperLink, which Flower reports in many ways, from a federation that has to stop."""
    try:
        yield
    except Exception as problem:
        raise LostGrid(str(problem)) from problem


class GridTransport:
    """Envelopes over Flower's grid: pushes as they come, polls more often than Flower's own loop would."""

    def __init__(self, grid: Grid) -> None:
        """Carry over this grid."""
        self._grid = grid
        self._pending: dict[str, int] = {}
        self._nodes: tuple[float, list[int]] = (float("-inf"), [])

    def nodes(self) -> Iterable[Hashable]:
        """Return the nodes that the SuperLink knows, asked at most once a second."""
        if time.monotonic() - self._nodes[0] > _NODES_SECONDS:
            with _grid_calls():
                self._nodes = time.monotonic(), list(self._grid.get_node_ids())
        return self._nodes[1]

    def send(self, node: Hashable, envelope: bytes) -> None:
        """Push one message."""
        message = Message(content=content_of(envelope), dst_node_id=int(str(node)), message_type=MessageType.QUERY)
        with _grid_calls():
            pushed = list(self._grid.push_messages([message]))
        self._pending.update({name: int(str(node)) for name in pushed if name})

    def receive(self) -> Iterable[tuple[Hashable, bytes | None]]:
        """Pull what is there; an error reply carries the server's node id, so match it by the message it answers.

        One at a time: a reply that cannot be read is its sender's failure and takes no other with it.
        """
        import httpx
        from flwr.supercore.run import RunNotRunningException

        time.sleep(POLL_SECONDS)
        found: list[tuple[Hashable, bytes | None]] = []
        for name, node in list(self._pending.items()):
            try:
                replies = list(self._grid.pull_messages([name]))
            except (httpx.HTTPError, RunNotRunningException) as problem:
                raise LostGrid(str(problem)) from problem
            except Exception as problem:  # noqa: BLE001 - Flower raises whatever the bytes of a node lead to
                _log.warning("what node %s sent cannot be read: %r", node, problem)
                replies, found = [], [*found, (node, None)]
                del self._pending[name]
            for reply in replies:
                self._pending.pop(name, None)
                found.append((node, None if reply.has_error() else envelope_in(reply)))
        return found


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Drive the run to its end; a run that was interrupted continues where its file says."""
    from dpadmm.engines.flower.coordinator import Coordinator
    from dpadmm.engines.flower.drive import Drive, Unattended

    files = CoordinatorFiles(Path(os.environ[DIRECTORY]))
    path = files.run_named(str(context.run_config.get("run", "")))
    coordinator = Coordinator(path, files.key(), time.time)
    try:
        transport = GridTransport(grid)
        Drive(coordinator, transport, time.time, is_wanted=lambda: coordinator.signs.is_wanted).run()
    except (LostGrid, Unattended) as problem:
        _log.warning("the run is left where it is: %s", problem)
    except Exception as problem:
        coordinator.stopped(str(problem))
        raise
    finally:
        coordinator.rest()
        coordinator.close()
