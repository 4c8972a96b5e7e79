"""A runner of commands, and studies to run them on."""

import json
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.builders import instant_plans

with warnings.catch_warnings():
    # typer 0.20 still imports names that click 8.5 has deprecated; that is theirs to mend, and happens on import only.
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    from typer.testing import CliRunner

    from dpadmm.cli.main import app

if TYPE_CHECKING:
    from dpadmm.federation.admin.rehearsal import Rehearsal
    from dpadmm.federation.https.processes import Process
    from dpadmm.federation.terms import Participant, Terms


@dataclass(frozen=True)
class Tools:
    """What the tests share, by name."""

    run: Callable[..., Any]
    ask: Callable[..., Any]


def run(*args: str) -> Any:
    """Run a command in this process."""
    return CliRunner().invoke(app, list(args), env={"COLUMNS": "300", "TERM": "dumb"})


def ask(*args: str) -> Any:
    """Run a command with --json and return what it says."""
    result = run(*args, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


@pytest.fixture(scope="session")
def cli() -> Tools:
    return Tools(run, ask)


@dataclass(frozen=True)
class Study:
    """Two silos as CSV files, their schema, and the words that train on them."""

    folder: Path
    files: tuple[str, str]
    schema: str

    @property
    def args(self) -> tuple[str, ...]:
        return (*self.files, "--schema", self.schema, "--epsilon", "1", "--delta", "1e-5")


def study_tables() -> dict[str, pd.DataFrame]:
    """Age decides, sex and pressure do not; whole numbers, text and decimals."""
    rng = np.random.default_rng(5)
    tables = {}
    for name, n in (("north", 300), ("south", 200)):
        age = rng.integers(20, 90, n)
        sick = np.where(rng.random(n) < 1 / (1 + np.exp(-(age - 55) / 5)), "yes", "no")
        columns = {"age": age, "sex": rng.choice(["F", "M"], n), "pressure": rng.normal(130, 20, n).round(1)}
        tables[name] = pd.DataFrame(columns | {"sick": sick})
    return tables


STUDY_SCHEMA = {
    "format": "dpadmm-schema",
    "version": 1,
    "row_norm": 0.5,
    "constant": None,
    "label": {"kind": "binary", "name": "sick", "positive": ["yes"], "negative": ["no"]},
    "columns": [
        {"kind": "numeric", "name": "age", "lower": 0, "upper": 120, "typical": 55},
        {"kind": "categorical", "name": "sex", "categories": ["F", "M"]},
        {"kind": "numeric", "name": "pressure", "lower": 50, "upper": 250, "typical": 130},
    ],
}


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Files to train on."""
    folder = tmp_path_factory.mktemp("study")
    for name, table in study_tables().items():
        table.to_csv(folder / f"{name}.csv", index=False)
    (folder / "schema.json").write_text(json.dumps(STUDY_SCHEMA))
    files = str(folder / "north.csv"), str(folder / "south.csv")
    return Study(folder, files, str(folder / "schema.json"))


@dataclass(frozen=True)
class Trained:
    """A model, its ledger with a budget of 3, and what `fit --json` said."""

    model: Path
    ledger: Path
    said: dict[str, Any]


@pytest.fixture(scope="session")
def trained(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Train once, with secure noise and a ledger; tests that change either work on copies."""
    folder = tmp_path_factory.mktemp("trained")
    model, ledger = folder / "model.json", folder / "study.ledger"
    with instant_plans():
        said = ask("fit", *study.args, "--out", str(model), "--ledger", str(ledger), "--budget", "3")
    return Trained(model, ledger, said)


@dataclass
class Programs:
    """`dpadmm` in processes of their own."""

    folder: Path
    started: "list[Process]" = field(default_factory=list)

    @staticmethod
    def args(*args: str) -> list[str]:
        return [str(Path(sys.executable).parent / "dpadmm"), *args]

    def run(self, *args: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(self.args(*args), capture_output=True, text=True, timeout=120, input=typed)

    def start(self, *args: str) -> "Process":
        """Start a command; what it says is in its log."""
        from dpadmm.federation.https.processes import Process

        self.started.append(Process.start(self.args(*args), self.folder / f"{len(self.started)}.log"))
        return self.started[-1]

    @staticmethod
    def wait(process: "Process", args: str) -> None:
        """Wait until a process says something."""
        until = time.monotonic() + 60
        while True:
            is_alive, said = process.is_alive and time.monotonic() < until, process.log.read_text()
            if args in said:
                return
            assert is_alive, f"{args!r} is not in\n{said}"
            time.sleep(0.05)

    @staticmethod
    def end(process: "Process", how: int) -> int:
        """Send a signal; return the exit code."""
        process.popen.send_signal(how)
        return process.popen.wait(120)

    def stop(self) -> None:
        """End all that was started."""
        for process in self.started:
            process.ask_to_stop()
        for process in self.started:
            process.stop()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """Processes in an empty folder, which end with the test."""
    pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")
    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    made = Programs(tmp_path)
    yield made
    made.stop()
    signal.signal(signal.SIGINT, before)


STUDY_ROWS = "age,dose,result\n" + "".join(f"{20 + i},{i % 7},{(-1) ** i}\n" for i in range(40))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the tables of two silos, that of the documents, and their schema."""
    from dpadmm.data import Numeric, Schema, ThresholdLabel

    monkeypatch.chdir(tmp_path)
    Schema((Numeric("age", 0, 120), Numeric("dose", 0, 10)), ThresholdLabel("result", 0)).save("schema.json")
    for name in ("north", "south", "patients"):
        (tmp_path / f"{name}.csv").write_text(STUDY_ROWS)
    return tmp_path


def init(cli: Tools, name: str, *more: str) -> Any:
    """Make a silo of the table of this name."""
    options = ("--data", f"{name}.csv", "--schema", "schema.json", "--budget-epsilon", "2", "--delta", "1e-5")
    return cli.run("silo", "init", name, *options, *more)


def participant(name: str) -> "Participant":
    """Return a silo as terms name it."""
    from dpadmm.federation.policy import SiloEntry
    from dpadmm.federation.terms import Participant

    entry = SiloEntry.load(Path(name) / "silo.entry")
    return Participant(entry.name, entry.records, entry.key)


@pytest.fixture
def terms(cli: Tools, place: Path) -> "Terms":
    """Make a coordinator and the silos north and south; return the terms of a run of theirs."""
    from dpadmm.federation.coordinator_store import CoordinatorFiles
    from dpadmm.federation.silo_directory import schema_digest
    from dpadmm.federation.terms import Terms

    assert cli.run("coordinator", "init", "coordinator").exit_code == 0
    assert [init(cli, name).exit_code for name in ("north", "south")] == [0, 0]
    return Terms(
        run="trial",
        method="p-admm",
        settings=(("eta", 0.05),),
        rounds=3,
        epsilon=1.0,
        delta=1e-5,
        participants=(participant("north"), participant("south")),
        coordinator=CoordinatorFiles(place / "coordinator").key().public,
        schema=schema_digest(place / "schema.json"),
        dimension=3,
        edges=((0, 1),),
        mu=0.01,
    )


def approve(cli: Tools, terms: "Terms", *more: str, silo: str = "north") -> Any:
    """Give a silo these terms to approve."""
    from dpadmm.federation.terms import write_federation

    write_federation(Path("federation.toml"), terms)
    return cli.run("silo", "approve", silo, "federation.toml", *more or ("--yes",))


def without_keys(text: str) -> str:
    """Return a text without keys, digests, fingerprints and times."""
    text = re.sub(r"\b[0-9a-f]{8}[0-9a-f-]{24,}\b", "KEY", text.replace(str(Path.cwd()), "."))
    return re.sub(r"\d{4}-\d\d-\d\d(-[0-9a-f]{8}|[T ]\d\d:\d\d:\d\d[\d.+:]*)?", "TIME", text)


@pytest.fixture
def rehearsal(place: Path) -> "Rehearsal":
    """A coordinator and the silos north and south, which have approved three rounds with test noise."""
    pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")
    from dpadmm.data.reading import read_file
    from dpadmm.data.schema import Schema
    from dpadmm.federation.admin.rehearsal import p_admm_terms, prepare_rehearsal, rehearsal_policy

    tables = {name: read_file(place / f"{name}.csv").frame for name in ("north", "south")}
    schema = Schema.load("schema.json")
    return prepare_rehearsal(place, tables, schema, p_admm_terms(schema, 3, 1.0), rehearsal_policy, (2.0, 1e-5))
