"""JSON, TOML and archives that somebody else may have written: taken, or refused in a clause."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        (b"\xff", "not UTF-8 text"),
        ("[" * 100_000, "levels deep"),
        ("[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1), "levels deep"),
        ('{"a":' * 500 + "1" + "}" * 500, "levels deep"),
        ("9" * 5000, "digits"),
        ("-" + "9" * (MOST_DIGITS + 1), "digits"),
        ("NaN", "not finite"),
        ("[-Infinity]", "not finite"),
        ("1e999", "too large"),
        ('{"a": 1, "a": 2}', "key 'a' twice"),
    ],
)
def test_json_that_is_refused(text, why):
    with pytest.raises(InputError, match=why):
        parse_json(text)


def test_json_at_the_limits_is_taken():
    assert parse_json(b"\xef\xbb\xbf" + b"[1]") == [1]
    assert parse_json("9" * MOST_DIGITS) == int("9" * MOST_DIGITS)
    parse_json("[" * MOST_LEVELS + "]" * MOST_LEVELS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a =", "not valid TOML"),
        ("a = 1\na = 2", "not valid TOML"),
        ("a = 2020-02-31", "not valid TOML"),
        ("a = nan", "not finite"),
        ("a = -inf", "not finite"),
        ("a = 1e999", "too large"),
        (f"a = {'9' * 5000}", "out of range"),
        (f"a = [{'9' * 400}]", "digits"),
        (f"a = {'[' * 3000}", "levels deep"),
        (f"{'.'.join('a' * 100)} = 1", "levels deep"),
    ],
)
def test_toml_that_is_refused(text, why):
    with pytest.raises(InputError, match=why):
        parse_toml(text)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "long").write_bytes(b"x" * 11)
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for path, why in (
        ("none", "No such file"),
        ("", "Is a directory"),
        ("long", "more than 10 bytes"),
        ("a\0", "name"),
    ):
        with pytest.raises(InputError, match=why):
            read_bytes(tmp_path / path, 10)
    with pytest.raises(InputError, match="not UTF-8"):
        read_text(tmp_path / "latin")


def archive(**arrays):
    target = io.BytesIO()
    np.savez(target, **arrays)
    return target.getvalue()


def test_archives():
    assert read_arrays(archive(a=np.arange(3)))["a"].tolist() == [0, 1, 2]
    for content in (b"", b"PK", archive(b=np.arange(3)), archive(a=np.array([{}], dtype=object))):
        with pytest.raises(InputError, match="expected arrays"):
            read_arrays(content, ("a",))


def test_an_archive_that_unpacks_to_more_than_is_allowed():
    content = archive(a=np.zeros(1000))
    with pytest.raises(InputError, match="1,000 bytes"):
        read_arrays(content, most=1000)
    assert read_arrays(content, most=len(content))["a"].shape == (1000,)
