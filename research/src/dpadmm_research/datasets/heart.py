"""UCI heart disease: four real hospitals, each with its own patients and its own habits of recording."""

import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from dpadmm.data.columns import Categorical, Numeric, ThresholdLabel
from dpadmm.data.partition import EncodedTable
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError, raise_alone
from dpadmm_research.datasets.source import data_folder, find_file

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")

COLUMN_NAMES = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca",
    "thal", "num",
)  # fmt: skip
# Hardly recorded outside Cleveland, so left out: slope of the ST segment, vessels coloured, thallium scan.
LEFT_OUT = ("slope", "ca", "thal")

CHOLESTEROL_LOWER = 50.0

# Clinical ranges, wider than any adult at a cardiology clinic should need:
# - resting systolic pressure 80-220 mm Hg: below is shock, above an emergency;
# - serum cholesterol 50-650 mg/dl: the extremes of familial disorders;
# - maximum heart rate 50-220 per minute: 220 minus age is the textbook ceiling;
# - ST depression -3 to 7 mm: negative is elevation.
SCHEMA = Schema(
    columns=(
        Numeric("age", 18, 100),
        Categorical("sex", (0, 1)),
        Categorical("cp", (1, 2, 3, 4)),
        Numeric("trestbps", 80, 220),
        Numeric("chol", CHOLESTEROL_LOWER, 650),
        Categorical("chol_measured", (0, 1)),
        Categorical("fbs", (0, 1)),
        Categorical("restecg", (0, 1, 2)),
        Numeric("thalach", 50, 220),
        Categorical("exang", (0, 1)),
        Numeric("oldpeak", -3, 7),
    ),
    label=ThresholdLabel("num", 0),
    row_norm=1.0,
)


def load_heart(path: str | Path | None = None) -> EncodedTable:
    """Return the complete rows of four hospitals: Cleveland 303, Hungary 261, Switzerland 46, Long Beach 130.

    The label is +1 for heart disease (`num` above 0). Cholesterol was not measured for any of the Swiss and for
    a quarter of the Long Beach patients, who carry a 0 in that column. A 0 read as a number would say "very
    low"; here it becomes the lower bound (feature 0) together with `chol_measured=0`, a category of its own.

    Parameters
    ----------
    path: folder with the four `processed.<hospital>.data`; by default `heart_disease` under DPADMM_DATA.
    """
    table = read_heart(path)
    schema = SCHEMA.with_constant(None)  # papers fit no intercept
    encoded = encode_table(schema, table, "heart_disease")
    return EncodedTable(
        name="heart_disease",
        features=encoded.features,
        labels=encoded.labels,
        row_norm=schema.row_norm,
        schema=schema,
        groups=table["hospital"].to_numpy(dtype=str),
        notes=encoded.notes,
        description="Heart disease from ten routine measurements at four hospitals.",
        origin="UCI Machine Learning Repository, Heart Disease (Janosi, Steinbrunn, Pfisterer, Detrano), CC BY 4.0.",
    )


def read_heart(path: str | Path | None = None) -> pd.DataFrame:
    """Return the complete rows before they are encoded, with the column `hospital`; `path` as for `load_heart`."""
    folder = data_folder("heart_disease", path)
    table = pd.concat([_read(folder, hospital) for hospital in HOSPITALS], ignore_index=True)
    return table.dropna(subset=[*SCHEMA.column_names, SCHEMA.label.name])  # published, so it may be counted


def _read(folder: Path, hospital: str) -> pd.DataFrame:
    file = find_file(folder, f"processed.{hospital}.data")
    try:
        table = pd.read_csv(file, header=None, na_values=["?"], dtype=np.float64)
    except (OSError, EOFError, ValueError, zlib.error):
        raise_alone(
            InputError(
                f"{str(file)!r} cannot be read as a heart disease file: damaged or another file. Download it again.",
                setting="path",
            )
        )
    if table.shape[1] != len(COLUMN_NAMES):
        raise InputError(
            f"{str(file)!r} has {table.shape[1]} columns; a heart disease file has {len(COLUMN_NAMES)}.",
            setting="columns",
        )
    table = table.set_axis(list(COLUMN_NAMES), axis=1)
    measured = table["chol"] > 0
    return table.drop(columns=list(LEFT_OUT)).assign(
        # A missing cell stays missing; a recorded 0 means "not measured".
        chol_measured=np.where(table["chol"].isna(), np.nan, measured.astype(np.float64)),
        chol=table["chol"].where(measured | table["chol"].isna(), CHOLESTEROL_LOWER),
        hospital=hospital,
    )
