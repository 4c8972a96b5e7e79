"""Random quadratic agents with a prescribed spectrum, for the consensus experiments."""

from enum import Enum

import numpy as np

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.data.partition import checked_generator
from dpadmm.errors import InputError
from dpadmm.problems.arrays import Floats
from dpadmm.problems.quadratics import QuadraticAgents

# Matrices are made this many numbers at a time, so that temporaries stay small next to the result.
BLOCK_NUMBERS = 2_000_000


class Entries(Enum):
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
    entries: Entries = Entries.GAUSSIAN,
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
        raise InputError(f"slope_range must be (low, high) with low <= high, got {shown(slope_range)}.")
    generator = checked_generator(rng)
    matrices = random_spd(1 if is_shared else agents, size, tau, smoothness, generator, entries)
    if is_shared:
        matrices = np.repeat(matrices, agents, axis=0)
    slopes = generator.uniform(low, high, (agents, size))
    return QuadraticAgents(matrices, slopes, (float(tau), float(smoothness)))


def random_spd(
    count: int, size: int, lower: float, upper: float, rng: np.random.Generator, entries: Entries = Entries.GAUSSIAN
) -> Floats:
    """Return symmetric matrices (count, size, size) whose eigenvalues are mapped affinely onto [lower, upper].

    For S symmetric with extreme eigenvalues s_1, s_d the result is
    `lower I + (upper - lower) (S - s_1 I) / (s_d - s_1)`; for size 1, uniform on [lower, upper].
    """
    if not checks.positive("lower eigenvalue", lower) <= checks.finite("upper eigenvalue", upper):
        raise InputError(f"Eigenvalue bounds must satisfy 0 < lower <= upper, got {shown(lower)}, {shown(upper)}.")
    if size == 1:
        return rng.uniform(lower, upper, (count, 1, 1))
    out = np.empty((count, size, size))
    step = max(1, BLOCK_NUMBERS // size**2)
    fill = rng.random if entries is Entries.NON_NEGATIVE else rng.standard_normal
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
