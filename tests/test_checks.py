"""Checks at the door: what passes, what is refused, and what the message says."""

import math
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
from tests.refusals import check_rows

from dpadmm import checks
from dpadmm.errors import InputError

NEVER = [math.nan, math.inf, -math.inf, "1", None, True, False, [1.0], 1j, Decimal(1), np.nan, np.bool_(True), 10**400]


@pytest.mark.parametrize("value", NEVER, ids=lambda v: repr(v)[:12])
@pytest.mark.parametrize(
    "check",
    [checks.finite, checks.positive, checks.non_negative, checks.open_unit, checks.half_open_unit, checks.count],
)
def test_nothing_but_finite_numbers(check, value):
    with pytest.raises(InputError, match=r"^rate"):
        check("rate", value)


@pytest.mark.parametrize("value", [0.5, np.float64(0.5), np.float32(0.5), Fraction(1, 2)])
@pytest.mark.parametrize(
    "check", [checks.finite, checks.positive, checks.non_negative, checks.open_unit, checks.half_open_unit]
)
def test_all_kinds_of_numbers_come_back_as_floats(check, value):
    found = check("rate", value)
    assert found == 0.5
    assert type(found) is float


@pytest.mark.parametrize(
    ("check", "allowed", "refused", "rule"),
    [
        (checks.finite, [-1e300, 0, 7], [], ""),
        (checks.positive, [5e-324, 1, 1e300], [0, 0.0, -1e-300, -3], "greater than 0"),
        (checks.non_negative, [0, 0.0, 2], [-5e-324, -1], "0 or greater"),
        (checks.open_unit, [5e-324, math.nextafter(1, 0)], [0, 1, 1.0, -0.1, 2], "strictly between 0 and 1"),
        (checks.half_open_unit, [5e-324, 1, 1.0], [0, -0.1, math.nextafter(1, 2)], "greater than 0 and at most 1"),
    ],
)
def test_ranges(check, allowed, refused, rule):
    for value in allowed:
        assert check("delta", value) == value
    for value in refused:
        with pytest.raises(InputError) as caught:
            check("delta", value)
        assert str(caught.value).startswith("delta must")
        assert rule in str(caught.value)
        assert repr(value) in str(caught.value)


class TestCount:
    @pytest.mark.parametrize("value", [1, 3, 3.0, np.int64(3), np.float64(3)])
    def test_whole_numbers_come_back_as_ints(self, value):
        found = checks.count("rounds", value)
        assert found == value
        assert type(found) is int

    @pytest.mark.parametrize("value", [0, -1, 1.5, 0.999, -3.0])
    def test_others_are_refused(self, value):
        with pytest.raises(InputError, match=f"got {value!r}"):
            checks.count("rounds", value)

    def test_least(self):
        assert checks.count("rounds", 0, least=0) == 0
        with pytest.raises(InputError, match="got 1"):
            checks.count("rounds", 1, least=2)


class Colour(Enum):
    RED = "red"


class Mute:
    """Has no size, and says so rudely."""

    def __len__(self):
        raise RuntimeError("a cell")


def test_messages_show_settings_and_of_data_the_size_alone(snapshot):
    """Every row of tests/snapshots/refusals/checks.txt."""
    check_rows(snapshot, "checks", vars(checks), globals())
