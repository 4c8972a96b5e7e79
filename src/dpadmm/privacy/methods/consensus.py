"""Consensus DP-ADMM: noise on the coordinator's broadcast (C3; Theorem 1 as the claim)."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy import certificates
from dpadmm.privacy.claims import ClaimedEpsilon, ClaimedSchedule, ClaimedSensitivity
from dpadmm.privacy.claims import consensus as claims
from dpadmm.privacy.methods.coordinator import CoordinatorMethod, all_silos
from dpadmm.privacy.methods.method import AnyTarget, Family, Levels, repeated, setting
from dpadmm.privacy.protection import Certificate, with_spherical_noise

_WHO = "give gradient_distance to protect an agent's function, or records and gradient_bound to protect a record"


@dataclass(frozen=True, kw_only=True)
class Consensus(CoordinatorMethod):
    """Consensus DP-ADMM; the k-th round ends with the k-th private broadcast.

    The start's broadcast does not touch the data and needs no noise: the paper counts it, so its K is `rounds + 1`.

    >>> run = Consensus(agents=10_000, rho=5, mu=1, smoothness=2, gradient_distance=1, rounds=60)
    >>> f"{run.certificates()[0].bound:.4g} {run.certificates()[-1].bound:.4g}"
    '3.333e-05 4.684e-05'
    """

    name: ClassVar[str] = "consensus"
    title: ClassVar[str] = "Consensus DP-ADMM"
    noised: ClassVar[str] = "the coordinator's broadcast"
    families: ClassVar[tuple[Family, ...]] = (Family.LAPLACE, Family.GAUSSIAN)

    agents: int = setting("N, agents", checks.count)
    rho: float = setting("penalty to the consensus model, > 0", checks.positive)
    smoothness: float = setting("L, smoothness of every f_i, its ridge included", checks.positive)
    rounds: int = setting("private broadcasts; the paper's K is one more", checks.count)
    mu: float = setting("tau, strong convexity of every f_i", checks.non_negative, 0.0)
    noise: Family = setting(  # noqa: RUF009 (a field)
        "laplace: pure epsilon, noise by its rate; gaussian: noise by its std", None, Family.LAPLACE
    )
    gradient_distance: float | None = setting(
        "delta, most by which the gradients of two neighbouring functions differ", checks.positive, None
    )
    records: int | None = setting("n_i, records of an agent, to protect one record", checks.count, None)
    gradient_bound: float | None = setting("G, bound of a record's loss gradient", checks.positive, None)
    quadratic: bool = setting("every f_i is quadratic and only its linear term is private", None, False)
    weight: float = setting("factor in front of f_i", checks.positive, 1.0)
    l1_weight: float = setting("weight of ||x||_1 in g; only the paper's claim uses it", checks.non_negative, 0.0)
    dimension: int | None = setting("d; only the paper's claim uses it", checks.count, None)

    @property
    def family(self) -> Family:
        """As chosen."""
        return self.noise

    @property
    def is_record_level(self) -> bool:
        """Whether records are protected; `InputError` if the settings do not say which."""
        of_records = (self.records is not None, self.gradient_bound is not None)
        if all(of_records) == (self.gradient_distance is not None) or any(of_records) != all(of_records):
            raise InputError(f"What is protected is not clear: {_WHO}.")
        if all(of_records) and self.quadratic:
            raise InputError(
                "quadratic bounds are about an agent's function: give gradient_distance instead of records."
            )
        return all(of_records)

    def private_rounds(self) -> tuple[int, ...]:
        """Every round."""
        return tuple(range(1, self.rounds + 1))

    def certificates(self) -> tuple[Certificate, ...]:
        """C3 of every private broadcast."""
        found = self._record_level() if self.is_record_level else self._function_level()
        if self.family is Family.LAPLACE:
            return tuple(with_spherical_noise(c) for c in found)
        return found

    def _record_level(self) -> tuple[Certificate, ...]:
        assert self.records is not None
        assert self.gradient_bound is not None
        found = certificates.consensus_broadcast_records(
            certificates.LocalFunction(
                gradient_bound=self.gradient_bound,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=self.mu,
                solver_tolerance=self.tolerance,
                records_per_person=self.records_per_person,
                silos_per_person=1,
            ),
            rounds=self.rounds,
            n_agents=self.agents,
            penalty=self.rho,
            smoothness=self.smoothness,
        )
        return all_silos(found, self.silos_per_person, self.agents)

    def _function_level(self) -> tuple[Certificate, ...]:
        self._refuse_persons("one agent's function")
        assert self.gradient_distance is not None
        bound = certificates.consensus_broadcast_quadratic if self.quadratic else certificates.consensus_broadcast
        return bound(
            rounds=self.rounds,
            gradient_distance=self.gradient_distance,
            n_agents=self.agents,
            penalty=self.rho,
            strong_convexity=self.mu,
            smoothness=self.smoothness,
            weight=self.weight,
            solver_tolerance=self.tolerance,
        )

    def claimed_sensitivity(self) -> ClaimedSensitivity:
        """Lemma 3's H; at record level with the gradient distance `2G/n_i` of one record."""
        gap = 0.0
        if self.l1_weight > 0:
            if self.dimension is None:
                raise InputError("Lemma 3 needs the dimension beside the l1 weight; give it.")
            gap = claims.l1_subgradient_gap(self.l1_weight, self.dimension)
        if self.mu == 0:
            raise InputError("Lemma 3 is about strongly convex functions; give mu greater than 0.")
        return claims.lemma_3_sensitivity(
            agents=self.agents,
            rho=self.rho,
            strong_convexity=self.weight * self.mu,
            smoothness=self.weight * self.smoothness,
            gradient_distance=self.weight * self._distance,
            subgradient_gap=gap,
        )

    @property
    def _distance(self) -> float:
        if self.gradient_distance is not None:
            return self.gradient_distance
        assert self.records is not None
        assert self.gradient_bound is not None
        return 2 * self.gradient_bound / self.records

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        if self.family is Family.GAUSSIAN:
            return ()
        return (claims.theorem_1_epsilon(self.claimed_sensitivity(), levels.tolist()),)

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """Theorem 1 with `sum alpha = eps/H`, in the course of `shape`; with the Cao shape this is eq. (21)."""
        if self.family is Family.GAUSSIAN:
            raise InputError("The paper claims nothing about Gaussian noise; use laplace, or calibrate by C3.")
        constant = claims.theorem_1_noise(self.claimed_sensitivity(), epsilon=target.epsilon, rounds=self.rounds + 1)
        relative = 1 / self.shape(shape)
        course = relative * (self.rounds / relative.sum())
        aim = self.claimed_epsilon(constant.value * course, 0.0)[0]
        return repeated(replace(constant), aim, np.asarray(course), first_round=2)
