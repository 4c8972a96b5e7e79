"""Synthetic tables with a planted sparse model (LASSO)."""

import numpy as np

from dpadmm import checks
from dpadmm.data.examples import Planted
from dpadmm.data.partition import EncodedTable, check_generator
from dpadmm.errors import InputError


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
        raise InputError(f"support must be at most the dimension {width}, got {support}.", setting="support")
    checks.non_negative("noise_std", noise_std)
    checks.positive("magnitude", magnitude)
    generator = check_generator(rng)
    truth = np.zeros(width)
    truth[generator.choice(width, size=support, replace=False)] = generator.uniform(-1, 1, support) * magnitude
    features = generator.standard_normal((rows, width))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    data = EncodedTable(
        name="sparse_regression",
        features=features,
        labels=features @ truth + noise_std * generator.standard_normal(rows),
        row_norm=1.0,
        description=f"Linear model with {support} of {width} coefficients, rows on the unit sphere.",
        origin="synthetic",
    )
    return Planted(data, truth)
