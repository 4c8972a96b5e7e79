"""The Adult table for the figures: the real one if it can be had, else an invented one that says so."""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from dpadmm.data.partition import EncodedTable, iid
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.silos import Silos
from dpadmm_research.datasets.adult import Source, load_adult, read_adult
from dpadmm_research.datasets.adult_synthetic import adult_like, adult_like_frame
from dpadmm_research.datasets.source import DATA_ROOT
from dpadmm_research.datasets.splits import split_data
from dpadmm_research.reproduction.figure import Order

ROWS = 45_222
"""Complete rows of the real table; the invented one gets as many."""
TOY_ROWS = 1_500
SPLIT_SEED, DEAL_SEED = 0, 1
INVENTED = "SYNTHETIC"


@dataclass(frozen=True)
class AdultData:
    """The table and what to call it in titles; `read` returns all its rows as they are before encoding."""

    data: EncodedTable
    label: str
    read: Callable[[], pd.DataFrame] = field(repr=False)

    @property
    def is_invented(self) -> bool:
        """Whether no person stands behind the rows."""
        return INVENTED in self.label

    def silos(self, n_silos: int) -> Silos:
        """Deal all rows to silos of equal size at random."""
        return self.data.silos(iid(self.data.n_rows, n_silos, np.random.default_rng(DEAL_SEED)))

    def split(self) -> tuple["AdultData", "AdultData"]:
        """Return 70 % for training and 30 % for testing."""
        train, test = split_data(self.data, np.random.default_rng(SPLIT_SEED))
        return replace(self, data=train), replace(self, data=test)

    def loss(self, models: Floats) -> Floats:
        """Return the mean logistic loss of models (d, R) on all rows."""
        return np.asarray(np.logaddexp(0.0, -self._margins(models)).mean(axis=0))

    def error(self, models: Floats) -> Floats:
        """Return the share of rows that models (d, R) get wrong."""
        return np.asarray((self._margins(models) <= 0).mean(axis=0))

    def _margins(self, models: Floats) -> Floats:
        return np.asarray(self.data.features @ models) * self.data.labels[:, None]


def is_adult_at_hand() -> bool:
    """Whether the environment names a folder with the real table; a folder that is not there is refused."""
    root = os.environ.get(DATA_ROOT, "")
    if root and not Path(root).is_dir():
        raise InputError(
            f"{DATA_ROOT} names {root!r}, which is not a folder. Correct it, or unset it.", setting="DPADMM_DATA"
        )
    return root != "" and (Path(root) / "adult").is_dir()


def adult(order: Order) -> AdultData:
    """Return Adult from the data folder, else from OpenML, else an invented table; toy size is always invented."""
    return _adult(order.is_toy, is_adult_at_hand())


@lru_cache(maxsize=2)
def _adult(is_toy: bool, is_at_hand: bool) -> AdultData:
    if is_toy:
        label = f"Adult-like {INVENTED} table of {TOY_ROWS} rows (toy size)"
        return AdultData(adult_like(TOY_ROWS, seed=0), label, partial(adult_like_frame, TOY_ROWS, seed=0))
    if is_at_hand:
        return AdultData(load_adult(), "UCI Adult", read_adult)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the retries of a download that may not be possible here
            loaded = load_adult(source=Source.OPENML)
        return AdultData(loaded, "UCI Adult (OpenML)", partial(read_adult, source=Source.OPENML))
    except InputError:
        label = f"Adult-like {INVENTED} table (the real one was not available)"
        return AdultData(adult_like(ROWS, seed=0), label, partial(adult_like_frame, ROWS, seed=0))
