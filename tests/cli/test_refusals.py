"""What commands refuse: exit code 2, nothing on standard output, no file changed, and the sentences of the snapshot.

The tables are tests/snapshots/terminal/refusals*.txt: a command a line after `$`, and below it what it says. New rows
are commands alone; `--update-snapshots` adds what they say, to be read in a diff.
"""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import STUDY_SCHEMA, without_keys
from tests.refusals import steady

SNAPSHOTS = Path(__file__).parents[1] / "snapshots" / "terminal"
LABELS = {
    "classes": {"kind": "classes", "name": "stage", "classes": ["early", "middle", "late"]},
    "number": {"kind": "real", "name": "stay", "lower": 0, "upper": 40},
}
FILES = {
    "empty.csv": "",
    "header.csv": "age,sex,pressure,sick\n",
    "two-marks.csv": "age;sex,pressure;sick\n1;F,2;yes\n",
    "either-mark.csv": "age;sex;pressure;sick\n1;F;1.234;yes\n",
    "longer-row.csv": "age,sex,pressure,sick\n1,F,2,yes,9,9\n",
    "name-twice.csv": "age,age,pressure,sick\n1,1,2,yes\n",
    "quoted.csv": 'age,sex,pressure,sick\n41,"F,120,yes\n',
    "text.parquet": "age,sex\n",
    "notes.txt": "no ledger\n" * 500,
}


def contents(folder: Path) -> dict[str, object]:
    """Return what every file below a folder holds."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def check_refusals(cli, snapshot, name: str) -> None:
    """Run the commands of a table here, one after the other."""
    commands = re.findall(r"^\$ (.+)$", (SNAPSHOTS / name).read_text(encoding="utf-8"), re.MULTILINE)
    here, lines, wrong = contents(Path()), [], []
    for command in commands:
        done = cli.run(*shlex.split(command.removeprefix("dpadmm ")))
        if (done.exit_code, done.stdout) != (2, "") or contents(Path()) != here:
            wrong.append(f"{command}: exit code {done.exit_code}\n{done.output}")
            here = contents(Path())
        lines += [
            f"$ {command}",
            *(line for line in without_keys(steady(done.stderr)).splitlines() if line.strip()),
            "",
        ]
    assert not wrong, "\n".join(wrong)
    snapshot(f"terminal/{name}", "\n".join(lines))


@pytest.fixture
def clinic(trained, study, tmp_path, monkeypatch):
    """Stand in a folder with a model and its ledger, its tables, and many tables that have something wrong."""
    monkeypatch.chdir(tmp_path)
    for each in (*trained.model.parent.iterdir(), *study.folder.iterdir()):
        shutil.copy(each, each.name)
    os.symlink("study.ledger", "link.json")
    os.link("model.json", "hard.html")
    north = pd.read_csv("north.csv", dtype=str)
    changes = {"listed": (3, "sex", "X"), "gap": (6, "pressure", None), "text": (0, "pressure", "high")}
    for name, (row, column, cell) in (changes | {"far": (1, "age", "999"), "changed": (0, "age", "21")}).items():
        table = north.copy()
        table.loc[row, column] = cell
        table.to_csv(f"{name}.csv", index=False)
    north.drop(columns="sex").to_csv("lacking.csv", index=False)
    north.head(12).to_csv("small.csv", index=False)
    north.assign(patient=north.index // 2, ward=north.index // 2 % 2, town=north.index % 2).to_csv(
        "visits.csv", index=False
    )
    north.to_csv("bare.csv", index=False, header=False)
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("latin.csv").write_bytes("age,sex,pressure,sick\n1,F,2,\u00e9\n".encode("latin-1"))
    age = pd.read_csv("north.csv")["age"]
    stage = pd.cut(age, (0, 45, 65, 120), labels=["early", "middle", "late"])
    north.assign(stage=stage.astype(str), stay=age / 4).to_csv("classes.csv", index=False)
    for name, label in LABELS.items():
        Path(f"{name}.json").write_text(json.dumps(STUDY_SCHEMA | {"label": label}))
    Path("draft.json").write_text(
        json.dumps(STUDY_SCHEMA | {"columns": [STUDY_SCHEMA["columns"][0] | {"lower": None}]})
    )
    (tmp_path / "folder").mkdir()


def test_on_one_machine(cli, clinic, snapshot):
    check_refusals(cli, snapshot, "refusals.txt")


def test_between_machines(cli, rehearsal, snapshot):
    check_refusals(cli, snapshot, "refusals-federation.txt")
