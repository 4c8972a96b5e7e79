"""The fingerprint knows the data, and nobody learns them from it without the key."""

import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.ledger import Ledger
from dpadmm.privacy.ledger.fingerprint import fingerprint, new_key, read_key

QUICK = settings(deadline=None, derandomize=True, max_examples=50)
KEY = bytes(range(32))


@QUICK
@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=4), elements=st.floats(-9, 9)), st.data())
def test_layout_does_not_count_but_every_value_does(x, data):
    print_ = fingerprint({"x": x, "n": [1, 2]}, KEY)
    assert fingerprint({"n": np.array([1, 2], ">i2"), "x": np.asfortranarray(x).astype(">f8")}, KEY) == print_
    changed = x.copy()
    place = tuple(data.draw(st.integers(0, size - 1)) for size in x.shape)
    changed[place] = np.nextafter(changed[place], np.inf) if changed[place] else 1.0
    assert fingerprint({"x": changed, "n": [1, 2]}, KEY) != print_


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": [[1.0, 2.0]]}, {"x": [[1.0], [2.0]]}),
        ({"x": [1.0, 2.0]}, {"x": [2.0, 1.0]}),
        ({"x": [1.0]}, {"z": [1.0]}),
        ({"x": [1.0], "y": [2.0]}, {"x": [1.0, 2.0]}),
        ({"x": ["ab", "c"]}, {"x": ["a", "bc"]}),
        ({"x": [1]}, {"x": [1.0]}),
        ({"x": [True]}, {"x": [1]}),
        ({"x": np.array([2**64 - 1], np.uint64)}, {"x": np.array([-1])}),
    ],
)
def test_different_data_differ(one, other):
    assert fingerprint(one, KEY) != fingerprint(other, KEY)


def test_equal_values_agree():
    quiet_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    assert fingerprint({"x": quiet_nan}, KEY) == fingerprint({"x": [np.nan]}, KEY)
    assert fingerprint({"x": [-0.0]}, KEY) == fingerprint({"x": [0.0]}, KEY)
    assert fingerprint({"x": np.array([7], np.uint8)}, KEY) == fingerprint({"x": [7]}, KEY)
    assert fingerprint({"x": np.array(["a"], object)}, KEY) == fingerprint({"x": ["a"]}, KEY)


@pytest.mark.parametrize(
    "data", [{}, [1.0], {"x": [1j]}, {"x": np.array(["2020"], "M8[Y]")}, {"x": np.array([{}], object)}]
)
def test_what_has_no_fingerprint_is_refused(data):
    with pytest.raises(InputError):
        fingerprint(data, KEY)


def test_the_same_data_have_another_fingerprint_in_every_ledger(tmp_path, tools):
    prints = set()
    for name in "ab":
        with Ledger.create(tmp_path / name, tools.data, tools.budget):
            pass
        prints.add(fingerprint(tools.data, read_key(tmp_path / f"{name}.key")))
        content = (tmp_path / name).read_bytes()
        key = (tmp_path / f"{name}.key").read_text().strip()
        assert bytes.fromhex(key) not in content
        assert key.encode() not in content
    assert len(prints) == 2


def test_key_file_is_for_its_owner_only(tmp_path):
    new_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(LedgerError, match="chmod 600"):
        read_key(tmp_path / "key")


@pytest.mark.parametrize("content", ["", "zz", "00" * 31])
def test_damaged_key_is_refused(tmp_path, content):
    (tmp_path / "key").write_text(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(LedgerError, match="key file"):
        read_key(tmp_path / "key")


def test_changed_data_and_wrong_key_are_told_apart(tmp_path, tools):
    for name in "ab":
        Ledger.create(tmp_path / name, tools.data, tools.budget).close()
    changed = tools.data | {"y": -tools.data["y"]}
    with pytest.raises(LedgerError, match="belongs to other data"):
        Ledger.open(tmp_path / "a", data=changed)
    (tmp_path / "a.key").write_bytes((tmp_path / "b.key").read_bytes())
    with pytest.raises(LedgerError, match="key of another ledger"):
        Ledger.open(tmp_path / "a", data=tools.data)
    (tmp_path / "a.key").unlink()
    with pytest.raises(LedgerError, match="restore it from a backup"):
        Ledger.open(tmp_path / "a", data=tools.data)
