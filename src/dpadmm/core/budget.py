"""What a run may spend: parts of one budget, and the column profile that an earlier run has paid for."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from dpadmm import checks
from dpadmm.checks import option_name
from dpadmm.errors import InputError, LedgerError
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.accounting import Account, Target
from dpadmm.privacy.curves import epsilon_of_delta, m_of
from dpadmm.privacy.ledger import Budget, ConfirmedLedger, Ledger, ProfiledColumns, SiloColumns, open_for_reading
from dpadmm.privacy.protection import ONE_RECORD, Protection, View
from dpadmm.privacy.releases import GaussianRelease, NoisyRelease, SummedGaussianRelease
from dpadmm.problems.arrays import Floats

if TYPE_CHECKING:  # they read tables, and accounting does without
    from dpadmm.core.dataset import Dataset
    from dpadmm.data.profile import ReleasedProfile

LedgerData: TypeAlias = Callable[[bool], Sequence[SiloColumns]]
"""The silos of a fit as a ledger knows them; if asked so, all rows as one silo, which some ledgers are about."""

_EARLIER = MessageKind("earlier profile")
_ROUNDING = 1e-9  # of epsilon, in sums of many rounds


def share_out(whole: Target, share: float, n_models: int = 1) -> tuple[Target | None, Target]:
    """Return what round 0 and the training of each model may spend; None for no round 0.

    Costs of Gaussian noise add up in squares: `m^2 = m_0^2 + n_models m_1^2` (C0). share: m_0^2/m^2, in [0, 1).
    """
    m, delta = m_of(whole.epsilon, whole.delta), whole.delta
    profile = None if share == 0 else Target(epsilon_of_part(m * math.sqrt(share), delta), delta)
    return profile, Target(epsilon_of_part(m * math.sqrt((1 - share) / n_models), delta) * (1 - _ROUNDING), delta)


def epsilon_of_part(m: float, delta: float) -> float:
    """Return the epsilon of a part of the budget; refuse a delta that allows the part without any epsilon."""
    epsilon = epsilon_of_delta(m, delta)
    if epsilon <= 0:
        raise InputError(
            f"{checks.option_name('delta')} {delta:g} is too large for a budget that is shared: a part of it "
            "would have no "
            f"epsilon above 0. Choose {checks.option_name('delta')} well below 1 / records, for instance 1e-6."
        )
    return epsilon


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

    Nor where it cost so much that it would leave less than half of the squared budget m^2 to training: a model reveals
    what its profile reveals, so its figure counts the profile, whoever has paid for it.
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


def keep_profile(ledger: ConfirmedLedger, subject: ProfiledColumns, run: str, pooled: Floats, noise_std: float) -> None:
    """Have the ledger keep what was drawn; if it cannot, say so and go on: training is paid for as well."""
    if not subject.columns:
        return
    try:
        ledger.keep_profile(subject, run, pooled.tolist(), noise_std)
    except (InputError, LedgerError) as problem:  # such as a ledger that was shown another form of the same rows
        warnings.warn(f"The profile is paid for, but could not be stored for later fits: {problem}", stacklevel=2)


def account_with(plan: NoisePlan, earlier: GaussianRelease) -> Account:
    """Return what a run costs together with an earlier profile that its rows are encoded by.

    A model that rests on the profile reveals what it reveals, so its figure must count it, though nothing more is
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


@dataclass(frozen=True, kw_only=True)
class LedgerFile:
    """The ledger to record in: an existing file, a new one with a budget, or one that is open; None keeps no record."""

    path: Path | None = None
    budget: float | None = None
    held: Ledger | None = None

    @classmethod
    def of(cls, ledger: Any, budget: float | None = None) -> Self:
        """Return the ledger that a path or an open `Ledger` names; None keeps no record."""
        if isinstance(ledger, Ledger):
            if budget is not None:
                raise InputError(
                    "budget is for a new ledger: pass the path of its file as ledger. An open ledger already has a "
                    "budget.",
                    setting="budget",
                    code="combination",
                )
            return cls(held=ledger)
        if not isinstance(ledger, str | os.PathLike | None):
            create = "Create one with Ledger.create(path, ledger_data(X, y, groups), Budget(epsilon=..., delta=...))."
            checks.refuse("ledger", "be a path, an open Ledger or None", ledger, f" {create}")
        return cls(path=None if ledger is None else Path(ledger), budget=budget)

    @property
    def name(self) -> str:
        """The ledger's file name, as reports show it."""
        path = self.path if self.held is None else self.held.path
        return "" if path is None else path.name

    @property
    def is_wanted(self) -> bool:
        """Whether a record is kept."""
        return self.path is not None or self.held is not None

    @property
    def is_new(self) -> bool:
        """Whether the ledger is still to be made."""
        return self.path is not None and self.budget is not None and not self.path.exists()

    @property
    def protection(self) -> Protection:
        """What the budget is about; the usual protection where there is no ledger yet."""
        if self.held is not None:
            return self.held.protection
        if self.path is None or not self.path.exists():
            return ONE_RECORD
        with open_for_reading(self.path) as ledger:
            return ledger.protection

    def check(self, epsilon: float) -> None:
        """Refuse a new ledger without a budget, or with one for less than this run, and a budget other than kept."""
        budget = option_name("budget")
        if self.path is None:
            if self.budget is not None:
                raise InputError(f"{budget} is for a new ledger. Name its file with {option_name('ledger', 'FILE')}.")
            return
        if self.budget is None:
            if not self.path.exists():
                raise InputError(
                    f"{self.path} does not exist yet. To start it, state the most epsilon that these data may "
                    f"ever spend, at the same delta: {budget}."
                )
            return
        if self.path.exists():
            with open_for_reading(self.path) as opened_ledger:
                kept = opened_ledger.budget.epsilon
            if kept != self.budget:
                raise InputError(
                    f"{self.path} already has a budget, epsilon {kept:g}. Leave out {budget}, or change it with "
                    "`dpadmm ledger budget`."
                )
        elif checks.positive("budget", self.budget) < epsilon:
            raise InputError(
                f"{option_name('budget', self.budget)} is less than this run's {option_name('epsilon', epsilon)}. "
                "Nothing "
                "was written or spent. State the most that these data may ever spend, including this run."
            )

    @contextmanager
    def open(
        self, data: LedgerData, delta: float = 0.0, protection: Protection | None = None
    ) -> Iterator[ConfirmedLedger | None]:
        """Yield the ledger, found to be that of these very data; a new one is created first. None without one.

        protection: of the run, which is compared with the ledger's before anything is planned; None leaves that to
        what is reserved. delta: of a new ledger.
        """
        if not self.is_wanted:
            yield None
            return
        if self.path is not None and self.is_new:  # one that another process has made since is opened as any other
            budget = Budget(epsilon=self.budget or 0.0, delta=delta)
            Ledger.create(self.path, data(False), budget, protection=protection or ONE_RECORD).close()
        ledger = Ledger.open(self.path or "") if self.held is None else self.held.here()
        try:
            confirmed = ledger.confirm(data(len(ledger.silos) == 1))
            if protection is not None:
                confirmed.check_protection(protection)
            yield confirmed
        finally:
            if ledger is not self.held:
                ledger.close()
