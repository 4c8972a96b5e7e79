"""PS-ADMM as printed (Ding, Errapotu, Zhang, Gong, Pan, Han 2019): Theorem 2, with its open constants set to 1.

    sigma^2 = c G^2 K S ln(1/delta) / (M^2 eps^2)     for   eps <= c1 K S / M^2

`K` rounds of `S` inner steps on `M` records with a G-Lipschitz loss. The paper says only that `c` and `c1` are some
constants; its Theorem 3 uses the variance with c = 1. Claimed, not certified: see `docs/errata.md`.
"""

import math
from dataclasses import dataclass

from dpadmm import checks
from dpadmm_research.claims.base import ClaimedEpsilon, ClaimedNoise, Condition, NoiseKind, Paper


@dataclass(frozen=True, kw_only=True)
class Theorem2:
    """PS-ADMM's Theorem 2 for one provider.

    Parameters
    ----------
    rounds, inner_steps : K, S >= 1.
    records : M >= 1.
    lipschitz : G > 0.
    c, c1 : the constants the paper leaves open, 1 unless given.

    >>> claim = Theorem2(rounds=100, inner_steps=50, records=6331, lipschitz=1.0)
    >>> print(claim.noise(epsilon=0.1, delta=1e-3))
    standard deviation of Gaussian noise = 0.293549
    [claimed: PS-ADMM, Theorem 2 with c = 1, c1 = 1; outside its printed conditions]
    """

    rounds: int
    inner_steps: int
    records: int
    lipschitz: float
    c: float = 1.0
    c1: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no run can have."""
        checks.count("rounds", self.rounds)
        checks.count("inner_steps", self.inner_steps)
        checks.count("records", self.records)
        checks.positive("lipschitz", self.lipschitz)
        checks.positive("c", self.c)
        checks.positive("c1", self.c1)

    @property
    def largest_epsilon(self) -> float:
        """Return `c1 K S/M^2`, beyond which the theorem is not stated."""
        return self.c1 * self.rounds * self.inner_steps / self.records**2

    def epsilon(self, *, noise_std: float, delta: float) -> ClaimedEpsilon:
        """Return the epsilon for which the printed variance is `noise_std^2`."""
        value = self._product(delta) / checks.positive("noise_std", noise_std)
        return self._claim(value, delta)

    def noise(self, *, epsilon: float, delta: float) -> ClaimedNoise:
        """Return the printed standard deviation of every inner step's noise."""
        target = self._claim(checks.positive("epsilon", epsilon), delta)
        return ClaimedNoise(
            value=self._product(delta) / epsilon,
            kind=NoiseKind.GAUSSIAN_STD,
            target=target,
            paper=target.paper,
            theorem=target.theorem,
            conditions=target.conditions,
        )

    def _product(self, delta: float) -> float:
        """Return `sigma * eps`."""
        log = math.log(1 / checks.open_unit("delta", delta))
        return self.lipschitz / self.records * math.sqrt(self.c * self.rounds * self.inner_steps * log)

    def _claim(self, epsilon: float, delta: float) -> ClaimedEpsilon:
        condition = Condition("eps <= c1 K S/M^2", epsilon <= self.largest_epsilon)
        return ClaimedEpsilon(
            value=epsilon,
            delta=checks.open_unit("delta", delta),
            paper=Paper.PS_ADMM,
            theorem=f"Theorem 2 with c = {self.c:g}, c1 = {self.c1:g}",
            conditions=(condition,),
        )
