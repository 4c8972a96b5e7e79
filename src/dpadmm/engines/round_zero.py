"""Round 0 of a run: the silos' column profile, one noisy release before the first round of training."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dpadmm.algorithms.method import Setting
from dpadmm.noise.draws import COORDINATOR, Sampler, Slot
from dpadmm.noise.plan import NoisePlan, PlannedNoise, calibrated
from dpadmm.noise.promises import Constant, Family, Promise, Row
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.profile import column_profile
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem

PROFILE = Slot("profile")
"""Where the counts get their noise."""

_ROUNDING = 1e-9  # of epsilon, in sums of many rounds


def share_out(whole: Target, share: float) -> tuple[Target, Target]:
    """Return what round 0 and the training may spend: costs of Gaussian noise add up in squares, m_0^2 + m_1^2 = m^2.

    share: m_0^2/m^2, in (0, 1).
    """
    m, delta = float(m_of(whole.epsilon, whole.delta)), whole.delta
    profile = Target(float(epsilon_of_delta(m * math.sqrt(share), delta)), delta)
    return profile, Target(float(epsilon_of_delta(m * math.sqrt(1 - share), delta)) * (1 - _ROUNDING), delta)


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

    def noise_plan(self, setting: Setting, *, is_pooled: bool, is_secure: bool) -> NoisePlan:
        """Return the releases of the round; `is_pooled`: the coordinator adds one noise to the sum of the counts."""
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
        planned = calibrated(
            [promise],
            self.target,
            Constant(),
            silos_per_person=setting.protection.silos_per_person,
            secure_dimension=self.size if is_secure else None,
        )
        row = planned.releases[PROFILE, 1]
        return NoisePlan({(PROFILE, 0): {agent: replace(release, round=0) for agent, release in row.items()}})


class Unencoded(Protocol):
    """Problems whose rows are encoded after round 0, by what it has shown."""

    def counts(self) -> Floats:
        """Return every silo's counts, (silos, size)."""
        ...

    def problems(self, pooled: Floats, noise_std: float) -> Sequence[Problem]:
        """Return the problems, by the noisy counts (size,) of all silos together and the noise in them."""
        ...


def draw_profile(plan: NoisePlan, counts: Floats, sampler: Sampler) -> tuple[Floats, float]:
    """Return the noisy counts (size,) of all silos together, and the noise in them; `counts`: (silos, size)."""
    hook = PlannedNoise(plan, sampler)
    agents = np.arange(len(counts))
    if any(release.agent == COORDINATOR for release in plan):
        agents, counts = np.array([COORDINATOR]), counts.sum(axis=0, keepdims=True)
    noisy = hook.perturb(PROFILE, 0, agents, counts[:, :, None])[:, :, 0]
    hook.check_drawn()
    return noisy.sum(axis=0), pooled_noise(plan, len(agents))


def pooled_noise(plan: NoisePlan, n_agents: int) -> float:
    """Return the noise in the sum of all agents' counts."""
    row = plan.releases[PROFILE, 0]
    squares = [release.level**2 for release in row.values()]
    return math.sqrt(squares[0] * n_agents if None in row else math.fsum(squares))
