"""Fixed-point ADMM: noise in the blocks (C5), three settings of one bound, and noise at the coordinator (C6).

Without `records` one whole user is protected, with it one of a user's records. The noise in the blocks is the printed
sigma: half of it is added to `x_i - z`.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy import certificates
from dpadmm.privacy.claims import ClaimedEpsilon, ClaimedSchedule
from dpadmm.privacy.claims import fixed_point as claims
from dpadmm.privacy.methods.coordinator import CoordinatorMethod, all_silos
from dpadmm.privacy.methods.method import (
    AnyTarget,
    Levels,
    RecordMethod,
    approximate,
    constant_level,
    repeated,
    setting,
)
from dpadmm.privacy.protection import Certificate


@dataclass(frozen=True, kw_only=True)
class NoisyBlocks(RecordMethod):
    """Noise in the blocks: each participation of a user is a release; noise is the printed sigma of each."""

    noised: ClassVar[str] = "a block, as printed: half of it on x_i - z"

    gamma: float = setting("step of the prox, > 0", checks.positive)
    users: int = setting("n, users", checks.count)
    lipschitz: float | None = setting(
        "bound of the gradient of a user's loss (with records: of a record's)", checks.positive, None
    )
    clip: float | None = setting("norm to which x_i - z is clipped; not clipped if not given", checks.positive, None)
    records: int | None = setting("records of the user, to protect one record instead of the user", checks.count, None)
    mu: float = setting("ridge common to all data sets inside f_i", checks.non_negative, 0.0)
    weight: float = setting("factor in front of f_i inside the prox", checks.positive, 1.0)

    @property
    @abstractmethod
    def most_participations(self) -> int:
        """How often one user takes part at most."""

    def private_rounds(self) -> tuple[int, ...]:
        """The participations, counted; the run knows in which rounds they fall."""
        return tuple(range(1, self.most_participations + 1))

    def certificates(self) -> tuple[Certificate, ...]:
        """C5, the same in every participation."""
        if self.lipschitz is None and (self.clip is None or self.records is not None):
            raise InputError("give lipschitz, the bound of the loss gradient (or, to protect whole users, a clip).")
        lipschitz = math.inf if self.lipschitz is None else self.lipschitz
        clip = math.inf if self.clip is None else self.clip
        certificate = self._user(lipschitz, clip) if self.records is None else self._record(lipschitz, clip)
        return (certificate,) * self.most_participations

    def _user(self, lipschitz: float, clip: float) -> Certificate:
        refuse_persons(self)
        return certificates.fixed_point_block_user(
            step=self.gamma,
            lipschitz=lipschitz,
            clip=clip,
            strong_convexity=self.mu,
            weight=self.weight,
            solver_tolerance=self.tolerance,
        )

    def _record(self, lipschitz: float, clip: float) -> Certificate:
        assert self.records is not None
        return certificates.fixed_point_block_record(
            certificates.LocalFunction(
                gradient_bound=lipschitz,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=self.mu,
                solver_tolerance=self.tolerance,
                records_per_person=self.records_per_person,
                silos_per_person=self.silos_per_person,
            ),
            step=self.gamma,
            clip=clip,
        )

    @property
    def _claimed_lipschitz(self) -> float:
        """L of the theorems; a clip bounds `x_i - z` as `L = clip/gamma` would."""
        found = math.inf if self.lipschitz is None else self.weight * self.lipschitz
        return found if self.clip is None else min(found, self.clip / self.gamma)

    @abstractmethod
    def theorems(self) -> tuple[claims.RenyiTheorem, ...]:
        """Return the paper's theorems about this setting, first the one it calibrates by."""

    def _stated(self) -> tuple[claims.RenyiTheorem, ...]:
        """The theorems protect whole users; about records the paper says nothing."""
        return self.theorems() if self.records is None else ()

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        stated = self._stated()
        if not stated:
            return ()
        sigma = constant_level(levels, stated[0].theorem)
        return tuple(theorem.epsilon(noise_std=sigma, delta=delta) for theorem in stated)

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """The least constant sigma for which the first theorem gives the target, its conditions met."""
        if not self._stated():
            raise InputError("The paper claims nothing about single records; leave out records, or calibrate by C5.")
        theorem, wanted, relative = self._stated()[0], approximate(target), self.shape(shape)
        constant_level(relative, theorem.theorem)
        noise = theorem.noise_for_epsilon(epsilon=wanted.epsilon, delta=wanted.delta)
        aim = self.claimed_epsilon(noise.value, wanted.delta)[0]
        return repeated(noise, aim, relative / relative[0])


def refuse_persons(method: RecordMethod) -> None:
    """Refuse maxima about records where a whole user is protected."""
    if method.records_per_person != 1 or method.silos_per_person != 1:
        raise InputError("A whole user is protected, so records_per_person and silos_per_person must stay 1.")


@dataclass(frozen=True, kw_only=True)
class Centralised(NoisyBlocks):
    """All blocks in every iteration, only the last z released; certified against whoever sees the blocks too.

    >>> run = Centralised(gamma=0.5, lipschitz=1.0, users=100, rounds=3)
    >>> run.certificates()[0].bound
    2.0
    """

    name: ClassVar[str] = "fp-centralised"
    title: ClassVar[str] = "Fixed-point ADMM, centralised"
    rounds: int = setting("iterations; each updates every block", checks.count)

    @property
    def most_participations(self) -> int:
        """Every iteration."""
        return self.rounds

    def theorems(self) -> tuple[claims.RenyiTheorem, ...]:
        """Theorem 2."""
        found = claims.CentralisedTheorem2(
            iterations=self.rounds, records=self.users, lipschitz=self._claimed_lipschitz, gamma=self.gamma
        )
        return (found,)


@dataclass(frozen=True, kw_only=True)
class Federated(NoisyBlocks):
    """Some users a round send their noisy change; a user pays for every time it takes part."""

    name: ClassVar[str] = "fp-federated"
    title: ClassVar[str] = "Fixed-point ADMM, federated"
    rounds: int = setting("rounds of the run", checks.count)
    sampled: int = setting("m, users that take part in a round", checks.count)
    participations: int | None = setting(
        "most rounds one user takes part in, from the schedule drawn beforehand; all if not given", checks.count, None
    )

    @property
    def most_participations(self) -> int:
        """As drawn beforehand, else every round."""
        if self.participations is not None and self.participations > self.rounds:
            raise InputError(f"participations must be at most the rounds {self.rounds}, got {self.participations}.")
        return self.rounds if self.participations is None else self.participations

    def theorems(self) -> tuple[claims.RenyiTheorem, ...]:
        """Theorem 3 (central), Theorem 10 and Theorem 3 (local)."""
        length, gamma = self._claimed_lipschitz, self.gamma
        central = (claims.FederatedTheorem3, claims.FederatedTheorem10)
        return (
            *(
                theorem(rounds=self.rounds, users=self.users, sampled=self.sampled, lipschitz=length, gamma=gamma)
                for theorem in central
            ),
            claims.LocalTheorem3(participations=self.most_participations, lipschitz=length, gamma=gamma),
        )


@dataclass(frozen=True, kw_only=True)
class Walk(NoisyBlocks):
    """A token walks over the users; a user pays for every visit."""

    name: ClassVar[str] = "fp-walk"
    title: ClassVar[str] = "Fixed-point ADMM, token walk"
    participations: int = setting("most visits of the token to one user, from the walk drawn beforehand", checks.count)

    @property
    def most_participations(self) -> int:
        """The visits."""
        return self.participations

    def theorems(self) -> tuple[claims.RenyiTheorem, ...]:
        """Theorem 4 (network DP) and Theorem 3 (local)."""
        length, gamma, visits = self._claimed_lipschitz, self.gamma, self.participations
        return (
            claims.NetworkTheorem4(participations=visits, users=self.users, lipschitz=length, gamma=gamma),
            claims.LocalTheorem3(participations=visits, lipschitz=length, gamma=gamma),
        )


@dataclass(frozen=True, kw_only=True)
class CoordinatorNoise(CoordinatorMethod):
    """Noise-free blocks, noise on the mean at the coordinator; the k-th round releases it after k updates.

    >>> run = CoordinatorNoise(gamma=0.5, lipschitz=1.0, users=100, rounds=2)
    >>> tuple(c.bound for c in run.certificates())
    (0.01, 0.01)
    """

    name: ClassVar[str] = "fp-coordinator"
    title: ClassVar[str] = "Fixed-point ADMM, noise at the coordinator"
    noised: ClassVar[str] = "the mean of the blocks"

    gamma: float = setting("step of the prox, > 0", checks.positive)
    users: int = setting("N, users", checks.count)
    lipschitz: float = setting("bound of the gradient of a user's loss (with records: of a record's)", checks.positive)
    rounds: int = setting("private releases of the mean", checks.count)
    relaxation: float = setting("lam, in (0, 1/2]", checks.positive, 0.5)
    records: int | None = setting("records of a user, to protect one record instead of the user", checks.count, None)
    smoothness: float | None = setting("L of f_i, its ridge included; needed with records", checks.positive, None)
    mu: float = setting("ridge common to all data sets inside f_i", checks.non_negative, 0.0)
    weight: float = setting("factor in front of f_i inside the prox", checks.positive, 1.0)

    def private_rounds(self) -> tuple[int, ...]:
        """Every round."""
        return tuple(range(1, self.rounds + 1))

    def certificates(self) -> tuple[Certificate, ...]:
        """C6 after 1, 2, ... updates."""
        return self._user() if self.records is None else self._record(self.records)

    def _user(self) -> tuple[Certificate, ...]:
        refuse_persons(self)
        return certificates.fixed_point_mean_user(
            updates=self.rounds,
            step=self.gamma,
            lipschitz=self.lipschitz,
            n_users=self.users,
            relaxation=self.relaxation,
            strong_convexity=self.mu,
            weight=self.weight,
            solver_tolerance=self.tolerance,
        )

    def _record(self, records: int) -> tuple[Certificate, ...]:
        if self.smoothness is None:
            raise InputError("the bound for one record needs the smoothness of f_i; give it.")
        found = certificates.fixed_point_mean_record(
            certificates.LocalFunction(
                gradient_bound=self.lipschitz,
                n_records=records,
                weight=self.weight,
                strong_convexity=self.mu,
                solver_tolerance=self.tolerance,
                records_per_person=self.records_per_person,
                silos_per_person=1,
            ),
            updates=self.rounds,
            step=self.gamma,
            smoothness=self.smoothness,
            n_users=self.users,
            relaxation=self.relaxation,
        )
        return all_silos(found, self.silos_per_person, self.users)
