"""Random quadratic agents with a prescribed spectrum, for the consensus experiments."""

import numpy as np

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.datasets.partition import checked_generator
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.quadratics import QuadraticAgents

# Matrices are made this many numbers at a time, so that temporaries stay small next to the result.
BLOCK_NUMBERS = 2_000_000


def random_quadratics(
    n_agents: int,
    dimension: int,
    *,
    rng: np.random.Generator,
    tau: float = 1.0,
    smoothness: float = 2.0,
    slope_range: tuple[float, float] = (0.0, 60.0),
) -> QuadraticAgents:
    """Return agents `f_i(x) = x'B_i x / 2 + c_i'x` whose B_i have spectra that reach exactly from tau to L.

    The entries of c_i are uniform on `slope_range`. The Consensus paper leaves its random data open; with these
    and N = 10^4, d = 5, tau = 1, L = 2 (rho = 5, eps = 0.1) the best number of rounds is 9.

    Parameters
    ----------
    n_agents, dimension: at least 1 each; a million agents of dimension 5 take 0.24 GB.
    tau, smoothness: 0 < tau <= L.

    >>> agents = random_quadratics(3, 4, rng=np.random.default_rng(0))
    >>> np.linalg.eigvalsh(agents.curvatures)[:, [0, -1]].round(9).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    agents, size = checks.count("n_agents", n_agents), checks.count("dimension", dimension)
    low, high = slope_range
    if not checks.finite("slope_range[0]", low) <= checks.finite("slope_range[1]", high):
        raise InputError(f"slope_range must be (low, high) with low <= high, got {shown(slope_range)}.")
    generator = checked_generator(rng)
    matrices = random_spd(agents, size, tau, smoothness, generator)
    slopes = generator.uniform(low, high, (agents, size))
    return QuadraticAgents(matrices, slopes, (float(tau), float(smoothness)))


def random_spd(count: int, size: int, lower: float, upper: float, rng: np.random.Generator) -> Floats:
    """Return symmetric matrices (count, size, size): Gaussian, eigenvalues mapped affinely onto [lower, upper].

    For S symmetric Gaussian with extreme eigenvalues s_1, s_d the result is
    `lower I + (upper - lower) (S - s_1 I) / (s_d - s_1)`; for size 1, uniform on [lower, upper].
    """
    if not checks.positive("lower eigenvalue", lower) <= checks.finite("upper eigenvalue", upper):
        raise InputError(f"Eigenvalue bounds must satisfy 0 < lower <= upper, got {shown(lower)}, {shown(upper)}.")
    if size == 1:
        return rng.uniform(lower, upper, (count, 1, 1))
    out = np.empty((count, size, size))
    step = max(1, BLOCK_NUMBERS // size**2)
    diagonal = np.arange(size)
    for start in range(0, count, step):
        block = out[start : start + step]
        rng.standard_normal(out=block)
        # Two adds in place of a temporary product: S = G + G'; the affine map takes care of the scale.
        block += block.transpose(0, 2, 1).copy()
        eigenvalues = np.linalg.eigvalsh(block)
        first, last = eigenvalues[:, 0], eigenvalues[:, -1]
        scale = (upper - lower) / (last - first)
        block *= scale[:, None, None]
        block[:, diagonal, diagonal] += (lower - scale * first)[:, None]
    return out
