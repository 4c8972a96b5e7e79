"""Breast cancer (Wisconsin, diagnostic), shipped with scikit-learn, dealt to four simulated hospitals."""

import numpy as np
import pandas as pd

from dpadmm.data.columns import BinaryLabel, Numeric
from dpadmm.data.dataset import Dataset
from dpadmm.data.partition import by_sizes
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table

# Four hospitals of unequal size; the deal is fixed so that everybody speaks of the same silos.
HOSPITALS = ("university", "city", "county", "rural")
HOSPITAL_SIZES = (228, 171, 113, 57)
DEAL_SEED = 20_240

# Upper bounds (the lower one is 0: sizes and shares are not negative) for the mean over the cells of an image, its
# standard error and its worst value: round numbers, roughly a third above what such images show. Stated here, not
# read off the data when loading.
UPPER_BOUNDS = {
    "radius": (40.0, 4.0, 50.0),
    "texture": (50.0, 6.0, 60.0),
    "perimeter": (250.0, 30.0, 300.0),
    "area": (3_000.0, 600.0, 5_000.0),
    "smoothness": (0.25, 0.05, 0.3),
    "compactness": (0.5, 0.2, 1.5),
    "concavity": (0.6, 0.5, 1.5),
    "concave points": (0.3, 0.06, 0.4),
    "symmetry": (0.4, 0.1, 0.8),
    "fractal dimension": (0.15, 0.04, 0.3),
}

SCHEMA = Schema(
    columns=tuple(
        Numeric(template.format(name), 0.0, bounds[position])
        for position, template in enumerate(("mean {}", "{} error", "worst {}"))
        for name, bounds in UPPER_BOUNDS.items()
    ),
    label=BinaryLabel("target", positive=(0,), negative=(1,)),
    row_norm=1.0,
)


def load_breast_cancer() -> Dataset:
    """Return 569 tumours x 30 measurements at four simulated hospitals of 228, 171, 113 and 57 patients.

    The label is +1 for malignant (37 %). Works offline: the table comes with scikit-learn.

    >>> data = load_breast_cancer()
    >>> data.silos().sizes.tolist(), data.dimension
    ([171, 113, 57, 228], 30)
    """
    table = read_breast_cancer()
    schema = SCHEMA.with_constant(None)  # papers fit no intercept
    encoded = encode_table(schema, table, "breast_cancer")
    return Dataset(
        name="breast_cancer",
        features=encoded.features,
        labels=encoded.labels,
        row_norm=schema.row_norm,
        schema=schema,
        groups=table["hospital"].to_numpy(dtype=str),
        notes=encoded.notes,
        description="Malignant or benign from thirty measurements of cell nuclei; hospitals are simulated.",
        origin="UCI Machine Learning Repository, Breast Cancer Wisconsin (Diagnostic), CC BY 4.0, from scikit-learn.",
    )


def read_breast_cancer() -> pd.DataFrame:
    """Return the table before it is encoded, with the column `hospital`."""
    from sklearn import datasets

    frame: pd.DataFrame = datasets.load_breast_cancer(as_frame=True).frame
    hospital = np.empty(len(frame), dtype="U10")
    rows = by_sizes(len(frame), HOSPITAL_SIZES, np.random.default_rng(DEAL_SEED))
    for name, members in zip(HOSPITALS, rows, strict=True):
        hospital[members] = name
    return frame.assign(hospital=hospital)
