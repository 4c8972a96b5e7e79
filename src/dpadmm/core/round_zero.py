"""Sums over the silos that are released once; round 0 of a run is one: their column profile, before any training."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.methods.anatomy import NoiseHook
from dpadmm.methods.method import Setting
from dpadmm.noise.draws import COORDINATOR, Sampler, Slot
from dpadmm.noise.plan import NoisePlan, calibrated, summed
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.promises import Constant, Family, Promise, Row
from dpadmm.noise.secure import grid_for
from dpadmm.noise.sums import Masks
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.sums import Shares, column_profile, profile_on_grid
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import ProfiledColumns
from dpadmm.privacy.protection import Certificate
from dpadmm.privacy.records import NoisyRelease, SummedGaussianRelease, seen_noise
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem

if TYPE_CHECKING:  # it reads tables, and accounting does without
    from dpadmm.data.profile import ProfileForm


@dataclass(frozen=True)
class OneSum:
    """Where the sum gets its noise: a slot, in a round that no other release of it has."""

    slot: Slot
    round: int

    def plan(
        self,
        target: Target,
        setting: Setting,
        certified: Callable[[int], Certificate],
        placed: Callable[[Certificate, float], Certificate],
        *,
        is_pooled: bool,
        is_secure: bool,
        shares: Shares | None = None,
    ) -> NoisePlan:
        """Return the releases that spend the target; `is_pooled`: one noise hides the sum of all silos.

        It is the coordinator's, or the silos' shares of one where their values leave under masks.
        certified: the certificate of a silo of so many records, or of all of them. placed: the same on a grid.
        """
        sizes = setting.problem.functions.sizes.tolist()
        certificates = [certified(n) for n in ([int(sum(sizes))] if is_pooled else sizes)]
        agents = [COORDINATOR] if is_pooled else range(len(sizes))
        is_common = not is_pooled and len(set(certificates)) == 1
        rows = tuple(Row(agent, (1,), (each,)) for agent, each in zip(agents, certificates, strict=True))
        promise = Promise(self.slot, Family.GAUSSIAN, rows[:1] if is_common else rows, is_common=is_common)
        row = self._calibrated(promise, target, setting)
        if is_secure or shares is not None:
            on_grid = tuple(_on_grid(release, placed, shares) for release in row.values())
            row = self._calibrated(replace(promise, rows=on_grid), target, setting)
        if shares is not None:
            row = {agent: summed(release, shares) for agent, release in row.items()}
        here = {agent: replace(release, round=self.round) for agent, release in row.items()}
        return NoisePlan({(self.slot, self.round): here})

    def _calibrated(self, promise: Promise, target: Target, setting: Setting) -> Mapping[int | None, NoisyRelease]:
        silos = setting.protection.silos_per_person
        return calibrated([promise], target, Constant(), silos_per_person=silos).releases[self.slot, 1]

    def noisy(self, plan: NoisePlan, values: Floats, noise: NoiseHook) -> Floats:
        """Return what leaves, (senders, d, replicas): each silo's values with its noise, or their sum with one.

        Before they are added up the values of every silo are rounded to the grid, if there is one, so that sums are
        exact.
        """
        pooled = next((release for release in plan if release.agent == COORDINATOR), None)
        if isinstance(pooled, SummedGaussianRelease):
            return noise.total(self.slot, self.round, values)
        if pooled is None:
            return noise.perturb(self.slot, self.round, np.arange(len(values)), values)
        grid = pooled.certificate.grid
        exact = values if grid is None else np.rint(values / grid) * grid
        return noise.perturb(self.slot, self.round, np.array([COORDINATOR]), exact.sum(axis=0, keepdims=True))

    def pooled_noise(self, plan: NoisePlan, n_agents: int) -> float:
        """Return the noise in the sum of all agents' values."""
        row = plan.releases[self.slot, self.round]
        squares = [seen_noise(release) ** 2 for release in row.values()]
        return math.sqrt(squares[0] * n_agents if None in row else math.fsum(squares))


def _on_grid(release: NoisyRelease, placed: Callable[[Certificate, float], Certificate], shares: Shares | None) -> Row:
    """The certificate on the grid of its noise."""
    own = release.level if shares is None else release.level / math.sqrt(shares.honest)
    return Row(release.agent, (1,), (placed(release.certificate, grid_for(own)),))


PROFILE = Slot("profile")
"""Where the counts get their noise."""

_ROUND = OneSum(PROFILE, 0)

_ROUNDING = 1e-9  # of epsilon, in sums of many rounds


def share_out(whole: Target, share: float, problems: int = 1) -> tuple[Target | None, Target]:
    """Return what round 0 and each problem's training may spend; None for no round 0.

    Costs of Gaussian noise add up in squares: `m^2 = m_0^2 + problems m_1^2` (C0). share: m_0^2/m^2, in [0, 1).
    """
    m, delta = float(m_of(whole.epsilon, whole.delta)), whole.delta
    profile = None if share == 0 else Target(epsilon_of_part(m * math.sqrt(share), delta), delta)
    return profile, Target(epsilon_of_part(m * math.sqrt((1 - share) / problems), delta) * (1 - _ROUNDING), delta)


def epsilon_of_part(m: float, delta: float) -> float:
    """Return the epsilon of a part of the budget; refuse a delta that allows the part without any epsilon."""
    epsilon = float(epsilon_of_delta(m, delta))
    if epsilon <= 0:
        raise InputError(
            f"{checks.setting('delta')} {delta:g} is too large for a budget that is shared: a part of it would have no "
            f"epsilon above 0. Choose {checks.setting('delta')} well below 1 / records, for instance 1e-6."
        )
    return epsilon


def share_of(profile: Target, whole: Target) -> float:
    """Return the share that `share_out` was given, from what it returned for round 0."""
    return float(m_of(profile.epsilon, profile.delta) / m_of(whole.epsilon, whole.delta)) ** 2


@dataclass(frozen=True, kw_only=True)
class ProfileRound:
    """Round 0: every silo's noisy counts of its columns (C11), after which all encode their rows alike.

    n_numeric, n_categorical: columns. size: counts in all. target: what the round alone may spend.
    """

    n_numeric: int
    n_categorical: int
    size: int
    target: Target

    def check(self, form: "ProfileForm | None", sizes: Sequence[int], setting: Setting) -> None:
        """Refuse rows with other columns, or in other numbers, than the round pays for; from public facts alone."""
        if form is None:
            raise InputError("The plan counts columns before training, but the rows are already encoded.")
        if (form.n_numeric, form.n_categorical) != (self.n_numeric, self.n_categorical) or form.size > self.size:
            raise InputError(
                f"The plan pays for a profile of {self.n_numeric} numeric and {self.n_categorical} categorical columns "
                f"with {self.size} bins, but the rows have {form.n_numeric} and {form.n_categorical} with {form.size}. "
                "Nothing was spent; plan for these columns."
            )
        planned = setting.problem.functions.sizes.tolist()
        if list(sizes) != planned:
            raise InputError(f"The plan is for silos of {planned} records; these silos differ. Nothing was spent.")

    def noise_plan(
        self, setting: Setting, *, is_pooled: bool, is_secure: bool, shares: Shares | None = None
    ) -> NoisePlan:
        """Return the releases of the round; `is_pooled`: one noise hides the sum of the counts.

        It is the coordinator's, or the silos' shares of one where the counts leave under masks.
        """

        def certified(n_records: int) -> Certificate:
            return column_profile(
                n_numeric=self.n_numeric,
                n_categorical=self.n_categorical,
                n_records=n_records,
                protection=setting.protection,
                is_noise_shared=is_pooled,
            )

        def placed(certificate: Certificate, grid: float) -> Certificate:
            """Counts of records lie on the grid already (C11)."""
            return profile_on_grid(certificate, grid=grid, n_bins=self.size, shares=shares)

        return _ROUND.plan(
            self.target, setting, certified, placed, is_pooled=is_pooled, is_secure=is_secure, shares=shares
        )


class Unencoded(Protocol):
    """Problems whose rows are encoded after round 0, by what it has shown."""

    def counts(self) -> Floats:
        """Return every silo's counts, (silos, size)."""
        ...

    def subject(self) -> ProfiledColumns:
        """Return what the profile is about, for a ledger to keep it."""
        ...

    def problems(self, pooled: Floats, noise_std: float) -> Sequence[Problem]:
        """Return the problems, by the noisy counts (size,) of all silos together and the noise in them."""
        ...


def draw_profile(
    plan: NoisePlan, counts: Floats, sampler: Sampler, masks: Sequence[Masks] | None = None
) -> tuple[Floats, float]:
    """Return the noisy counts (size,) of all silos together, and the noise in them; `counts`: (silos, size)."""
    hook = PlannedNoise(plan, sampler, masks=masks)
    noisy = noisy_counts(plan, counts[:, :, None], hook)[:, :, 0]
    hook.check_drawn()
    return noisy.sum(axis=0), pooled_noise(plan, len(noisy))


def noisy_counts(plan: NoisePlan, counts: Floats, noise: NoiseHook) -> Floats:
    """Return what leaves, (senders, size, replicas): each silo's counts with its noise, or their sum with one.

    C11 rests on exact sums.
    """
    return _ROUND.noisy(plan, counts, noise)


def pooled_noise(plan: NoisePlan, n_agents: int) -> float:
    """Return the noise in the sum of all agents' counts."""
    return _ROUND.pooled_noise(plan, n_agents)
