"""Silos and a coordinator as real processes over TLS, killed at exact points; run as a script, prints JSON.

`kill_processes.py PLACE KIND NOISE POINT...` with POINT = actor:function:when:n, e.g. `s0:store:before:2` kills silo s0
before its second call of `store`. One Python start, then `os.fork` for every process. The killed process is started
again without the trap, as an operator would. For each point: the model, the ledgers, and whether what left is stored.
"""

import json
import logging
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))

import setups

from dpadmm.federation.coordinator import Coordinator, open_run
from dpadmm.federation.coordinator_store import DONE, JOINING, CoordinatorFiles
from dpadmm.federation.https.client import SiloClient, run_silo
from dpadmm.federation.https.service import free_port, serve_coordinator
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import policy_records
from dpadmm.federation.silo_store import SiloStore
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.privacy.ledger import Transaction, store

TRAPS = {
    "reserve": (Transaction, "reserve"),  # within the transaction, before the answer is stored in it
    "store": (SiloStore, "add_answer"),  # after it, but before the transaction ends
    "commit": (store, "transaction"),  # after it: durable, but the anchor does not know of it yet
    "anchor": (store, "write_anchor"),  # between the commit and the sending
    "send": (SiloClient, "_send"),  # after it: the coordinator has the answer, the silo does not know
    "accept": (Coordinator, "accept"),
    "complete": (Coordinator, "_finish_round"),
}
KINDS = {
    "plain": {"rounds": 3},
    "masked": {
        "method": "noisy-gradients",
        "settings": {"step": 0.5},
        "rounds": 2,
        **setups.MASKED,
        **setups.COUNTED,
    },
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


def coordinate(place: Path, port: int) -> None:
    """Serve until the run is done."""
    files = CoordinatorFiles(place / "coordinator")
    with serve_coordinator(files, "127.0.0.1", port) as service:
        while not service._studies.store.runs(DONE):
            service.check_runs()
            time.sleep(0.02)


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
    port = free_port()
    works = {name: (lambda name=name: run_silo(place / name, f"127.0.0.1:{port}", policy_records)) for name in names}
    works["coordinator"] = lambda: coordinate(place, port)
    actor = None if point is None else point.split(":")[0]
    pids = {fork(work, point if who == actor else None): who for who, work in works.items()}
    killed = 0
    while "coordinator" in pids.values():
        pid, status = os.wait()
        who = pids.pop(pid)
        if os.WIFSIGNALED(status):
            killed += 1
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
    file = CoordinatorFiles(place / "coordinator").open_store()
    coordinator = Coordinator(file, *file.runs(), key=None)
    rows = file.rows("SELECT round, agent, envelope FROM answer WHERE round > ?", JOINING)
    stored, releases, spent = {}, [], []
    for agent, name in enumerate(names):
        silo = Silo(place / name)
        for k, reply in silo.store.rows("SELECT round, reply FROM answer"):
            stored[k, agent] = bytes(reply)
        said = silo.ledger.statement()
        silo.ledger.verify()
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


def main(place: Path, kind: str, noise: NoiseOrigin, points: list[str]) -> list[dict]:
    """Make one federation, then run a copy of it for every point."""
    logging.disable(logging.INFO)
    first = setups.make(place / "template", sizes=(30, 20, 25), noise=noise, **KINDS[kind])
    files = CoordinatorFiles(first.place / "coordinator")
    files.create(first.key)
    started = open_run(files, first.terms)
    started.ask()
    started.close()
    for silo in first.silos.values():
        silo.close()
    warm = setups.copied(first, place / "warm")  # compiled kernels are loaded once, before the processes part
    warm.drive(warm.coordinator())
    for silo in warm.silos.values():
        silo.close()
    outcomes = []
    for number, point in enumerate(points):
        here = place / f"p{number}"
        for silo in setups.copied(first, here).silos.values():
            silo.close()
        killed = run(here, list(first.silos), None if point == "none" else point)
        outcomes.append({"point": point} | report(here, list(first.silos), killed))
        shutil.rmtree(here)
    return outcomes


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2], NoiseOrigin(sys.argv[3]), sys.argv[4:])))
