"""Round 0 of a run: the silos' column profile, one noisy release before the first round of training."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dpadmm.algorithms.method import Setting
from dpadmm.datasets.profile import ReleasedProfile
from dpadmm.datasets.raw import RawSilos
from dpadmm.errors import InputError, LedgerError
from dpadmm.noise.draws import COORDINATOR, Sampler, Slot
from dpadmm.noise.plan import NoisePlan, PlannedNoise, calibrated
from dpadmm.noise.promises import Constant, Family, Promise, Row
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.certificates.profile import column_profile
from dpadmm.privacy.ledger import ConfirmedLedger, ProfileSubject
from dpadmm.privacy.protection import COVERED, Protection, View
from dpadmm.privacy.records import GaussianRelease, NoisyRelease
from dpadmm.problems.arrays import Floats
from dpadmm.problems.problem import Problem

PROFILE = Slot("profile")
"""Where the counts get their noise."""


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

    def subject(self) -> ProfileSubject:
        """Return what the profile is about, for a ledger to keep it."""
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


@dataclass(frozen=True, eq=False)
class BoughtProfile:
    """A profile that an earlier run released, and what it cost the worst person, as one release."""

    counts: ReleasedProfile
    release: GaussianRelease


def bought_profile(ledger: ConfirmedLedger | None, rows: RawSilos, protection: Protection) -> BoughtProfile | None:
    """Return the profile of these very rows that the ledger keeps for this protection, None without one."""
    form = rows.form
    if ledger is None or form is None:
        return None
    kept = ledger.kept_profile(rows.subject(protection))
    if kept is None:
        return None
    counts = ReleasedProfile.of(form, np.array(kept.counts), kept.noise_std, kept.records, kept.run)
    return BoughtProfile(counts, ledger.release_of(kept))


def keep_profile(ledger: ConfirmedLedger, subject: ProfileSubject, run: str, pooled: Floats, noise_std: float) -> None:
    """Have the ledger keep what was drawn; if it cannot, say so and go on: training is paid for as well."""
    if not subject.columns:
        return
    try:
        ledger.keep_profile(subject, run, pooled.tolist(), noise_std)
    except (InputError, LedgerError) as problem:  # such as a ledger that was shown another form of the same rows
        warnings.warn(f"The profile is paid for, but cannot be kept for later fits: {problem}", stacklevel=2)


def statement_with(plan: NoisePlan, earlier: GaussianRelease) -> Statement:
    """Return what a run costs together with an earlier profile that its rows are encoded by.

    A model that rests on the profile tells what the profile tells, so its figure must count it, though nothing more is
    spent. Of two views the weaker one is stated, against which both hold.
    """
    views = {release.certificate.view for release in plan}
    seen = earlier.certificate.view
    view = seen if not views <= COVERED[seen] else next(iter(views))
    rows: dict[tuple[Slot, int], Mapping[int | None, NoisyRelease]]
    rows = {**plan.releases, (PROFILE, 0): {COORDINATOR: earlier}}
    return NoisePlan(
        {place: {agent: _against(view, release) for agent, release in row.items()} for place, row in rows.items()}
    ).statement()


def profile_epsilon(plan: NoisePlan, bought: BoughtProfile | None, delta: float) -> float | None:
    """Return what the profile behind a run costs the worst person by itself, None without one."""
    row = plan.releases.get((PROFILE, 0))
    if bought is not None:
        row = {COORDINATOR: bought.release}
    return None if row is None else NoisePlan({(PROFILE, 0): row}).statement().curve.epsilon(delta)


def _against(view: View, release: NoisyRelease) -> NoisyRelease:
    """Return a release as certified against a weaker view."""
    if view not in COVERED[release.certificate.view]:
        raise InputError(f"A release is certified against the {release.certificate.view.value}, not the {view.value}.")
    return replace(release, certificate=replace(release.certificate, view=view))


def pooled_noise(plan: NoisePlan, n_agents: int) -> float:
    """Return the noise in the sum of all agents' counts."""
    row = plan.releases[PROFILE, 0]
    squares = [release.level**2 for release in row.values()]
    return math.sqrt(squares[0] * n_agents if None in row else math.fsum(squares))
