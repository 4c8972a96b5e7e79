"""Silos and coordinator as real processes that are killed at exact points; run as a script, prints JSON.

`crashes.py PLACE POINT...` with POINT = actor:function:when:n, e.g. `s0:store:before:2` kills silo s0 before its second
call of `store`. One Python start, then `os.fork` for every process. The killed process is started again without the
trap, as an operator would. For each point: the model, the ledgers, and whether what left is what is stored.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import worlds

from dpadmm.engines.federation import durable
from dpadmm.engines.federation.agreement import NoiseOrigin
from dpadmm.engines.federation.coordinator import Coordinator
from dpadmm.engines.federation.drive import Drive
from dpadmm.engines.federation.keys import SigningKey
from dpadmm.engines.federation.silo import Silo
from dpadmm.privacy.ledger import ConfirmedLedger

TRAPS = {
    "reserve": (ConfirmedLedger, "reserve"),  # the durable write of the ledger
    "store": (Silo, "_store"),  # after it, but before the transaction ends
    "commit": (durable, "exclusive"),  # after it: durable, not yet sent
    "head": (durable, "write"),  # between the state and its anchor
    "accept": (Coordinator, "accept"),
    "complete": (Coordinator, "_complete"),
}


def trap(point: str) -> None:
    """Make this process kill itself at the point."""
    _, name, when, number = point.split(":")
    owner, attribute = TRAPS[name]
    original, calls = getattr(owner, attribute), [0]

    @wraps(original)
    def sprung(*args, **kwargs):
        calls[0] += 1
        is_now = calls[0] == int(number)
        if is_now and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if is_now and when == "after" and name != "commit":
            os.kill(os.getpid(), signal.SIGKILL)
        return Late(result) if is_now and name == "commit" else result

    setattr(owner, attribute, sprung)


class Late:
    """A context manager that kills the process once the inner one has ended, its transaction committed."""

    def __init__(self, inner) -> None:
        self.inner = inner

    def __enter__(self):
        return self.inner.__enter__()

    def __exit__(self, *error):
        self.inner.__exit__(*error)
        os.kill(os.getpid(), signal.SIGKILL)


def serve(directory: Path, path: str) -> None:
    """Answer requests on a socket, one connection each."""
    silo = Silo(directory)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(8)
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as stream:
                size = stream.read(8)
                if len(size) == 8:
                    reply = silo.answer(stream.read(int.from_bytes(size)))
                    stream.write(len(reply).to_bytes(8) + reply)


@dataclass
class Sockets:
    """The coordinator's transport: a silo that is down is one that could not be reached."""

    paths: dict[str, str]
    waiting: list = field(default_factory=list)

    def nodes(self):
        return list(self.paths)

    def send(self, node, envelope):
        self.waiting.append((node, self._exchange(self.paths[node], envelope)))

    def receive(self):
        time.sleep(0.005)
        arrived, self.waiting = self.waiting, []
        return arrived

    def _exchange(self, path: str, envelope: bytes) -> bytes | None:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                with client.makefile("rwb") as stream:
                    stream.write(len(envelope).to_bytes(8) + envelope)
                    stream.flush()
                    size = stream.read(8)
                    body = stream.read(int.from_bytes(size)) if len(size) == 8 else b""
                    return body or None
        except OSError:
            return None


def coordinate(place: Path, paths: dict[str, str]) -> None:
    """Drive the run to its end."""
    coordinator = Coordinator(place / "run.db", SigningKey.load(place / "coordinator.key"), time.time)
    Drive(coordinator, Sockets(paths), time.time, resend_seconds=0.03).run()


def fork(work: Callable[[], None], point: str | None) -> int:
    """Start a process; it ends with 0 only if its work ended."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        if point is not None:
            trap(point)
        work()
        code = 0
    finally:
        if code:
            traceback.print_exc()
        os._exit(code)


def run(place: Path, names: list[str], point: str | None) -> int:
    """Run a federation to its end, starting what was killed again; return how many were killed."""
    paths = {name: str(place / f"{name}.sock") for name in names}
    works = {name: (lambda name=name: serve(place / name, paths[name])) for name in names}
    works["coordinator"] = lambda: coordinate(place, paths)
    actor = None if point is None else point.split(":")[0]
    pids = {fork(work, point if who == actor else None): who for who, work in works.items()}
    killed = 0
    while "coordinator" in pids.values():
        pid, status = os.wait()
        who = pids.pop(pid)
        if os.WIFSIGNALED(status):
            killed += 1
            Path(paths.get(who, "/nonexistent")).unlink(missing_ok=True)
            pids[fork(works[who], None)] = who
        elif status or who != "coordinator":
            killed = -1
            break
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return killed


def report(place: Path, names: list[str], killed: int) -> dict:
    """Return what is in the files at the end."""
    coordinator = Coordinator(place / "run.db", SigningKey.load(place / "coordinator.key"), time.time)
    rows = sqlite3.connect(place / "run.db").execute("SELECT round, agent, envelope FROM answers").fetchall()
    stored, releases, spent = {}, [], []
    for agent, name in enumerate(names):
        silo = Silo(place / name)
        for k, reply in silo._connection.execute("SELECT round, reply FROM answers").fetchall():
            stored[k, agent] = bytes(reply)
        with silo._ledger() as ledger:
            said = ledger.statement()
            ledger.verify()
        releases.append(said.releases)
        spent.append(said.spent_epsilon)
    return {
        "killed": killed,
        "done": coordinator.is_done,
        "model": coordinator.estimates()[-1].tolist() if coordinator.round else None,
        "releases": releases,
        "spent": spent,
        "same": {(k, a): bytes(e) for k, a, e in rows} == stored,
    }


def main(place: Path, noise: NoiseOrigin, points: list[str]) -> list[dict]:
    """Make one federation, then run a copy of it for every point."""
    first = worlds.make(place / "template", sizes=(30, 20), rounds=3, noise=noise)
    first.coordinator().close()
    for silo in first.silos.values():
        silo.close()
    warm = worlds.copied(first, place / "warm")  # compiled kernels are loaded once, before the processes part
    warm.drive(warm.coordinator())
    for silo in warm.silos.values():
        silo.close()
    outcomes = []
    for number, point in enumerate(points):
        here = place / f"p{number}"
        for silo in worlds.copied(first, here).silos.values():
            silo.close()
        killed = run(here, list(first.silos), None if point == "none" else point)
        outcomes.append({"point": point} | report(here, list(first.silos), killed))
        shutil.rmtree(here)
    return outcomes


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), NoiseOrigin(sys.argv[2]), sys.argv[3:])))
