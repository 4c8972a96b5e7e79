"""What a method's paper prints for one agent of a run: its privacy theorems with their numbers filled in.

Noise is told as the paper tells it: one level a private round, standard deviations or rates. A *shape* is relative
noise (std, or 1/rate). `dpadmm.algorithms.claimed` reads the numbers off an algorithm and its setting.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpadmm.algorithms.anatomy import BROADCAST, MESSAGE
from dpadmm.algorithms.dvp import OBJECTIVE
from dpadmm.algorithms.ps_admm import CORRECTION, FULL
from dpadmm.errors import InputError
from dpadmm.noise.draws import COORDINATOR, Slot
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.claims import (
    ClaimedEpsilon,
    ClaimedNoise,
    ClaimedSchedule,
    ClaimedSensitivity,
    Condition,
    consensus,
    dvp,
    fixed_point,
    m_admm,
    p_admm,
    ps_admm,
    r_admm,
)
from dpadmm.privacy.claims.figures import merged
from dpadmm.privacy.protection import View
from dpadmm.problems.arrays import Floats

# Theorem 3 of P-ADMM is printed for R < 1 and continuous there: constant noise is its limit.
_LARGEST_DECAY = math.nextafter(1.0, 0.0)


@dataclass(frozen=True, kw_only=True)
class Claims(ABC):
    """A paper's privacy theorems about one agent, its numbers filled in.

    is_about_one: a person has one record, in one silo, as all papers assume; the figures say so where it is not met.
    """

    is_about_one: bool = True

    def epsilon(self, levels: ArrayLike, delta: float) -> tuple[ClaimedEpsilon, ...]:
        """Return what is claimed at this noise, first the figure the paper calibrates by; pure claims ignore `delta`.

        `InputError` where the theorem cannot be evaluated at these settings.
        """
        found = self._epsilon(np.asarray(levels, dtype=np.float64), delta)
        if self.is_about_one:
            return found
        unmet = Condition("one record a person, in one silo", False)
        return tuple(replace(claim, conditions=(*claim.conditions, unmet)) for claim in found)

    @abstractmethod
    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        """Return the figures, for one record a person."""

    def seen_by(self, view: View, levels: ArrayLike, delta: float) -> ClaimedEpsilon | None:
        """Return the figure that is about this view; the papers' figure wherever they tell no views apart."""
        return next(iter(self.epsilon(levels, delta)), None)

    def sensitivity(self) -> ClaimedSensitivity | None:
        """Return the sensitivity the paper prints, None if it prints none."""
        return None

    @abstractmethod
    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Return the noise the paper asks for; *claimed*, to be used only when asked for by name."""

    def levels(self, plan: NoisePlan) -> Floats:
        """Return agent 0's noise (or the coordinator's) in a plan, round by round, as the paper tells it."""
        return levels_in(plan, MESSAGE)


def levels_in(plan: NoisePlan, slot: Slot) -> Floats:
    """Return the noise of agent 0 (or of the coordinator) in a slot, round by round: stds, or rates."""
    found = []
    for (name, _), row in sorted(plan.releases.items(), key=lambda item: item[0][1]):
        release: Any = next((row[who] for who in (0, None, COORDINATOR) if who in row), None)
        if name == slot and release is not None:
            found.append(release.noise_std if hasattr(release, "noise_std") else release.rate)
    return np.array(found)


def constant_level(values: Floats, theorem: str) -> float:
    """Return the level all rounds share; `InputError` if they differ, as the theorem is about constant noise."""
    if np.ptp(values) > 1e-9 * values.max():
        raise InputError(f"{theorem} is about the same noise in every round; use the schedule 'constant' with it.")
    return float(values[0])


def _repeated(noise: ClaimedNoise, target: ClaimedEpsilon, course: Floats, first_round: int = 1) -> ClaimedSchedule:
    """Return a claimed noise as one level per private round, `course` times it."""
    return ClaimedSchedule(
        values=tuple((noise.value * course).tolist()),
        first_round=first_round,
        kind=noise.kind,
        target=target,
        paper=noise.paper,
        theorem=noise.theorem,
        conditions=noise.conditions,
        provenance=noise.provenance,
    )


@dataclass(frozen=True, kw_only=True)
class BroadcastClaims(Claims):
    """P-ADMM and its recycled form: Lemma 4 and Theorems 2 and 3, about noise that is constant or falls geometrically.

    whole_gradient_bound: V, of an agent's whole gradient. l2_weight: Lambda of `Lambda ||w||^2`.
    """

    eta: float
    degree: int
    whole_gradient_bound: float
    l2_weight: float

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        decay = variance_decay(levels)
        rho = p_admm.theorem_2_rho(
            gradient_bound=self.whole_gradient_bound,
            eta=self.eta,
            degree=self.degree,
            noise_std=float(levels[0]),
            l2_weight=self.l2_weight,
        )
        claim = p_admm.theorem_3_epsilon(rho, decay=decay, rounds=len(levels), delta=delta)
        return (replace(claim, theorem=_theorem_3(decay)),)

    def sensitivity(self) -> ClaimedSensitivity:
        """Lemma 4."""
        return p_admm.lemma_4_sensitivity(
            gradient_bound=self.whole_gradient_bound, eta=self.eta, degree=self.degree, l2_weight=self.l2_weight
        )

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Theorem 3 solved for the first round's noise."""
        decay, course = variance_decay(shape), shape / shape[0]
        noise = p_admm.theorem_3_noise(
            epsilon=epsilon,
            delta=delta,
            decay=decay,
            rounds=len(shape),
            gradient_bound=self.whole_gradient_bound,
            eta=self.eta,
            degree=self.degree,
            l2_weight=self.l2_weight,
        )
        (aim,) = self.epsilon(noise.value * shape / shape[0], delta)
        return _repeated(replace(noise, theorem=_theorem_3(decay)), aim, course)


def _theorem_3(decay: float) -> str:
    return "Theorem 3 in the limit R -> 1" if decay == _LARGEST_DECAY else "Theorem 3"


def variance_decay(levels: Floats) -> float:
    """Return R of `s_k^2 = s_1^2 R^(k-1)`, just below 1 for constant noise; `InputError` for any other course.

    >>> round(variance_decay(np.array([4.0, 2.0, 1.0])), 12)
    0.25
    """
    steps = np.diff(2 * np.log(levels))
    if steps.size and (np.ptp(steps) > 1e-9 or steps.max() > 1e-9):
        raise InputError("Theorem 3 is about noise that is constant or falls geometrically; use such a schedule.")
    decay = math.exp(float(steps.mean())) if steps.size else 1.0
    return decay if decay < 1 - 1e-9 else _LARGEST_DECAY


Objective = r_admm.PerturbedObjective


@dataclass(frozen=True, kw_only=True)
class ObjectiveClaims(Claims):
    """Objective perturbation: a loss for every private round, each with its own penalty."""

    objectives: tuple[Objective, ...]

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """The constant rate at which all rounds together cost epsilon."""
        noise = self._constant_noise(epsilon)
        constant_level(shape, noise.theorem)
        levels = np.full(len(self.objectives), noise.value)
        return _repeated(noise, self.epsilon(levels, 0.0)[0], np.ones_like(levels))

    @abstractmethod
    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        """Return the rate."""

    def levels(self, plan: NoisePlan) -> Floats:
        """The rates of the linear term."""
        return levels_in(plan, OBJECTIVE)

    def _same_objective(self) -> Objective:
        if len(set(self.objectives)) != 1:
            raise InputError("the paper calibrates for a constant penalty; set penalty_growth to 1 with it.")
        return self.objectives[0]

    def _summed(
        self, theorem: Callable[[Objective, Sequence[float]], ClaimedEpsilon], levels: Floats
    ) -> ClaimedEpsilon:
        """Return a theorem about one penalty summed over the rounds, with the conditions of all of them."""
        parts = [theorem(one, [rate]) for one, rate in zip(self.objectives, levels.tolist(), strict=True)]
        conditions = merged(condition for part in parts for condition in part.conditions)
        return replace(parts[0], value=math.fsum(part.value for part in parts), conditions=conditions)


class DualClaims(ObjectiveClaims):
    """DVP: eq. (30) of R-ADMM, charged in every round."""

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (self._summed(dvp.total_epsilon, levels),)

    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        return dvp.total_epsilon_noise(self._same_objective(), epsilon=epsilon, iterations=len(self.objectives))


class RecycledClaims(ObjectiveClaims):
    """R-ADMM: Theorem IV.1, charged in the odd rounds."""

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (self._summed(r_admm.theorem_iv_1_epsilon, levels),)

    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        rounds = len(self.objectives)
        return r_admm.theorem_iv_1_noise(self._same_objective(), epsilon=epsilon, noisy_iterations=rounds)


class PenaltyClaims(ObjectiveClaims):
    """M-ADMM: the total loss of all rounds; the paper's rate is that of e_i, the plan's that of `2 eta_i deg_i e_i`."""

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (m_admm.total_epsilon(self.objectives, levels.tolist()),)

    def _constant_noise(self, epsilon: float) -> ClaimedNoise:
        return m_admm.total_epsilon_noise(self.objectives, epsilon=epsilon)

    def levels(self, plan: NoisePlan) -> Floats:
        """The rates of e_i."""
        return super().levels(plan) * np.array([2 * one.eta for one in self.objectives]) * self.objectives[0].degree


@dataclass(frozen=True, kw_only=True)
class CoordinatorClaims(Claims):
    """Consensus DP-ADMM: Lemma 3's H and Theorem 1; at record level with the gradient distance `2G/n_i` of one record.

    strong_convexity, smoothness, gradient_distance: of the weighted functions. The start's broadcast does not touch the
    data and needs no noise; the paper counts it, so its K is one more than the private rounds.
    """

    agents: int
    rho: float
    strong_convexity: float
    smoothness: float
    gradient_distance: float
    l1_weight: float = 0.0
    dimension: int | None = None

    def sensitivity(self) -> ClaimedSensitivity:
        """Lemma 3's H."""
        gap = 0.0
        if self.l1_weight > 0:
            if self.dimension is None:
                raise InputError("Lemma 3 needs the dimension beside the l1 weight; give it.")
            gap = consensus.l1_subgradient_gap(self.l1_weight, self.dimension)
        if self.strong_convexity == 0:
            raise InputError("Lemma 3 is about strongly convex functions; give mu greater than 0.")
        return consensus.lemma_3_sensitivity(
            agents=self.agents,
            rho=self.rho,
            strong_convexity=self.strong_convexity,
            smoothness=self.smoothness,
            gradient_distance=self.gradient_distance,
            subgradient_gap=gap,
        )

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (consensus.theorem_1_epsilon(self.sensitivity(), levels.tolist()),)

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Theorem 1 with `sum alpha = eps/H`, in the course of the shape; with the Cao shape this is eq. (21)."""
        rounds, relative = len(shape), 1 / shape
        constant = consensus.theorem_1_noise(self.sensitivity(), epsilon=epsilon, rounds=rounds + 1)
        course = relative * (rounds / relative.sum())
        return _repeated(constant, self.epsilon(constant.value * course, 0.0)[0], course, first_round=2)

    def levels(self, plan: NoisePlan) -> Floats:
        """The rate of the coordinator's noise."""
        return levels_in(plan, BROADCAST)


@dataclass(frozen=True, kw_only=True)
class InnerStepClaims(Claims):
    """PS-ADMM: Theorem 2 about the constant sigma of all inner steps, its open constants set to 1."""

    theorem: ps_admm.Theorem2

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        sigma = constant_level(levels, "Theorem 2 of PS-ADMM")
        return (self.theorem.epsilon(noise_std=sigma, delta=delta),)

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """Theorem 2's constant sigma."""
        constant_level(shape, "Theorem 2 of PS-ADMM")
        noise = self.theorem.noise(epsilon=epsilon, delta=delta)
        course = shape / shape[0]
        return _repeated(noise, self.epsilon(noise.value * course, delta)[0], course)

    def levels(self, plan: NoisePlan) -> Floats:
        """The two parts of an inner step's noise together."""
        parts = [levels_in(plan, Slot(name)) for name in (FULL, CORRECTION) if (Slot(name), 1) in plan.releases]
        return np.array([math.hypot(*stds) for stds in zip(*parts, strict=True)])


@dataclass(frozen=True, kw_only=True)
class BlockClaims(Claims):
    """Fixed-point ADMM: Renyi theorems about constant noise in the blocks, whole users protected.

    theorems: first the one the paper calibrates by. by_view: whose figure is whose, for an audit of that view.
    """

    theorems: tuple[fixed_point.RenyiTheorem, ...]
    by_view: tuple[tuple[View, fixed_point.RenyiTheorem], ...] = ()

    def _epsilon(self, levels: Floats, delta: float) -> tuple[ClaimedEpsilon, ...]:
        sigma = constant_level(levels, self.theorems[0].theorem)
        return tuple(theorem.epsilon(noise_std=sigma, delta=delta) for theorem in self.theorems)

    def seen_by(self, view: View, levels: ArrayLike, delta: float) -> ClaimedEpsilon | None:
        """The theorem about this view, if there is one."""
        theorem = dict(self.by_view).get(view)
        sigma = float(np.asarray(levels)[0])
        return None if theorem is None else theorem.epsilon(noise_std=sigma, delta=delta)

    def noise(self, epsilon: float, delta: float, shape: Floats) -> ClaimedSchedule:
        """The least constant sigma for which the first theorem gives the target, its conditions met."""
        constant_level(shape, self.theorems[0].theorem)
        noise = self.theorems[0].noise_for_epsilon(epsilon=epsilon, delta=delta)
        course = shape / shape[0]
        return _repeated(noise, self.epsilon(noise.value * course, delta)[0], course)
