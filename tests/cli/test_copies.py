"""A table and its copy are refused by everything that reads the tables of several silos and counts people."""

import json
import os
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import STUDY_SCHEMA, study_tables
from tests.grouped import grouped

import dpadmm
from dpadmm.data.tables import SiloTable, check_no_copies
from dpadmm.errors import InputError
from dpadmm.estimators import SimulatedNoiseWarning
from dpadmm.privacy.protection import Protection, Unit
from dpadmm.settings import TrainingOptions

LABELS = {
    "two": {"kind": "binary", "name": "sick", "positive": ["yes"], "negative": ["no"]},
    "three": {"kind": "classes", "name": "stage", "classes": ["early", "middle", "late"]},
    "number": {"kind": "real", "name": "stay", "lower": 0, "upper": 40},
}
SPEND = ("--epsilon", "1", "--delta", "1e-5")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Tables of two silos, a copy, a link and the same rows as Parquet, and a model of each kind of label."""
    folder = tmp_path_factory.mktemp("copies")
    for name, table in study_tables().items():
        stage = pd.cut(table["age"], (0, 45, 65, 120), labels=["early", "middle", "late"])
        table.assign(stage=stage.astype(str), stay=table["age"] / 4, pid=np.arange(len(table)) // 2).to_csv(
            folder / f"{name}.csv", index=False
        )
    shutil.copy(folder / "north.csv", folder / "copy.csv")
    os.link(folder / "north.csv", folder / "link.csv")
    pd.read_csv(folder / "north.csv").to_parquet(folder / "typed.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        for kind, label in LABELS.items():
            (folder / f"{kind}.json").write_text(json.dumps(STUDY_SCHEMA | {"label": label}))
            dpadmm.fit(
                [folder / "north.csv", folder / "south.csv"],
                epsilon=20.0,
                delta=1e-5,
                schema=folder / f"{kind}.json",
                method="output-perturbation" if kind != "three" else "auto",
                view="public" if kind != "three" else None,
                seed=0,
                out=folder / f"{kind}-model.json",
                training=TrainingOptions(anyway=True),
            )
    return folder


def files(place, *names):
    return [str(place / name) for name in names]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("copy", ["copy.csv", "link.csv", "typed.parquet"])
@pytest.mark.parametrize("kind", list(LABELS))
@pytest.mark.parametrize("basis", [SPEND, ("--public", "a test", "--declare", "published")])
def test_evaluations(cli, place, kind, copy, basis):
    """The noise would be half of what one person's records in both files need."""
    model = place / f"{kind}-model.json"
    before = sorted(path.name for path in place.iterdir()), model.read_bytes()
    refused = cli.run("evaluate", str(model), *files(place, "north.csv", copy), *basis)
    assert refused.exit_code == 2, refused.output
    assert "2 tables contain the same rows" in refused.stderr
    assert "use --silos-per-person 2 or more" in refused.stderr
    assert (sorted(path.name for path in place.iterdir()), model.read_bytes()) == before
    if copy == "copy.csv":
        asked = ("evaluate", str(model), *files(place, "north.csv", copy), *basis, "--no-record")
        assert cli.run(*asked, "--silos-per-person", "2").exit_code == 0
        three = cli.run(*asked[:4], str(place / "typed.parquet"), *asked[4:], "--silos-per-person", "2")
        assert "3 tables contain the same rows" in three.stderr


def test_plans_and_fits(cli, place, tmp_path):
    """Files and data frames, in memory and streamed, from the shell and from Python."""
    schema, two = str(place / "two.json"), files(place, "north.csv", "copy.csv")
    for command in (("plan", "--no-curve"), ("fit", "--out", str(tmp_path / "m.json"))):
        refused = cli.run(command[0], *two, "--schema", schema, *SPEND, *command[1:])
        assert refused.exit_code == 2
        assert "2 tables contain the same rows" in refused.stderr
    frame = pd.read_csv(two[0])
    shutil.copy(place / "typed.parquet", tmp_path / "again.parquet")
    parquet = [place / "typed.parquet", tmp_path / "again.parquet"]
    cost = {"epsilon": 1.0, "delta": 1e-5, "schema": schema}
    for data in (two, [frame, frame.copy()], {"a": frame, "b": frame}, parquet):
        for ask in (dpadmm.fit, dpadmm.plan):
            with pytest.raises(InputError, match=r"2 tables contain the same rows: .*silos_per_person=2"):
                ask(data, **cost)
    with pytest.raises(InputError, match="2 tables contain the same rows"):
        dpadmm.fit(parquet, **grouped(stream=True, **cost))
    assert dpadmm.plan(two, **grouped(silos_per_person=2, **cost)).task.sizes == (300, 300)
    assert not (tmp_path / "m.json").exists()


def test_what_is_no_copy():
    """Parts of one file, users, tables without rows, and rows that are counted several times may be alike."""
    frame = pd.DataFrame({"age": [1, 2], "sick": ["no", "yes"]})
    alike = {"a": SiloTable(frame, "a.csv"), "b": SiloTable(frame.astype(str), "b.csv")}
    with pytest.raises(InputError, match=r"a\.csv, b\.csv"):
        check_no_copies(alike, Protection())
    for protection in (None, Protection(silos_per_person=2), Protection(unit=Unit.USER), Protection(unit=Unit.PERSON)):
        check_no_copies(alike, protection)
    check_no_copies({name: SiloTable(frame, "whole.csv") for name in "ab"}, Protection())
    check_no_copies({name: SiloTable(frame[:0], f"{name}.csv") for name in "ab"}, Protection())
    check_no_copies(alike | {"b": SiloTable(frame[::-1], "b.csv")}, Protection())


def test_columns_are_hashed_once(monkeypatch):
    """The guard and the ledger need the same hashes, which take a pass over a streamed table."""
    from dpadmm.privacy.ledger import fingerprints

    seen, usual = [], fingerprints.column_digest
    monkeypatch.setattr(fingerprints, "column_digest", lambda *words: seen.append(words) or usual(*words))
    frame = pd.DataFrame({"age": [1, 2], "sick": ["no", "yes"]})
    tables = {name: SiloTable(frame + frame if name == "b" else frame, f"{name}.csv") for name in "ab"}
    check_no_copies(tables, Protection())
    before = {name: table.ledger_columns(name).digests for name, table in tables.items()}
    assert len(seen) == 4
    with_persons = tables["a"].ledger_columns("a", np.array([0, 0])).digests
    assert len(seen) == 5
    assert with_persons == before["a"] | {"persons": with_persons["persons"]}
    assert before["a"] == SiloTable(frame, "a.csv").ledger_columns("a").digests
    for other in (  # which must not have the hashes of the first
        replace(tables["a"], frame=frame[::-1]).ledger_columns("a"),
        replace(tables["a"].ledger_columns("a"), columns={"age": [3, 4]}),
    ):
        assert not set(other.digests.values()) & set(before["a"].values())


def test_schemas_may_be_checked_against_any_files(cli, place):
    """Nothing is released, and how people are counted is not known."""
    done = cli.run("schema", "check", str(place / "two.json"), *files(place, "north.csv", "copy.csv"))
    assert done.exit_code == 0, done.output


def test_persons_of_three_classes(cli, place, tmp_path):
    """Each person is counted once, by the first row."""
    ledger = tmp_path / "l"
    asked = ("evaluate", str(place / "three-model.json"), str(place / "north.csv"), "--person", "pid", "--no-record")
    said = cli.ask(*asked, "--epsilon", "50", "--delta", "1e-5", "--ledger", str(ledger), "--budget", "60")
    assert said["records"] == 150
    assert "persons, the first row of each" in said["on"]
    table = pd.read_csv(place / "north.csv").groupby("pid", sort=False).head(1)
    found = dpadmm.load(place / "three-model.json").predict(table)
    exact = pd.crosstab(table["stage"], found).reindex(index=said["classes"], columns=said["classes"], fill_value=0)
    noise = said["uncertainty"] * np.sqrt(2) * 150
    assert np.abs(np.array(said["confusion"]) - exact.to_numpy()).max() < 6 * noise < 10
    number = cli.run("evaluate", str(place / "number-model.json"), *asked[2:], *SPEND)
    assert "--person is for models of classes" in number.stderr
