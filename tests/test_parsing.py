"""JSON, TOML and archives that somebody else may have written: taken, or refused in a clause."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import test_codec
from tests.refusals import SNAPSHOTS, check_refusals

from dpadmm.codec import decode, encode
from dpadmm.errors import InputError
from dpadmm.files import MOST_DIGITS, MOST_LEVELS, parse_json, parse_toml, read_arrays, read_bytes, read_text

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(plain)
def test_what_json_writes_is_read_back(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


def test_json_at_the_limits_is_taken():
    assert parse_json(b"\xef\xbb\xbf" + b"[1]") == [1]
    assert parse_json("9" * MOST_DIGITS) == int("9" * MOST_DIGITS)
    parse_json("[" * MOST_LEVELS + "]" * MOST_LEVELS)


def archive(**arrays):
    target = io.BytesIO()
    np.savez(target, **arrays)
    return target.getvalue()


def test_archives():
    assert read_arrays(archive(a=np.arange(3)))["a"].tolist() == [0, 1, 2]


def test_an_archive_may_unpack_to_what_is_allowed():
    content = archive(a=np.zeros(1000))
    assert read_arrays(content, most=len(content))["a"].shape == (1000,)


def test_refused(snapshot, tmp_path, monkeypatch):
    """Every row of tests/snapshots/refusals/files.txt; 17 stands for a cell, which no message quotes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long").write_bytes(b"x" * 11)
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    check_refusals(snapshot, "files", vars(test_codec), globals())
    said = [line for line in (SNAPSHOTS / "files.txt").read_text().splitlines() if not line.startswith(">>>")]
    assert not [line for line in said if "17" in line]


def test_what_raised_before_is_not_chained():
    with pytest.raises(InputError) as refused:
        decode(test_codec.Record, {"either": {"kind": "Circle", "radius": -17.0}})
    assert refused.value.__context__ is None
