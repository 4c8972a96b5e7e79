"""One agent of a run, known by public numbers alone: what it releases at some noise, what noise a budget needs.

Its noise is one level a private round, standard deviations or rates, as the method's paper tells it; a single number
stands for all rounds. A *shape* is relative noise (std, or 1/rate), as `dpadmm.noise.mechanisms` gives it.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dpadmm.errors import InputError
from dpadmm.methods.base import Method, Setting
from dpadmm.noise.mechanisms import COORDINATOR, Family, MechanismSpec, last_round
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.split import is_free_split
from dpadmm.privacy.accounting import (
    Account,
    PureTarget,
    Target,
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_scale,
    compose,
)
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.releases import Release
from dpadmm.problems.arrays import Floats
from dpadmm_research.accounting.best_noise import largest_rate, optimal_gaussian_shape
from dpadmm_research.levels import at_levels, split_noise

AnyTarget = Target | PureTarget

_MOST_PASSES = 6


@dataclass(frozen=True)
class OneAgent:
    """Agent 0 of a setting whose agents are alike; a coordinator's releases are everybody's.

    smoothing_rate: noise that hides the solver's error, for methods that smooth what they broadcast; the levels are
    then those of the noise in the objective.
    """

    algorithm: Method
    setting: Setting
    smoothing_rate: float | None = None

    @cached_property
    def mechanisms(self) -> tuple[MechanismSpec, ...]:
        """What the agent releases, and so does every silo in which the person has records."""
        return tuple(self._in_all_silos(mechanism) for mechanism in self.algorithm.mechanisms(self.setting))

    def _in_all_silos(self, mechanism: MechanismSpec) -> MechanismSpec:
        row = mechanism.rows[0]
        silos = 1 if row.agent == COORDINATOR else self.setting.protection.silos_per_person
        return replace(mechanism, rows=tuple(replace(row, agent=row.agent + i) for i in range(silos)), is_common=False)

    @property
    def copies(self) -> int:
        """How many agents' independent releases hurt one person; one noise at a coordinator hides all silos."""
        return len(self.mechanisms[0].rows)

    @property
    def family(self) -> Family:
        """How the noise is distributed whose levels are told."""
        return self.mechanisms[0].family

    @property
    def private_rounds(self) -> tuple[int, ...]:
        """The rounds that touch the data: one noise level each."""
        return self.mechanisms[0].rows[0].rounds

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates of the agent's releases, message kind by message kind."""
        return tuple(certificate for mechanism in self.mechanisms for certificate in mechanism.rows[0].certificates)

    def levels(self, noise: ArrayLike) -> Floats:
        """Return the noise as one positive level per private round."""
        rounds = len(self.private_rounds)
        given = np.asarray(noise, dtype=np.float64)
        if given.shape not in ((), (1,), (rounds,)):
            raise InputError(f"the noise must be one level, or one per private round ({rounds}), got {given.shape}.")
        if not np.all(np.isfinite(given) & (given > 0)):
            raise InputError("every noise level must be a finite number greater than 0, got one that is not.")
        return np.broadcast_to(given, (rounds,)).copy()

    def plan(self, noise: ArrayLike) -> NoisePlan:
        """Return every release that hurts the person, at this noise."""
        kinds = split_noise(self.algorithm, self.setting, self.levels(noise))
        if self.smoothing_rate is not None:
            kinds = (*kinds, np.full(len(self.private_rounds), self.smoothing_rate))
        tables = [_by_round(mechanism, levels) for mechanism, levels in zip(self.mechanisms, kinds, strict=True)]
        return at_levels(self.mechanisms, tables)

    def releases(self, noise: ArrayLike) -> tuple[Release, ...]:
        """Return the releases of one agent at this noise, in order of rounds."""
        first = self.mechanisms[0].rows[0].agent
        return tuple(sorted((r for r in self.plan(noise) if r.agent == first), key=lambda r: r.round))

    def account(self, noise: ArrayLike) -> Account:
        """Return what is certified at this noise, for a person in as many silos as assumed."""
        return self.plan(noise).account()

    def optimal_shape(self) -> Floats:
        """Return the shape with the least total noise variance over the rounds (C0), a Jacobian's cost left aside."""
        bounds = np.array([c.bound for c in self.mechanisms[0].rows[0].certificates])
        if not np.all(bounds > 0):
            raise InputError("a bound of 0 needs no noise, so no schedule is optimal; choose one by name.")
        if not self.family.is_pure:
            return optimal_gaussian_shape(bounds)
        return np.cbrt(bounds * split_noise(self.algorithm, self.setting, np.ones(len(bounds)))[0])

    def at_level(self, first: float, shape: ArrayLike = 1.0) -> Floats:
        """Return the noise whose first private round has the level `first` and whose course is `shape`."""
        relative = self.levels(shape)
        curve = relative / relative[0]
        return self.levels(first / curve if self.family.is_pure else first * curve)

    def calibrate(self, target: AnyTarget, shape: ArrayLike = 1.0) -> Floats:
        """Return the noise of this shape that spends the target, never more."""
        row, relative = self.mechanisms[0].rows[0], self.levels(shape)
        if any(mechanism.family is Family.SAMPLED for mechanism in self.mechanisms):
            return self._searched(approximate(target), relative)
        bounds = [certificate.bound for certificate in row.certificates]
        if self.family is Family.GAUSSIAN:
            return calibrate_gaussian(approximate(target), bounds, relative, silos_per_person=self.copies)
        if self.family is not Family.OBJECTIVE:
            return calibrate_laplace(_pure(target), bounds, relative, silos_per_person=self.copies)
        extra = 0.0
        if self.smoothing_rate is not None:
            extra = self.smoothing_rate * math.fsum(c.bound for c in self.mechanisms[1].rows[0].certificates)
        (unit,) = split_noise(self.algorithm, self.setting, 1 / relative)
        return largest_rate(row.certificates, unit, _pure(target).epsilon / self.copies - extra) * (1 / relative)

    def _searched(self, target: Target, relative: Floats) -> Floats:
        """Search over the composition, and again where the split of the noise depends on its level.

        At most about 1e-3 of epsilon is left, with such a split 3e-3.
        """
        levels = calibrate_scale(target, list(self.plan(relative))) * relative
        if not is_free_split(self.mechanisms):
            return levels
        for _ in range(_MOST_PASSES):
            before, levels = levels, calibrate_scale(target, list(self.plan(levels))) * levels
            if abs(levels[0] / before[0] - 1) < 3e-3:
                break
        # The releases of this very noise have a split of their own, a hair off the last one searched with.
        while compose(self.plan(levels)).epsilon(target.delta) > target.epsilon:
            levels = levels * (1 + 2e-4)
        return levels


def _by_round(mechanism: MechanismSpec, levels: Floats) -> Floats:
    """Return the levels of the private rounds as entries of a table of all rounds; what is not released needs none."""
    table = np.ones(last_round([mechanism]))
    table[np.array(mechanism.rows[0].rounds) - 1] = levels
    return table


def approximate(target: AnyTarget) -> Target:
    """Return the target if it has a delta; Gaussian noise gives no pure epsilon."""
    match target:
        case Target():
            return target
        case PureTarget():
            raise InputError("Gaussian noise gives no pure epsilon: give a delta greater than 0, or use Laplace noise.")


def _pure(target: AnyTarget) -> PureTarget:
    """Return the pure epsilon that spends the target: `ln((e^eps + delta)/(1 - delta))`, eps itself at delta 0."""
    match target:
        case PureTarget():
            return target
        case Target():
            gain = math.log1p(target.delta * math.exp(-target.epsilon)) - math.log1p(-target.delta)
            return PureTarget(target.epsilon + gain)
