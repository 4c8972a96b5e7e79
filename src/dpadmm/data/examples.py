"""Examples: a table of tumours at four hospitals, and random problems with planted answers."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd
from scipy.special import expit

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.data.columns import BinaryLabel, Numeric
from dpadmm.data.partition import EncodedTable, by_sizes, check_generator
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.silos import Silos, row_norms

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

BREAST_CANCER_SCHEMA = Schema(
    columns=tuple(
        Numeric(template.format(name), 0.0, bounds[position])
        for position, template in enumerate(("mean {}", "{} error", "worst {}"))
        for name, bounds in UPPER_BOUNDS.items()
    ),
    label=BinaryLabel("target", positive=(0,), negative=(1,)),
    row_norm=1.0,
)


def load_breast_cancer() -> EncodedTable:
    """Return 569 tumours x 30 measurements at four simulated hospitals of 228, 171, 113 and 57 patients.

    The label is +1 for malignant (37 %). Works offline: the table comes with scikit-learn.

    >>> data = load_breast_cancer()
    >>> data.silos().sizes.tolist(), data.dimension
    ([171, 113, 57, 228], 30)
    """
    table = read_breast_cancer()
    schema = BREAST_CANCER_SCHEMA.with_constant(None)  # papers fit no intercept
    encoded = encode_table(schema, table, "breast_cancer")
    return EncodedTable(
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


@dataclass(frozen=True)
class Planted:
    """A synthetic data set and the model that made it."""

    data: EncodedTable
    truth: Floats

    def users(self) -> Silos:
        """Return silos of one row each: every row a user, as in the fixed-point paper's experiment."""
        return Silos.one_record_each(self.data.features, self.data.labels, self.data.row_norm)


def logistic_table(
    n_rows: int,
    dimension: int,
    *,
    rng: np.random.Generator,
    signal: float = 10.0,
    intercept: float = 0.0,
    row_norm: float = 1.0,
) -> Planted:
    """Return labels drawn from `P(y = +1) = 1 / (1 + exp(-(a'w + intercept)))`, `||w|| = signal / row_norm`.

    Rows are N(0, R^2/d I), shortened to the norm bound R = row_norm; w has a uniform direction.

    >>> planted = logistic_table(500, 10, rng=np.random.default_rng(0))
    >>> sorted(set(planted.data.labels.tolist())), planted.data.dimension
    ([-1.0, 1.0], 10)
    """
    rows, width = checks.count("n_rows", n_rows), checks.count("dimension", dimension)
    checks.positive("signal", signal)
    checks.finite("intercept", intercept)
    norm = checks.positive("row_norm", row_norm)
    generator = check_generator(rng)
    truth = generator.standard_normal(width)
    truth *= signal / norm / np.linalg.norm(truth)
    features = generator.standard_normal((rows, width)) * (norm / np.sqrt(width))
    features = features / np.maximum(1.0, row_norms(features) / norm)[:, None]
    positive = generator.random(rows) < expit(features @ truth + intercept)
    data = EncodedTable(
        name="logistic",
        features=features,
        labels=np.where(positive, 1.0, -1.0),
        row_norm=norm,
        description=f"Logistic model with {width} features and signal {signal:g}.",
        origin="synthetic",
    )
    return Planted(data, truth)


# Matrices are made this many numbers at a time, so that temporaries stay small next to the result.
BLOCK_NUMBERS = 2_000_000


class EntryDistribution(Enum):
    """How the entries of a matrix are drawn before it is made symmetric and its spectrum is scaled.

    Signed entries have eigenvectors without a preferred direction. Non-negative ones have their top eigenvector near
    (1, ..., 1), so that the mean of many such matrices keeps a condition number.
    """

    GAUSSIAN = "standard normal"
    NON_NEGATIVE = "uniform on [0, 1]"


def random_quadratics(
    n_agents: int,
    dimension: int,
    *,
    rng: np.random.Generator,
    tau: float = 1.0,
    smoothness: float = 2.0,
    slope_range: tuple[float, float] = (0.0, 60.0),
    entries: EntryDistribution = EntryDistribution.GAUSSIAN,
    is_shared: bool = False,
) -> QuadraticAgents:
    """Return agents `f_i(x) = x'B_i x / 2 + c_i'x` whose B_i have spectra that reach exactly from tau to L.

    Parameters
    ----------
    n_agents, dimension: at least 1 each; a million agents of dimension 5 take 0.24 GB.
    tau, smoothness: 0 < tau <= L.
    slope_range: the entries of c_i are uniform on it.
    entries: how those of B_i are drawn.
    is_shared: whether all agents have one B. The mean of many B_i of their own is nearly a multiple of I where
        entries are signed; a shared one keeps its whole condition number.

    >>> agents = random_quadratics(3, 4, rng=np.random.default_rng(0))
    >>> np.linalg.eigvalsh(agents.curvatures)[:, [0, -1]].round(9).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    agents, size = checks.count("n_agents", n_agents), checks.count("dimension", dimension)
    low, high = slope_range
    if not checks.finite("slope_range[0]", low) <= checks.finite("slope_range[1]", high):
        raise InputError(f"slope_range must be (low, high) with low <= high, got {safe_repr(slope_range)}.")
    generator = check_generator(rng)
    matrices = random_spd(1 if is_shared else agents, size, tau, smoothness, generator, entries)
    if is_shared:
        matrices = np.repeat(matrices, agents, axis=0)
    slopes = generator.uniform(low, high, (agents, size))
    return QuadraticAgents(matrices, slopes, (float(tau), float(smoothness)))


def random_spd(
    count: int,
    size: int,
    lower: float,
    upper: float,
    rng: np.random.Generator,
    entries: EntryDistribution = EntryDistribution.GAUSSIAN,
) -> Floats:
    """Return symmetric matrices (count, size, size) whose eigenvalues are mapped affinely onto [lower, upper].

    For S symmetric with extreme eigenvalues s_1, s_d the result is
    `lower I + (upper - lower) (S - s_1 I) / (s_d - s_1)`; for size 1, uniform on [lower, upper].
    """
    if not checks.positive("lower eigenvalue", lower) <= checks.finite("upper eigenvalue", upper):
        raise InputError(
            f"Eigenvalue bounds must satisfy 0 < lower <= upper, got {safe_repr(lower)}, {safe_repr(upper)}."
        )
    if size == 1:
        return rng.uniform(lower, upper, (count, 1, 1))
    out = np.empty((count, size, size))
    step = max(1, BLOCK_NUMBERS // size**2)
    fill = rng.random if entries is EntryDistribution.NON_NEGATIVE else rng.standard_normal
    diagonal = np.arange(size)
    for start in range(0, count, step):
        block = out[start : start + step]
        fill(out=block)
        # Two adds in place of a temporary product: S = G + G'; the affine map takes care of the scale.
        block += block.transpose(0, 2, 1).copy()
        eigenvalues = np.linalg.eigvalsh(block)
        first, last = eigenvalues[:, 0], eigenvalues[:, -1]
        scale = (upper - lower) / (last - first)
        block *= scale[:, None, None]
        block[:, diagonal, diagonal] += (lower - scale * first)[:, None]
    return out
