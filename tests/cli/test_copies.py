"""A table and its copy are refused by everything that reads the tables of several silos and counts people."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.grouped import grouped

import dpadmm
from dpadmm.data.tables import SiloTable, check_no_copies
from dpadmm.errors import InputError
from dpadmm.privacy.protection import Protection, Unit

pytestmark = pytest.mark.usefixtures("instant_forecasts")
SPEND = ("--epsilon", "1", "--delta", "1e-5")
COMMANDS = {
    "fit": ("fit", "north.csv", "COPY", "--schema", "schema.json", *SPEND, "--out", "m.json"),
    "plan": ("plan", "north.csv", "COPY", "--schema", "schema.json", *SPEND, "--no-curve"),
    "private figures": ("evaluate", "model.json", "north.csv", "COPY", *SPEND, "--no-record"),
    "public figures": ("evaluate", "model.json", "north.csv", "COPY", "--public", "a test", "--declare", "published"),
}


@pytest.fixture
def here(study, trained, tmp_path, monkeypatch):
    """Stand beside tables, a copy, a link and the same rows as Parquet, and a model."""
    monkeypatch.chdir(tmp_path)
    for each in (*study.folder.iterdir(), trained.model):
        shutil.copy(each, each.name)
    shutil.copy("north.csv", "copy.csv")
    os.link("north.csv", "link.csv")
    pd.read_csv("north.csv").to_parquet("typed.parquet")
    return tmp_path


@pytest.mark.parametrize("copy", ["copy.csv", "link.csv", "typed.parquet"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_refuse_copies(cli, here, command, copy):
    """The noise would be half of what one person's records in both files need."""
    before = {each.name: each.read_bytes() for each in here.iterdir()}
    refused = cli.run(*(copy if term == "COPY" else term for term in COMMANDS[command]))
    assert refused.exit_code == 2, refused.output
    assert "2 tables contain the same rows" in refused.stderr
    assert "--silos-per-person 2" in refused.stderr
    assert {each.name: each.read_bytes() for each in here.iterdir()} == before


def test_people_in_two_silos_may_be_stated_and_schemas_checked_against_any_files(cli, here):
    asked = ("north.csv", "copy.csv", *SPEND, "--no-record", "--silos-per-person", "2")
    assert cli.run("evaluate", "model.json", *asked).exit_code == 0
    three = cli.run("evaluate", "model.json", "typed.parquet", *asked)
    assert "3 tables contain the same rows" in three.stderr
    assert cli.run("schema", "check", "schema.json", "north.csv", "copy.csv").exit_code == 0


def test_plans_and_fits_in_python(here):
    """Files and data frames, in memory and streamed."""
    two, cost = ["north.csv", "copy.csv"], {"epsilon": 1.0, "delta": 1e-5, "schema": "schema.json"}
    frame, parquet = pd.read_csv("north.csv"), ["typed.parquet", "again.parquet"]
    shutil.copy(*parquet)
    for data in (two, [frame, frame.copy()], {"a": frame, "b": frame}, parquet):
        for ask in (dpadmm.fit, dpadmm.plan):
            with pytest.raises(InputError, match="silos_per_person=2"):
                ask(data, **cost)
    with pytest.raises(InputError, match="same rows"):
        dpadmm.fit(parquet, **grouped(stream=True, **cost))
    assert dpadmm.plan(two, **grouped(silos_per_person=2, **cost)).task.sizes == (300, 300)


def test_what_is_no_copy():
    """Parts of one file, users, tables without rows, and rows that are counted several times may be alike."""
    frame = pd.DataFrame({"age": [1, 2], "sick": ["no", "yes"]})
    alike = {"a": SiloTable(frame, "a.csv"), "b": SiloTable(frame.astype(str), "b.csv")}
    with pytest.raises(InputError, match=r"a\.csv"):
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
    monkeypatch.setattr(fingerprints, "column_digest", lambda *args: seen.append(args) or usual(*args))
    frame = pd.DataFrame({"age": [1, 2], "sick": ["no", "yes"]})
    tables = {name: SiloTable(frame + frame if name == "b" else frame, f"{name}.csv") for name in "ab"}
    check_no_copies(tables, Protection())
    before = {name: table.ledger_columns(name).digests for name, table in tables.items()}
    assert len(seen) == 4
    with_persons = tables["a"].ledger_columns("a", np.array([0, 0])).digests
    assert len(seen) == 5
    assert with_persons == before["a"] | {"persons": with_persons["persons"]}
    for other in (  # which must not have the hashes of the first
        replace(tables["a"], frame=frame[::-1]).ledger_columns("a"),
        replace(tables["a"].ledger_columns("a"), columns={"age": [3, 4]}),
    ):
        assert not set(other.digests.values()) & set(before["a"].values())
