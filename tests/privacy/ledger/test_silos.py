"""A silo is known by what it holds, in whatever form; nobody learns it without the key."""

import stat
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from tests.privacy.ledger import tools

from dpadmm.errors import InputError, LedgerError
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns, store
from dpadmm.privacy.ledger.fingerprints import DatasetFingerprint, SiloFingerprint
from dpadmm.privacy.ledger.store import new_key, read_key
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit

QUICK = settings(deadline=None, derandomize=True, max_examples=50)
KEY = bytes(range(32))


def marks(**columns):
    return SiloFingerprint.of(SiloColumns("s", columns), KEY).columns


@QUICK
@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.floats(-9, 9)), st.data()
)
def test_form_does_not_count_but_every_value_does(x, data):
    known = marks(x=x)
    for form in (
        np.asfortranarray(x).astype(">f8"),
        sparse.csr_array(x),
        x[:, ::-1],
        x.tolist(),
        pd.DataFrame(x),
        x.astype(str),
        x.astype(object),
        pd.DataFrame(x).astype(str).astype(object),
    ):
        assert marks(anything=form) == known
    changed = x.copy()
    place = tuple(data.draw(st.integers(0, size - 1)) for size in x.shape)
    changed[place] = changed[place] * (1 + 1e-9) if abs(changed[place]) > 1e-300 else 1.0
    assert not marks(x=changed[:, [place[1]]]) <= marks(x=x[:, [place[1]]])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1.0, 2.0], [2.0, 1.0]),
        ([1.0, 0.0], [1.0]),
        ([0.0, 0.0], [0.0]),
        (["ab", "c"], ["a", "bc"]),
        (["1", "x"], ["2", "x"]),
        ([np.nan, 1.0], [0.0, 1.0]),
        ([1.0, 2.0], [1.0, 4.0]),
        ([1.0, 2.0], [-1.0, 2.0]),
        ([1e15 + 39, 1e15 + 50], [1e15 + 40, 1e15 + 51]),
        ([2**60, 2**60 + 1], [2**60, 2**60 + 2]),
        (["1234567890123456789"], ["1234567890123456788"]),
        (["1234567890123456789", ""], ["1234567890123456788", ""]),
    ],
)
def test_different_columns_differ(one, other):
    assert marks(x=one) != marks(x=other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], ["1", " 2.0 "]),
        ([True, False], [1, 0]),
        (["True", "false"], [1.0, 0.0]),
        ([1.0, np.nan], ["1", None]),
        ([1.0, np.nan], ["1", " "]),
        ([1 / 3, 2 / 7], ["0.333333333333333", "0.285714285714286"]),
        (pd.to_datetime(["2020-01-01", None]), ["2020-01-01", ""]),
        (pd.Series(pd.to_datetime(["2020-01-01 10:30:00"])).astype(object), ["2020-01-01 10:30:00"]),
        (np.array([Decimal("1.5")], object), [1.5]),
        ([-0.0, 1.0], [0.0, 1.0]),
        ([2**60 + 1], [str(2**60 + 1)]),
        (np.array([True, False], object), [1, 0]),
        (["F", "M "], np.array([" F", "M"], object)),
        (["01", "02"], [1, 2]),
        (np.array(["2020-01-01"], "M8[D]"), ["2020-01-01"]),
        (pd.Series(["a", None], dtype="string"), ["a", ""]),
        (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series([1, None], dtype="Int64"), [1.0, np.nan]),
    ],
)
def test_the_same_values_in_another_form_agree(one, other):
    assert marks(x=one) == marks(x=other)


def test_a_table_saved_with_fifteen_digits_is_the_same_table():
    values = np.random.default_rng(1).normal(size=(2000, 3)) * np.array([1e-7, 1.0, 1e9])
    saved = np.array([[f"{cell:.15g}" for cell in row] for row in values])
    assert marks(x=saved) == marks(x=values)
    assert marks(x=saved.astype(float)) == marks(x=values)


def test_the_text_of_a_file_is_the_table_in_python(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.normal(size=400), "n": rng.integers(0, 9, 400), "sex": rng.choice(["F", "M"], 400)}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    text, parsed = pd.read_csv(tmp_path / "a.csv", dtype=str), pd.read_csv(tmp_path / "a.csv")
    assert marks(**text) == marks(**parsed) == marks(**frame)


def silo(name, *values):
    return SiloColumns(name, {"x": values, "y": [v + 1 for v in values]})


def test_silos_are_recognised_by_what_they_hold():
    data = [silo("a", 1, 2), silo("b", 3), silo("c", 4, 5)]
    known = DatasetFingerprint.of(data, KEY, are_names_public=True)
    assert known.match([data[2], data[0], data[1]], KEY).names == ("c", "a", "b")
    renamed = [silo("x", 3), silo("y", 4, 5), silo("z", 1, 2)]
    assert known.match(renamed, KEY).names == ("b", "c", "a")
    fewer_columns = [SiloColumns(each.name, {"y": each.columns["y"]}) for each in data]
    assert known.match(fewer_columns, KEY).names == ("a", "b", "c")


@pytest.mark.parametrize(
    "other",
    [
        [silo("a", 1, 2), silo("b", 3)],
        [silo("a", 1, 2), silo("b", 3), silo("c", 4, 6)],
        [silo("a", 1, 2), silo("b", 3), silo("c", 5, 4)],
        [silo("a", 1, 2), silo("b", 1, 2), silo("c", 4, 5)],
        [silo("a", 1), silo("b", 2, 3), silo("c", 4, 5)],
        [silo("a", 1, 2), silo("b", 3), SiloColumns("c", {"x": [4, 5], "y": [5, 6], "new": [0, 1]})],
        [silo("a", 1, 2), silo("a", 3), silo("c", 4, 5)],
        [],
    ],
    ids=["one left out", "a value", "order of rows", "one twice", "split elsewhere", "new column", "same name", "none"],
)
def test_anything_else_is_refused(other):
    known = DatasetFingerprint.of([silo("a", 1, 2), silo("b", 3), silo("c", 4, 5)], KEY, are_names_public=True)
    with pytest.raises((LedgerError, InputError)):
        known.match(other, KEY)


def test_silos_that_hold_the_same_are_known_by_their_names():
    twins = [silo("a", 1, 2), silo("b", 1, 2)]
    known = DatasetFingerprint.of(twins, KEY, are_names_public=False)
    assert known.match(twins[::-1], KEY).names == ("user 2", "user 1")
    with pytest.raises(LedgerError, match="exactly"):
        known.match([silo("a", 1, 2), silo("c", 1, 2)], KEY)


def test_small_silos_whose_columns_look_alike_are_still_the_same_data_or_not():
    """One-row silos: (1, 0) with label 1 and (0, 1) with label 0 have the same set of values, in other columns."""
    users = [SiloColumns(f"u{i}", {"a": [i % 2], "b": [1 - i % 2], "y": [i % 2]}) for i in range(4)]
    known = DatasetFingerprint.of(users, KEY, are_names_public=False)
    assert known.match(users[::-1], KEY).names == ("user 4", "user 3", "user 2", "user 1")
    flipped = SiloColumns("u0", {"a": [1], "b": [0], "y": [1]})
    with pytest.raises(LedgerError, match="other data"):
        known.match([flipped, *users[1:]], KEY)
    swapped = [SiloColumns("u0", users[1].columns), SiloColumns("u1", users[0].columns), *users[2:]]
    with pytest.raises(LedgerError, match="other data"):
        known.match(swapped, KEY)
    with pytest.raises(LedgerError, match="other data"):  # no column goes through all of them
        known.match([SiloColumns("u0", {"z": [0], "b": [1]}), *users[1:3], SiloColumns("u3", {"q": [1]})], KEY)


def test_one_column_that_is_known_says_nothing_of_the_others():
    """Each silo's values and the labels of all silos are recorded, but one silo has two columns the other way round."""
    users = [SiloColumns("u0", {"a": [1], "b": [2], "y": [7]}), SiloColumns("u1", {"a": [2], "b": [1], "y": [7]})]
    known = DatasetFingerprint.of(users, KEY)
    with pytest.raises(LedgerError, match="this combination"):
        known.match([SiloColumns("u0", users[1].columns), users[1]], KEY)


def test_tables_that_share_half_their_columns_look_alike():
    known = DatasetFingerprint.of([silo("a", 1, 2)], KEY, are_names_public=True)
    assert known.is_like(SiloColumns("t", {"x": [1, 2], "new": [7, 8]}), KEY)
    assert not known.is_like(SiloColumns("t", {"x": [1, 2], "new": [7, 8], "z": [0, 9]}), KEY)


def test_names_of_users_are_not_kept(tmp_path):
    users = [silo("patient SECRET17", 1, 2), silo("patient SECRET18", 3)]
    for unit, is_shown in ((Unit.USER, False), (Unit.RECORD, True)):
        path = tmp_path / unit.value
        with Ledger.create(path, users, tools.budget, protection=Protection(unit=unit)) as ledger:
            assert (ledger.silos == tuple(user.name for user in users)) is is_shown
        everything = b"".join(file.read_bytes() for file in tmp_path.glob(f"{unit.value}*"))
        assert (b"SECRET17" in everything) is is_shown


def test_the_same_data_have_other_marks_in_every_ledger(tmp_path):
    seen, labels = set(), set()
    for name in "ab":
        Ledger.create(tmp_path / name, tools.data, tools.budget).close()
        key = read_key(tmp_path / f"{name}.key")
        known = SiloFingerprint.of(tools.data[0], key)
        seen |= known.columns
        labels.add(known.label)  # a user's name is a person's: without the key, nobody can try out names
        content = (tmp_path / name).read_bytes()
        assert key not in content
        assert key.hex().encode() not in content
    assert (len(seen), len(labels)) == (2 * 3, 2)


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


def test_changed_data_and_wrong_key_are_different_errors(tmp_path):
    for name in "ab":
        Ledger.create(tmp_path / name, tools.data, tools.budget).close()
    with Ledger.open(tmp_path / "a") as ledger:
        with pytest.raises(LedgerError, match="other data"):
            ledger.confirm([SiloColumns("clinic", {"x": tools.data[0].columns["x"], "y": [1, 1, 1]})])
        (tmp_path / "a.key").write_bytes((tmp_path / "b.key").read_bytes())
        with pytest.raises(LedgerError, match="another ledger"):
            ledger.confirm(tools.data)
        (tmp_path / "a.key").unlink()
        with pytest.raises(LedgerError, match="a backup"):
            ledger.confirm(tools.data)


class TestSecretSizes:
    """Ledgers for records that are added or removed."""

    def made(self, path, data):
        hidden = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE)
        return Ledger.create(path, data, Budget(epsilon=1.0, delta=1e-5), protection=hidden)

    def silos(self, rows):
        return [SiloColumns("a", {"x": [1.0, 2.0][:rows], "y": [1.0, 2.0][:rows], "z": ["u", "v"][:rows]})]

    def test_the_log_does_not_show_a_silo_without_rows(self, tmp_path):
        """Its columns are all equal, as are two of those of the silo with rows."""
        shapes = []
        for rows in (0, 2):
            with self.made(tmp_path / str(rows), self.silos(rows)) as ledger:
                ledger.confirm(self.silos(rows))
                created = next(iter(store.read_entries(ledger._connection))).content()
            known = created["data"]
            shapes.append((len(known["common"]), [len(silo["columns"]) for silo in known["silos"]]))
        assert shapes == [(3, [3]), (3, [3])]

    def test_a_part_of_the_columns_is_still_known_and_other_data_are_not(self, tmp_path):
        with self.made(tmp_path / "l", self.silos(2)) as ledger:
            for names in ("xz", "y", "yx"):
                columns = self.silos(2)[0].columns
                ledger.confirm([SiloColumns("a", {name: columns[name] for name in names})])
            for other in (self.silos(1), self.silos(0), [SiloColumns("a", {n: [1.0, 2.0] for n in "uvw"})]):
                with pytest.raises(LedgerError, match="other data"):
                    ledger.confirm(other)

    def test_a_run_of_other_nominal_sizes_is_known_by_its_number_of_silos(self, tmp_path):
        data = [SiloColumns(name, {"x": values}) for name, values in (("a", [1.0, 2.0, 5.0]), ("b", [3.0]))]
        with self.made(tmp_path / "l", data) as ledger:
            confirmed = ledger.confirm(data)
            assert confirmed.for_run((50, 50), NeighbouringRelation.ADD_OR_REMOVE).names == ("a", "b")
            for sizes, relation in (((9,), "ADD_OR_REMOVE"), ((3, 1), "REPLACE_ONE")):
                with pytest.raises(InputError, match="The ledger") as refused:
                    confirmed.for_run(sizes, NeighbouringRelation[relation])
                assert "rows" not in str(refused.value)
