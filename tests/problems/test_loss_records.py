"""The record of a loss brings back that very loss, and nothing else is read."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpadmm.errors import InputError
from dpadmm.problems.loss_records import (
    LOSS_KINDS,
    loss_description,
    loss_from_record,
    loss_record,
    released_loss,
)
from dpadmm.problems.losses import Huber, Logistic, SmoothedHinge, Squared
from dpadmm.problems.softmax import Softmax

CAPS = st.floats(0, 1, exclude_min=True)
POSITIVE = st.floats(0, exclude_min=True, allow_infinity=False)
LOSSES = st.one_of(
    CAPS.map(Logistic),
    st.builds(Softmax, st.integers(2, 50), CAPS),
    POSITIVE.map(SmoothedHinge),
    POSITIVE.map(Huber),
)
EXAMPLES = (Logistic(), Logistic(0.7), Softmax(3), Softmax(3, 0.5), SmoothedHinge(0.25), Huber(0.3))


@given(loss=LOSSES)
@example(loss=Logistic(np.float64(0.1) + 0.2))
@example(loss=Softmax(np.int64(3), 1))
def test_every_loss_comes_back_from_its_record_exactly(loss):
    again = loss_from_record(json.loads(json.dumps(loss_record(loss), allow_nan=False)), "here")
    assert again == loss
    assert type(again) is type(loss)


def test_every_kind_is_tried():
    assert {type(loss) for loss in EXAMPLES} == set(LOSS_KINDS.values())


@given(data=st.data(), loss=st.sampled_from(EXAMPLES))
def test_a_record_that_lacks_or_adds_a_parameter_is_refused(data, loss):
    record = loss_record(loss)
    name = data.draw(st.sampled_from([*record, "slope_bound"]))
    changed = {key: value for key, value in record.items() if key != name}
    if name == "slope_bound":
        changed = record | {name: 1.0}
    with pytest.raises(InputError, match=r"^here"):
        loss_from_record(changed, "here")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0, -1.0, None, "0.5", True, [0.5], 10**400])
@pytest.mark.parametrize(
    ("loss", "name"), [(loss, name) for loss in EXAMPLES for name in loss_record(loss) if name != "kind"]
)
def test_values_that_are_no_parameter_are_refused(loss, name, value):
    with pytest.raises(InputError, match=rf"^here: {name} must"):
        loss_from_record(loss_record(loss) | {name: value}, "here")


@pytest.mark.parametrize(
    "record",
    [
        "logistic regression (no record pulls harder than 0.5)",
        None,
        [],
        {},
        {"kind": None},
        {"kind": ["logistic"]},
        {"kind": "logistic regression"},
        {"kind": "squared"},
        {"kind": "Logistic"},
        {"kind": "capped-logistic", "cap": 0.5},
    ],
)
def test_other_kinds_are_refused(record):
    with pytest.raises(InputError, match="here must be an object with a 'kind' out of 'logistic', 'softmax'"):
        loss_from_record(record, "here")


def test_a_loss_without_a_bounded_slope_is_never_released():
    with pytest.raises(InputError, match="must be one of logistic"):
        released_loss(Squared())


def test_descriptions_state_all_parameters():
    assert [loss_description(loss) for loss in EXAMPLES] == [
        "logistic regression",
        "logistic regression (per-record loss slope capped at 0.7)",
        "softmax regression of 3 classes",
        "softmax regression of 3 classes (per-record loss slope capped at 0.5)",
        "linear support vector machine (smoothed hinge, width 0.25)",
        "linear regression (Huber loss, threshold 0.3)",
    ]
