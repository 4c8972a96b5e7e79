"""What every private method can say about one agent of a run: certificates, releases, calibration, claims.

A method's settings are a frozen dataclass of public numbers. Its noise is one level per private round, standard
deviations for Gaussian noise and rates for spherical Laplace noise; a single number stands for all rounds. A *shape*
is relative noise (std, or 1/rate), one value per private round or one for all, as `dpadmm.noise.schedules` gives it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy.accounting import Statement, statement
from dpadmm.privacy.calibration import (
    PureTarget,
    Target,
    calibrate_gaussian,
    calibrate_laplace,
    optimal_gaussian_shape,
)
from dpadmm.privacy.claims import ClaimedEpsilon, ClaimedNoise, ClaimedSchedule, ClaimedSensitivity, Condition
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import GaussianRelease, Release, SphericalLaplaceRelease

Levels = NDArray[np.float64]
AnyTarget = Target | PureTarget
COORDINATOR = -1
"""The agent of a release that touches everybody's data."""


class Family(Enum):
    """Which noise: N(0, std^2 I), told by its std, or density proportional to exp(-rate ||v||), told by its rate."""

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


class Sampling(Enum):
    """How a batch is drawn: every record by its own coin, or so many without replacement."""

    POISSON = "poisson"
    FIXED = "fixed"


def setting(words: str, check: Callable[[str, Any], object] | None = None, default: Any = MISSING) -> Any:
    """Return a dataclass field with the words that explain it and the check its values must pass (None is let by)."""
    return field(default=default, metadata={"help": words, "check": check})


_MOST_RELEASES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """One agent's settings in a private method; see the module for noise and shape.

    A class says its `name` on the command line, its `title`, what is `noised`, and the `families` of noise it knows.

    Invariants: `certificates()[j]` is that of `releases(noise)[j]`, in order of rounds; the releases of one agent are
    all that a record of it pays; `calibrate` never spends more than its target.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    noised: ClassVar[str]
    families: ClassVar[tuple[Family, ...]] = (Family.GAUSSIAN,)

    tolerance: float | None = setting(
        "gradient norm to which local problems are solved (C7); left out of the bound if not given",
        checks.non_negative,
        None,
    )

    def __post_init__(self) -> None:
        """Check every setting, then that a certificate exists for all of them together."""
        for each in fields(self):
            check, value = each.metadata.get("check"), getattr(self, each.name)
            if check is not None and value is not None:
                check(each.name, value)
        self.certificates()

    @property
    def family(self) -> Family:
        """The noise the method adds, one of `families`."""
        return self.families[0]

    @property
    def copies(self) -> int:
        """How many agents' independent releases hurt one person (all taken to be like this one)."""
        return 1

    @abstractmethod
    def private_rounds(self) -> tuple[int, ...]:
        """Return the rounds that touch the data, counted from 1: one noise level each."""

    @abstractmethod
    def certificates(self) -> tuple[Certificate, ...]:
        """Return the certificate of every private release of one agent, in order of rounds."""

    def levels(self, noise: ArrayLike) -> Levels:
        """Return the noise as one positive level per private round."""
        rounds = len(self.private_rounds())
        given = np.asarray(noise, dtype=np.float64)
        if given.shape not in ((), (1,), (rounds,)):
            raise InputError(f"the noise must be one level, or one per private round ({rounds}), got {given.shape}.")
        if not np.all(np.isfinite(given) & (given > 0)):
            raise InputError("every noise level must be a finite number greater than 0, got one that is not.")
        return np.broadcast_to(given, (rounds,)).copy()

    def releases(
        self, noise: ArrayLike, *, agent: int | None = None, rounds: Sequence[int] | None = None
    ) -> tuple[Release, ...]:
        """Return the releases of one agent at this noise.

        `agent` is 0 unless told (the coordinator for methods whose noise is there); `rounds` replaces the numbers of
        `private_rounds` where only the run knows them, as with users drawn at random.
        """
        numbers = self.private_rounds() if rounds is None else tuple(rounds)
        if len(numbers) != len(self.private_rounds()):
            raise InputError(f"rounds must name the {len(self.private_rounds())} private rounds, got {len(numbers)}.")
        return self._releases(self.levels(noise), self._first_agent if agent is None else agent, numbers)

    @property
    def _first_agent(self) -> int:
        return 0

    def _releases(self, levels: Levels, agent: int, rounds: tuple[int, ...]) -> tuple[Release, ...]:
        """One additive release a round; methods of another kind replace this."""
        listed = zip(self.certificates(), levels.tolist(), rounds, strict=True)
        if self.family is Family.GAUSSIAN:
            return tuple(GaussianRelease(certificate=c, noise_std=s, agent=agent, round=k) for c, s, k in listed)
        return tuple(SphericalLaplaceRelease(certificate=c, rate=a, agent=agent, round=k) for c, a, k in listed)

    def statement(self, noise: ArrayLike) -> Statement:
        """Return what is certified at this noise for the person hurt most, in as many silos as assumed."""
        first = self._first_agent
        listed = self.copies * len(self.private_rounds())
        if listed > _MOST_RELEASES:
            raise InputError(
                f"{self.copies} silos and {len(self.private_rounds())} rounds are {listed} releases to list; at most "
                f"{_MOST_RELEASES} are. Assume fewer silos per person or fewer rounds."
            )
        return statement(r for agent in range(first, first + self.copies) for r in self.releases(noise, agent=agent))

    def shape(self, relative: ArrayLike = 1.0) -> Levels:
        """Return a shape as one positive value per private round."""
        return self.levels(relative)

    def optimal_shape(self) -> Levels:
        """Return the shape with the least total noise variance over the rounds for the certificates' bounds (C0)."""
        bounds = np.array([c.bound for c in self.certificates()])
        if not np.all(bounds > 0):
            raise InputError("a bound of 0 needs no noise, so no schedule is optimal; choose one by name.")
        return optimal_gaussian_shape(bounds) if self.family is Family.GAUSSIAN else np.cbrt(bounds)

    def at_level(self, first: float, shape: ArrayLike = 1.0) -> Levels:
        """Return the noise whose first private round has the level `first` and whose course is `shape`."""
        relative = self.shape(shape)
        course = relative / relative[0]
        return self.levels(first * course if self.family is Family.GAUSSIAN else first / course)

    def calibrate(self, target: AnyTarget, shape: ArrayLike = 1.0) -> Levels:
        """Return the noise of this shape that spends the target, never more."""
        bounds, relative = [c.bound for c in self.certificates()], self.shape(shape)
        if self.family is Family.GAUSSIAN:
            return calibrate_gaussian(approximate(target), bounds, relative, silos_per_person=self.copies)
        return calibrate_laplace(pure(target), bounds, relative, silos_per_person=self.copies)

    def claimed_sensitivity(self) -> ClaimedSensitivity | None:
        """Return the sensitivity the method's paper prints, None if it prints none."""
        return None

    def claimed_epsilon(self, noise: ArrayLike, delta: float) -> tuple[ClaimedEpsilon, ...]:
        """Return what the method's paper claims at this noise, first the figure it calibrates by; () without a paper.

        Pure claims ignore `delta`. `InputError` where the theorem cannot be evaluated at these settings.
        """
        return tuple(self._for_one_record(claim) for claim in self._claims(self.levels(noise), delta))

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        del levels, delta
        return ()

    def _for_one_record(self, claim: ClaimedEpsilon) -> ClaimedEpsilon:
        return claim

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """Return the noise the method's paper asks for; *claimed*, to be used only when asked for by name."""
        raise InputError(f"{self.title} has no claimed calibration here; calibrate by its certificate instead.")


@dataclass(frozen=True, kw_only=True)
class RecordMethod(Method):
    """A method whose certificates can be about records: how many a person may have, and in how many silos."""

    records_per_person: int = setting("most records one person has in a silo", checks.count, 1)
    silos_per_person: int = setting("most silos in which one person has records", checks.count, 1)

    @property
    def copies(self) -> int:
        """Every silo adds noise of its own."""
        return self.silos_per_person

    def _for_one_record(self, claim: ClaimedEpsilon) -> ClaimedEpsilon:
        if self.records_per_person == self.silos_per_person == 1:
            return claim
        return replace(claim, conditions=(*claim.conditions, Condition("one record a person, in one silo", False)))


def approximate(target: AnyTarget) -> Target:
    """Return the target if it has a delta; Gaussian noise gives no pure epsilon."""
    match target:
        case Target():
            return target
        case PureTarget():
            raise InputError("Gaussian noise gives no pure epsilon: give a delta greater than 0, or use Laplace noise.")


def pure(target: AnyTarget) -> PureTarget:
    """Return the pure epsilon that spends the target: `ln((e^eps + delta)/(1 - delta))`, eps itself at delta 0."""
    match target:
        case PureTarget():
            return target
        case Target():
            gain = math.log1p(target.delta * math.exp(-target.epsilon)) - math.log1p(-target.delta)
            return PureTarget(target.epsilon + gain)


def constant_level(values: Levels, theorem: str) -> float:
    """Return the level all rounds share; `InputError` if they differ, as the theorem is about constant noise."""
    if np.ptp(values) > 1e-9 * values.max():
        raise InputError(f"{theorem} is about the same noise in every round; use the schedule 'constant' with it.")
    return float(values[0])


def repeated(noise: ClaimedNoise, target: ClaimedEpsilon, course: Levels, first_round: int = 1) -> ClaimedSchedule:
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
