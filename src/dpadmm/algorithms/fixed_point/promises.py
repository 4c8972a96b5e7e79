"""Certificates C5 and C6 for a whole run: which agent releases what in which round.

The certificates speak of `w f_i(x) + ||x - v||^2/(2 gamma)` with w the factor of f_i inside the prox: here `w = N w_i`,
and its gradient is N times the one the solvers bring below their tolerance.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpadmm.algorithms.fixed_point.participation import Participation, agents_of
from dpadmm.algorithms.setting import Setting
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.noise.draws import COORDINATOR, Slot
from dpadmm.noise.promises import Family, Promise, Row
from dpadmm.privacy.certificates import (
    LocalFunction,
    fixed_point_block_record,
    fixed_point_block_user,
    fixed_point_mean_record,
    fixed_point_mean_user,
)
from dpadmm.privacy.certificates.neighbours import for_silos
from dpadmm.privacy.protection import Certificate, Unit
from dpadmm.problems.arrays import Ints


@dataclass(frozen=True)
class Level:
    """The method's numbers that a certificate needs, and whom it protects."""

    gamma: float
    lam: float
    unit: Unit
    clip: float = math.inf

    @staticmethod
    def check(unit: Unit) -> None:
        """Fixed-point ADMM protects records or users."""
        if unit not in (Unit.RECORD, Unit.USER):
            raise InputError(f"unit must be Unit.RECORD or Unit.USER, got {shown(unit)}.")

    def block(self, setting: Setting, size: int, weight: float) -> Certificate:
        """C5 for an agent with `size` records and weight w_i: how far `2 (x_i - z)` can move."""
        constants, n = setting.problem.functions.constants, setting.problem.n_agents
        slope = constants.record_gradient if math.isfinite(self.clip) else setting.gradient_bound
        common = partial(
            fixed_point_block_user,
            step=self.gamma,
            clip=self.clip,
            strong_convexity=constants.strong_convexity,
            weight=n * weight,
            solver_tolerance=_tolerance(setting),
        )
        if self.unit is Unit.USER:
            return replace(common(lipschitz=slope), silos_per_person=setting.protection.silos_per_person)
        if math.isinf(slope):
            # Clipping alone: what holds for all of a user's data holds for some of them.
            return replace(
                common(lipschitz=slope),
                unit=Unit.RECORD,
                theorem="C5 (record level)",
                records_per_person=setting.protection.records_per_person,
                silos_per_person=setting.protection.silos_per_person,
            )
        silos = setting.protection.silos_per_person
        return fixed_point_block_record(_local(setting, slope, size, weight, silos), step=self.gamma, clip=self.clip)

    def mean(self, setting: Setting, updates: int, size: int, weight: float) -> tuple[Certificate, ...]:
        """C6 for an agent: how far the mean of all blocks can move after its 1st, 2nd, ... update."""
        constants, n = setting.problem.functions.constants, setting.problem.n_agents
        if self.unit is Unit.USER:
            return fixed_point_mean_user(
                updates=updates,
                step=self.gamma,
                lipschitz=setting.gradient_bound,
                n_users=n,
                relaxation=self.lam,
                strong_convexity=constants.strong_convexity,
                weight=n * weight,
                solver_tolerance=_tolerance(setting),
            )
        # For one silo: `mean_promise` adds up those of a person.
        return fixed_point_mean_record(
            _local(setting, setting.gradient_bound, size, weight, silos=1),
            updates=updates,
            step=self.gamma,
            smoothness=constants.smoothness,
            n_users=n,
            relaxation=self.lam,
        )


def _local(setting: Setting, slope: float, size: int, weight: float, silos: int) -> LocalFunction:
    """Return the public side of an agent's function inside its prox, where its weight is `N w_i`."""
    constants, n = setting.problem.functions.constants, setting.problem.n_agents
    return LocalFunction(
        gradient_bound=slope,
        n_records=size,
        weight=n * weight,
        strong_convexity=constants.strong_convexity,
        solver_tolerance=_tolerance(setting),
        records_per_person=setting.protection.records_per_person,
        silos_per_person=silos,
    )


def block_promise(slot: Slot, level: Level, setting: Setting, participation: Participation | None) -> Promise:
    """Return C5's releases: one per agent and participation, with noise for whoever takes part most often.

    Agents that take part in every round under the same certificate share one row.
    """
    kinds, kind_of = _kinds(setting)
    certificates = [level.block(setting, size, weight) for size, weight in kinds]
    if participation is None:
        every = tuple(range(1, setting.rounds + 1))
        if len(kinds) == 1 and setting.protection.silos_per_person == 1:
            return Promise(slot, Family.GAUSSIAN, (Row(0, every, (certificates[0],) * len(every)),), is_common=True)
        taken = [every] * setting.problem.n_agents
    else:
        taken = participation.rounds_of(setting.rounds)
    rows = [Row(i, when, (certificates[kind_of[i]],) * len(when)) for i, when in enumerate(taken) if when]
    return Promise(slot, Family.GAUSSIAN, tuple(rows), is_noise_shared=True)


def mean_promise(slot: Slot, level: Level, setting: Setting, participation: Participation | None) -> Promise:
    """Return C6's releases: the coordinator's, one a round, under the certificate of the agent that moves it most.

    Agent i has made as many updates as it took part so far. A person in s silos moves one released value with all of
    them, so the s largest bounds add up.
    """
    kinds, kind_of = _kinds(setting)
    by_kind = [level.mean(setting, setting.rounds, size, weight) for size, weight in kinds]
    # By kind and number of updates; before its first update nobody moves anything.
    bounds = np.array([[0.0, *(certificate.bound for certificate in row)] for row in by_kind])
    rounds, silos = range(1, setting.rounds + 1), setting.protection.silos_per_person
    updates = np.zeros(setting.problem.n_agents, dtype=np.int64)
    certificates = []
    for k in rounds:
        who = agents_of(participation, k)
        updates[slice(None) if who is None else who] += 1
        reach = bounds[kind_of, updates]
        worst = float(reach.max() if silos == 1 else np.partition(reach, -silos)[-silos:].sum())
        certificates.append(for_silos(by_kind[0][0], bound=worst, silos=silos))
    return Promise(slot, Family.GAUSSIAN, (Row(COORDINATOR, tuple(rounds), tuple(certificates)),))


def _tolerance(setting: Setting) -> float | None:
    """Return the gradient norm to which `N w_i f_i` is solved."""
    return None if setting.tolerance is None else setting.problem.n_agents * setting.tolerance


def _kinds(setting: Setting) -> tuple[list[tuple[int, float]], Ints]:
    """Return the different (n_i, w_i), and which of them each agent is."""
    pairs = list(zip(setting.problem.functions.sizes.tolist(), setting.problem.weights.tolist(), strict=True))
    kinds = list(dict.fromkeys(pairs))
    place = {kind: position for position, kind in enumerate(kinds)}
    return kinds, np.array([place[pair] for pair in pairs])
