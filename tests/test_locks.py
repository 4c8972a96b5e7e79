"""Seeded scenarios give what their golden files hold: a change that is meant is written anew by tests/locks.py."""

import json
import math

import pytest
from tests.locks import FOLDER, SCENARIOS, computed

ROUNDING = 1e-7
"""Processors sum in different orders; a change of the code shows in more than that."""


def differences(now, golden, place=""):
    """Yield where two documents differ."""
    if isinstance(now, dict) and isinstance(golden, dict):
        for key in sorted(now.keys() | golden.keys()):
            if key in now and key in golden:
                yield from differences(now[key], golden[key], f"{place}/{key}")
            else:
                yield f"{place}/{key} is only {'now' if key in now else 'in the golden file'}"
    elif isinstance(now, list) and isinstance(golden, list) and len(now) == len(golden):
        for k, pair in enumerate(zip(now, golden, strict=True)):
            yield from differences(*pair, f"{place}/{k}")
    elif (numbers := _numbers(now, golden)) is not None:
        if not math.isclose(*numbers, rel_tol=ROUNDING, abs_tol=1e-12):
            yield f"{place}: {now!r} instead of {golden!r}"
    elif now != golden or type(now) is not type(golden):
        yield f"{place}: {now!r} instead of {golden!r}"


def _numbers(now, golden):
    """Return both as floats, if they are: predictions of a number are kept as text, whose last digit may differ."""
    if type(now) is not type(golden) or not (isinstance(now, float) or (isinstance(now, str) and "." in golden)):
        return None
    try:
        return float(now), float(golden)
    except ValueError:
        return None


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name):
    golden = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert list(differences(json.loads(json.dumps(computed(name))), golden)) == []


def test_every_golden_file_has_a_scenario():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(SCENARIOS)


@pytest.mark.parametrize(
    ("now", "golden", "number"),
    [
        ({"a": 1.0}, {"a": 1.0 + 1e-12}, 0),
        ({"a": 1.0}, {"a": 1.00001}, 1),
        ({"a": 1e-20}, {"a": 3e-20}, 0),
        ({"a": "764.9683576573863"}, {"a": "764.9683576573864"}, 0),
        ({"a": "764.9683"}, {"a": "764.9684"}, 1),
        ({"a": "1.2.3"}, {"a": "1.2.4"}, 1),
        ({"a": 1}, {"b": 1}, 2),
        ([1, 2], [1], 1),
        ({"a": True}, {"a": 1}, 1),
    ],
)
def test_differences_are_found(now, golden, number):
    assert len(list(differences(now, golden))) == number
