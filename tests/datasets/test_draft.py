"""A draft knows names and types alone, and a schema with placeholders is refused with what to write where."""

import json

import pytest

from dpadmm.datasets.columns import Numeric
from dpadmm.datasets.draft import MARK, ColumnType, Task, draft_schema, load_schema, unfilled
from dpadmm.datasets.schema import Schema
from dpadmm.errors import InputError

TYPES = {
    "age": ColumnType.NUMBER,
    "sex": ColumnType.TEXT,
    "smokes": ColumnType.BOOLEAN,
    "when": ColumnType.OTHER,
    "sick": ColumnType.TEXT,
}


def filled(text: str) -> str:
    document = json.loads(text)
    for part in (document["label"], *document["columns"]):
        answers = {
            "lower": 0,
            "upper": 9,
            "typical": None,
            "categories": ["a", "b"],
            "positive": ["p"],
            "negative": ["n"],
        }
        part.update({key: answers[key] for key, value in part.items() if MARK in json.dumps(value)})
    return json.dumps(document)


def test_a_draft_asks_for_everything_the_world_must_tell():
    left = unfilled(draft_schema(TYPES, "sick"))
    assert [sentence.split(":")[0] for sentence in left] == [
        *("label 'sick'", "label 'sick'"),
        *("column 'age'", "column 'age'", "column 'age'"),
        "column 'sex'",
    ]
    assert "write in 'upper' the highest value" in left[3]


def test_a_filled_draft_is_a_schema():
    schema = Schema.from_json(filled(draft_schema(TYPES, "sick")))
    assert schema.feature_names == ("age", "sex=a", "sex=b", "smokes=0", "smokes=1", "constant")
    assert schema.columns[0] == Numeric("age", 0, 9)
    number = Schema.from_json(filled(draft_schema({"x": ColumnType.NUMBER, "y": ColumnType.NUMBER}, "y", Task.NUMBER)))
    assert number.label.describe() == "y: a number from 0 to 9, mapped onto [-1, 1]"


def test_placeholders_are_refused_each_by_name(tmp_path):
    place = tmp_path / "schema.json"
    place.write_text(draft_schema(TYPES, "sick"))
    with pytest.raises(InputError) as refusal:
        load_schema(place)
    lines = str(refusal.value).splitlines()
    assert "still has 6 placeholder(s)" in lines[0]
    assert len(lines) == 7
    place.write_text(filled(place.read_text()))
    assert load_schema(place).dimension == 6


def test_a_category_may_be_any_text_but_a_placeholder(tmp_path):
    assert unfilled('{"label": {"name": "y", "positive": ["fill in"]}, "columns": []}') == ()
    assert unfilled("not json") == ()
    assert unfilled('["a"]') == ()
    with pytest.raises(InputError, match="Cannot read"):
        load_schema(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("types", "target", "task", "message"),
    [
        (TYPES, "none", Task.CLASSES, "no column 'none'"),
        (TYPES, "sick", Task.NUMBER, "does not hold numbers"),
        ({"y": ColumnType.TEXT}, "y", Task.CLASSES, "no column to learn from"),
    ],
)
def test_what_cannot_be_drafted(types, target, task, message):
    with pytest.raises(InputError, match=message):
        draft_schema(types, target, task)


def test_typical_values_are_checked_and_kept():
    with pytest.raises(InputError, match="typical must lie between"):
        Numeric("age", 0, 100, typical=101)
    column = Numeric("age", 0, 100, typical=30)
    assert column.to_record()["typical"] == 30
    assert "typical" not in Numeric("age", 0, 100).to_record()
    assert column.describe() == "age: a number from 0 to 100, typically 30"
