"""Objective perturbation: DVP, M-ADMM and R-ADMM (C2; eq. (30) of R-ADMM as the claim)."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.errors import InputError
from dpadmm.privacy import certificates
from dpadmm.privacy.claims import ClaimedEpsilon, ClaimedNoise, ClaimedSchedule, dvp, m_admm, r_admm
from dpadmm.privacy.claims.figures import merged
from dpadmm.privacy.methods.method import (
    AnyTarget,
    Family,
    Levels,
    RecordMethod,
    constant_level,
    pure,
    repeated,
    setting,
)
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import ObjectiveRelease, Release, SphericalLaplaceRelease, objective_epsilon


def _at_least_one(name: str, value: float) -> float:
    if checks.finite(name, value) < 1:
        raise InputError(f"{name} must be at least 1, got {shown(value)}.")
    return float(value)


@dataclass(frozen=True, kw_only=True)
class ObjectivePerturbation(RecordMethod):
    """A random linear term in the local objective; noise is the rate of its density in each private round."""

    noised: ClassVar[str] = "the objective, as a linear term"
    families: ClassVar[tuple[Family, ...]] = (Family.LAPLACE,)

    records: int = setting("n_i, records of the agent", checks.count)
    degree: int = setting("neighbours of the agent", checks.count)
    eta: float = setting("penalty on an edge in the first round, > 0", checks.positive)
    rounds: int = setting("rounds of the run", checks.count)
    penalty_growth: float = setting("q >= 1: the penalty of round t = 1, 2, ... is eta q^t", _at_least_one, 1.0)
    mu: float = setting("strong convexity of f_i from a ridge", checks.non_negative, 0.0)
    gradient_bound: float = setting("G, bound of a record's loss gradient", checks.positive, 1.0)
    curvature_bound: float = setting("c1, bound of a record's second derivative", checks.non_negative, 0.25)
    logistic: bool = setting("the loss is binary logistic: large rates need not pay for the Jacobian", None, False)
    weight: float = setting("factor in front of f_i", checks.positive, 1.0)
    smoothing_rate: float | None = setting(
        "rate of extra noise on the output that covers a solver residual up to the tolerance (C7)",
        checks.positive,
        None,
    )

    def private_rounds(self) -> tuple[int, ...]:
        """Every round."""
        return tuple(range(1, self.rounds + 1))

    def penalties(self) -> tuple[float, ...]:
        """Return the penalty of every private round."""
        return tuple(self.eta * self.penalty_growth**t for t in self.private_rounds())

    @abstractmethod
    def _certificate(self, penalty: float) -> Certificate:
        """Return C2 for a round with this penalty."""

    def _local(self) -> certificates.LocalFunction:
        return certificates.LocalFunction(
            gradient_bound=self.gradient_bound,
            n_records=self.records,
            weight=self.weight,
            strong_convexity=self.mu,
            solver_tolerance=self.tolerance,
            records_per_person=self.records_per_person,
            silos_per_person=self.silos_per_person,
        )

    def _tilted(self, penalty: float) -> Certificate:
        return certificates.dvp(
            self._local(),
            curvature_bound=self.curvature_bound,
            edge_penalty=penalty,
            degree=self.degree,
            is_logistic=self.logistic,
            is_smoothed=self.smoothing_rate is not None,
        )

    def _linear_rates(self, levels: Levels) -> Levels:
        """Return the rates of the linear term in the objective for these noise levels."""
        return levels

    def _main(self) -> tuple[Certificate, ...]:
        return tuple(self._certificate(penalty) for penalty in self.penalties())

    def _smoothing(self) -> tuple[Certificate, ...]:
        if self.smoothing_rate is None:
            return ()
        if self.tolerance is None:
            raise InputError("smoothing_rate covers a solver residual; give the tolerance it is to cover.")
        return tuple(
            certificates.solver_smoothing(self._local(), quadratic_curvature=2 * penalty * self.degree)
            for penalty in self.penalties()
        )

    def certificates(self) -> tuple[Certificate, ...]:
        """C2 of every private round, followed by that of its smoothing if there is one."""
        smoothing = self._smoothing()
        if not smoothing:
            return self._main()
        return tuple(c for pair in zip(self._main(), smoothing, strict=True) for c in pair)

    def _releases(self, levels: Levels, agent: int, rounds: tuple[int, ...]) -> tuple[Release, ...]:
        rates = self._linear_rates(levels).tolist()
        main = [
            ObjectiveRelease(certificate=c, rate=a, agent=agent, round=k)
            for c, a, k in zip(self._main(), rates, rounds, strict=True)
        ]
        if self.smoothing_rate is None:
            return tuple(main)
        extra = [
            SphericalLaplaceRelease(certificate=c, rate=self.smoothing_rate, agent=agent, round=k)
            for c, k in zip(self._smoothing(), rounds, strict=True)
        ]
        return tuple(release for pair in zip(main, extra, strict=True) for release in pair)

    def optimal_shape(self) -> Levels:
        """The shape with the least variance of the noise, the Jacobian's cost left aside."""
        bounds = np.array([c.bound for c in self._main()])
        return np.cbrt(bounds * self._linear_rates(np.ones(len(bounds))))

    def calibrate(self, target: AnyTarget, shape: ArrayLike = 1.0) -> Levels:
        """Return the largest rates of this shape that the target pays for, Jacobian and smoothing included."""
        relative = 1 / self.shape(shape)
        extra = 0.0
        if self.smoothing_rate is not None:
            extra = self.smoothing_rate * math.fsum(c.bound for c in self._smoothing())
        budget = pure(target).epsilon / self.copies - extra
        return largest_rate(self._main(), self._linear_rates(relative), budget) * relative

    def _objectives(self) -> list[r_admm.PerturbedObjective]:
        """The objective of each private round as the papers see it: C is the weight, rho/N the weighted ridge."""
        return [
            r_admm.PerturbedObjective(
                records=self.records,
                degree=self.degree,
                eta=penalty,
                ridge=self.weight * self.mu,
                curvature=self.curvature_bound,
                loss_weight=self.weight,
                gradient_bound=self.gradient_bound,
            )
            for penalty in self.penalties()
        ]

    def _claimed_constant(self) -> r_admm.PerturbedObjective:
        if self.penalty_growth != 1:
            raise InputError("the paper calibrates for a constant penalty; set penalty_growth to 1 with it.")
        return self._objectives()[0]

    def _repeat(self, noise: ClaimedNoise, shape: ArrayLike) -> ClaimedSchedule:
        constant_level(self.shape(shape), noise.theorem)
        levels = self.levels(noise.value)
        return repeated(noise, self.claimed_epsilon(levels, 0.0)[0], np.ones_like(levels))


def largest_rate(rounds: Sequence[Certificate], unit_rates: Levels, epsilon: float) -> float:
    """Return the largest c for which rates `c unit_rates` cost at most `epsilon` together (C2).

    The cost is `c sum(unit bound)` plus the Jacobian term of every round whose rate is below its free rate, so it falls
    at each such point: the pieces are tried from the largest rates down.
    """
    bounds = np.array([c.bound for c in rounds])
    jacobians = np.array([c.log_jacobian for c in rounds])
    free = np.array([math.inf if c.jacobian_free_rate is None else c.jacobian_free_rate for c in rounds])
    slope, usable, turns = float(bounds @ unit_rates), epsilon * (1 - 1e-12), free / unit_rates
    for low in [*np.unique(turns[np.isfinite(turns)])[::-1].tolist(), 0.0]:
        found = (usable - float(jacobians[turns > low].sum())) / slope
        if found <= 0 or found < low:
            continue
        cost = math.fsum(objective_epsilon(c, found * u) for c, u in zip(rounds, unit_rates.tolist(), strict=True))
        if cost <= epsilon:
            return found
    raise InputError(
        f"an epsilon of {epsilon:.6g} does not pay for the Jacobian ratio of {len(rounds)} rounds; it must be above "
        f"{jacobians.sum():.6g}: spend more, use fewer rounds, or raise the penalty."
    )


@dataclass(frozen=True, kw_only=True)
class Dvp(ObjectivePerturbation):
    """Dual variable perturbation: every round is private.

    >>> from dpadmm.privacy.calibration import PureTarget
    >>> agent = Dvp(records=1000, degree=2, eta=1.0, mu=0.1, rounds=4)
    >>> round(agent.statement(agent.calibrate(PureTarget(0.5))).curve.epsilon(0.0), 9)
    0.5
    """

    name: ClassVar[str] = "dvp"
    title: ClassVar[str] = "DVP"

    def _certificate(self, penalty: float) -> Certificate:
        return self._tilted(penalty)

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (_summed(dvp.total_epsilon, self._objectives(), levels),)

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """The constant rate of R-ADMM's eq. (30), charged in every round."""
        rounds = len(self.private_rounds())
        noise = dvp.total_epsilon_noise(self._claimed_constant(), epsilon=target.epsilon, iterations=rounds)
        return self._repeat(noise, shape)


@dataclass(frozen=True, kw_only=True)
class RAdmm(ObjectivePerturbation):
    """Recycled ADMM: only the odd rounds are private."""

    name: ClassVar[str] = "r-admm"
    title: ClassVar[str] = "R-ADMM"

    def private_rounds(self) -> tuple[int, ...]:
        """The odd rounds."""
        return tuple(range(1, self.rounds + 1, 2))

    def _certificate(self, penalty: float) -> Certificate:
        return certificates.r_admm(self._tilted(penalty))

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (_summed(r_admm.theorem_iv_1_epsilon, self._objectives(), levels),)

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """The constant rate of Theorem IV.1, charged in the odd rounds."""
        rounds = len(self.private_rounds())
        noise = r_admm.theorem_iv_1_noise(self._claimed_constant(), epsilon=target.epsilon, noisy_iterations=rounds)
        return self._repeat(noise, shape)


@dataclass(frozen=True, kw_only=True)
class MAdmm(ObjectivePerturbation):
    """Penalty perturbation: noise is the rate of `e` in the penalty, a linear term `2 eta_i deg e` of the objective."""

    name: ClassVar[str] = "m-admm"
    title: ClassVar[str] = "M-ADMM"
    noised: ClassVar[str] = "the model inside the penalty"

    def _linear_rates(self, levels: Levels) -> Levels:
        return levels / (2 * self.degree * np.array(self.penalties()))

    def _certificate(self, penalty: float) -> Certificate:
        return certificates.m_admm(self._tilted(penalty))

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        return (m_admm.total_epsilon(self._objectives(), levels.tolist()),)

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """The constant rate of the total loss, whatever the penalties."""
        return self._repeat(m_admm.total_epsilon_noise(self._objectives(), epsilon=target.epsilon), shape)


def _summed(
    theorem: Callable[[r_admm.PerturbedObjective, Sequence[float]], ClaimedEpsilon],
    objectives: Sequence[r_admm.PerturbedObjective],
    levels: Levels,
) -> ClaimedEpsilon:
    """Return eq. (30) summed over the rounds, each with its own penalty and all with their conditions."""
    parts = [theorem(objective, [rate]) for objective, rate in zip(objectives, levels.tolist(), strict=True)]
    conditions = merged(condition for part in parts for condition in part.conditions)
    return replace(parts[0], value=math.fsum(part.value for part in parts), conditions=conditions)
