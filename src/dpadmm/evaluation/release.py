"""One noisy sum over private records: checked, calibrated, recorded in the ledger, and only then drawn (C10)."""

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from dpadmm import checks
from dpadmm.checks import setting, shown
from dpadmm.core.budget import LedgerData, LedgerFile, check_ledger
from dpadmm.core.model import Guarantee, ReleasedModel
from dpadmm.core.release import open_release
from dpadmm.core.spec import ReleaseFacts, plan_sum
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateEstimator, PrivateLinearModel
from dpadmm.estimators.data import silo_columns
from dpadmm.estimators.notices import (
    LargeDeltaWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    figure_without_ledger_notice,
    warn_once,
)
from dpadmm.estimators.owners import Layout, Owners
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import check_grids
from dpadmm.noise.sampler import Sampler, SecureSampler, SimulatedSampler
from dpadmm.planner.planner import large_delta_words
from dpadmm.planner.resolved import protection_from, seed_of
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.certificates.sums import bounded_sum, cell_counts, masked_sum
from dpadmm.privacy.ledger import Ledger
from dpadmm.privacy.protection import Certificate, Norm, Protection, Unit, View, secure_grid
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.settings import Privacy

_KIND = MessageKind("metric")


def chosen_model(model: Any) -> Any:
    """Return the model that a search has chosen, or the model itself."""
    return getattr(model, "best_estimator_", model) if isinstance(model, PrivateEstimator) else model


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """What a private figure may spend, whom it protects and where that is recorded, checked before data are read.

    target: pure epsilon gets discrete Laplace noise, others Gaussian noise. assumptions: what the caller declares.
    """

    target: Target | PureTarget
    protection: Protection
    ledger: LedgerFile
    seed: int | None = None
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        model: Any,
        target: Target | PureTarget,
        view: str,
        privacy: Privacy | None,
        ledger: LedgerFile | Ledger | str | os.PathLike[str] | None,
        random_state: Any = None,
        *,
        has_persons: bool = False,
        scores_rows_alone: bool = False,
    ) -> Self:
        """Check what a figure about `model` is asked for; None in `privacy` stands for what the ledger says."""
        if not isinstance(ledger, LedgerFile):
            check_ledger(ledger)
            path = None if ledger is None or isinstance(ledger, Ledger) else Path(ledger)
            ledger = LedgerFile(path=path, held=ledger if isinstance(ledger, Ledger) else None)
        if random_state is not None and ledger.is_wanted:
            raise InputError("Simulated noise cannot be recorded as a release. Leave out random_state or ledger.")
        privacy, usual = Privacy() if privacy is None else privacy, ledger.protection
        if not isinstance(privacy, Privacy):
            raise InputError(f"privacy must be a dpadmm.Privacy(...) or None, got {shown(privacy)}.")
        strange = privacy.stated("unit", "neighbours", "nominal_records", "keep")
        if strange:
            raise InputError(f"{setting(strange[0])} does not apply to a private figure. Leave it out.")
        if not has_persons:
            _check_unit(usual, _unit_of(model), is_counted=privacy.records_per_person is not None or ledger.is_kept)
        unit = Unit.PERSON if has_persons else Unit.RECORD
        protection = protection_from(
            usual, unit, view, privacy.records_per_person, privacy.silos_per_person, privacy.colluders
        )
        if not protection.relation.has_public_sizes:
            raise InputError(
                "A private figure is a mean over a public number of records, so it is certified for replace-one "
                f"neighbours, but the ledger's budget is for {protection.relation.value}. Nothing was spent."
            )
        if protection.view not in (View.EAVESDROPPER, View.AGGREGATE):
            raise InputError(f"view must be 'eavesdropper' or 'aggregate' for a metric, got {shown(view)}.")
        if protection.view is View.AGGREGATE and isinstance(target, PureTarget):
            raise InputError(
                "view='aggregate' needs Gaussian noise, the only noise that can be split into shares. Give delta too."
            )
        declared = _declared_of(model, scores_rows_alone)
        return cls(
            target=target, protection=protection, ledger=ledger, seed=seed_of(random_state), assumptions=declared
        )

    @property
    def sampler(self) -> Sampler:
        """Secure noise, or seeded noise for a simulation."""
        return SecureSampler() if self.seed is None else SimulatedSampler(self.seed)

    def describe(self) -> str:
        """Say what the figure is about, and where its cost is recorded."""
        what = "persons, the first row of each" if self.protection.unit is Unit.PERSON else "records"
        kept = f"; recorded in {self.ledger.name}" if self.ledger.name else ""
        return f"private {what}, protected from {self.protection.observer}{kept}"


@dataclass(frozen=True, eq=False)
class CountedRows:
    """Which rows are counted, and the data that they are a part of as a ledger knows them.

    silos: the silo of every row (n,), None where all are in one.
    """

    n: int
    silos: Any
    data: LedgerData

    def of_silos(self, protection: Protection) -> Sequence[Ints]:
        """Return the rows that are added up together: every silo's own where only sums are seen, else all."""
        is_sum = protection.view is View.AGGREGATE
        layout = Layout.of(self.silos if is_sum else None, self.n)
        if is_sum:
            protection.check_silos(len(layout.rows))
        return layout.rows


def first_rows(X: Any, y: Any, groups: Any, persons: Any, protection: Protection) -> tuple[CountedRows, Ints]:
    """Return the rows that are counted, and where they stand: all, or of persons the first row in each silo."""
    if persons is None:
        return CountedRows(len(y), groups, silo_columns(X, y, groups)), np.arange(len(y))
    used = Owners(groups, persons, 1, protection.silos_per_person).layout(len(y))
    kept, silos = np.concatenate(used.rows), np.repeat(used.names, [len(part) for part in used.rows])
    return CountedRows(len(kept), silos, silo_columns(X, y, groups, persons)), kept


@dataclass(frozen=True)
class NoisySum:
    """A sum (d,) as it was released, the standard deviation of the noise on every entry, and what it cost."""

    values: Floats
    noise_std: float
    privacy: Guarantee


def release_counts(
    counts: Callable[[Ints], Floats], histograms: int, request: FigureRequest, rows: CountedRows, subject: str
) -> NoisySum:
    """Release the counts of all rows. counts: of some rows, each in at most one cell of every histogram."""
    people = request.protection

    def certify(n_records: int) -> Certificate:
        return cell_counts(
            n_records=n_records,
            histograms=histograms,
            unit=people.unit,
            records_per_person=people.records_per_person,
            silos_per_person=people.silos_per_person,
        )

    return _release(counts, certify, request, rows, subject)


def release_sum(whole: Ints, step: float, request: FigureRequest, rows: CountedRows, subject: str) -> NoisySum:
    """Release the sum of one number from 0 to 1 a row, a whole multiple of `step`, so that its order does not matter.

    At most 2^20 n is exact in a float up to n = 2^33; dividing by a power of two is exact too.
    """
    people = request.protection

    def certify(n_records: int) -> Certificate:
        return bounded_sum(
            n_records=n_records,
            norm=Norm.L1 if isinstance(request.target, PureTarget) else Norm.L2,
            records_per_person=people.records_per_person,
            silos_per_person=people.silos_per_person,
        )

    def added(part: Ints) -> Floats:
        return np.array([int(whole[part].sum()) * step])

    return _release(added, certify, request, rows, subject)


def _release(
    values: Callable[[Ints], Floats],
    certify: Callable[[int], Certificate],
    request: FigureRequest,
    rows: CountedRows,
    subject: str,
) -> NoisySum:
    """Release the sum (d,) of the exact values of all rows; one silo's own are added up first where only sums leave."""
    _warn(request, rows)
    target, protection = request.target, request.protection
    delta = 0.0 if isinstance(target, PureTarget) else target.delta
    silos = rows.of_silos(protection)
    parts = np.array([values(each) for each in silos])
    facts = ReleaseFacts(tuple(map(len, silos)), protection, is_pooled=True)

    def on_grid(certificate: Certificate, grid: float) -> Certificate:
        if facts.shares is None:
            return secure_grid(certificate, grid=grid, dimension=parts.shape[1])
        # Nobody sees more than the noisy sum, which the certificate of the plain sum covers (C10).
        plain = replace(certificate, protection=replace(certificate.protection, view=View.PUBLIC))
        return masked_sum(plain, shares=facts.shares, grid=grid, dimension=parts.shape[1])

    plan = plan_sum(_KIND, 1, target, facts, certify, on_grid, is_secure=True)
    check_grids(plan, rows.n)
    with (
        request.ledger.open(rows.data, delta, protection) as ledger,
        open_release(plan, request.sampler, ledger, label="metric", n_agents=len(parts)) as reserved,
    ):
        noisy = reserved.noise(plan).total(_KIND, 1, parts[:, :, None])
    privacy = Guarantee.of(
        plan.account(),
        list(plan),
        delta=delta,
        origin=reserved.origin,
        assumptions=request.assumptions,
        subject=subject,
    )
    width = math.sqrt(2) if isinstance(target, PureTarget) else 1.0  # deviation of Laplace noise of scale 1
    return NoisySum(noisy[0, :, 0], width * plan.noise_in_sum(_KIND, 1, len(parts)), privacy)


def _warn(request: FigureRequest, rows: CountedRows) -> None:
    """Say what the caller of a figure, five frames above, should know."""
    target = request.target
    delta = None if isinstance(target, PureTarget) else target.delta
    if request.seed is not None:
        words = "random_state is set, so the noise is simulated: the figure is NOT a private release."
        warnings.warn(words, SimulatedNoiseWarning, stacklevel=6)
    elif not request.ledger.is_wanted:
        words = figure_without_ledger_notice(
            target.epsilon, delta, request.protection, has_groups=rows.silos is not None
        )
        warn_once(words, NoLedgerWarning, stacklevel=7)
    if delta is not None and delta * rows.n > 1:
        warnings.warn(large_delta_words(delta, rows.n), LargeDeltaWarning, stacklevel=6)


def _check_unit(usual: Protection, trained_for: Unit, *, is_counted: bool) -> None:
    """Refuse a figure that hides a record where a person with all their rows is to be hidden.

    usual: what the ledger's budget is about. trained_for: what the model protects.
    is_counted: whether it was said, now or to the ledger, how many records a person has.
    """
    if usual.unit is Unit.PERSON:
        raise InputError(
            "The ledger's budget is per person, so a figure must know which person each row belongs to. For classes, "
            f"use an evaluation with {setting('persons')}. Models of numbers can be measured on public data, or on "
            "rows of other people with a ledger of their own. Nothing was spent."
        )
    if trained_for is Unit.PERSON and not is_counted:
        raise InputError(
            "The model protects every person with all their rows, but this figure would protect single records. "
            f"Say which person each row belongs to, in an evaluation with {setting('persons')}; or state the most "
            "records that one person has in these data (1 if nobody has more) with "
            f"{setting('records_per_person')}. Nothing was spent."
        )


def _unit_of(model: Any) -> Unit:
    """Return what a model protects; of models that are not of this package, a record."""
    if isinstance(model, ReleasedModel):
        return model.guarantee.protection.unit
    said = getattr(model, "privacy_", None)
    return said.protection.unit if isinstance(said, Guarantee) else Unit.RECORD


def _declared_of(model: Any, scores_rows_alone: bool) -> tuple[str, ...]:
    """Return what is assumed about how the model scores; refuse one that may look at several rows at once (C10).

    Trying it out would not do: a probe on these records reads them, and one on others proves nothing.
    """
    if isinstance(model, PrivateLinearModel | ReleasedModel):
        return ()
    if checks.boolean("scores_rows_alone", scores_rows_alone):
        return (f"declared by the caller: {type(model).__name__} scores every row on its own",)
    raise InputError(
        f"{type(model).__name__} is not an estimator of this package, and the noise hides one prediction per "
        "record. If predict looks at several rows at once (to centre, rank or cluster them), one record changes "
        "many predictions. Give a model of this package, or pass scores_rows_alone=True if predict treats every "
        "row on its own."
    )
