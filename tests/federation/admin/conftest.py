"""A small federation in a folder, driven in memory as far as a test wants it."""

import shutil
import time
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from tests.contracts.in_memory import Carried, InMemory

from dpadmm.data import Numeric, Schema, ThresholdLabel
from dpadmm.federation.admin.rehearsal import (
    Rehearsal,
    p_admm_terms,
    prepare_rehearsal,
    rehearsal_policy,
    serve_in_thread,
)
from dpadmm.federation.coordinator import open_run
from dpadmm.federation.coordinator_loop import drive_for_others
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.https.service import free_port
from dpadmm.federation.silo import Silo
from dpadmm.federation.silo_directory import SiloDirectory

ROUNDS = 4
CELL = "73.125"
"""A cell of the table that must appear nowhere."""


@dataclass
class Federation:
    """A coordinator, and the silos north and south, which have approved four rounds with test noise."""

    rehearsal: Rehearsal

    @property
    def north(self) -> SiloDirectory:
        return self.rehearsal.silos["north"]

    @property
    def ledger(self) -> Path:
        return self.north.directory / "rehearsal.db"

    @property
    def file(self) -> Path:
        """The coordinator's file."""
        return self.rehearsal.coordinator.database

    patience = SimpleNamespace(is_asked=False, waiting=nullcontext)
    """Stands for the signals of a process that nobody ends."""

    def ask(self) -> None:
        """Ask for the run."""
        with closing(open_run(self.rehearsal.coordinator, self.rehearsal.terms)) as run:
            run.ask()

    def drive(self, answers: float = float("inf")) -> None:
        """Let the run go on until so many answers have arrived, or to its end."""
        arrived = 0

        def fate(carried: Carried) -> tuple[int, ...]:
            nonlocal arrived
            arrived += not carried.is_request
            if carried.is_request and arrived > answers:  # asked again, after a while, for what was lost
                raise StopIteration
            return (0,) if carried.is_request or arrived <= answers else ()

        silos = {name: lambda files=files: Silo(files.directory) for name, files in self.rehearsal.silos.items()}
        transport = InMemory(silos, self.rehearsal.terms, fate)
        with closing(open_run(self.rehearsal.coordinator, self.rehearsal.terms)) as run:
            run.ask()
            try:
                drive_for_others(run, transport, transport.clock)
            except StopIteration:
                pass
            finally:
                for silo in transport._running.values():
                    silo.close()

    @contextmanager
    def served(self):
        """Serve the coordinator on the loopback; yield the service and its address."""
        port = free_port()
        with serve_in_thread(self.rehearsal.coordinator, port) as service:
            yield service, f"127.0.0.1:{port}"


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Rehearsal:
    """Made once; tests work on copies."""
    schema = Schema((Numeric("age", 0, 120), Numeric("dose", 0, 10)), ThresholdLabel("result", 0))
    rows = {"age": [*range(20, 59), float(CELL)], "dose": [i % 7 for i in range(40)], "result": [1, -1] * 20}
    tables = {name: pd.DataFrame(rows) for name in ("north", "south")}
    terms = p_admm_terms(schema, ROUNDS, 1.0)
    return prepare_rehearsal(tmp_path_factory.mktemp("template"), tables, schema, terms, rehearsal_policy, (2.0, 1e-5))


@pytest.fixture
def federation(template, tmp_path) -> Federation:
    shutil.copytree(template.place, tmp_path, dirs_exist_ok=True)
    silos = {name: SiloDirectory(tmp_path / name) for name in template.silos}
    for files in silos.values():
        files.policy.write_text(files.policy.read_text().replace(str(template.place), str(tmp_path)))
    return Federation(Rehearsal(tmp_path, template.terms, CoordinatorFiles(tmp_path / "coordinator"), silos))


def snapshot(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """All files below a folder: what they hold, their modes, and when they were written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(each.relative_to(folder)): (each.read_bytes(), each.stat().st_mode, each.stat().st_mtime_ns)
        for each in files
    }


@pytest.fixture
def unchanged(federation):
    """Within, nothing in the federation's folder may change."""

    @contextmanager
    def guard():
        before = snapshot(federation.rehearsal.place)
        yield
        assert snapshot(federation.rehearsal.place) == before

    return guard


def wait_for(is_true) -> None:
    """Return when something is true."""
    until = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="session")
def waiting():
    """Wait for a condition."""
    return wait_for
