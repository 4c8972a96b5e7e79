"""docs/administrators.md, word by word: three silos in processes of their own, HTTPS, secure noise, owners who type.

Changed are only the host and port, and that three silos do what the page shows for one.
"""

import json
import re
import shlex
import shutil
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")

from dpadmm.core.model import ReleasedModel
from dpadmm.data import Numeric, Schema, ThresholdLabel
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.https.service import free_port
from dpadmm.privacy.ledger import open_for_reading

CLINICS = ("clinic", "north", "south")
PAGE = Path(__file__).parents[2] / "docs" / "administrators.md"
FINGERPRINT = r"[0-9a-f]{8}(?:-[0-9a-f]{8}){3}"


def documented() -> list[str]:
    """Return the commands of the page, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@dataclass
class Owner:
    """Somebody at a terminal: what the program asks is read, what the owner answers is typed."""

    args: list[str]
    log: Path
    answers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(self.args, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        return self.log.read_text()

    def hears(self, pattern: str) -> str:
        """Wait until the program says something; return it."""
        until = time.monotonic() + 60
        while (found := re.search(pattern, self.said)) is None:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until, f"{pattern!r} is not in\n{self.said}"
            time.sleep(0.05)
        return found[found.lastindex or 0]

    def types(self, text: str) -> None:
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def ends(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


@pytest.fixture
def machines(programs, tmp_path):
    """Everybody's tables and the schema; returns how a line of the page is turned into words."""
    Schema((Numeric("age", 0, 120), Numeric("dose", 0, 10)), ThresholdLabel("result", 0)).save("schema.json")
    for name in ("patients", "patients-2027"):
        rng = np.random.default_rng(len(name))
        age, dose = rng.integers(20, 90, 300), rng.integers(0, 10, 300)
        sick = np.where(age + rng.normal(0, 15, 300) > 55, 1, -1)
        pd.DataFrame({"age": age, "dose": dose, "result": sick}).to_csv(f"{name}.csv", index=False)
    port, owners = free_port(), []

    def args(line: str, name: str = "clinic") -> list[str]:
        changed = line.replace("--host 0.0.0.0 --port 9092", f"--host 127.0.0.1 --port {port}")
        changed = changed.replace("federation.example.org:9092", f"127.0.0.1:{port}")
        if "coordinator" not in line.split()[1:3] and "federate" not in line.split()[1:2]:
            changed = changed.replace("clinic", name)
        return programs.args(*shlex.split(changed)[1:])

    def owner(line: str, name: str = "clinic") -> Owner:
        owners.append(Owner(args(line, name), tmp_path / f"{len(owners)}-{name}.log"))
        return owners[-1]

    yield args, owner
    for each in owners:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()
        each.process.stdin.close()


def test_the_page_from_the_invitation_to_the_model_and_after(machines, cli):
    args, owner = machines

    def run(args: list[str]) -> str:
        """Run a command to its end."""
        done = cli.run(*args[1:])
        assert done.exit_code == 0, f"{args}: {done.output}"
        return done.stdout

    invite, serve, join, federate, check, status, doctor, statuses, new_data, rotate = documented()
    run(args(invite))
    coordinator = owner(serve)
    coordinator.hears("listens on")
    watching = owner(federate)
    watching.hears("waiting for clinic, north, south to register")
    silos = {}
    for name in CLINICS:
        shutil.copy(f"coordinator/invitations/asthma-2026/{name}.invite", f"{name}.invite")
        silos[name] = owner(join, name)
    for silo in silos.values():
        assert "epsilon 1 at delta 1e-06" in silo.hears("asks for .*")
        assert "one record (replace-one), from the coordinator with up to 1 silo" in silo.hears("protects .*")
        silo.hears("The most epsilon these data may ever spend")
        silo.types("2")
    reported = {name: silo.hears(f"Fingerprint of {name}: ({FINGERPRINT})") for name, silo in silos.items()}
    watching.hears("Offer these terms to the silos")
    watching.types("y")
    first = silos["clinic"]
    first.hears("Fingerprint of north, as its owner reads it")
    first.types(reported["south"])  # mixed up
    first.hears("The key of north in the terms does not have the fingerprint")
    for name, silo in silos.items():
        for other in CLINICS:
            if other != name:
                silo.hears(f"Fingerprint of {other}, as its owner reads it")
                silo.types(reported[other])
        silo.hears("Approve these terms")
        assert "Certified cost to a record here: epsilon 1 at delta 1e-06" in silo.said
        assert (
            f"north  {reported['north']}  {'this silo' if name == 'north' else 'confirmed'}, 300 records" in silo.said
        )
        silo.types("y")
    assert watching.process.wait(90) == 0, watching.said
    assert "(private release)" in watching.said
    model = ReleasedModel.load("model.json")
    assert (model.guarantee.protection.view.value, model.guarantee.protection.colluders) == ("aggregate", 1)
    assert model.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)
    for name in CLINICS:
        run(args(check, name))
        assert "as of" in Path("model.html").read_text()
        Path("model.html").unlink()  # the next owner has a machine of its own
        assert "connected" in run(args(status, name))
        assert "TLS" in run(args(doctor, name))
    assert "asthma-2026" in run(args(statuses))
    for silo in silos.values():
        assert silo.ends() == 0
    run(args(new_data))
    rotated = run(args(rotate))
    new = re.search(FINGERPRINT, rotated)[0]
    assert new != reported["clinic"]
    with open_for_reading("clinic/silo.db") as ledger:
        assert ledger.statement().spent_epsilon == pytest.approx(1.0, rel=1e-6)  # of the earlier table, still
    # Another silo comes; the one with the new key and the new table joins with what it has.
    run(args(invite.replace("asthma-2026", "asthma-2027").replace("--silo north", "--silo west")))
    shutil.copy("coordinator/invitations/asthma-2027/clinic.invite", "clinic.invite")
    again = owner(join.replace(" --data patients.csv", ""))
    again.hears("Registered. Waiting for the terms")
    with closing(CoordinatorFiles(Path("coordinator")).open_store(for_reading=True)) as store:
        (entry,) = store.rows("SELECT entry FROM entry WHERE study = 'asthma-2027'")
    assert json.loads(*entry)["records"] == 300
    assert again.process.poll() is None
