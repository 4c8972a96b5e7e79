"""The budget, and the question whether releases stay within it, put to the accountant as rarely as possible."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.ledger.tally import Mechanism, Pile
from dpadmm.privacy.records import Release

# Keeps the shortcut below on the safe side of rounding; the accountant decides what is closer.
_MARGIN = 1e-9


class Composed(Protocol):
    """The privacy curve of several releases together."""

    def delta(self, epsilon: float, /) -> float:
        """Return the smallest delta known to hold at `epsilon`."""

    def epsilon(self, delta: float, /) -> float:
        """Return the smallest epsilon known to hold at `delta`."""


class Composer(Protocol):
    """Composes releases; must follow C0 for Gaussian ones, which arrive merged into one."""

    def __call__(self, releases: Iterable[Release], /) -> Composed:
        """Return the curve of all `releases` together, chosen adaptively."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The most a data set may spend: `epsilon` > 0 at `delta` in [0, 1); 0 asks for pure differential privacy."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse budgets that are none."""
        checks.positive("epsilon", self.epsilon)
        if checks.non_negative("delta", self.delta) >= 1:
            raise InputError(f"delta must be at least 0 and below 1, got {self.delta!r}.")

    def allows(self, curve: Composed) -> bool:
        """Return whether `curve` stays within the budget; a NaN does not."""
        if self.delta == 0:
            return curve.epsilon(0.0) <= self.epsilon
        return curve.delta(self.epsilon) <= self.delta


class Meter:
    """Measures piles of releases with a composer."""

    def __init__(self, compose: Composer) -> None:
        """Measure with `compose`."""
        self._compose = compose
        self._pure_epsilons: dict[Mechanism, float] = {}

    def is_within(self, pile: Pile, budget: Budget) -> bool:
        """Return whether all of `pile` together stays within `budget`."""
        if self._is_clearly_within(pile, budget):
            return True
        merged = pile.merged()
        return not merged or budget.allows(self._compose(merged))

    def epsilon(self, pile: Pile, budget: Budget) -> float:
        """Return the epsilon of `pile` at the budget's delta; 0 if nothing in it depends on the data."""
        merged = pile.merged()
        return self._compose(merged).epsilon(budget.delta) if merged else 0.0

    def _is_clearly_within(self, pile: Pile, budget: Budget) -> bool:
        """Return True only if a bound that needs no composition of its own says so.

        With E the sum of pure epsilons and m^2 that of the Gaussian squares, `delta(eps) <= delta_m(eps - E)`.
        """
        if not pile.others:
            return False  # all Gaussian: the accountant's closed form is as quick, and exact
        pure = math.fsum(count * self._pure_epsilon(kind) for kind, count in pile.others.items())
        left = budget.epsilon - pure * (1.0 + _MARGIN)
        if not left > 0:
            return False
        gaussian = pile.gaussian()
        if gaussian and budget.delta == 0:
            return False  # a delta that underflows to zero is not zero
        return not gaussian or self._compose(gaussian).delta(left) <= budget.delta * (1.0 - _MARGIN)

    def _pure_epsilon(self, kind: Mechanism) -> float:
        if kind not in self._pure_epsilons:
            self._pure_epsilons[kind] = self._compose([kind.release]).epsilon(0.0)
        return self._pure_epsilons[kind]
