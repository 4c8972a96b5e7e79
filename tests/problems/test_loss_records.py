"""The record of a loss brings back that very loss, and nothing else is read."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpadmm.codec import decode, encode
from dpadmm.errors import InputError
from dpadmm.problems.losses import (
    LOSS_KINDS,
    EpsilonInsensitive,
    Huber,
    LabelKind,
    Logistic,
    Poisson,
    Quantile,
    ReleasedLoss,
    SmoothedHinge,
    Softmax,
    loss_description,
)

CAPS = st.floats(0, 1, exclude_min=True)
POSITIVE = st.floats(0, exclude_min=True, allow_infinity=False)
LOSSES = st.one_of(
    CAPS.map(Logistic),
    st.builds(Softmax, st.integers(2, 50), CAPS),
    POSITIVE.map(SmoothedHinge),
    POSITIVE.map(Huber),
    st.builds(Quantile, st.floats(0, 1, exclude_min=True, exclude_max=True), POSITIVE),
    st.builds(EpsilonInsensitive, POSITIVE, POSITIVE),
    st.integers(1, 10**6).map(Poisson),
)
EXAMPLES = (
    *(Logistic(), Logistic(0.7), Softmax(3), Softmax(3, 0.5), SmoothedHinge(0.25), Huber(0.3)),
    *(Quantile(0.9), EpsilonInsensitive(0.2, 0.05), Poisson(4)),
)


def read(plain):
    return decode(ReleasedLoss, plain, "here")


@given(loss=LOSSES)
@example(loss=Logistic(np.float64(0.1) + 0.2))
@example(loss=Softmax(np.int64(3), 1))
def test_every_loss_comes_back_from_its_record_exactly(loss):
    again = read(json.loads(json.dumps(encode(loss, ReleasedLoss), allow_nan=False)))
    assert again == loss
    assert type(again) is type(loss)


def test_every_kind_is_tried():
    assert {type(loss) for loss in EXAMPLES} == set(LOSS_KINDS.values())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0, -1.0, None, "0.5", True, [0.5], 10**400])
@pytest.mark.parametrize(
    ("loss", "name"), [(loss, name) for loss in EXAMPLES for name in encode(loss, ReleasedLoss) if name != "kind"]
)
def test_values_that_are_no_parameter_are_refused(loss, name, value):
    if value == 0 and name == "width" and loss.target is LabelKind.REALS:
        value = -1e-9  # 0 leaves the corners as they are
    with pytest.raises(InputError, match=r"^here"):
        read(encode(loss, ReleasedLoss) | {name: value})


def test_descriptions_state_all_parameters(snapshot):
    snapshot("terminal/losses.txt", "".join(f"{loss_description(loss)}\n" for loss in EXAMPLES))
