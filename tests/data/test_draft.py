"""A draft knows names and types alone, and a schema with placeholders is refused with what to write where."""

import json

import pandas as pd
import pytest

from dpadmm.data.columns import Categorical, Numeric, record_of
from dpadmm.data.draft import ColumnType, TargetKind, column_types, draft_schema
from dpadmm.data.schema import MARK, Schema, unfilled
from dpadmm.errors import InputError

TYPES = {
    "age": ColumnType.NUMBER,
    "sex": ColumnType.TEXT,
    "smokes": ColumnType.BOOLEAN,
    "when": ColumnType.OTHER,
    "sick": ColumnType.TEXT,
}


def filled(document: dict) -> str:
    for part in (document["label"], *document["columns"]):
        answers = {"lower": 0, "upper": 9, "categories": ["a", "b"], "positive": ["p"], "negative": ["n"]}
        part.update({key: answers[key] for key, value in part.items() if MARK in json.dumps(value)})
    return json.dumps(document)


def test_a_draft_asks_for_everything_the_world_must_tell():
    left = unfilled(draft_schema(TYPES, "sick"))
    assert [sentence.split(":")[0] for sentence in left] == [
        *("label 'sick'", "label 'sick'"),
        *("column 'age'", "column 'age'"),
        "column 'sex'",
    ]
    assert "'upper'" in left[3]


def test_a_filled_draft_is_a_schema():
    schema = Schema.from_json(filled(draft_schema(TYPES, "sick")))
    assert schema.feature_names == ("age", "sex=a", "sex=b", "smokes=0", "smokes=1", "constant")
    assert schema.columns[0] == Numeric("age", 0, 9)
    number = Schema.from_json(
        filled(draft_schema({"x": ColumnType.NUMBER, "y": ColumnType.NUMBER}, "y", TargetKind.NUMBER))
    )
    assert number.label.describe() == "y: a number from 0 to 9, mapped onto [-1, 1]"


def test_placeholders_are_refused_each_by_name(tmp_path):
    place = tmp_path / "schema.json"
    place.write_text(json.dumps(draft_schema(TYPES, "sick")))
    with pytest.raises(InputError) as refusal:
        Schema.load(place)
    lines = str(refusal.value).splitlines()
    assert "5 placeholders" in lines[0]
    assert len(lines) == 6
    place.write_text(filled(json.loads(place.read_text())))
    assert Schema.load(place).dimension == 6


def test_a_category_may_be_any_text_but_a_placeholder():
    assert unfilled({"label": {"name": "y", "positive": ["fill in"]}, "columns": []}) == ()
    assert unfilled(["a"]) == ()


def test_one_cell_does_not_change_what_a_column_is(tmp_path):
    """Neither in a draft from a text file, nor where a draft of a data frame is filled in."""
    for odd in ("7", "seven", "true", "", "2020-01-05"):
        rows = [*(f"{i};{'true' if i % 2 else 'False'};w{i};1" for i in range(20)), f"{odd};{odd};{odd};1"]
        (tmp_path / "t.csv").write_text("\n".join(["n;b;t;y", *rows]))
        kinds = [ColumnType.NUMBER, ColumnType.BOOLEAN, ColumnType.TEXT, ColumnType.NUMBER]
        assert list(column_types(tmp_path / "t.csv")[0].values()) == kinds
    known = {"n": (0, 120), "w": [1, 2], "y": ("yes", "no")}
    filled_in = [
        Schema.draft(pd.DataFrame({"n": [1, odd], "w": [1, odd], "y": ["yes", "no"]}), "y").filled(known)
        for odd in (2, "seven")
    ]
    assert filled_in[0] == filled_in[1]
    assert filled_in[0].columns == (Numeric("n", 0, 120), Categorical("w", (1, 2)))


def test_types_are_what_the_cells_say(tmp_path):
    frame = pd.DataFrame(
        {"n": [1.5, None], "b": [True, False], "t": ["x", "2"], "day": pd.to_datetime(["2020-01-01"] * 2)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    same = {"n": ColumnType.NUMBER, "b": ColumnType.BOOLEAN, "t": ColumnType.TEXT}
    assert column_types(tmp_path / "t.csv")[0] == same | {"day": ColumnType.TEXT}
    assert column_types(tmp_path / "t.parquet")[0] == same | {"day": ColumnType.OTHER}


def test_typical_values_are_checked_and_kept():
    column = Numeric("age", 0, 100, typical=30)
    assert record_of(column)["typical"] == 30
    assert "typical" not in record_of(Numeric("age", 0, 100))
    assert column.describe() == "age: a number from 0 to 100, typically 30"


def test_a_data_frame_is_drafted_by_names_and_types_alone():
    frame = pd.DataFrame({" age": [41, 50], "sex": ["F", "M"], "id": [1, 2], "sick": ["yes", "no"]})
    draft = Schema.draft(frame, "sick", leave_out=["id"])
    assert draft.record == draft_schema(
        {"age": ColumnType.NUMBER, "sex": ColumnType.TEXT, "sick": ColumnType.TEXT}, "sick"
    )
    assert all(str(cell) not in draft.to_json() for cell in ("41", "50", '"yes"'))
    known = {"age": (0, 120), "sex": ["F", "M"], "sick": ("yes", ["no", "never"])}
    schema = draft.filled(known)
    assert schema.columns[0] == Numeric("age", 0, 120)
    assert schema.label.negative == ("no", "never")
    number = Schema.draft(frame, "age", is_number=True, leave_out=["id", "sick"]).filled({"age": (0, 1), "sex": ["F"]})
    assert number.label.describe() == "age: a number from 0 to 1, mapped onto [-1, 1]"
    several = Schema.draft(frame, "sick", has_several_classes=True, leave_out=["id"])
    assert several.to_fill_in[0].startswith("label 'sick': write in 'classes' every class, three or more")
    assert several.filled(known | {"sick": ["no", "a", "b"]}).label.classes == ("no", "a", "b")
