"""Public bins of a model's score, the counts of records in them at several resolutions, and what noisy ones tell.

Scores are log-odds (or, for a model without probabilities, plain scores) on an even grid between -limit and +limit;
those beyond are in the outermost bins. Bin j holds `edge_j < score <= edge_{j+1}`, so a threshold of 0 is an edge.

A record is counted once at each resolution: in one of 2, one of 8, one of 32 and one of 128 bins of its class (and
group). Sums over many bins, of which the area under a ROC curve is made, then gather the noise of a few coarse bins,
not of a hundred fine ones. Least squares joins the resolutions: with A the 0/1 matrix from fine bins to all counts,

    x = (A'A)^{-1} A' y,        cov x = sigma^2 (A'A)^{-1}        for the noisy counts y of one class (and group).
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.problems.arrays import Floats

RESOLUTIONS = (2, 8, 32, 128)
"""Bins at every resolution; each divides the next."""

BINS = RESOLUTIONS[-1]
WIDTH = sum(RESOLUTIONS)
"""Counts of one class (and group)."""

LOG_ODDS_LIMIT = 8.0
"""Log-odds beyond it are counted as being there: probabilities below 0.00034 and above 0.99966."""


@dataclass(frozen=True)
class ScoreBins:
    """The public grid of scores.

    >>> bins = ScoreBins(8.0)
    >>> bins.edges[:2].tolist(), bins.places(np.array([-99.0, 0.0, 0.01, 99.0])).tolist()
    ([-8.0, -7.875], [0, 63, 64, 127])
    """

    limit: float = LOG_ODDS_LIMIT

    def __post_init__(self) -> None:
        """Refuse an empty grid."""
        checks.positive("limit", self.limit)

    @property
    def edges(self) -> Floats:
        """The 129 ends of the bins; the outermost bins are open."""
        return np.linspace(-self.limit, self.limit, BINS + 1)

    def places(self, scores: Floats) -> NDArray[np.intp]:
        """Return the fine bin of every score."""
        return np.searchsorted(self.edges[1:-1], scores, side="left").astype(np.intp)

    def share_above(self, threshold: float) -> Floats:
        """Return which part of every bin lies above a threshold: 0 or 1, but for the bin that it cuts."""
        edges = self.edges
        return np.clip((edges[1:] - threshold) / (edges[1] - edges[0]), 0.0, 1.0)


def counts_of(places: NDArray[np.intp], blocks: NDArray[np.intp], n_blocks: int) -> Floats:
    """Return the counts (n_blocks WIDTH,) of records in these fine bins, block by block.

    blocks: number of the class (and group) of every record, -1 for one that is counted nowhere.
    """
    kept = blocks >= 0
    where, what = blocks[kept], places[kept]
    parts = [
        np.bincount(where * size + what * size // BINS, minlength=n_blocks * size).reshape(n_blocks, size)
        for size in RESOLUTIONS
    ]
    return np.hstack(parts).ravel().astype(np.float64)


class LeastSquares(NamedTuple):
    """`solve` (BINS, WIDTH) takes a block's counts to its fine bins; `spread` (BINS, BINS) is their covariance for
    noise of deviation 1; `lean` (BINS,) its row sums, by which a block leans when its total is corrected."""

    solve: Floats
    spread: Floats
    lean: Floats


@cache
def least_squares() -> LeastSquares:
    """Return what joins the resolutions; the same for every block."""
    fine = np.arange(BINS)
    table = np.vstack([np.eye(size)[fine * size // BINS].T for size in RESOLUTIONS])
    spread: Floats = np.linalg.inv(table.T @ table).astype(np.float64)
    return LeastSquares(spread @ table.T, spread, spread.sum(axis=1))
