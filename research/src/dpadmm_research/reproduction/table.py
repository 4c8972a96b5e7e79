"""The tidy table: one number a row, with everything needed to tell which number it is."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

Table = Any
"""A pandas DataFrame with the columns `COLUMNS`."""

COLUMNS = ("panel", "curve", "reading", "epsilon", "x", "metric", "run", "value", "data")

NO_RUN = -1
"""The run number of values that do not depend on noise (bounds, budgets)."""


class Reading(Enum):
    """Where a curve's noise, or the curve itself, comes from."""

    NON_PRIVATE = "non-private"
    CLAIMED = "claimed"
    CERTIFIED = "certified"
    THEORY = "theory"


class Rows:
    """Collects rows; `table` hands them over.

    >>> rows = Rows(data="toy")
    >>> rows.add(panel="a", curve="P-ADMM", reading=Reading.CERTIFIED, epsilon=1.0, x=3, metric="loss", values=[0.5])
    >>> rows.table()[["curve", "x", "run", "value"]].values.tolist()
    [['P-ADMM', 3.0, 0, 0.5]]
    """

    def __init__(self, data: str) -> None:
        self.data = data
        self._rows: list[tuple[Any, ...]] = []

    def add(
        self, *, panel: str, curve: str, reading: Reading, epsilon: float, x: float, metric: str, values: ArrayLike
    ) -> None:
        """Add one value per run; epsilon is the nominal budget, infinite where there is none."""
        for run, value in enumerate(np.atleast_1d(np.asarray(values, dtype=np.float64))):
            self._rows.append(
                (panel, curve, reading.value, float(epsilon), float(x), metric, run, float(value), self.data)
            )

    def fact(
        self, *, panel: str, curve: str, reading: Reading, epsilon: float, x: float, metric: str, value: float
    ) -> None:
        """Add one number that no noise run stands behind."""
        row = (panel, curve, reading.value, float(epsilon), float(x), metric, NO_RUN, float(value), self.data)
        self._rows.append(row)

    def table(self) -> Table:
        """Return the rows as a table."""
        return pd.DataFrame(self._rows, columns=list(COLUMNS))


def joined(tables: Sequence[Table]) -> Table:
    """Return several tables as one; empty ones (a reading that was not asked for) are left out."""
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def chosen(table: Table, **wanted: Any) -> Table:
    """Return the rows whose columns have the wanted values (a value, or a list of them)."""
    keep = np.ones(len(table), dtype=bool)
    for column, value in wanted.items():
        plain = value.value if isinstance(value, Enum) else value
        keep &= table[column].isin(plain if isinstance(plain, list | tuple) else [plain]).to_numpy()
    return table[keep]


def means(table: Table, by: str = "x") -> Table:
    """Return the mean over the runs for each value of `by`, in increasing order of it."""
    return table.groupby(by)["value"].mean().sort_index()


def mean_at(table: Table, x: float | None = None, **wanted: Any) -> float:
    """Return the mean over runs of the chosen rows at x (None: at the largest x there is); NaN if there are none."""
    rows = chosen(table, **wanted)
    if not len(rows):
        return float("nan")
    return float(rows[rows["x"] == (rows["x"].max() if x is None else x)]["value"].mean())
