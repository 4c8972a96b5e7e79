"""Token walks: who holds the token at each step, drawn in full before anything is computed.

Privacy of a token method is calibrated to the largest number of participations, so the schedule has to be
known first. The functions are pure: the same generator state gives the same schedule.
"""

from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm.networks.graph import IntArray, Network


class WalkKind(Enum):
    """How the token chooses its next holder."""

    SIMPLE = "simple"
    """A uniformly random neighbour; in the long run agent i holds the token in proportion to deg_i."""

    METROPOLIS_HASTINGS = "metropolis-hastings"
    """Propose a uniformly random neighbour j of i, move with probability min(1, deg_i/deg_j), else stay at i.

    In the long run all agents hold the token equally often.
    """


def uniform_walk(n: int, steps: int, rng: np.random.Generator) -> IntArray:
    """Return `steps` holders, each uniform on n agents and independent (Cyffers et al., Algorithm 4).

    The complete graph is taken with self-loops: the holder may be drawn again.

    >>> uniform_walk(3, 8, np.random.default_rng(0))
    array([2, 1, 1, 0, 0, 0, 0, 0])
    """
    n = checks.count("n", n, least=2)
    steps = checks.count("steps", steps)
    return check_generator(rng).integers(n, size=steps, dtype=np.int64)


def random_walk(
    network: Network,
    steps: int,
    rng: np.random.Generator,
    start: int | None = None,
    kind: WalkKind = WalkKind.SIMPLE,
) -> IntArray:
    """Return the holders v_1, ..., v_steps of a token that walks along the edges of a network.

    Parameters
    ----------
    network
        Any connected network.
    steps
        Number of holders, at least 1; the first is `start`.
    rng
        Source of all randomness.
    start
        First holder, or None to draw it from the walk's stationary distribution, which every step then has.
    kind
        `WalkKind.SIMPLE` or `WalkKind.METROPOLIS_HASTINGS`; under the latter the token may stay where it is,
        and that agent takes part once more.
    """
    steps = checks.count("steps", steps)
    rng = check_generator(rng)
    if not isinstance(kind, WalkKind):
        raise InputError(f"kind must be one of {', '.join(map(str, WalkKind))}, got {safe_repr(kind)}.")
    if start is None:
        is_simple, n = kind is WalkKind.SIMPLE, network.n_agents
        law = network.degrees / (2.0 * network.n_edges) if is_simple else np.full(n, 1.0 / n)
        here = int(rng.choice(n, p=law))
    else:
        here = checks.count("start", start, least=0)
        if here >= network.n_agents:
            raise InputError(f"start must be below n_agents = {network.n_agents}, got {safe_repr(start)}.")
    choices = rng.random(steps - 1)
    # A simple walk is the case in which every proposal is accepted.
    coins = rng.random(steps - 1) if kind is WalkKind.METROPOLIS_HASTINGS else np.zeros(steps - 1)
    first = network.adjacency.indptr.tolist()
    neighbours = network.adjacency.indices.tolist()
    degrees = network.degrees.tolist()
    holders = [here]
    for choice, coin in zip(choices.tolist(), coins.tolist(), strict=True):
        # choice < 1, and choice * degree stays below the degree after rounding too.
        proposal = neighbours[first[here] + int(choice * degrees[here])]
        if coin * degrees[proposal] < degrees[here]:
            here = proposal
        holders.append(here)
    return np.array(holders, dtype=np.int64)


def participations(schedule: ArrayLike, n: int) -> IntArray:
    """Return how often each of n agents appears in a schedule.

    >>> participations([0, 2, 2], 4)
    array([1, 0, 2, 0])
    """
    n = checks.count("n", n)
    holders = np.asarray(schedule)
    if holders.ndim != 1 or (holders.size and holders.dtype.kind not in "iu"):
        raise InputError(f"schedule must be a vector of integers, got shape {holders.shape} of type {holders.dtype}.")
    if holders.size and (holders.min() < 0 or holders.max() >= n):
        raise InputError(f"schedule must name agents 0 to {n - 1}, got agents from {holders.min()} to {holders.max()}.")
    return np.bincount(holders.astype(np.int64), minlength=n).astype(np.int64)


def check_generator(rng: np.random.Generator) -> np.random.Generator:
    """Refuse seeds and legacy states: the caller owns the stream."""
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, got {type(rng).__name__}; see default_rng.")
    return rng
