"""docs/cluster.md, word by word: a scheduler, a worker and fits in processes of their own; then losses in mid-run.

Changed are only host and port, and that fits of which the model is compared are simulated.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed", reason="needs the extra dpadmm[cluster]")

from dpadmm.core.model import ReleasedModel
from dpadmm.data import BinaryLabel, Numeric, Schema
from dpadmm.errors import DpadmmError
from dpadmm.privacy.ledger import open_for_reading

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def documented() -> list[list[str]]:
    """Return the commands of the page's blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in blocks]


@dataclass
class Shell:
    """Commands in a folder, each in a process group of its own, with what `export` has set."""

    folder: Path
    port: int
    set: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, line: str) -> "subprocess.Popen[bytes]":
        args = line.replace("10.0.0.1", "127.0.0.1").replace("8786", str(self.port))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with (self.folder / f"{len(self.started)}.log").open("wb") as log:
            made = subprocess.Popen(
                ["sh", "-c", f"exec {args}"],
                cwd=self.folder,
                env={**os.environ, **self.set, "PATH": path},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(made)
        return made

    def said(self, process: "subprocess.Popen[bytes]") -> str:
        return (self.folder / f"{self.started.index(process)}.log").read_text()

    def wait(self, process: "subprocess.Popen[bytes]", args: str) -> None:
        until = time.monotonic() + 60
        while args not in self.said(process):
            assert process.poll() is None, self.said(process)
            assert time.monotonic() < until, self.said(process)
            time.sleep(0.05)

    def cluster(self, lines: list[str]) -> "tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]":
        """Start a scheduler and a worker."""
        scheduler = self.start(lines[0])
        self.wait(scheduler, "Scheduler at:")
        worker = self.start(lines[1])
        self.wait(worker, "Registered to:")
        return scheduler, worker

    def stop(self) -> None:
        for process in reversed(self.started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A folder with the tables of the page and their schema."""
    monkeypatch.chdir(tmp_path)
    schema = Schema((Numeric("age", 0, 120), Numeric("dose", 0, 10)), BinaryLabel("sick", ("yes",), ("no",)))
    schema.save("schema.json")
    Path("big/south").mkdir(parents=True)
    for seed, name in enumerate(("north", "south/1", "south/2")):
        rng = np.random.default_rng(seed)
        age = rng.integers(20, 90, 1000)
        sick = np.where(rng.random(1000) < 1 / (1 + np.exp((55 - age) / 5)), "yes", "no")
        table = pd.DataFrame({"age": age, "dose": rng.uniform(0, 10, 1000), "sick": sick})
        table.to_parquet(f"big/{name}.parquet", index=False)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    made = Shell(tmp_path, port)
    yield made
    made.stop()


def test_the_page(shell):
    """A fit on one machine and one by the page's commands are the same model, and the page's own has its ledger."""
    plain, _ = documented()
    shell.cluster(plain)
    done = shell.start(plain[2])
    assert done.wait(300) == 0, shell.said(done)
    assert "is streamed" in shell.said(done)
    assert "without encryption" not in shell.said(done)  # it is on this machine
    with open_for_reading("study.ledger") as ledger:
        (run,) = ledger.runs()
    assert 0 < run.alone_epsilon <= 1
    alike = plain[2].replace("--ledger study.ledger --budget 3", "--method output-perturbation --simulate 3 --out {}")
    for name, line in (("there", alike), ("here", alike.partition("--cluster")[0] + "--stream")):
        fitted = shell.start(line.format(f"{name}.json"))
        assert fitted.wait(300) == 0, shell.said(fitted)
    here, there = (ReleasedModel.load(f"{name}.json") for name in ("here", "there"))
    assert here.coefficients == there.coefficients


def test_the_page_with_tls(shell):
    from distributed import Security

    made = Security.temporary()
    Path("ca.pem").write_text(made.tls_ca_file)
    Path("node.pem").write_text(made.tls_scheduler_cert)
    Path("node-key.pem").write_text(made.tls_scheduler_key)
    _, lines = documented()
    shell.cluster(lines)
    fit = lines[-1].replace("--ledger study.ledger", "--ledger study.ledger --budget 3 --method output-perturbation")
    refused = shell.start(fit)
    assert refused.wait(120) == 2, shell.said(refused)
    assert "Dask scheduler" in shell.said(refused)
    assert not Path("study.ledger").exists()
    shell.set.update(line.removeprefix("export ").split("=") for line in lines if line.startswith("export "))
    assert len(shell.set) == 3
    done = shell.start(fit)
    assert done.wait(300) == 0, shell.said(done)


def until_spent(ledger: Path) -> None:
    """Wait until a run is in the ledger: it has begun."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            with open_for_reading(ledger) as opened:
                if opened.runs():
                    return
        except DpadmmError:
            pass
        time.sleep(0.1)
    pytest.fail("nothing was spent")


@pytest.mark.parametrize("what", ["scheduler", "keyboard"])
def test_a_run_that_is_disturbed(shell, what):
    """A scheduler that comes back finds the run waiting; what was reserved is reserved once."""
    plain, _ = documented()
    scheduler, worker = shell.cluster(plain)
    fit = shell.start(plain[2].replace("--cluster", "--method p-admm --cluster"))
    until_spent(Path("study.ledger"))
    time.sleep(1)  # into the rounds
    assert fit.poll() is None, shell.said(fit)
    if what == "scheduler":
        scheduler.kill()
        worker.kill()
        scheduler.wait(30)
        shell.wait(fit, "not answer")
        shell.cluster(plain)
        assert fit.wait(300) == 0, shell.said(fit)
        assert Path("model.json").exists()
    else:
        fit.send_signal(signal.SIGINT)
        assert fit.wait(120) not in (0, 2), shell.said(fit)
        assert "Interrupted: " in shell.said(fit)
        assert worker.poll() is None
        assert not Path("model.json").exists()
    assert "Traceback" not in shell.said(fit)
    with open_for_reading("study.ledger") as ledger:
        (run,) = ledger.runs()
    assert run.alone_epsilon > 0.9  # all of it, as reserved
