"""Methods that touch a random batch: PS-ADMM (C4; Theorem 2 as the claim) and DP-SGD (C9)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.privacy import certificates
from dpadmm.privacy.accounting import compose
from dpadmm.privacy.calibration import calibrate_scale
from dpadmm.privacy.claims import ClaimedEpsilon, ClaimedSchedule
from dpadmm.privacy.claims.ps_admm import Theorem2
from dpadmm.privacy.methods.method import (
    AnyTarget,
    Levels,
    RecordMethod,
    Sampling,
    approximate,
    constant_level,
    repeated,
    setting,
)
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import FixedSizeSampling, GaussianRelease, PoissonSampling, Release, SampledGaussianRelease

_MOST_PASSES = 6


@dataclass(frozen=True, kw_only=True)
class SampledMethod(RecordMethod):
    """A batch of expected size `batch` is drawn afresh in every step; noise is on its mean, by the expected size."""

    records: int = setting("n_i, records of the agent", checks.count)
    batch: int = setting("l, expected batch size and divisor", checks.count)
    sampling: Sampling = setting("how the batch is drawn", None, Sampling.POISSON)  # noqa: RUF009 (a field)
    weight: float = setting("factor in front of f_i", checks.positive, 1.0)
    persons_sampled_whole: bool = setting("all records of a person are drawn together or not at all", None, False)

    def drawn(self) -> PoissonSampling | FixedSizeSampling:
        """Return how a batch is drawn."""
        if self.batch > self.records:
            raise InputError(f"batch must be at most the records {self.records}, got {self.batch}.")
        if self.sampling is Sampling.FIXED:
            return FixedSizeSampling(size=self.batch, population=self.records)
        return PoissonSampling(rate=self.batch / self.records)

    def _persons(self, levels: Levels) -> list[Release]:
        """All releases that hurt one person."""
        return [r for agent in range(self.copies) for r in self.releases(levels, agent=agent)]

    def calibrate(self, target: AnyTarget, shape: ArrayLike = 1.0) -> Levels:
        """Return the noise of this shape that spends the target within about 1e-3, never more."""
        levels = self.shape(shape)
        return calibrate_scale(approximate(target), self._persons(levels)) * levels


@dataclass(frozen=True, kw_only=True)
class DpSgd(SampledMethod):
    """DP-SGD on one agent's records; noise is the std on the mean gradient of each step.

    >>> DpSgd(records=1000, batch=50, clip=0.5, rounds=10).certificates()[0].bound
    0.01
    """

    name: ClassVar[str] = "dp-sgd"
    title: ClassVar[str] = "DP-SGD"
    noised: ClassVar[str] = "the mean gradient of a batch"

    rounds: int = setting("gradient steps", checks.count)
    gradient_bound: float | None = setting("G, bound of a record's loss gradient", checks.positive, None)
    clip: float | None = setting("norm to which a record's gradient is clipped", checks.positive, None)

    def private_rounds(self) -> tuple[int, ...]:
        """Every step."""
        return tuple(range(1, self.rounds + 1))

    def certificates(self) -> tuple[Certificate, ...]:
        """C9 of one record's term, the same in every step."""
        self.drawn()
        if self.gradient_bound is None and self.clip is None:
            raise InputError("give gradient_bound, clip, or both: without either nothing bounds a record's gradient.")
        certificate = certificates.sampled_gradient(
            certificates.LocalFunction(
                gradient_bound=math.inf if self.gradient_bound is None else self.gradient_bound,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=0.0,
                solver_tolerance=self.tolerance or 0.0,
                records_per_person=self.records_per_person,
                silos_per_person=self.silos_per_person,
            ),
            batch_size=self.batch,
            clip=math.inf if self.clip is None else self.clip,
            persons_sampled_whole=self.persons_sampled_whole,
        )
        return (certificate,) * self.rounds

    def _releases(self, levels: Levels, agent: int, rounds: tuple[int, ...]) -> tuple[Release, ...]:
        drawn = self.drawn()
        return tuple(
            SampledGaussianRelease(certificate=c, noise_std=s, sampling=drawn, agent=agent, round=k)
            for c, s, k in zip(self.certificates(), levels.tolist(), rounds, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class PsAdmm(SampledMethod):
    """PS-ADMM for one provider; noise is the std sigma of every inner step of a round.

    A round releases: the full gradient in its first step, where the correction is zero, with all of sigma; then, in the
    other steps, the full gradient with s1 and the sampled correction with s2, `s1^2 + s2^2 = sigma^2`.
    """

    name: ClassVar[str] = "ps-admm"
    title: ClassVar[str] = "PS-ADMM"
    noised: ClassVar[str] = "the gradient of an inner step"

    rounds: int = setting("K, rounds of the run", checks.count)
    inner_steps: int = setting("S, inner steps of a round", checks.count)
    batch: int = setting("l, expected batch size and divisor", checks.count, 1)
    gradient_bound: float = setting("G, bound of a record's loss gradient", checks.positive, 1.0)
    clip: float | None = setting(
        "norm to which a record's correction is clipped; 2G if not given", checks.positive, None
    )
    split: float | None = setting(
        "share of the noise variance for the full gradient, in (0, 1); near the best if not given",
        checks.open_unit,
        None,
    )

    def private_rounds(self) -> tuple[int, ...]:
        """Every round."""
        return tuple(range(1, self.rounds + 1))

    def _pair(self) -> tuple[Certificate, Certificate]:
        full = certificates.ps_admm_full_gradient(
            certificates.LocalFunction(
                gradient_bound=self.gradient_bound,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=0.0,
                solver_tolerance=self.tolerance or 0.0,
                records_per_person=self.records_per_person,
                silos_per_person=self.silos_per_person,
            )
        )
        correction = certificates.ps_admm_correction(
            certificates.LocalFunction(
                gradient_bound=self.gradient_bound,
                n_records=self.records,
                weight=self.weight,
                strong_convexity=0.0,
                solver_tolerance=self.tolerance or 0.0,
                records_per_person=self.records_per_person,
                silos_per_person=self.silos_per_person,
            ),
            batch_size=self.batch,
            clip=math.inf if self.clip is None else self.clip,
            persons_sampled_whole=self.persons_sampled_whole,
        )
        return full, correction

    def certificates(self) -> tuple[Certificate, ...]:
        """C4: per round the first step's, then that of the full gradient and of the correction in the others."""
        self.drawn()
        full, correction = self._pair()
        return ((full,) if self.inner_steps == 1 else (full, full, correction)) * self.rounds

    def optimal_shape(self) -> Levels:
        """Constant: every round has the same bounds."""
        return self.shape(1.0)

    def split_at(self, noise_std: float) -> float:
        """Return the share of the variance given to the full gradient: the setting, or near the best one.

        Every share is sound. The one taken minimises the sum of the second-order losses of the two parts,
        `D^2/(t sigma^2) + 4 q^2 sinh(C^2/((1-t) sigma^2))`, D and C the two bounds and q the sampling rate.
        """
        if self.split is not None:
            return self.split
        from scipy.optimize import minimize_scalar  # slow to load, and only this split needs it

        full, correction = self._pair()
        rate = self.batch / self.records

        def loss(log_odds: float) -> float:
            share = 1 / (1 + math.exp(-log_odds))
            spread = (correction.bound / noise_std) ** 2 / (1 - share)
            sampled = math.log(4 * rate * rate) + (math.log(math.sinh(spread)) if spread < 700 else spread)
            return float(np.logaddexp(2 * math.log(full.bound / noise_std) - math.log(share), sampled))

        found = minimize_scalar(loss, bounds=(-16.0, 8.0), method="bounded", options={"xatol": 1e-4})
        return float(1 / (1 + math.exp(-found.x)))

    def calibrate(self, target: AnyTarget, shape: ArrayLike = 1.0) -> Levels:
        """As for every sampled method, repeated until noise and split fit; at most about 3e-3 of epsilon is left."""
        levels, wanted = super().calibrate(target, shape), approximate(target)
        for _ in range(_MOST_PASSES if self.split is None and self.inner_steps > 1 else 0):
            before, levels = levels, super().calibrate(target, levels)
            if abs(levels[0] / before[0] - 1) < 3e-3:
                break
        # The releases of this very noise have a split of their own, a hair off the last one searched with.
        while compose(self._persons(levels)).epsilon(wanted.delta) > wanted.epsilon:
            levels = levels * (1 + 2e-4)
        return levels

    def _releases(self, levels: Levels, agent: int, rounds: tuple[int, ...]) -> tuple[Release, ...]:
        shares = {sigma: self.split_at(sigma) for sigma in set(levels.tolist())} if self.inner_steps > 1 else {}
        return tuple(
            release
            for sigma, number in zip(levels.tolist(), rounds, strict=True)
            for release in self._round(sigma, shares.get(sigma, 1.0), agent, number)
        )

    def _round(self, sigma: float, share: float, agent: int, number: int) -> Sequence[Release]:
        full, correction = self._pair()
        first = GaussianRelease(certificate=full, noise_std=sigma, agent=agent, round=number)
        if self.inner_steps == 1:
            return (first,)
        others = self.inner_steps - 1
        return (
            first,
            GaussianRelease(
                certificate=full, noise_std=sigma * math.sqrt(share), agent=agent, round=number, count=others
            ),
            SampledGaussianRelease(
                certificate=correction,
                noise_std=sigma * math.sqrt(1 - share),
                sampling=self.drawn(),
                agent=agent,
                round=number,
                count=others,
            ),
        )

    def _theorem(self) -> Theorem2:
        return Theorem2(
            rounds=self.rounds,
            inner_steps=self.inner_steps,
            records=self.records,
            lipschitz=self.weight * self.gradient_bound,
        )

    def _claims(self, levels: Levels, delta: float) -> tuple[ClaimedEpsilon, ...]:
        sigma = constant_level(levels, "Theorem 2 of PS-ADMM")
        return (self._theorem().epsilon(noise_std=sigma, delta=delta),)

    def claimed_noise(self, target: AnyTarget, shape: ArrayLike = 1.0) -> ClaimedSchedule:
        """Theorem 2's constant sigma, its open constants set to 1."""
        wanted, relative = approximate(target), self.shape(shape)
        constant_level(relative, "Theorem 2 of PS-ADMM")
        noise = self._theorem().noise(epsilon=wanted.epsilon, delta=wanted.delta)
        aim = self.claimed_epsilon(noise.value, wanted.delta)[0]
        return repeated(noise, aim, relative / relative[0])
