"""Envelopes over Flower's grid: pushed as they come, pulled by one thread per node, so that no node delays another."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
from flwr.app import Message, MessageType
from flwr.supercore.run import RunNotRunningException  # no `Exception`

from dpadmm.engines.federation.transport import Interrupted
from dpadmm.engines.flower.client_app import content_of, envelope_in

if TYPE_CHECKING:
    from flwr.serverapp import Grid

POLL_SECONDS = 0.1
_NODES_SECONDS = 1.0
_GONE = (401, 403, 502, 503, 504)
_LEFT_OPEN = 2
"""Messages to a node that may wait for an answer; older ones were sent again since."""

_log = logging.getLogger("dpadmm.coordinator")


@contextmanager
def _grid_calls() -> Iterator[None]:
    """Tell a lost SuperLink, which Flower reports in many ways, from a federation that has to stop."""
    try:
        yield
    except (Exception, RunNotRunningException) as problem:
        raise Interrupted(str(problem)) from problem


Answer = tuple[Hashable, bytes | None] | Interrupted


class GridTransport:
    """The coordinator's transport (`federation.transport.Transport`) over a grid."""

    def __init__(self, grid: "Grid") -> None:
        """Carry over this grid."""
        self._grid = grid
        self._nodes: tuple[float, list[int]] = (float("-inf"), [])
        self._arrived: queue.Queue[Answer] = queue.Queue()
        self._pulling: dict[int, _Puller] = {}

    def nodes(self) -> Iterable[Hashable]:
        """Return the nodes that the SuperLink knows, asked at most once a second."""
        if time.monotonic() - self._nodes[0] > _NODES_SECONDS:
            with _grid_calls():
                self._nodes = time.monotonic(), list(self._grid.get_node_ids())
        return self._nodes[1]

    def send(self, node: Hashable, envelope: bytes) -> None:
        """Push one message, and wait for its answer in the background."""
        number = int(str(node))
        message = Message(content=content_of(envelope), dst_node_id=number, message_type=MessageType.QUERY)
        with _grid_calls():
            pushed = [name for name in self._grid.push_messages([message]) if name]
        puller = self._pulling.setdefault(number, _Puller(number, self._grid, self._arrived.put))
        for name in pushed:
            puller.wait_for(name)

    def receive(self) -> Iterable[tuple[Hashable, bytes | None]]:
        """Return what has arrived, waiting a moment; None where a node failed or sent what cannot be read."""
        found: list[tuple[Hashable, bytes | None]] = []
        try:
            answer = self._arrived.get(timeout=POLL_SECONDS)
            while True:
                if isinstance(answer, Interrupted):
                    raise answer
                found.append(answer)
                answer = self._arrived.get_nowait()
        except queue.Empty:
            return found


class _Puller:
    """Asks for the answers of one node in a thread of its own, while there are any to come.

    A node may announce an answer and never upload it: Flower's pull then waits for minutes, here without the others.
    """

    def __init__(self, node: int, grid: "Grid", put: Callable[[Answer], None]) -> None:
        self._node, self._grid, self._put = node, grid, put
        self._lock, self._open, self._is_running = threading.Lock(), list[str](), False

    def wait_for(self, name: str) -> None:
        """Wait for the answer to this message too."""
        with self._lock:
            self._open = [*self._open, name][-_LEFT_OPEN:]
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, daemon=True, name=f"node {self._node}").start()

    def _run(self) -> None:
        while True:
            with self._lock:
                names = list(self._open)
                if not names:
                    self._is_running = False
                    return
            for name in names:
                self._pull(name)
            time.sleep(POLL_SECONDS)

    def _pull(self, name: str) -> None:
        try:
            replies = list(self._grid.pull_messages([name]))
        except (Exception, RunNotRunningException) as problem:  # noqa: BLE001 - Flower raises whatever the bytes of a node lead to
            self._close(name)
            if _is_lost(problem):
                self._put(Interrupted(str(problem)))
            else:
                _log.warning("what node %s sent cannot be read: %r", self._node, problem)
                self._put((self._node, None))
            return
        for reply in replies:  # an error reply carries the server's node id: it is matched by the message it answers
            self._close(name)
            self._put((self._node, None if reply.has_error() else envelope_in(reply)))

    def _close(self, name: str) -> None:
        with self._lock:
            self._open = [each for each in self._open if each != name]


def _is_lost(problem: BaseException) -> bool:
    """Say whether a pull failed because of the SuperLink or the run; else it is the node's doing."""
    if isinstance(problem, httpx.HTTPStatusError):
        return problem.response.status_code in _GONE
    return isinstance(problem, httpx.TransportError | RunNotRunningException)
