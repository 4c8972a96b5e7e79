"""The Flower ServerApp: drives a run of the coordinator in `DPADMM_COORDINATOR` over Flower's grid."""

import logging
import os
import re
import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from dpadmm.engines.flower.client_app import content_of, envelope_in
from dpadmm.engines.flower.coordinator_files import DIRECTORY

POLL_SECONDS = 0.1
_NODES_SECONDS = 1.0
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
        """Pull what is there; an error reply carries the server's node id, so match it by the message it answers."""
        time.sleep(POLL_SECONDS)
        if not self._pending:
            return []
        with _grid_calls():
            replies = list(self._grid.pull_messages(list(self._pending)))
        found: list[tuple[Hashable, bytes | None]] = []
        for reply in replies:
            node = self._pending.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                found.append((node, None if reply.has_error() else envelope_in(reply)))
        return found


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Drive the run to its end; a run that was interrupted continues where its file says."""
    from dpadmm.engines.flower.coordinator import Coordinator
    from dpadmm.engines.flower.drive import Drive
    from dpadmm.engines.flower.keys import SigningKey

    logging.basicConfig(level=logging.INFO)
    directory, run = Path(os.environ[DIRECTORY]), str(context.run_config.get("run", ""))
    if not re.fullmatch("[0-9a-f]{64}", run):  # it comes from whoever started the run
        raise ValueError(f"A run is named by the digest of its terms, not by {run!r:.80}.")
    path = directory / "runs" / f"{run}.db"
    coordinator = Coordinator(path, SigningKey.load(directory / "coordinator.key"), time.time)
    try:
        Drive(coordinator, GridTransport(grid), time.time).run()
    except LostGrid:
        raise
    except Exception as problem:
        coordinator.stopped(str(problem))
        raise
    finally:
        coordinator.close()
