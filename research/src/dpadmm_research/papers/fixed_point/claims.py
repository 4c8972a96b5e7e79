"""Fixed-point ADMM as printed (Cyffers, Bellet, Basu 2023): Theorems 2, 3, 4, 7, 9, 10 and Remark 4.

Every one has the form `D_order <= 8 order L^2 gamma^2 F / sigma^2`, with its own factor F and conditions:

    Theorems 2, 8   centralised          F = K/n^2
    Theorem 3, 9    local                F = K_i
    Theorems 3, 10  federated, central   F = 2K/n^2            m < n/5, an upper limit on the order (10: and sigma >= 4)
    Remark 4        secure aggregation   F = K_i/m^2
    Theorem 4       network DP           F = K_i ln(n)/n       sigma > 2 L gamma sqrt(order (order - 1))
    Theorem 7       general A, B, c      F = K ||A||^2/(n^2 omega^2)

`L` is the Lipschitz constant, `sigma` the standard deviation of the noise in the blocks. (epsilon, delta) follows by
the paper's Section 3.3, `eps + ln(1/delta)/(order - 1)`, at the best order the conditions allow. Theorem 8 restates
Theorem 2. Claimed, not certified: see `docs/errata.md`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dpadmm import checks
from dpadmm.checks import safe_repr
from dpadmm.errors import InputError
from dpadmm_research.claims.base import (
    ClaimedEpsilon,
    ClaimedNoise,
    ClaimedRdp,
    Condition,
    NoiseKind,
    Paper,
    linear_renyi_of_epsilon,
)

# Noise is sought up to e^40 times what the formula alone asks for; conditions not met by then never are.
_LARGEST_LOG_RATIO = 40.0


def epsilon_from_rdp(claim: ClaimedRdp, delta: float) -> ClaimedEpsilon:
    """Return the (epsilon, delta) figure of a claimed Renyi guarantee, as in the paper's Section 3.3."""
    value = claim.value + math.log(1 / checks.open_unit("delta", delta)) / (claim.order - 1)
    return ClaimedEpsilon(
        value=value, delta=delta, paper=claim.paper, theorem=claim.theorem, conditions=claim.conditions
    )


@dataclass(frozen=True, kw_only=True)
class RenyiTheorem(ABC):
    """A theorem of the form `8 order L^2 gamma^2 F / sigma^2`; the subclasses print F and the conditions.

    Parameters
    ----------
    lipschitz : L > 0 of every `f_i`.
    gamma : penalty parameter > 0 of the proximal steps.
    """

    lipschitz: float
    gamma: float
    theorem: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse constants that are none."""
        checks.positive("lipschitz", self.lipschitz)
        checks.positive("gamma", self.gamma)

    @property
    @abstractmethod
    def factor(self) -> float:
        """Return F."""

    def conditions(self, order: float, noise_std: float) -> tuple[Condition, ...]:
        """Return the printed conditions at one order and noise; none unless a subclass prints some."""
        del order, noise_std
        return ()

    def rdp(self, *, order: float, noise_std: float) -> ClaimedRdp:
        """Return the claimed Renyi epsilon at `order` > 1."""
        _check_order(order)
        std = checks.positive("noise_std", noise_std)
        value = self._slope(std) * order
        return ClaimedRdp(
            value=value,
            order=order,
            paper=Paper.FIXED_POINT,
            theorem=self.theorem,
            conditions=self.conditions(order, std),
        )

    def noise(self, *, order: float, rdp: float) -> ClaimedNoise:
        """Return the block noise for which the claimed Renyi epsilon at `order` is exactly `rdp`."""
        _check_order(order)
        variance = self._slope(1.0) * order / checks.positive("rdp", rdp)
        return self._noise(math.sqrt(variance), self.rdp(order=order, noise_std=math.sqrt(variance)))

    def epsilon(self, *, noise_std: float, delta: float) -> ClaimedEpsilon:
        """Return the claimed (epsilon, delta) at the best order that the conditions allow.

        The converted epsilon is convex in the order with its minimum at `1 + sqrt(ln(1/delta)/slope)`; a condition
        that fails there is met by going down. If none is met anywhere the minimum is returned, marked as failing.
        """
        std = checks.positive("noise_std", noise_std)
        log = math.log(1 / checks.open_unit("delta", delta))
        best = 1 + math.sqrt(log / self._slope(std))
        order = best if self._allows(best, std) else self._largest_order(best, std)
        return epsilon_from_rdp(self.rdp(order=order, noise_std=std), delta)

    def noise_for_epsilon(self, *, epsilon: float, delta: float) -> ClaimedNoise:
        """Return the least block noise for which `epsilon(...)` is the given one and the conditions hold.

        If they hold at no noise (too many users sampled, say), the formula's own noise is returned, marked as failing.
        """
        free = math.sqrt(self._slope(1.0) / linear_renyi_of_epsilon(epsilon, delta))

        def claim(log_ratio: float) -> ClaimedEpsilon:
            return self.epsilon(noise_std=free * math.exp(log_ratio), delta=delta)

        def suffices(log_ratio: float) -> bool:
            found = claim(log_ratio)
            return found.conditions_hold and found.value <= epsilon * (1 + 1e-12)

        low = high = 0.0
        while not suffices(high) and high < _LARGEST_LOG_RATIO:
            low, high = high, high + 1.0
        if high >= _LARGEST_LOG_RATIO:
            low = high = 0.0
        for _ in range(60 if high > low else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return self._noise(free * math.exp(high), claim(high))

    def _slope(self, noise_std: float) -> float:
        return 8 * (self.lipschitz * self.gamma / noise_std) ** 2 * self.factor

    def _allows(self, order: float, noise_std: float) -> bool:
        return all(condition.holds for condition in self.conditions(order, noise_std))

    def _largest_order(self, best: float, noise_std: float) -> float:
        """Return the largest allowed order below `best` by bisection, or `best` if none is."""
        low, high = 1 + 1e-6 * (best - 1), best
        if not self._allows(low, noise_std):
            return best
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if self._allows(middle, noise_std) else (low, middle)
        return low

    def _noise(self, std: float, target: ClaimedEpsilon | ClaimedRdp) -> ClaimedNoise:
        return ClaimedNoise(
            value=std,
            kind=NoiseKind.GAUSSIAN_STD,
            target=target,
            paper=Paper.FIXED_POINT,
            theorem=self.theorem,
            conditions=target.conditions,
        )


@dataclass(frozen=True, kw_only=True)
class CentralisedTheorem2(RenyiTheorem):
    """Theorem 2 (and 8): `n` records, K iterations, only the last z released; F = K/n^2.

    >>> claim = CentralisedTheorem2(iterations=1, records=100, lipschitz=1.0, gamma=1.0)
    >>> print(claim.rdp(order=2.0, noise_std=4.0))
    Renyi epsilon = 0.0001 at order 2 [claimed: Fixed-point ADMM, Theorem 2]
    """

    iterations: int
    records: int
    theorem: ClassVar[str] = "Theorem 2"

    def __post_init__(self) -> None:
        """Refuse empty runs."""
        super().__post_init__()
        checks.count("iterations", self.iterations)
        checks.count("records", self.records)

    @property
    def factor(self) -> float:
        """Return `K/n^2`."""
        return self.iterations / self.records**2


@dataclass(frozen=True, kw_only=True)
class GeneralTheorem7(CentralisedTheorem2):
    """Theorem 7: general A, B, c with `||A||` and its smallest singular value `omega`; F = K ||A||^2/(n^2 omega^2)."""

    spectral_norm: float
    least_singular_value: float
    theorem: ClassVar[str] = "Theorem 7"

    def __post_init__(self) -> None:
        """Refuse a smallest singular value above the largest."""
        super().__post_init__()
        norm = checks.positive("spectral_norm", self.spectral_norm)
        if checks.positive("least_singular_value", self.least_singular_value) > norm:
            raise InputError(
                f"least_singular_value must be at most spectral_norm {norm!r}, got {self.least_singular_value!r}.",
                setting="least_singular_value",
            )

    @property
    def factor(self) -> float:
        """Return `K ||A||^2/(n^2 omega^2)`."""
        return super().factor * (self.spectral_norm / self.least_singular_value) ** 2


@dataclass(frozen=True, kw_only=True)
class LocalTheorem3(RenyiTheorem):
    """Theorem 3, local part (Theorem 9 prints it up to a constant): F = K_i participations."""

    participations: int
    theorem: ClassVar[str] = "Theorem 3 (local)"

    def __post_init__(self) -> None:
        """Refuse users who never take part."""
        super().__post_init__()
        checks.count("participations", self.participations)

    @property
    def factor(self) -> float:
        """Return `K_i`."""
        return float(self.participations)


@dataclass(frozen=True, kw_only=True)
class SecureAggregationRemark4(LocalTheorem3):
    """Remark 4: the server sees the sum of `m` contributions only; F = K_i/m^2."""

    sampled: int
    theorem: ClassVar[str] = "Remark 4 (secure aggregation)"

    def __post_init__(self) -> None:
        """Refuse empty sums."""
        super().__post_init__()
        checks.count("sampled", self.sampled)

    @property
    def factor(self) -> float:
        """Return `K_i/m^2`."""
        return super().factor / self.sampled**2


@dataclass(frozen=True, kw_only=True)
class FederatedTheorem3(RenyiTheorem):
    """Theorem 3, central part: `m` of `n` users a round, K rounds, only the last z released; F = 2K/n^2.

    >>> claim = FederatedTheorem3(rounds=1, users=1000, sampled=100, lipschitz=1.0, gamma=1.0)
    >>> print(claim.rdp(order=2.0, noise_std=4.0))
    Renyi epsilon = 2e-06 at order 2 [claimed: Fixed-point ADMM, Theorem 3 (central)]
    """

    rounds: int
    users: int
    sampled: int
    theorem: ClassVar[str] = "Theorem 3 (central)"

    def __post_init__(self) -> None:
        """Refuse samples larger than the population."""
        super().__post_init__()
        checks.count("rounds", self.rounds)
        checks.count("users", self.users)
        if checks.count("sampled", self.sampled) > self.users:
            raise InputError(f"sampled must be at most users {self.users}, got {self.sampled}.", setting="sampled")

    @property
    def factor(self) -> float:
        """Return `2K/n^2`."""
        return 2 * self.rounds / self.users**2

    def conditions(self, order: float, noise_std: float) -> tuple[Condition, ...]:
        """Return the conditions of Lemma C.1 as Theorem 3 prints them."""
        rate = self.sampled / self.users
        big = math.log1p(1 / (rate * (order - 1)))
        limit = (big**2 * noise_std**2 / 2 - math.log(5 * noise_std**2)) / (
            big + math.log(rate * order) + 1 / (2 * noise_std**2)
        )
        text = "order <= (M^2 sigma^2/2 - log(5 sigma^2))/(M + log(m order/n) + 1/(2 sigma^2))"
        return (
            Condition("m < n/5", 5 * self.sampled < self.users),
            Condition(text, order <= limit),
        )


@dataclass(frozen=True, kw_only=True)
class FederatedTheorem10(FederatedTheorem3):
    """Theorem 10: Theorem 3's central part with the further condition `sigma >= 4` of Lemma C.1."""

    theorem: ClassVar[str] = "Theorem 10"

    def conditions(self, order: float, noise_std: float) -> tuple[Condition, ...]:
        """Return Theorem 3's conditions and `sigma >= 4`."""
        return (*super().conditions(order, noise_std), Condition("sigma >= 4", noise_std >= 4))


@dataclass(frozen=True, kw_only=True)
class NetworkTheorem4(RenyiTheorem):
    """Theorem 4: a token on the complete graph of `n` users, view of one user; F = K_i ln(n)/n."""

    participations: int
    users: int
    theorem: ClassVar[str] = "Theorem 4 (network DP)"

    def __post_init__(self) -> None:
        """Refuse a network of one."""
        super().__post_init__()
        checks.count("participations", self.participations)
        checks.count("users", self.users, least=2)

    @property
    def factor(self) -> float:
        """Return `K_i ln(n)/n`."""
        return self.participations * math.log(self.users) / self.users

    def conditions(self, order: float, noise_std: float) -> tuple[Condition, ...]:
        """Return the condition on sigma."""
        least = 2 * self.lipschitz * self.gamma * math.sqrt(order * (order - 1))
        return (Condition("sigma > 2 L gamma sqrt(order (order - 1))", noise_std > least),)


def _check_order(order: float) -> None:
    if checks.finite("order", order) <= 1:
        raise InputError(f"order must be greater than 1, got {safe_repr(order)}.", setting="order")
