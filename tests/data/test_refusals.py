"""What tables, schemas and encodings refuse: every row of tests/snapshots/refusals/data.txt. No cell is quoted."""

import json
from math import inf, nan
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.refusals import SNAPSHOTS, check_refusals

from dpadmm.data import columns, draft, encoding, examples, partition, profile, tables
from dpadmm.data.parquet import ParquetTable
from dpadmm.data.partition import EncodedTable
from dpadmm.data.persons import Persons
from dpadmm.data.reading import read_file
from dpadmm.data.schema import Schema
from dpadmm.settings import CellRules, TableFormat
from dpadmm_research.datasets.adult_synthetic import adult_like
from dpadmm_research.datasets.generators import sparse_regression
from dpadmm_research.datasets.splits import split

MODULES = (columns, draft, encoding, examples, profile, tables)
AGE, PAY = columns.Numeric("age", 0, 100), columns.ThresholdLabel("pay", 1000)
SCHEMA = Schema((AGE, columns.Categorical("sex", ("F", "M"))), PAY)
TYPES = {"age": draft.ColumnType.NUMBER, "sex": draft.ColumnType.TEXT, "sick": draft.ColumnType.TEXT}
PEOPLE = pd.DataFrame({"age": [41, 50], "sex": ["F", "M"], "id": [1, 2], "sick": ["yes", "no"]})
KNOWN = {"age": (0, 120), "sex": ["F", "M"], "sick": ("yes", ["no", "never"])}
ROWS = pa.table({"x": [1.0, 2.0, 3.0], "y": ["yes", "no", "yes"]})
FORM = profile.ProfileForm((AGE, columns.Categorical("ward", ("a", "b"))))
PROFILE = profile.ReleasedProfile.of(FORM, np.ones(FORM.size), 1.0, 100)


def rng():
    return np.random.default_rng(0)


def table(**changes):
    return pd.DataFrame({"age": [0, 75, 40], "sex": ["M", "F", "M"], "pay": [900, 1100, 1000]} | changes)


def written(text, coding="utf-8", name="t.csv"):
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode(coding))
    return Path(name)


def read(text, coding="utf-8", name="t.csv", **stated):
    return read_file(written(text, coding, name), TableFormat(**stated))


def broken(**changes):
    record = json.loads(Schema((columns.Numeric("age", 0, 1),), columns.ThresholdLabel("y", 0)).to_json()) | changes
    return json.dumps({key: value for key, value in record.items() if value != "remove"})


def load(text):
    return Schema.load(written(text, name="broken.json"))


def parquet(name):
    pq.write_table(ROWS, name)
    return Path(name)


def excel(name, sheets=1, names=("a", "b")):
    with pd.ExcelWriter(name) as made:
        for sheet in range(sheets):
            pd.DataFrame([[1, 2]], columns=names).to_excel(made, sheet_name=f"sheet {sheet}", index=False)
    return Path(name)


def folder(*names, b=None):
    """Read a folder with files and, where a name ends in /, folders of these names; b: what is in b.parquet."""
    place = Path("table")
    for old in sorted(place.rglob("*"), reverse=True):
        old.rmdir() if old.is_dir() else old.unlink()
    place.mkdir(exist_ok=True)
    for name in names:
        if name.endswith("/"):
            (place / name).mkdir()
        elif name.endswith("link"):
            (place / name).symlink_to(place / "gone")
        else:
            pq.write_table(ROWS, place / name)
    if isinstance(b, bytes):
        (place / "b.parquet").write_bytes(b)
    elif b is not None:
        pq.write_table(b, place / "b.parquet")
    return ParquetTable.of(place)


def counts(**changes):
    facts = {"name": "x", "counts": (1.0, 2.0, 3.0, 4.0), "noise_std": 1.0, "edges": (0.0, 5.0, 10.0)}
    return profile.ColumnCounts(**facts | changes)


def encoded(groups=None):
    facts = {"name": "toy", "row_norm": 1.0, "description": "", "origin": "", "groups": groups}
    return EncodedTable(features=np.arange(12.0).reshape(6, 2) / 20, labels=np.arange(6.0), **facts)


def test_refused(snapshot, tmp_path, monkeypatch):
    pytest.importorskip("openpyxl", reason="needs the extra dpadmm[excel]")
    monkeypatch.chdir(tmp_path)
    names = globals() | {"profile": PROFILE}
    check_refusals(snapshot, "data", *map(vars, MODULES), names)
    said = [line for line in (SNAPSHOTS / "data.txt").read_text().splitlines() if not line.startswith(">>>")]
    assert not [line for line in said if "secret" in line or "1234567" in line]
