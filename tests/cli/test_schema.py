"""`dpadmm schema`: a draft says nothing about values, and checking says what a schema and a table lack."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


def drafted(cli, *words):
    """Return what `schema init --json` prints; that the first line may be a record is said to programs as well."""
    result = cli.run("schema", "init", *words, "--json")
    assert result.exit_code == 0, result.output
    assert "make sure that this line is a header, not somebody's record" in result.stderr
    assert "private until you have read it" in result.stderr
    return json.loads(result.stdout)


def test_a_draft_depends_on_names_and_types_alone(cli, study, tmp_path):
    """Other values, the same draft: nothing of the data is in it."""
    frame = pd.read_csv(study.files[0])
    other = frame.assign(age=frame["age"] * 3 + 1, pressure=-frame["pressure"], sex="Z", sick=frame["sick"] + "!")
    other.head(7).to_csv(tmp_path / "other.csv", index=False)
    drafts = [
        cli.run("schema", "init", f, "--target", "sick").stdout for f in (study.files[0], str(tmp_path / "other.csv"))
    ]
    assert drafts[0] == drafts[1]
    said = drafted(cli, *study.files, "--target", "sick")
    assert said["schema"] == json.loads(drafts[0])
    assert len(said["to_fill_in"]) == 2 + 2 + 1 + 2


def test_types_and_columns_to_leave_out(cli, tmp_path):
    place = tmp_path / "t.parquet"
    frame = pd.DataFrame({"id": ["a", "b"], "flag": [True, False], "day": pd.to_datetime(["2020-01-01"] * 2)})
    frame.assign(town=["x", "y"], size=np.float32(1.5), y=[1, 2]).to_parquet(place)
    words = ("--target", "y", "--predict", "number", "--leave-out", "id", "--split-by", "town")
    schema = drafted(cli, str(place), *words)["schema"]
    assert [column["name"] for column in schema["columns"]] == ["flag", "size"]
    assert schema["columns"][0] == {"kind": "categorical", "name": "flag", "categories": [0, 1]}
    assert schema["label"]["kind"] == "real"
    said = cli.run("schema", "init", str(place), *words).stderr
    assert "Left out, because they contain neither numbers nor text (but dates, lists, ...): 'day'." in said


def test_a_draft_is_written_once_and_refused_by_fit(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("schema", "init", *study.files, "--target", "sick", "--out", "draft.json")
    assert "7 placeholders" in cli.run(*words).stdout
    assert "exists already" in cli.run(*words).stderr
    result = cli.run("fit", *study.files, "--schema", "draft.json", "--epsilon", "1", "--delta", "1e-5")
    assert result.exit_code == 2
    assert "column 'age': write in 'lower' the lowest value" in result.stderr
    assert len(result.stderr.splitlines()) == 8
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


def test_all_tables_are_checked_before_any_is_refused(cli, study, tmp_path):
    """Every bad file is named, with what is wrong in it; what is fine is not."""
    good = pd.read_csv(study.files[0])
    for name, frame in {"a": good.assign(age="old"), "b": good.drop(columns="sex"), "d": good}.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "c.csv").write_text('age,sex,pressure,sick\n41,"F,120,yes\n')
    files = [str(tmp_path / f"{name}.csv") for name in "abcd"]
    said = cli.run("schema", "check", study.schema, *files)
    assert said.exit_code == 2
    assert "3 of 4 tables cannot be used:" in said.stderr
    for words in (
        f"{files[0]}, rows 1, 2, 3",
        f"{files[1]} lacks the column 'sex'",
        f"{files[2]}, line 2: a quotation",
    ):
        assert words in said.stderr
    assert f"{files[3]} lacks" not in said.stderr
    one = cli.run("schema", "check", study.schema, files[1], files[3])
    assert "tables cannot be used" not in one.stderr
    assert f"Error: {files[1]} lacks the column 'sex'" in one.stderr
    assert "The same file is given twice" in cli.run("schema", "check", study.schema, files[3], files[3]).stderr


def test_what_cannot_be_drafted(cli, study, tmp_path):
    pd.DataFrame({"a": [1], "sick": ["x"]}).to_csv(tmp_path / "b.csv", index=False)
    for words, message in (
        ((study.files[0], "--target", "none"), "no column 'none'"),
        ((study.files[0], str(tmp_path / "b.csv"), "--target", "sick"), "does not have the same columns"),
        ((study.files[0], "--target", "sick", "--leave-out", "none"), "lacks the column 'none'"),
        ((str(tmp_path / "none.csv"), "--target", "sick"), "does not exist"),
        ((str(tmp_path), "--target", "sick"), "is a folder"),
        ((study.schema, "--target", "sick"), "must end in"),
    ):
        result = cli.run("schema", "init", *words)
        assert result.exit_code == 2
        assert message in result.stderr


@pytest.mark.parametrize("name", ["52 years", "12 March 1980", "Mar 3, 1980", "Mon, Jan-80", "2020-01-01", "7"])
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_values_are_no_names(cli, tmp_path, name, end):
    """A record in the place of the names is refused and not quoted, whatever the format."""
    frame, place = pd.DataFrame({name: ["x", "y"], "sick": ["a", "b"]}), tmp_path / f"t.{end}"
    frame.to_csv(place, index=False) if end == "csv" else frame.to_parquet(place)
    result = cli.run("schema", "init", str(place), "--target", "sick")
    assert result.exit_code == 2
    assert "look like values" in result.stderr
    assert name not in result.stdout + result.stderr.replace(str(place), "").replace("1 of the 2", "")
    assert ("--no-header" in result.stderr) is (end == "csv")


def test_names_with_months_in_them_are_names(cli, tmp_path):
    pd.DataFrame({"march_sales": [1], "mayor": [1], "may": [2], "sick": ["a"]}).to_csv(tmp_path / "t.csv", index=False)
    assert len(drafted(cli, str(tmp_path / "t.csv"), "--target", "sick")["schema"]["columns"]) == 3


def test_values_of_the_column_that_splits_are_counted_and_not_shown(cli, study, tmp_path):
    whole = pd.concat([pd.read_csv(f).assign(who=w) for f, w in zip(study.files, ("Roth", "Meier"), strict=True)])
    whole.to_csv(tmp_path / "t.csv", index=False)
    words = ("schema", "check", study.schema, str(tmp_path / "t.csv"), "--split-by", "who")
    assert cli.ask(*words)["silos"] == {"silo 1": 200, "silo 2": 300}  # in the order of the names
    text = cli.run(*words).stdout
    assert "silo 1: 200 rows can be used" in text
    assert "Roth" not in text


def test_a_table_without_a_header_gets_the_right_advice(cli, study, trained, tmp_path):
    pd.read_csv(study.files[0]).to_csv(tmp_path / "bare.csv", index=False, header=False)
    bare = str(tmp_path / "bare.csv")
    for words in (("predict", str(trained.model), bare), ("schema", "check", study.schema, bare)):
        assert "use --no-header" in cli.run(*words).stderr
        told = cli.run(*words, "--no-header").stderr
        assert "use --no-header" not in told
        assert "add a header line" in told
        assert "'age'" in told
    pd.read_csv(study.files[0]).drop(columns="age").to_parquet(tmp_path / "t.parquet")
    assert "--no-header" not in cli.run("schema", "check", study.schema, str(tmp_path / "t.parquet")).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "none.csv", "--epsilon", "1", "--delta", "1e-5", "--schema", "SCHEMA"),
        ("plan", "none.csv", "--epsilon", "1", "--delta", "1e-5", "--schema", "SCHEMA"),
        ("schema", "check", "SCHEMA", "none.csv"),
    ],
)
def test_a_column_that_splits_and_is_learnt_from_is_told_before_a_table_is_read(cli, study, words):
    told = cli.run(*(study.schema if word == "SCHEMA" else word for word in words), "--split-by", "sex")
    assert told.exit_code == 2
    assert "--split-by sex is also a column of the schema" in told.stderr
