"""`dpadmm schema`: a draft says nothing about values, and checking says what a schema and a table lack."""

import json
from pathlib import Path

import numpy as np
import pandas as pd


def test_a_draft_depends_on_names_and_types_alone(cli, study, tmp_path):
    """Other values, the same draft: nothing of the data is in it."""
    frame = pd.read_csv(study.files[0])
    other = frame.assign(age=frame["age"] * 3 + 1, pressure=-frame["pressure"], sex="Z", sick=frame["sick"] + "!")
    other.head(7).to_csv(tmp_path / "other.csv", index=False)
    drafts = [
        cli.run("schema", "init", f, "--target", "sick").stdout for f in (study.files[0], str(tmp_path / "other.csv"))
    ]
    assert drafts[0] == drafts[1]
    said = cli.ask("schema", "init", *study.files, "--target", "sick")
    assert said["schema"] == json.loads(drafts[0])
    assert len(said["to_fill_in"]) == 2 + 3 + 1 + 3


def test_types_and_columns_to_leave_out(cli, tmp_path):
    place = tmp_path / "t.parquet"
    frame = pd.DataFrame({"id": ["a", "b"], "flag": [True, False], "day": pd.to_datetime(["2020-01-01"] * 2)})
    frame.assign(town=["x", "y"], size=np.float32(1.5), y=[1, 2]).to_parquet(place)
    words = (
        "schema",
        "init",
        str(place),
        "--target",
        "y",
        "--predict",
        "number",
        "--leave-out",
        "id",
        "--split-by",
        "town",
    )
    drafted = cli.ask(*words)["schema"]
    assert [column["name"] for column in drafted["columns"]] == ["flag", "size"]
    assert drafted["columns"][0] == {"kind": "categorical", "name": "flag", "categories": [0, 1]}
    assert drafted["label"]["kind"] == "real"


def test_a_draft_is_written_once_and_refused_by_fit(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("schema", "init", *study.files, "--target", "sick", "--out", "draft.json")
    assert "9 placeholder(s)" in cli.run(*words).stdout
    assert "is there already" in cli.run(*words).stderr
    result = cli.run("fit", *study.files, "--schema", "draft.json", "--epsilon", "1", "--delta", "1e-5")
    assert result.exit_code == 2
    assert "column 'age': write in 'lower' the lowest value" in result.stderr
    assert len(result.stderr.splitlines()) == 10
    checked = cli.run("schema", "check", "draft.json")
    assert checked.stderr == result.stderr
    assert sorted(each.name for each in Path().iterdir()) == ["draft.json"]


def test_checking_says_what_is_allowed_and_tries_tables(cli, study):
    text = cli.run("schema", "check", study.schema).stdout
    assert "age: a number from 0 to 120, typically 55" in text
    assert "4 features after encoding" in text
    said = cli.ask("schema", "check", study.schema, *study.files)
    assert said["silos"] == {"north": 300, "south": 200}
    assert said["dimension"] == 4


def test_what_cannot_be_drafted(cli, study, tmp_path):
    pd.DataFrame({"a": [1], "sick": ["x"]}).to_csv(tmp_path / "b.csv", index=False)
    for words, message in (
        ((study.files[0], "--target", "none"), "no column 'none'"),
        ((study.files[0], str(tmp_path / "b.csv"), "--target", "sick"), "does not have the same columns"),
        ((study.files[0], "--target", "sick", "--leave-out", "none"), "lacks the column(s) 'none'"),
        ((str(tmp_path / "none.csv"), "--target", "sick"), "is not there"),
        ((study.schema, "--target", "sick"), "must end in"),
    ):
        result = cli.run("schema", "init", *words)
        assert result.exit_code == 2
        assert message in result.stderr
