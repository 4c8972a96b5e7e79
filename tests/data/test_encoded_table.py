"""Data sets: dealing to silos, splitting, and finding files."""

import numpy as np
import pytest
from scipy import sparse

from dpadmm.data.partition import EncodedTable
from dpadmm.errors import InputError
from dpadmm_research.datasets.source import DATA_ROOT, data_folder, find_file
from dpadmm_research.datasets.splits import split, split_data


def dataset(groups=None, make=np.asarray):
    features = np.arange(12.0).reshape(6, 2) / 20
    return EncodedTable(
        name="toy", features=make(features), labels=np.arange(6.0), row_norm=1.0, description="", origin="",
        groups=groups,
    )  # fmt: skip


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_silos_hold_the_rows_of_the_partition(make):
    parts = [np.array([4, 1]), np.array([0, 2, 3])]
    silos = dataset(make=make).silos(parts, names=("a", "b"))
    assert silos.names == ("a", "b")
    assert silos.labels.tolist() == [4.0, 1.0, 0.0, 2.0, 3.0]
    stacked = silos.features.toarray() if sparse.issparse(silos.features) else silos.features
    np.testing.assert_array_equal(stacked, (np.arange(12.0).reshape(6, 2) / 20)[[4, 1, 0, 2, 3]])


def test_natural_silos_follow_the_groups():
    silos = dataset(groups=np.array(["y", "x", "y", "y", "x", "y"])).silos()
    assert silos.names == ("x", "y")
    assert silos.labels.tolist() == [1.0, 4.0, 0.0, 2.0, 3.0, 5.0]


def test_split_keeps_rows_labels_and_groups_together():
    data = dataset(groups=np.array(list("abcdef")))
    train, test = split_data(data, np.random.default_rng(3), train_fraction=0.5)
    rows = split(6, np.random.default_rng(3), train_fraction=0.5)
    for part, chosen in zip((train, test), rows, strict=True):
        assert part.labels.tolist() == chosen.tolist()
        assert "".join(part.groups) == "".join("abcdef"[row] for row in chosen)
        np.testing.assert_array_equal(part.features, data.features[chosen])


def test_files_are_found_or_the_message_says_where_they_were_sought(tmp_path, monkeypatch):
    monkeypatch.delenv(DATA_ROOT, raising=False)
    with pytest.raises(InputError, match="DPADMM_DATA"):
        data_folder("adult", None)
    monkeypatch.setenv(DATA_ROOT, str(tmp_path))
    with pytest.raises(InputError):
        data_folder("adult", None)
    (tmp_path / "adult").mkdir()
    folder = data_folder("adult", None)
    assert folder == tmp_path / "adult"
    with pytest.raises(InputError, match=r"'x\.gz'"):
        find_file(folder, "x")
    (folder / "x.gz").touch()
    assert find_file(folder, "x").name == "x.gz"
    (folder / "x").touch()
    assert find_file(folder, "x").name == "x"
