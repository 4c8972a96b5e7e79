"""Round 0 of a run: the silos' column profile, one noisy release before the first round of training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dpadmm.algorithms.anatomy import NoiseHook
from dpadmm.algorithms.method import Setting
from dpadmm.engines.one_sum import OneSum
from dpadmm.errors import InputError
from dpadmm.noise.draws import Sampler, Slot
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.sums import Masks
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.masked import Shares
from dpadmm.privacy.certificates.profile import column_profile, profile_on_grid
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import ProfiledColumns
from dpadmm.privacy.protection import Certificate
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem

if TYPE_CHECKING:  # it reads tables, and accounting does without
    from dpadmm.datasets.profile import ProfileForm

PROFILE = Slot("profile")
"""Where the counts get their noise."""

_ROUND = OneSum(PROFILE, 0)

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
