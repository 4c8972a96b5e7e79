"""Synthetic tables of two classes with a planted logistic model."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dpadmm import checks
from dpadmm.data.dataset import Dataset
from dpadmm.data.partition import checked_generator
from dpadmm.problems.arrays import Floats
from dpadmm.problems.silos import Silos, row_norms


@dataclass(frozen=True)
class Planted:
    """A synthetic data set and the model that made it."""

    data: Dataset
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
    generator = checked_generator(rng)
    truth = generator.standard_normal(width)
    truth *= signal / norm / np.linalg.norm(truth)
    features = generator.standard_normal((rows, width)) * (norm / np.sqrt(width))
    features = features / np.maximum(1.0, row_norms(features) / norm)[:, None]
    positive = generator.random(rows) < expit(features @ truth + intercept)
    data = Dataset(
        name="logistic",
        features=features,
        labels=np.where(positive, 1.0, -1.0),
        row_norm=norm,
        description=f"Logistic model with {width} features and signal {signal:g}.",
        origin="synthetic",
    )
    return Planted(data, truth)
