"""The JSON form: a round trip for any schema, and a clear refusal for any broken file."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric, RealLabel, ThresholdLabel
from dpadmm.data.examples import BREAST_CANCER_SCHEMA
from dpadmm.data.schema import Schema
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
