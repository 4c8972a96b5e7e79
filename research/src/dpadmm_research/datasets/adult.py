"""UCI Adult: does a person earn more than 50,000 dollars a year? (US census extract of 1994)"""

import zlib
from enum import Enum
from pathlib import Path

import pandas as pd

from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.partition import EncodedTable
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError, raise_alone
from dpadmm_research.datasets.source import data_folder, find_file


class Source(Enum):
    """Where the table comes from."""

    FILES = "files"
    OPENML = "openml"


# The order of the columns in the files.
COLUMN_NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip

# Categories as the data set's own description lists them. "Never-worked" is left out: who never worked has no
# occupation, so no complete row can hold it.
WORKCLASSES = (
    "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
)  # fmt: skip
EDUCATIONS = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
MARITAL_STATUSES = (
    "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
    "Married-AF-spouse",
)  # fmt: skip
OCCUPATIONS = (
    "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
    "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
    "Priv-house-serv", "Protective-serv", "Armed-Forces",
)  # fmt: skip
RELATIONSHIPS = ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried")
RACES = ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black")
SEXES = ("Female", "Male")
COUNTRIES = (
    "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany", "Outlying-US(Guam-USVI-etc)",
    "India", "Japan", "Greece", "South", "China", "Cuba", "Iran", "Honduras", "Philippines", "Italy", "Poland",
    "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador",
    "Taiwan", "Haiti", "Columbia", "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia",
    "El-Salvador", "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands",
)  # fmt: skip

# The published ranges of this long-public extract (a benchmark: its ranges have been in print for decades). For
# a private table of this kind state your own, such as 0 to 120 years.
SCHEMA = Schema(
    columns=(
        Numeric("age", 17, 90),
        Categorical("workclass", WORKCLASSES),
        Numeric("fnlwgt", 13_492, 1_490_400),
        Categorical("education", EDUCATIONS),
        Numeric("education-num", 1, 16),
        Categorical("marital-status", MARITAL_STATUSES),
        Categorical("occupation", OCCUPATIONS),
        Categorical("relationship", RELATIONSHIPS),
        Categorical("race", RACES),
        Categorical("sex", SEXES),
        Numeric("capital-gain", 0, 99_999),
        Numeric("capital-loss", 0, 4_356),
        Numeric("hours-per-week", 1, 99),
        Categorical("native-country", COUNTRIES),
    ),
    label=BinaryLabel("income", positive=(">50K",), negative=("<=50K",)),
    row_norm=1.0,
)


def load_adult(path: str | Path | None = None, *, source: Source = Source.FILES) -> EncodedTable:
    """Return all complete rows of Adult, 45,222 x 104, labels -1/+1, rows of norm at most 1.

    Parameters
    ----------
    path: folder with `adult.data` and `adult.test`, plain or gzipped; by default `adult` under DPADMM_DATA.
    source: FILES reads the folder; OPENML downloads version 2 from OpenML, only when asked for.
    """
    schema = SCHEMA.with_constant(None)  # papers fit no intercept
    encoded = encode_table(schema, read_adult(path, source=source), "adult")
    return EncodedTable(
        name="adult",
        features=encoded.features,
        labels=encoded.labels,
        row_norm=schema.row_norm,
        schema=schema,
        notes=encoded.notes,
        description="Income above 50,000 dollars from age, work, schooling and family (US census, 1994).",
        origin="UCI Machine Learning Repository, Adult (Becker, Kohavi 1996), CC BY 4.0.",
    )


def read_adult(path: str | Path | None = None, *, source: Source = Source.FILES) -> pd.DataFrame:
    """Return all complete rows of Adult as they are in the files; parameters as for `load_adult`."""
    readers = {Source.FILES: lambda: _read_files(path), Source.OPENML: _fetch_openml}
    # The rows are published, so they may be counted.
    return readers[source]().dropna(subset=[*SCHEMA.column_names, SCHEMA.label.name])


def _read_files(path: str | Path | None) -> pd.DataFrame:
    folder = data_folder("adult", path)
    # adult.test opens with a comment line and ends its labels with a full stop; adult.data does neither.
    parts = [_read(find_file(folder, "adult.data"), 0), _read(find_file(folder, "adult.test"), 1)]
    table = pd.concat(parts, ignore_index=True)
    table["income"] = table["income"].str.removesuffix(".")
    return table


def _read(file: Path, skip: int) -> pd.DataFrame:
    try:
        table = pd.read_csv(
            file, header=None, skiprows=skip, skipinitialspace=True, na_values=["?"], keep_default_na=False
        )
    except (OSError, EOFError, ValueError, zlib.error):
        raise_alone(
            InputError(
                f"{str(file)!r} cannot be read as an Adult file: damaged or another file. Download it again.",
                setting="path",
            )
        )
    if table.shape[1] != len(COLUMN_NAMES):
        raise InputError(
            f"{str(file)!r} has {table.shape[1]} columns; an Adult file has {len(COLUMN_NAMES)}.", setting="columns"
        )
    return table.set_axis(list(COLUMN_NAMES), axis=1)


def _fetch_openml() -> pd.DataFrame:
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml("adult", version=2, as_frame=True, parser="auto")
    except (OSError, ValueError) as problem:
        raise InputError(
            f"OpenML could not be reached or has no such data ({problem}). Download Adult from UCI and pass "
            "its folder as path=..., or use dpadmm.data.adult_like for a synthetic table.",
            setting="source",
        ) from problem
    table = bunch.frame.rename(columns={"class": "income"}).astype(object)
    return table.mask(table == "?")
