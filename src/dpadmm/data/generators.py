"""Synthetic tables with a planted model: sparse regression (LASSO) and logistic classification."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dpadmm import checks
from dpadmm.data.dataset import Dataset
from dpadmm.data.partition import checked_generator, dirichlet_label_skew
from dpadmm.errors import InputError
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


def sparse_regression(
    n_rows: int = 1000,
    dimension: int = 64,
    *,
    rng: np.random.Generator,
    support: int = 8,
    noise_std: float = 0.1,
    magnitude: float = 1.0,
) -> Planted:
    """Return `b = A x + noise` with rows of A uniform on the unit sphere and a sparse x.

    The LASSO experiment of the fixed-point paper (its Appendix E, n = 1000, d = 64, support 8). The paper prints
    N(0, 0.01) for the noise, read here as a variance; it leaves the law of the non-zero entries open, taken here
    as uniform on [-magnitude, magnitude].

    Parameters
    ----------
    n_rows, dimension: at least 1 each. support: number of non-zero entries, 1 to `dimension`.
    noise_std, magnitude: noise_std >= 0, magnitude > 0.

    >>> planted = sparse_regression(rng=np.random.default_rng(0))
    >>> planted.data.features.shape, int((planted.truth != 0).sum()), planted.users().n_agents
    ((1000, 64), 8, 1000)
    """
    rows, width = checks.count("n_rows", n_rows), checks.count("dimension", dimension)
    if checks.count("support", support) > width:
        raise InputError(f"support must be at most the dimension {width}, got {support}.")
    checks.non_negative("noise_std", noise_std)
    checks.positive("magnitude", magnitude)
    generator = checked_generator(rng)
    truth = np.zeros(width)
    truth[generator.choice(width, size=support, replace=False)] = generator.uniform(-1, 1, support) * magnitude
    features = generator.standard_normal((rows, width))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    data = Dataset(
        name="sparse_regression",
        features=features,
        labels=features @ truth + noise_std * generator.standard_normal(rows),
        row_norm=1.0,
        description=f"Linear model with {support} of {width} coefficients, rows on the unit sphere.",
        origin="synthetic",
    )
    return Planted(data, truth)


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


def label_skewed_silos(
    data: Dataset, n_silos: int, *, rng: np.random.Generator, alpha: float = 0.5, least: int = 10
) -> Silos:
    """Deal a data set to silos with Dirichlet(alpha) label skew, at least `least` rows each."""
    parts = dirichlet_label_skew(data.labels, n_silos, alpha, rng, least=least)
    return data.silos(parts)
