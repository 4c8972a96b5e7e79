"""`dpadmm schema`: a draft says nothing about values, and checking says what can be used. tests/data tests drafts."""

import json

import numpy as np
import pandas as pd
import pytest

import dpadmm
from dpadmm.errors import InputError


def drafted(cli, *args):
    """Return what `schema init --json` prints; that the first line may be a record is said to programs as well."""
    result = cli.run("schema", "init", *args, "--json")
    assert result.exit_code == 0, result.output
    assert "not somebody's record" in result.stderr
    return json.loads(result.stdout)


def test_a_draft_depends_on_names_and_types_alone(cli, study, tmp_path):
    """Other values, the same draft: nothing of the data is in it."""
    frame, place = pd.read_csv(study.files[0]), tmp_path / "other.csv"
    other = frame.assign(age=frame["age"] * 3 + 1, pressure=-frame["pressure"], sex="Z", sick=frame["sick"] + "!")
    other.head(7).to_csv(place, index=False)
    one, two = (cli.run("schema", "init", file, "--target", "sick").stdout for file in (study.files[0], str(place)))
    assert one == two
    said = drafted(cli, *study.files, "--target", "sick", "--out", str(tmp_path / "draft.json"))
    assert (said["command"], len(said["to_fill_in"])) == ("schema init", 2 + 2 + 1 + 2)
    assert said["schema"] == json.loads(one) == json.loads((tmp_path / "draft.json").read_text())
    refused, checked = (
        cli.run("fit", *study.files, "--schema", str(tmp_path / "draft.json"), "--epsilon", "1", "--delta", "1e-5"),
        cli.run("schema", "check", str(tmp_path / "draft.json")),
    )
    assert refused.exit_code == checked.exit_code == 2
    assert refused.stderr == checked.stderr
    assert len(checked.stderr.splitlines()) == 8


def test_types_and_columns_to_leave_out(cli, tmp_path):
    place = tmp_path / "t.parquet"
    frame = pd.DataFrame({"id": ["a", "b"], "flag": [True, False], "day": pd.to_datetime(["2020-01-01"] * 2)})
    frame.assign(town=["x", "y"], size=np.float32(1.5), y=[1, 2]).to_parquet(place)
    args = ("--target", "y", "--predict", "number", "--leave-out", "id", "--split-by", "town")
    schema = drafted(cli, str(place), *args)["schema"]
    assert [column["name"] for column in schema["columns"]] == ["flag", "size"]
    assert schema["columns"][0] == {"kind": "categorical", "name": "flag", "categories": [0, 1]}
    assert schema["label"]["kind"] == "real"
    assert "'day'" in cli.run("schema", "init", str(place), *args).stderr


def test_what_checking_says(cli, study, tmp_path, snapshot):
    snapshot("terminal/schema.txt", cli.run("schema", "check", study.schema).stdout)
    said = cli.ask("schema", "check", study.schema, *study.files)
    assert (said["silos"], said["dimension"]) == ({"north": 300, "south": 200}, 4)
    whole = pd.concat([pd.read_csv(f).assign(who=w) for f, w in zip(study.files, ("Roth", "Meier"), strict=True)])
    whole.to_csv(tmp_path / "t.csv", index=False)
    args = ("schema", "check", study.schema, str(tmp_path / "t.csv"), "--split-by", "who")
    assert cli.ask(*args)["silos"] == {"silo 1": 200, "silo 2": 300}  # in the order of the names, which are not shown
    assert "Roth" not in cli.run(*args).output


@pytest.mark.parametrize("name", ["52 years", "12 March 1980", "Mar 3, 1980", "Mon, Jan-80", "2020-01-01", "7"])
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_values_are_no_names(cli, tmp_path, name, end):
    """A record in the place of the names is refused and not quoted, whatever the format."""
    frame, place = pd.DataFrame({name: ["x", "y"], "sick": ["a", "b"]}), tmp_path / f"t.{end}"
    frame.to_csv(place, index=False) if end == "csv" else frame.to_parquet(place)
    result = cli.run("schema", "init", str(place), "--target", "sick")
    assert result.exit_code == 2
    assert name not in result.stdout + result.stderr.replace(str(place), "").replace("1 of the 2", "")
    assert ("--no-header" in result.stderr) is (end == "csv")


def test_names_with_months_in_them_are_names(cli, tmp_path):
    pd.DataFrame({"march_sales": [1], "mayor": [1], "may": [2], "sick": ["a"]}).to_csv(tmp_path / "t.csv", index=False)
    assert len(drafted(cli, str(tmp_path / "t.csv"), "--target", "sick")["schema"]["columns"]) == 3


def test_faults_of_several_tables_are_one_list(cli, study, tmp_path):
    """Every line names file, rows and column; no table has a heading of its own."""
    frame = pd.read_csv(study.files[0]).astype(object)
    frame.loc[0, "age"], frame.loc[1, "sex"] = "", "unlisted"
    places = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for place in places:
        frame.to_csv(place, index=False)
    checked = cli.run("schema", "check", study.schema, *map(str, places))
    head, *faults = checked.stderr.splitlines()[-5:]
    assert "2 of 2 tables" in head
    assert [next(name for name in ("one.csv", "two.csv") if name in fault) for fault in faults] == 2 * [
        "one.csv"
    ] + 2 * ["two.csv"]
    assert all("column" in fault for fault in faults)


def test_a_number_that_was_declared_as_two_classes_can_be_one(study):
    frame = pd.read_csv(study.files[0])[["age", "pressure"]]
    known = {"age": (0, 120), "pressure": (50, 250)}
    with pytest.raises(InputError, match="loss='huber'"):
        dpadmm.fit(frame, "pressure", schema=known, epsilon=1, delta=1e-5)


def test_notes_about_a_file_that_is_split_name_the_silo(cli, study, tmp_path):
    """Its number: its name may be a person's."""
    frame = pd.read_csv(study.files[0]).astype(object)
    frame["ward"] = np.where(np.arange(len(frame)) % 2, "Ms Smith", "Mr Jones")
    frame.loc[:3, "age"] = ""
    frame.to_csv(tmp_path / "split.csv", index=False)
    args = ("--split-by", "ward", "--missing", "fill")
    checked = cli.run("schema", "check", study.schema, str(tmp_path / "split.csv"), *args)
    assert checked.exit_code == 0, checked.output
    notes = [line for line in checked.stderr.splitlines() if "'age'" in line]
    assert [f"(silo {number})" in note for number, note in enumerate(notes, start=1)] == [True, True]
    assert "Smith" not in checked.stderr
