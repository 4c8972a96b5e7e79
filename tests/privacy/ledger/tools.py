"""Small data, releases and an independent accountant for the ledger's tests."""

import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.contracts.certificates import changed

from dpadmm.privacy.ledger import Budget, Ledger, Receipt, SiloColumns
from dpadmm.privacy.protection import ONE_RECORD, Certificate
from dpadmm.privacy.releases import GaussianRelease, Origin, Release, SphericalLaplaceRelease

data = (SiloColumns("clinic", {"x": np.arange(6.0).reshape(3, 2), "y": np.array([1, -1, 1])}),)
silos = tuple(SiloColumns(name, {"x": [i + 0.5, 1.0], "y": [1, -1]}) for i, name in enumerate("abcdefghi"))
budget = Budget(epsilon=1.0, delta=1e-5)


def gdp_delta(m: float, epsilon: float) -> float:
    """C0's formula as printed, with Phi(x) = erfc(-x / sqrt 2) / 2."""
    if m == 0:
        return 0.0
    below, above = (epsilon / m - m / 2) / math.sqrt(2), (epsilon / m + m / 2) / math.sqrt(2)
    return max(0.0, math.erfc(below) / 2 - math.exp(epsilon) * math.erfc(above) / 2)


def most_releases(ratio: float, budget: Budget) -> int:
    """The largest k for which k Gaussian releases of D/s = ratio fit the budget."""
    k = 0
    while gdp_delta(math.sqrt(k + 1) * ratio, budget.epsilon) <= budget.delta:
        k += 1
    return k


@dataclass(frozen=True)
class SimpleCurve:
    """m-GDP together with pure epsilon, by the plain bound."""

    m: float
    pure: float

    def delta(self, epsilon: float) -> float:
        if epsilon < self.pure:
            return 1.0
        return gdp_delta(self.m, epsilon - self.pure)

    def epsilon(self, delta: float) -> float:
        if self.m == 0:
            return self.pure
        if delta == 0 or not math.isfinite(self.m):
            return math.inf
        if gdp_delta(self.m, 0.0) <= delta:
            return self.pure
        low, high = 0.0, 500.0
        while high - low > 1e-13 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if gdp_delta(self.m, middle) > delta else (low, middle)
        return self.pure + high


def compose(releases: Iterable[Release]) -> SimpleCurve:
    """An accountant of a few lines: Gaussian and spherical Laplace only, all else infinite."""
    square, pure = 0.0, 0.0
    for release in releases:
        if isinstance(release, GaussianRelease):
            square += release.count * (release.certificate.bound / release.noise_std) ** 2
        elif isinstance(release, SphericalLaplaceRelease):
            pure += release.count * release.certificate.bound * release.rate
        else:
            pure = math.inf
    return SimpleCurve(math.sqrt(square), pure)


def certificate(bound: float = 1.0, **changes: Any) -> Certificate:
    plain = Certificate(bound=bound, protection=ONE_RECORD, theorem="C1", assumptions=("a",))
    return changed(plain, **changes)


def gaussian(round_: int = 0, *, ratio: float = 0.1, agent: int = 0, count: int = 1, **changes: Any) -> GaussianRelease:
    return GaussianRelease(
        certificate=certificate(ratio, **changes), noise_std=1.0, agent=agent, round=round_, count=count
    )


def pure(round_: int = 0, *, epsilon: float = 0.1, agent: int = 0) -> SphericalLaplaceRelease:
    return SphericalLaplaceRelease(certificate=certificate(epsilon), rate=1.0, agent=agent, round=round_)


def reserve(ledger: Ledger, *releases: Release, run: str = "run", data: Any = data) -> Receipt:
    return ledger.confirm(data).reserve(releases, run=run, algorithm="p-admm", origin=Origin.SECURE)


def edit(path: Path, *statements: str) -> None:
    """Change the file behind the ledger's back, as somebody with sqlite3 would."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("DROP TRIGGER entries_no_update", "DROP TRIGGER entries_no_delete", *statements):
            connection.execute(statement)
        connection.commit()
