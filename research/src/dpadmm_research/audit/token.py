"""The token of fixed-point ADMM's Algorithm 4 as another user sees it: many independent walks at once.

Linear losses on the complete graph, dimension one, `L = gamma = 1`, no regulariser: `prox_{f_i}(v) = v - s_i`, where
`s_i = -1` or `+1` for user 0 (the two worlds) and 0 for everybody else. Lines 4 to 6 of the algorithm are then

    u_i <- u_i + 2 lam ( z - u_i - s_i + noise/2 ),        z <- z + (change of u_i)/n.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from dpadmm import checks
from dpadmm.problems.arrays import Floats, Ints

_LAM = 0.5
_LONGEST = 7  # walks are followed for so many times n rounds; later arrivals count as never


@dataclass(frozen=True)
class Arrivals:
    """What user n - 1 sees when the token first reaches it: in which round (0: never), and its value in both worlds.

    rounds: (R,). values: (2, R), the same walks and noise in both.
    """

    users: int
    noise_std: float
    rounds: Ints
    values: Floats

    def log_ratios(self, has_clock: bool) -> Floats:
        """Return ln dP/dQ (2, R) as an attacker computes it who takes every helper for a newcomer.

        After m steps the token is normal with means +-a_m and variance v_m. Without a clock both are mixed over m by
        the probability of arriving then. (Helpers visited twice make these slightly wrong, which weakens the attack.)
        """
        means, variances, chances = self._curves()
        arrived = self.rounds > 0
        found = np.zeros_like(self.values)
        z = self.values[:, arrived]
        if has_clock:
            m = self.rounds[arrived] - 1
            found[:, arrived] = 2 * means[m] * z / variances[m]
        else:
            found[:, arrived] = _mixture(z, means, variances, chances) - _mixture(z, -means, variances, chances)
        return found

    def _curves(self) -> tuple[Floats, Floats, Floats]:
        n = self.users
        longest = _longest(n)
        stretch = 1 + 2 * _LAM / n
        mean, variance = 2 * _LAM / n, (_LAM * self.noise_std / n) ** 2
        means, variances = [mean], [variance]
        for _ in range(longest - 1):
            means.append(means[-1] * stretch)
            variances.append(variances[-1] * stretch**2 + variance)
        chance = 1 / (n - 1)
        chances = chance * (1 - chance) ** np.arange(longest, dtype=np.float64)
        return np.array(means), np.array(variances), np.asarray(chances, dtype=np.float64)


def arrivals(users: int, noise_std: float, runs: int, rng: np.random.Generator) -> Arrivals:
    """Let the token walk: user 0 holds it first and contributes once, each later helper is uniform among the others.

    (If the token comes back to user 0 it passes on unchanged: its number of contributions is limited to 1.)
    users >= 2, noise_std > 0, runs >= 1. A walk ends after 7n helpers.
    """
    n, count = checks.count("users", users, least=2), checks.count("runs", runs)
    std = checks.positive("noise_std", noise_std)
    rounds, values = np.zeros(count, dtype=np.int64), np.zeros((2, count))
    alive = np.arange(count)
    z, u = np.zeros((2, count)), np.zeros((2, count, n))
    holder = np.zeros(count, dtype=np.int64)
    for k in range(1, _longest(n) + 1):
        noise = std * rng.standard_normal(alive.size)
        z, u = _step(z, u, holder, noise, k == 1)
        holder = rng.integers(1, n, size=alive.size) if n > 2 else np.ones(alive.size, dtype=np.int64)
        reached = holder == n - 1
        rounds[alive[reached]], values[:, alive[reached]] = k, z[:, reached]
        alive, z, u, holder = alive[~reached], z[:, ~reached], u[:, ~reached], holder[~reached]
        if alive.size == 0:
            break
    return Arrivals(n, std, rounds, values)


def _step(z: Floats, u: Floats, holder: Ints, noise: Floats, is_first: bool) -> tuple[Floats, Floats]:
    """One round of Algorithm 4 in both worlds; only user 0, who holds first, has a slope."""
    slope = np.array([[-1.0], [1.0]]) if is_first else np.zeros((2, 1))
    rows = np.arange(holder.size)
    own = u[:, rows, holder]
    change = 2 * _LAM * (z - own - slope + noise / 2)
    u[:, rows, holder] = own + change
    return z + change / u.shape[2], u


def _mixture(z: Floats, means: Floats, variances: Floats, chances: Floats) -> Floats:
    """Log density at z (2, R) of the mixture, up to a constant."""
    total = np.full(z.shape, -math.inf)
    for mean, variance, chance in zip(means, variances, chances, strict=True):
        part = math.log(chance) - 0.5 * math.log(variance) - (z - mean) ** 2 / (2 * variance) if chance > 0 else None
        if part is not None:
            total = logsumexp([total, part], axis=0)
    return total


def _longest(n: int) -> int:
    return 1 if n == 2 else _LONGEST * n
