"""What a run may spend: parts of one budget, and the column profile that an earlier run has paid for."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpadmm import checks
from dpadmm.errors import InputError, LedgerError
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Account, Target
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import ConfirmedLedger, ProfiledColumns
from dpadmm.privacy.protection import Protection, View
from dpadmm.privacy.releases import GaussianRelease, NoisyRelease, SummedGaussianRelease
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:  # they read tables, and accounting does without
    from dpadmm.core.dataset import Dataset
    from dpadmm.data.profile import ReleasedProfile

_EARLIER = MessageKind("earlier profile")
_ROUNDING = 1e-9  # of epsilon, in sums of many rounds


def share_out(whole: Target, share: float, problems: int = 1) -> tuple[Target | None, Target]:
    """Return what round 0 and each problem's training may spend; None for no round 0.

    Costs of Gaussian noise add up in squares: `m^2 = m_0^2 + problems m_1^2` (C0). share: m_0^2/m^2, in [0, 1).
    """
    m, delta = m_of(whole.epsilon, whole.delta), whole.delta
    profile = None if share == 0 else Target(epsilon_of_part(m * math.sqrt(share), delta), delta)
    return profile, Target(epsilon_of_part(m * math.sqrt((1 - share) / problems), delta) * (1 - _ROUNDING), delta)


def epsilon_of_part(m: float, delta: float) -> float:
    """Return the epsilon of a part of the budget; refuse a delta that allows the part without any epsilon."""
    epsilon = epsilon_of_delta(m, delta)
    if epsilon <= 0:
        raise InputError(
            f"{checks.setting('delta')} {delta:g} is too large for a budget that is shared: a part of it would have no "
            f"epsilon above 0. Choose {checks.setting('delta')} well below 1 / records, for instance 1e-6."
        )
    return epsilon


def share_of(profile: Target, whole: Target) -> float:
    """Return the share that `share_out` was given, from what it returned for round 0."""
    return float(m_of(profile.epsilon, profile.delta) / m_of(whole.epsilon, whole.delta)) ** 2


@dataclass(frozen=True, eq=False)
class ReusedProfile:
    """A profile that an earlier run released, and what it cost the worst person, as one release."""

    counts: "ReleasedProfile"
    release: GaussianRelease

    @property
    def m(self) -> float:
        """What it cost, as m of C0."""
        cost = self.release.cost.m_squared
        assert cost is not None  # of Gaussian noise it is known
        return math.sqrt(cost * self.release.count)

    def epsilon(self, delta: float) -> float:
        """Return what it cost the worst person by itself."""
        return NoisePlan({(_EARLIER, 0): {COORDINATOR: self.release}}).account().curve.epsilon(delta)


def reusable_profile(
    ledger: ConfirmedLedger, rows: "Dataset", protection: Protection, target: Target
) -> ReusedProfile | None:
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
    found = ReusedProfile(counts, ledger.release_of(kept))
    return found if 2 * found.m**2 <= m_of(target.epsilon, target.delta) ** 2 else None


def keep_profile(
    ledger: ConfirmedLedger, subject: ProfiledColumns | None, run: str, pooled: Floats, noise_std: float
) -> None:
    """Have the ledger keep what was drawn; if it cannot, say so and go on: training is paid for as well."""
    if subject is None or not subject.columns:
        return
    try:
        ledger.keep_profile(subject, run, pooled.tolist(), noise_std)
    except (InputError, LedgerError) as problem:  # such as a ledger that was shown another form of the same rows
        warnings.warn(f"The profile is paid for, but could not be stored for later fits: {problem}", stacklevel=2)


def account_with(plan: NoisePlan, earlier: GaussianRelease) -> Account:
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
    rows: dict[tuple[MessageKind, int], Mapping[int | None, NoisyRelease]]
    rows = {**plan.releases, (_EARLIER, 0): {COORDINATOR: earlier}}
    return NoisePlan(rows).map(lambda release: _against(weakest, release)).account()


def _against(who: Protection, release: NoisyRelease) -> NoisyRelease:
    """Return a release as certified against an observer who sees less; a peer is a silo, which knows its own share."""
    if isinstance(release, SummedGaussianRelease):
        release = release.counted_for(1 if who.view is View.PEER else who.n_colluders)
    protection = replace(release.certificate.protection, view=who.view, colluders=who.n_colluders)
    return replace(release, certificate=replace(release.certificate, protection=protection))
