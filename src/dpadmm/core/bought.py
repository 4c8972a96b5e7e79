"""A profile that an earlier run released: found in the ledger that keeps it, used again, and counted in the figure."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpadmm.core.round_zero import PROFILE
from dpadmm.errors import InputError, LedgerError
from dpadmm.noise.draws import COORDINATOR, Slot
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Statement
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.ledger import ConfirmedLedger, ProfiledColumns
from dpadmm.privacy.protection import Protection, View
from dpadmm.privacy.records import GaussianRelease, NoisyRelease, SummedGaussianRelease
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:  # they read tables, and accounting does without
    from dpadmm.data.profile import ReleasedProfile
    from dpadmm.data.raw import RawSilos


@dataclass(frozen=True, eq=False)
class BoughtProfile:
    """A profile that an earlier run released, and what it cost the worst person, as one release."""

    counts: "ReleasedProfile"
    release: GaussianRelease

    @property
    def m(self) -> float:
        """What it cost, as m of C0."""
        return math.sqrt((self.release.cost.m_squared or 0.0) * self.release.count)

    def epsilon(self, delta: float) -> float:
        """Return what it cost the worst person by itself."""
        return NoisePlan({(PROFILE, 0): {COORDINATOR: self.release}}).statement().curve.epsilon(delta)


def bought_profile(
    ledger: ConfirmedLedger, rows: "RawSilos", protection: Protection, target: Target
) -> BoughtProfile | None:
    """Return the profile of these very rows that the ledger keeps for this protection, None without one.

    Nor where it was so dear that it would leave less than half of the squared budget m^2 to training: a model tells
    what its profile tells, so its figure counts the profile, whoever has paid for it.
    """
    form = rows.form
    if form is None:
        return None
    kept = ledger.kept_profile(rows.subject(protection))
    if kept is None:
        return None
    from dpadmm.data.profile import ReleasedProfile  # it reads tables; whoever has rows has loaded it

    is_nominal = not protection.relation.has_public_sizes
    counts = ReleasedProfile.of(form, np.array(kept.counts), kept.noise_std, kept.records, kept.run, is_nominal)
    found = BoughtProfile(counts, ledger.release_of(kept))
    return found if 2 * found.m**2 <= m_of(target.epsilon, target.delta) ** 2 else None


def keep_profile(ledger: ConfirmedLedger, subject: ProfiledColumns, run: str, pooled: Floats, noise_std: float) -> None:
    """Have the ledger keep what was drawn; if it cannot, say so and go on: training is paid for as well."""
    if not subject.columns:
        return
    try:
        ledger.keep_profile(subject, run, pooled.tolist(), noise_std)
    except (InputError, LedgerError) as problem:  # such as a ledger that was shown another form of the same rows
        warnings.warn(f"The profile is paid for, but could not be stored for later fits: {problem}", stacklevel=2)


def statement_with(plan: NoisePlan, earlier: GaussianRelease) -> Statement:
    """Return what a run costs together with an earlier profile that its rows are encoded by.

    A model that rests on the profile tells what the profile tells, so its figure must count it, though nothing more is
    spent. Of two observers the weaker one is stated, against whom both hold, and of two numbers of colluders the
    smaller.
    """
    whom = {release.certificate.protection for release in (*plan, earlier)}
    weakest = next((one for one in whom if all(one.is_covered_by(other) for other in whom)), None)
    if weakest is None:
        views = " and ".join(sorted(one.observer for one in whom))
        raise InputError(
            f"The run and the earlier profile are certified against {views}, and neither covers the other."
        )
    rows: dict[tuple[Slot, int], Mapping[int | None, NoisyRelease]]
    rows = {**plan.releases, (PROFILE, 0): {COORDINATOR: earlier}}
    return NoisePlan(
        {place: {agent: _against(weakest, release) for agent, release in row.items()} for place, row in rows.items()}
    ).statement()


def _against(who: Protection, release: NoisyRelease) -> NoisyRelease:
    """Return a release as certified against an observer who sees less; a peer is a silo, which knows its own share."""
    if isinstance(release, SummedGaussianRelease):
        release = release.counted_for(1 if who.view is View.PEER else who.n_colluders)
    protection = replace(release.certificate.protection, view=who.view, colluders=who.n_colluders)
    return replace(release, certificate=replace(release.certificate, protection=protection))
