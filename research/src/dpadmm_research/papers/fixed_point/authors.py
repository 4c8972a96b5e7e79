"""What the authors' public code runs for the figure, written anew from what it does; all noise levels at once.

Private ADMM (Algorithm 3 with Algorithm 6's clipping). Where it departs from the paper:

* users are drawn with replacement, 100 of 800: somebody drawn twice takes two steps in a round;
* the soft threshold is `2 kappa gamma/n`, n = 1000, where Algorithm 6 has `kappa gamma`;
* z starts at 10 kappa in every coordinate, beside blocks that start at 0.

As printed are the tracking (changes of blocks are added to the thresholded z, not to their mean) and the noise
(`lambda sigma` on a block). The x step is the proximal map of eq. (9), with 1/gamma and not `2n/gamma`.

Proximal DP-SGD: the *sum* of the batch's gradients is clipped, noise is added to it, and both are divided by n = 1000.
The same formula gives the noise as for ADMM, although it is that of a mean over n rows.
"""

from dataclasses import dataclass

import numpy as np

from dpadmm.problems.arrays import Floats, Ints
from dpadmm_research.papers.fixed_point.world import World


@dataclass(frozen=True)
class ObjectiveCurve:
    """Test objectives after every iteration: (iterations, levels)."""

    objective: Floats

    @property
    def least(self) -> Floats:
        """What the authors' code plots: the least test objective of all iterations, chosen by the test set."""
        return np.asarray(self.objective.min(axis=0))

    @property
    def last(self) -> Floats:
        """What the paper prints, and what a release would have: the last iterate."""
        return self.objective[-1]


@dataclass(frozen=True)
class Tracking:
    """What the server adds the mean change of the blocks to, and by how much it thresholds.

    is_mean: to their mean, whose soft threshold is z; otherwise to z itself, as printed. threshold: the soft threshold.
    """

    is_mean: bool
    threshold: float

    @classmethod
    def as_coded(cls, world: World) -> "Tracking":
        """As printed, with the threshold of the code."""
        return cls(False, 2 * world.kappa * world.setting.gamma / world.setting.rows)

    @classmethod
    def consistent(cls, world: World) -> "Tracking":
        """The mean of the blocks and the threshold of Algorithm 6: these have the LASSO's solution as fixed point."""
        return cls(True, world.kappa * world.setting.gamma)


def admm_curve(
    world: World, stds: Floats, seed: int, tracking: Tracking, iterations: int | None = None
) -> ObjectiveCurve:
    """Run private ADMM for every sigma in `stds` with the same users and the same normal draws."""
    s, rng = world.setting, np.random.default_rng(seed)
    share = s.gamma / (1 + s.gamma * np.einsum("ip,ip->i", world.rows, world.rows))
    blocks = np.zeros((world.users, len(stds), s.dimension))
    z = np.full((len(stds), s.dimension), s.start * world.kappa)
    mean, objectives = np.zeros_like(z), []
    for _ in range(iterations or s.iterations):
        drawn, normals = _draw(rng, world.users, (s.sampled, s.dimension))
        total = np.zeros_like(z)
        for places in _without_repetition(drawn):
            i = drawn[places]
            pull = z - blocks[i]
            # x_i - z = pull - a share (a'(2z - u) - b), with 2z - u = pull + z.
            along = np.einsum("ip,irp->ir", world.rows[i], pull)
            residual = share[i, None] * (along + world.rows[i] @ z.T - world.targets[i, None])
            pull -= world.rows[i, None] * residual[:, :, None]
            pull *= 2 * s.relaxation * _shortening(pull, s.admm_clip)
            pull += s.relaxation * stds[:, None] * normals[places, None]
            blocks[i] += pull
            total += pull.sum(axis=0)
        mean += total / world.users
        z = _soft(mean if tracking.is_mean else z + total / world.users, tracking.threshold)
        objectives.append(world.objective(z.T))
    return ObjectiveCurve(np.array(objectives))


def sgd_curve(world: World, stds: Floats, seed: int) -> ObjectiveCurve:
    """Run proximal DP-SGD for every noise in `stds` with the same batches and the same normal draws."""
    s, rng = world.setting, np.random.default_rng(seed)
    z, objectives = np.full((len(stds), s.dimension), s.start * world.kappa), []
    for _ in range(s.iterations):
        drawn, normals = _draw(rng, world.users, (s.dimension,), s.sampled)
        rows = world.rows[drawn]
        gradient = (z @ rows.T - world.targets[drawn]) @ rows
        gradient = gradient * _shortening(gradient, s.sgd_clip) + stds[:, None] * normals
        z = _soft(z - s.sgd_step * gradient / s.rows, world.kappa * s.sgd_step / s.rows)
        objectives.append(world.objective(z.T))
    return ObjectiveCurve(np.array(objectives))


def most_participations(world: World, seeds: range) -> int:
    """Return how often the busiest user takes part in any of the runs of `admm_curve` with these seeds."""
    s, most = world.setting, 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rounds = [_draw(rng, world.users, (s.sampled, s.dimension))[0] for _ in range(s.iterations)]
        most = max(most, int(np.bincount(np.concatenate(rounds)).max()))
    return most


def _draw(
    rng: np.random.Generator, users: int, shape: tuple[int, ...], sampled: int | None = None
) -> tuple[Ints, Floats]:
    """Return one round's users, and its normal draws: the order in which the authors' generator is asked."""
    drawn = rng.integers(users, size=sampled or shape[0])
    return drawn, rng.normal(size=shape)


def _without_repetition(drawn: Ints) -> list[Ints]:
    """Return the places of first draws, then those of second draws, and so on; z stays the same within a round.

    >>> [places.tolist() for places in _without_repetition(np.array([4, 7, 4, 4]))]
    [[0, 1], [2], [3]]
    """
    order = np.argsort(drawn, kind="stable")
    starts = np.searchsorted(drawn[order], drawn[order])
    rank = np.empty(len(drawn), dtype=np.int64)
    rank[order] = np.arange(len(drawn)) - starts
    return [np.flatnonzero(rank == k) for k in range(int(rank.max()) + 1)]


def _shortening(vectors: Floats, norm: float) -> Floats:
    """Return the factor that shortens each vector to the norm, if it is longer."""
    lengths = np.sqrt(np.einsum("...p,...p->...", vectors, vectors))[..., None]
    return np.asarray(norm / np.maximum(lengths, norm))


def _soft(values: Floats, threshold: float) -> Floats:
    return np.asarray(np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0))
