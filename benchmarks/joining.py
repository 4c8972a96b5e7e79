"""The commands by which four silos join a study, each until it waits for somebody else: seconds on this machine."""

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from dpadmm.federation.admin.rehearsal import rehearsal_tables
from dpadmm.federation.https.service import free_port
from table import Row

SILOS = 4
LIMIT_SECONDS = 2.0


class Command:
    """A `dpadmm` command, and how long it takes until it says something."""

    def __init__(self, place: Path, name: str, *args: str) -> None:
        self.log, self.began = place / f"{name}.log", time.perf_counter()
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dpadmm", *args], cwd=place, stdout=file, stderr=subprocess.STDOUT
            )

    def seconds_until(self, args: str) -> float:
        """Wait for these words; return how long they took since the command was given."""
        while args not in self.log.read_text():
            if self.process.poll() is not None and args not in self.log.read_text():
                raise RuntimeError(f"{args!r} is not in\n{self.log.read_text()}")
            time.sleep(0.005)
        return time.perf_counter() - self.began

    def end(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


def rows() -> list[Row]:
    """Measure."""
    tables, schema = rehearsal_tables(SILOS, None, None, None)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        place, port = Path(folder), free_port()
        schema.save(place / "schema.json")
        for name, table in tables.items():
            table.to_csv(place / f"{name}.csv", index=False)

        def given(name: str, *args: str) -> Command:
            made = Command(place, name, *args)
            ends.callback(made.end)
            return made

        silos = [term for name in tables for term in ("--silo", name)]
        asked = ["--schema", "schema.json", "--epsilon", "1", "--delta", "1e-6", "--address", f"127.0.0.1:{port}"]
        spent = {}
        invite = given("invite", "coordinator", "invite", "coordinator", "--study", "one", *silos, *asked)
        spent["coordinator invite"] = invite.seconds_until("Here:")
        spent["coordinator run, until it listens"] = given(
            "run", "coordinator", "run", "coordinator", "--port", str(port)
        ).seconds_until("listens on")
        joined = []
        for name in tables:
            invitation = f"coordinator/invitations/one/{name}.invite"
            own = ["--data", f"{name}.csv", "--budget-epsilon", "2", "--yes"]
            joined.append(given(name, "silo", "join", invitation, *own).seconds_until("Waiting for the terms"))
        spent["silo join, until it has registered"] = max(joined)
        federate = given("federate", "federate", "run", "--study", "one", "--coordinator", "coordinator", "--yes")
        spent["federate run --study, until the terms are drafted"] = federate.seconds_until("The terms are drafted")
        federate.seconds_until("Done after")
    return [
        Row(f"{SILOS} silos: {name}", seconds, "s", "limit", LIMIT_SECONDS, LIMIT_SECONDS / seconds, 1.0)
        for name, seconds in spent.items()
    ]
