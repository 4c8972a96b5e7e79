"""The scoreboard's rows: Adult as the planner encodes it, by one column profile that every method pays for."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpadmm.data.partition import iid
from dpadmm.data.profile import ProfileForm, ReleasedProfile
from dpadmm.data.tables import ScreenedCells, screen_cells
from dpadmm.noise.mechanisms import COORDINATOR
from dpadmm.privacy.certificates.sums import column_profile
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import Protection
from dpadmm.privacy.releases import GaussianRelease
from dpadmm.settings import CellRules
from dpadmm_research.comparison.adult import DEAL_SEED, SPLIT_SEED, AdultData, adult
from dpadmm_research.datasets.adult import SCHEMA
from dpadmm_research.datasets.splits import split
from dpadmm_research.reproduction.figure import Order

EPSILONS = (0.1, 0.5, 1.0, 5.0, 10.0)
DELTA = 1e-5
SILOS = 5
RUNS = 10
TRAIN, TEST, ERROR, CERTIFIED_EPS = "training loss", "test loss", "test error", "certified eps"
ROUND_COUNT, SECONDS = "rounds", "processor seconds a run"
PROFILE_SHARE = 0.1
"""Part of the least budget's m^2 that the profile costs: what the planner gives it at most."""
REACH = 0.6
"""How long rows may be, in units of a usual row: the planner's."""
PROFILE_SEED = 17
PUBLIC = SCHEMA
"""What is known of the table without looking at it, as a user states it."""


@dataclass(frozen=True)
class AdultTables:
    """Training and test rows, encoded and as tables, and the release of the profile that encodes them."""

    train: AdultData
    test: AdultData
    train_table: pd.DataFrame
    test_table: pd.DataFrame
    profile: GaussianRelease

    @property
    def silo_of_train(self) -> NDArray[np.int64]:
        """The silo of every training row: as all methods have them."""
        silo = np.empty(len(self.train_table), dtype=np.int64)
        for number, rows in enumerate(iid(len(silo), SILOS, np.random.default_rng(DEAL_SEED))):
            silo[rows] = number
        return silo

    @property
    def profile_m(self) -> float:
        """What the profile costs, as m of C0."""
        return math.sqrt(self.profile.cost.m_squared or 0.0)


@lru_cache(maxsize=1)
def board(order: Order) -> AdultTables:
    """Return the rows at full or toy size."""
    data = adult(order)
    table = data.read().reset_index(drop=True)
    parts = [table.iloc[rows] for rows in split(len(table), np.random.default_rng(SPLIT_SEED))]
    form, cells = ProfileForm(PUBLIC.columns), [_cells(part) for part in parts]
    profile = profile_release(form, len(parts[0]) // SILOS)
    # Each silo adds its own noise; what is used is the sum.
    noise_std = profile.noise_std * math.sqrt(SILOS)
    noise = np.random.default_rng(PROFILE_SEED).normal(0.0, noise_std, form.size)
    counts = ReleasedProfile.of(form, cells[0].counts(form) + noise, noise_std, len(parts[0]))
    encoding = PUBLIC.encoding(REACH, counts)
    train, test = (
        replace(data, data=replace(data.data, features=done.features, labels=done.labels, schema=PUBLIC))
        for done in (part.encoded(encoding) for part in cells)
    )
    return AdultTables(train, test, parts[0], parts[1], profile)


def _cells(table: pd.DataFrame) -> ScreenedCells:
    return screen_cells(PUBLIC, table, "Adult", CellRules())


def profile_release(form: ProfileForm, n_records: int) -> GaussianRelease:
    """Return a silo's noisy counts of all columns (C11), for the profile's share of the least budget."""
    certificate = column_profile(
        n_numeric=form.n_numeric, n_categorical=form.n_categorical, n_records=n_records, protection=Protection()
    )
    m = math.sqrt(PROFILE_SHARE) * m_of(min(EPSILONS), DELTA)
    return GaussianRelease(certificate=certificate, noise_std=certificate.bound / m, agent=COORDINATOR, round=0)
