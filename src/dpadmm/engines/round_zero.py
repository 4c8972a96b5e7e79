"""Round 0 of a run: the silos' column profile, one noisy release before the first round of training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpadmm.algorithms.anatomy import NoiseHook
from dpadmm.algorithms.method import Setting
from dpadmm.errors import InputError
from dpadmm.noise.draws import COORDINATOR, Sampler, Slot
from dpadmm.noise.plan import NoisePlan, calibrated, summed
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.promises import Constant, Family, Promise, Row
from dpadmm.noise.secure import grid_for
from dpadmm.noise.sums import Masks
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.masked import Shares
from dpadmm.privacy.certificates.profile import column_profile, profile_on_grid
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import ProfiledColumns
from dpadmm.privacy.records import NoisyRelease, SummedGaussianRelease, seen_noise
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem

if TYPE_CHECKING:  # it reads tables, and accounting does without
    from dpadmm.datasets.profile import ProfileForm

PROFILE = Slot("profile")
"""Where the counts get their noise."""

_ROUNDING = 1e-9  # of epsilon, in sums of many rounds


def share_out(whole: Target, share: float, problems: int = 1) -> tuple[Target | None, Target]:
    """Return what round 0 and each problem's training may spend; None for no round 0.

    Costs of Gaussian noise add up in squares: `m^2 = m_0^2 + problems m_1^2` (C0). share: m_0^2/m^2, in [0, 1).
    """
    m, delta = float(m_of(whole.epsilon, whole.delta)), whole.delta
    each = float(epsilon_of_delta(m * math.sqrt((1 - share) / problems), delta)) * (1 - _ROUNDING)
    profile = None if share == 0 else Target(float(epsilon_of_delta(m * math.sqrt(share), delta)), delta)
    return profile, Target(each, delta)


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
        sizes = [int(setting.problem.functions.sizes.sum())] if is_pooled else setting.problem.functions.sizes.tolist()
        certificates = [
            column_profile(
                n_numeric=self.n_numeric,
                n_categorical=self.n_categorical,
                n_records=n,
                protection=setting.protection,
                is_noise_shared=is_pooled,
            )
            for n in sizes
        ]
        agents = [COORDINATOR] if is_pooled else range(len(sizes))
        is_common = not is_pooled and len(set(certificates)) == 1
        rows = tuple(Row(agent, (1,), (each,)) for agent, each in zip(agents, certificates, strict=True))
        promise = Promise(PROFILE, Family.GAUSSIAN, rows[:1] if is_common else rows, is_common=is_common)
        row = self._calibrated(promise, setting)
        if is_secure or shares is not None:
            placed = tuple(self._on_grid(release, shares) for release in row.values())
            row = self._calibrated(replace(promise, rows=placed), setting)
        if shares is not None:
            row = {agent: summed(release, shares) for agent, release in row.items()}
        return NoisePlan({(PROFILE, 0): {agent: replace(release, round=0) for agent, release in row.items()}})

    def _calibrated(self, promise: Promise, setting: Setting) -> Mapping[int | None, NoisyRelease]:
        silos = setting.protection.silos_per_person
        return calibrated([promise], self.target, Constant(), silos_per_person=silos).releases[PROFILE, 1]

    def _on_grid(self, release: NoisyRelease, shares: Shares | None) -> Row:
        """The certificate on the grid of its noise; counts of records lie on it already (C11)."""
        own = release.level if shares is None else release.level / math.sqrt(shares.honest)
        placed = profile_on_grid(release.certificate, grid=grid_for(own), n_bins=self.size, shares=shares)
        return Row(release.agent, (1,), (placed,))


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

    Before they are added up the counts of every silo are rounded to the grid, if there is one: C11 rests on exact sums.
    """
    pooled = next((release for release in plan if release.agent == COORDINATOR), None)
    if isinstance(pooled, SummedGaussianRelease):
        return noise.total(PROFILE, 0, counts)
    if pooled is None:
        return noise.perturb(PROFILE, 0, np.arange(len(counts)), counts)
    grid = pooled.certificate.grid
    exact = counts if grid is None else np.rint(counts / grid) * grid
    return noise.perturb(PROFILE, 0, np.array([COORDINATOR]), exact.sum(axis=0, keepdims=True))


def pooled_noise(plan: NoisePlan, n_agents: int) -> float:
    """Return the noise in the sum of all agents' counts."""
    row = plan.releases[PROFILE, 0]
    squares = [seen_noise(release) ** 2 for release in row.values()]
    return math.sqrt(squares[0] * n_agents if None in row else math.fsum(squares))
