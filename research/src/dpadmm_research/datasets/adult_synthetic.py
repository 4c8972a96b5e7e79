"""An Adult-like synthetic table, for work without the network: the same columns, invented people.

The marginal shares are rounded figures as widely published about the 1994 census extract; how columns hang
together and the log-odds of a high income are invented. Nothing is fitted to records. The table has the shape
of Adult - 104 features, about 12 non-zero a row, one quarter positive - and a signal that a linear model can
learn; results on it are not results on Adult.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from dpadmm import checks
from dpadmm.data.partition import EncodedTable
from dpadmm.data.tables import encode_table
from dpadmm.problems.arrays import Floats
from dpadmm_research.datasets import adult

# Shares in per cent, in the order of the category lists of `adult`.
WORKCLASS_SHARES = (73.7, 8.3, 3.6, 3.1, 6.8, 4.3, 0.2)
EDUCATION_SHARES = (0.2, 0.5, 1.0, 1.9, 1.5, 2.7, 3.6, 1.3, 32.6, 22.0, 4.4, 3.4, 16.6, 5.5, 1.7, 1.1)
OCCUPATION_SHARES = (3.1, 13.3, 10.6, 12.0, 13.2, 13.3, 4.5, 6.6, 12.3, 3.3, 5.1, 0.5, 2.1, 0.1)
RACE_SHARES = (86.0, 2.9, 1.0, 0.8, 9.3)
FOREIGN_SHARE = 0.088

# Log-odds of a high income, relative to the commonest category; chosen by hand, monotone where common sense is.
EDUCATION_ODDS = (-3.0, -2.5, -2.2, -1.8, -1.5, -1.2, -1.0, -0.6, 0.0, 0.4, 0.7, 0.8, 1.8, 2.4, 3.2, 3.2)
OCCUPATION_ODDS = (0.7, 0.1, -1.0, 0.3, 0.9, 0.6, -0.8, -0.3, 0.0, -1.0, -0.1, -1.5, 0.5, 0.0)
WORKCLASS_ODDS = (0.0, -0.4, 0.3, 0.5, 0.0, -0.1, -2.0)
MARRIED_ODDS = 3.0
BASE_ODDS = -5.7


def adult_like(n_rows: int, seed: int) -> EncodedTable:
    """Return a synthetic table with Adult's schema: CSR, 104 features, rows of norm at most 1, labels -1/+1.

    >>> data = adult_like(2000, seed=0)
    >>> data.features.shape, bool(0.2 < (data.labels > 0).mean() < 0.3)
    ((2000, 104), True)
    """
    schema = adult.SCHEMA.with_constant(None)  # papers fit no intercept
    encoded = encode_table(schema, adult_like_frame(n_rows, seed), "adult_like")
    return EncodedTable(
        name="adult_like",
        features=encoded.features,
        labels=encoded.labels,
        row_norm=schema.row_norm,
        schema=schema,
        notes=encoded.notes,
        description="Invented people with the columns of UCI Adult and hand-written probabilities.",
        origin="synthetic",
    )


def adult_like_frame(n_rows: int, seed: int) -> pd.DataFrame:
    """Return the table behind `adult_like` before encoding, as a CSV of such data would hold it."""
    rows = checks.count("n_rows", n_rows)
    rng = np.random.default_rng(checks.count("seed", seed, least=0))
    age = np.clip(17 + rng.gamma(2.6, 8.3, rows), 17, 90).astype(np.int64)
    male = rng.random(rows) < 0.67
    married = rng.random(rows) < expit((age - 28) / 4) * np.where(male, 0.80, 0.24)
    workclass = _pick(WORKCLASS_SHARES, rows, rng)
    education = _pick(EDUCATION_SHARES, rows, rng)
    occupation = _occupations(education, rng)
    hours = np.clip(np.rint(rng.normal(np.where(male, 42, 37), 11)), 1, 99).astype(np.int64)
    hours = np.where(rng.random(rows) < 0.45, 40, hours)
    odds = BASE_ODDS + MARRIED_ODDS * married + 0.3 * male + 0.03 * (hours - 40)
    odds += np.array(EDUCATION_ODDS)[education] + np.array(OCCUPATION_ODDS)[occupation]
    odds += np.array(WORKCLASS_ODDS)[workclass] + 2.0 * np.sin(np.pi * np.clip((age - 17) / 66, 0, 1))
    gain, loss, odds = _capital(odds, rng)
    return pd.DataFrame(
        {
            "age": age,
            "workclass": np.array(adult.WORKCLASSES)[workclass],
            "fnlwgt": np.clip(rng.lognormal(12.0, 0.5, rows), 13_492, 1_490_400).astype(np.int64),
            "education": np.array(adult.EDUCATIONS)[education],
            "education-num": education + 1,
            "marital-status": _marital(married, age, rng),
            "occupation": np.array(adult.OCCUPATIONS)[occupation],
            "relationship": _relationship(married, male, age, rng),
            "race": np.array(adult.RACES)[_pick(RACE_SHARES, rows, rng)],
            "sex": np.where(male, "Male", "Female"),
            "capital-gain": gain,
            "capital-loss": loss,
            "hours-per-week": hours,
            "native-country": _countries(rows, rng),
            "income": np.where(rng.random(rows) < expit(odds), ">50K", "<=50K"),
        }
    )


def _pick(shares: Sequence[float], rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    weights = np.array(shares)
    return rng.choice(len(weights), size=rows, p=weights / weights.sum())


def _occupations(education: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw occupations; from a Bachelor's degree on, half the people are professionals or managers."""
    occupation = _pick(OCCUPATION_SHARES, len(education), rng)
    graduate = education >= adult.EDUCATIONS.index("Bachelors")
    moved = graduate & (rng.random(len(education)) < 0.5)
    desk = [adult.OCCUPATIONS.index("Exec-managerial"), adult.OCCUPATIONS.index("Prof-specialty")]
    return np.where(moved, rng.choice(desk, size=len(education)), occupation)


def _capital(odds: Floats, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Draw rare capital gains (8 %) and losses (5 %); large gains go with high incomes."""
    rows = len(odds)
    has_gain = rng.random(rows) < 0.08
    gain = np.where(has_gain, np.clip(rng.lognormal(8.6, 0.9, rows), 100, 99_999), 0).astype(np.int64)
    has_loss = ~has_gain & (rng.random(rows) < 0.05)
    loss = np.where(has_loss, np.clip(rng.normal(1_870, 370, rows), 150, 4_356), 0).astype(np.int64)
    return gain, loss, odds + 2.5 * (gain > 6_000) + 1.0 * (loss > 1_800)


def _marital(married: NDArray[np.bool_], age: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.str_]:
    """Married people have a spouse; the others are single when young, divorced or widowed later."""
    rows = len(age)
    never = rng.random(rows) < expit((38 - age) / 6)
    others = np.array(["Divorced", "Separated", "Widowed", "Married-spouse-absent"])
    later = others[_pick((66, 15, 14, 5), rows, rng)]
    spouse = np.where(rng.random(rows) < 0.001, "Married-AF-spouse", "Married-civ-spouse")
    return np.where(married, spouse, np.where(never, "Never-married", later))


def _relationship(
    married: NDArray[np.bool_], male: NDArray[np.bool_], age: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.str_]:
    rows = len(age)
    single = np.array(["Not-in-family", "Unmarried", "Other-relative"])[_pick((64, 29, 7), rows, rng)]
    at_home = rng.random(rows) < expit((25 - age) / 3)
    return np.where(married, np.where(male, "Husband", "Wife"), np.where(at_home, "Own-child", single))


def _countries(rows: int, rng: np.random.Generator) -> NDArray[np.str_]:
    """Draw a foreign country for one person in eleven, Mexico for a fifth of these."""
    countries = np.array(adult.COUNTRIES)
    abroad = rng.integers(1, len(countries), rows)
    abroad = np.where(rng.random(rows) < 0.2, adult.COUNTRIES.index("Mexico"), abroad)
    return countries[np.where(rng.random(rows) < FOREIGN_SHARE, abroad, 0)]
