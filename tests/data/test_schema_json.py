"""The JSON form: a round trip for any schema, and a clear refusal for any broken file."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric, RealLabel, ThresholdLabel
from dpadmm.data.examples import BREAST_CANCER_SCHEMA
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm_research.datasets import adult, heart, nist_acs

NAMES = st.text(min_size=1, max_size=8).map(str.strip).filter(bool)
BOUNDS = st.tuples(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9)).map(lambda b: (b[0], b[0] + b[1]))
BOUNDS = BOUNDS.filter(lambda b: b[0] < b[1])
CATEGORIES = st.lists(NAMES, min_size=2, max_size=4, unique=True) | st.lists(
    st.integers(-5, 5), min_size=2, max_size=4, unique=True
)


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique=True))
    columns = [
        Numeric(name, *draw(BOUNDS)) if draw(st.booleans()) else Categorical(name, tuple(draw(CATEGORIES)))
        for name in names[1:]
    ]
    listed = tuple(draw(CATEGORIES))
    label = draw(
        st.sampled_from(
            [
                BinaryLabel(names[0], listed[:1], listed[1:]),
                ThresholdLabel(names[0], draw(st.floats(-1e9, 1e9))),
                RealLabel(names[0], *draw(BOUNDS)),
            ]
        )
    )
    row_norm = draw(st.floats(0.01, 100))
    return Schema(tuple(columns), label, row_norm, draw(st.none() | st.just(row_norm / 3)))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(schemas())
def test_round_trip(schema):
    assert Schema.from_json(schema.to_json()) == schema


@settings(deadline=None, derandomize=True, max_examples=40)
@given(schemas())
def test_an_intercept_is_there_unless_the_file_states_none(schema):
    plain = replace(schema, constant=0.3 * schema.row_norm)
    record = json.loads(schema.to_json())
    del record["constant"]
    unstated = Schema.from_json(json.dumps(record))
    assert unstated == plain == Schema(schema.columns, schema.label, schema.row_norm)
    assert unstated.digest == plain.digest
    assert Schema.from_json(json.dumps(record | {"constant": None})) == schema.with_constant(None)


@pytest.mark.parametrize("schema", [adult.SCHEMA, heart.SCHEMA, nist_acs.SCHEMA, BREAST_CANCER_SCHEMA])
def test_shipped_schemas_survive_a_file(schema, tmp_path):
    path = tmp_path / "schema.json"
    schema.save(path)
    assert Schema.load(path) == schema
    assert schema.constant == 0.3


def broken(**changes):
    record = json.loads(Schema((Numeric("age", 0, 1),), ThresholdLabel("y", 0)).to_json())
    record.update(changes)
    return json.dumps({key: value for key, value in record.items() if value != "remove"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON.*Correct it, or draft a new schema with `dpadmm schema init`"),
        ("[]", "not a schema"),
        (broken(format="other"), "not a schema"),
        (broken(version=2), "version 2; this package reads version 1"),
        (broken(label="remove"), "lacks 'label'"),
        (broken(extra=1), "has no 'extra'"),
        (broken(columns={}), "'columns' must be a list, got dict"),
        (broken(columns=[]), "at least one column"),
        (broken(columns=["age"]), "column 1: 'kind' must be one of 'numeric', 'categorical'"),
        (broken(columns=[{"kind": ["x"], "name": "a"}]), "column 'a': 'kind'"),
        (broken(columns=[{"kind": "numeric", "name": "a", "lower": 0}]), "column 'a'.upper is missing"),
        (broken(label={"kind": "threshold", "name": "y"}), "label.threshold is missing"),
        (broken(label={"kind": "threshold", "name": "y", "threshold": 0, "top": 1}), "label has unknown fields: 'top'"),
        (broken(columns=[{"kind": "numeric", "name": "a", "lower": 0, "upper": "1"}]), "column 'a'.upper must be"),
        (broken(columns=[{"kind": "categorical", "name": "a", "categories": [1, "x"]}]), "all text or all whole"),
        (broken(columns=[{"kind": "categorical", "name": "a", "categories": 3}]), "must be a list"),
        (broken(label={"kind": "numeric", "name": "y", "lower": 0, "upper": 1}), "label: 'kind' must be one of"),
        (broken(row_norm="big"), "row_norm must be a finite number"),
        (broken(row_norm=float("nan")), "it has the number NaN, which is not finite"),
        (broken(constant=2), "constant must lie strictly"),
        (broken(constant="default"), "constant must be a finite number"),
        (broken(constant=False), "constant must be a finite number"),
        (broken(constant=float("nan")), "it has the number NaN, which is not finite"),
    ],
)
def test_broken_files_are_refused_and_named(text, message, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        Schema.load(path)


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"Cannot read the schema file .*absent\.json': No such file .*schema init"):
        Schema.load(tmp_path / "absent.json")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"Cannot read the schema file .*not UTF-8"):
        Schema.load(binary)
