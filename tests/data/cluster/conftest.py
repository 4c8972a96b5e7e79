"""A silo in one Parquet file and one in a folder of two, of several parts each, and what is publicly known of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpadmm.data import BinaryLabel, Categorical, Numeric, Schema, parquet


@dataclass(frozen=True)
class Places:
    """A folder with the tables, and the words of a fit on them."""

    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        """One solve and one release for each silo: few passes."""
        schema = Schema(
            (Numeric("age", 0, 100), Numeric("dose", 0, 10), Categorical("sex", ("F", "M"))),
            BinaryLabel("sick", positive=("yes",), negative=("no",)),
        )
        return {"schema": schema, "epsilon": 1.0, "delta": 1e-6, "method": "output-perturbation"}


def rows(seed: int, number: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 90, number)
    sick = np.where(rng.random(number) < 1 / (1 + np.exp(-(age - 55) / 5)), "yes", "no")
    return pd.DataFrame({"age": age, "dose": rng.uniform(0, 10, number), "sex": rng.choice(["F", "M"], number)}).assign(
        sick=sick
    )


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Files of row groups of 200 rows, each a part of its own, in the working folder."""
    monkeypatch.setattr(parquet, "_PART_ROWS", 200)
    (tmp_path / "south").mkdir()
    for seed, name in enumerate(("north.parquet", "south/1.parquet", "south/2.parquet")):
        rows(seed, 900 - 200 * seed).to_parquet(tmp_path / name, row_group_size=200, index=False)
    monkeypatch.chdir(tmp_path)
    return Places(tmp_path)
