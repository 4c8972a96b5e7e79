"""Writer processes that are killed or race each other; run as a script, prints what happened as JSON.

One Python start, then `os.fork` for every writer: `writers.py kills|race|creations PLACE NUMBER SEED`. A writer tells
the parent the number of a message through a pipe only after it holds the receipt: the moment a message would leave.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpadmm.errors import BudgetError, LedgerError
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.ledger.store import read_entries
from dpadmm.privacy.protection import Certificate, Protection, Unit, View
from dpadmm.privacy.releases import GaussianRelease, Origin

DATA = (SiloColumns("clinic", {"x": [1.0, 2.0]}),)
BUDGET = Budget(epsilon=1.0, delta=1e-5)
RATIO = 0.03
CERTIFICATE = Certificate(
    bound=RATIO,
    protection=Protection(unit=Unit.RECORD, view=View.EAVESDROPPER),
    theorem="C1",
    assumptions=("for a test",),
)


def release_all(path: Path, writer: int, sent: int) -> None:
    """Reserve and send one message after the other until the budget refuses."""
    with Ledger.open(path) as ledger:
        for round_ in range(10_000):
            release = GaussianRelease(certificate=CERTIFICATE, noise_std=1.0, agent=writer, round=round_)
            try:
                ledger.confirm(DATA).reserve([release], run="race", algorithm="p-admm", origin=Origin.SECURE)
            except BudgetError:
                return
            os.write(sent, f"{writer} {round_}\n".encode())


def start(work: Callable[[int], None]) -> tuple[int, int]:
    """Fork a writer; return its process id and the end of the pipe to read from."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    code = 1
    try:
        os.close(reading)
        work(writing)
        code = 0
    finally:
        os._exit(code)


def kill_somewhere(child: int, reading: int, chance: random.Random) -> bytes:
    """Kill the writer at a random moment of its start, or shortly after a random message; return what it had sent.

    Counting messages instead of milliseconds makes the moments as varied on a slow machine as on a quick one.
    """
    begun = b""
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3, 5))):
        more = os.read(reading, 8)  # about one message; empty when the writer has ended
        begun += more
        if not more:
            break
    time.sleep(chance.uniform(0.0, 0.01 if begun else 0.06))
    os.kill(child, signal.SIGKILL)
    return begun


def finish(child: int, reading: int, begun: bytes = b"") -> tuple[set[tuple[int, int]], int]:
    """Return the messages that left and how the writer ended."""
    with os.fdopen(reading, "rb") as pipe:
        lines = (begun + pipe.read()).decode().splitlines()
    status = os.waitpid(child, 0)[1]
    return {(int(writer), int(round_)) for writer, round_ in map(str.split, lines)}, status


def recorded(path: Path) -> set[tuple[int, int]]:
    """Return the messages in the log; opening checks all of it."""
    with Ledger.open(path) as ledger:
        contents = [entry.content() for entry in read_entries(ledger._connection)]
    return {(c["release"]["agent"], c["release"]["round"]) for c in contents if c["event"] == "release"}


def kills(place: Path, number: int, seed: int) -> dict[str, Any]:
    """Kill `number` writers at random moments; a new ledger whenever one is used up."""
    chance = random.Random(seed)
    outcome = {"killed": 0, "unrecorded": 0, "sent": 0, "unsent": 0, "most": 0, "ledgers": 0}
    path, sent, is_used_up = place, set[tuple[int, int]](), True
    while outcome["killed"] < number:
        if is_used_up:
            path, sent = place / f"ledger-{outcome['ledgers']}", set()
            Ledger.create(path, DATA, BUDGET).close()
            outcome["ledgers"] += 1
        writer = outcome["killed"]
        child, reading = start(lambda pipe, path=path, writer=writer: release_all(path, writer, pipe))
        messages, status = finish(child, reading, kill_somewhere(child, reading, chance))
        is_used_up = not os.WIFSIGNALED(status)  # it ended by itself, refused by the budget
        outcome["killed"] += not is_used_up
        sent |= messages
        log = recorded(path)
        outcome["unrecorded"] += len(sent - log)
        outcome["sent"] += len(messages)
        outcome["unsent"] += any(key[0] == writer for key in log - sent)
        outcome["most"] = max(outcome["most"], len(log))
    return outcome


def race(place: Path, number: int, seed: int) -> dict[str, Any]:
    """Let `number` writers spend one budget at the same time."""
    path = place / "race"
    Ledger.create(path, DATA, BUDGET).close()
    writers = [start(lambda pipe, writer=writer: release_all(path, writer, pipe)) for writer in range(number)]
    ends = [finish(child, reading) for child, reading in writers]
    sent = [message for messages, _ in ends for message in messages]
    log = recorded(path)
    with Ledger.open(path) as ledger:
        spent = ledger.statement().spent_epsilon
    return {
        "failed": sum(status != 0 for _, status in ends),
        "sent": len(sent),
        "recorded": len(log),
        "same": set(sent) == log,
        "busy_writers": len({writer for writer, _ in sent}),
        "spent": spent,
    }


def creations(place: Path, number: int, seed: int) -> dict[str, Any]:
    """Kill `number` processes while they create a ledger: it is there and sound, or not there at all."""
    chance = random.Random(seed)
    outcome = {"there": 0, "not there": 0, "refused": 0}
    for k in range(number):
        path = place / f"new-{k}"
        child, reading = start(lambda pipe, path=path: Ledger.create(path, DATA, BUDGET).close())
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        finish(child, reading)
        if path.exists():
            recorded(path)
            outcome["there"] += 1
            continue
        outcome["not there"] += 1
        try:
            Ledger.create(path, DATA, BUDGET).close()
        except LedgerError:
            outcome["refused"] += 1
    return outcome


if __name__ == "__main__":
    task = {"kills": kills, "race": race, "creations": creations}[sys.argv[1]]
    sys.stdout.write(json.dumps(task(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
