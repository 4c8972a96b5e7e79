"""Sums over private records that are released: checked, calibrated, recorded in the ledger, and only then drawn."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from dpadmm import checks
from dpadmm.checks import setting, shown
from dpadmm.core.release import open_release
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateEstimator, PrivateLinearModel
from dpadmm.estimators.data import silo_columns
from dpadmm.estimators.ledger_file import (
    check_ledger,
    figure_without_ledger_words,
    opened,
    protection_of,
    warn_once,
)
from dpadmm.estimators.notices import (
    LargeDeltaWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
)
from dpadmm.estimators.owners import Layout
from dpadmm.estimators.resolved import protection_from, seed_of
from dpadmm.noise.mechanisms import COORDINATOR, MessageKind
from dpadmm.noise.plan import NoisePlan, check_reach, summed
from dpadmm.noise.sampler import Sampler, SecureSampler, SimulatedSampler, grid_for
from dpadmm.planner.planner import large_delta_words
from dpadmm.privacy.accounting import Target, account_for, calibrate_gaussian
from dpadmm.privacy.certificates.sums import Shares, masked_sum
from dpadmm.privacy.protection import Certificate, Protection, Unit, View, secure_grid
from dpadmm.privacy.releases import CoordinateLaplaceRelease, GaussianRelease
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.statement import Guarantee

_KIND = MessageKind("metric")


class ScoresRowsAlone:
    """For models that, by how they are written, score each row by itself: all that C10 can count."""


def measured(model: Any) -> Any:
    """Return the model that a search has chosen, or the model itself."""
    return getattr(model, "best_estimator_", model) if isinstance(model, PrivateEstimator) else model


@dataclass(frozen=True)
class Asked:
    """What a private figure is asked for, checked."""

    epsilon: float
    delta: float | None
    protection: Protection
    ledger: Any
    seed: int | None
    groups: Any
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        model: Any,
        epsilon: float,
        delta: float | None,
        people: tuple[Any, int | None, int | None, int | None],
        ledger: Any,
        state: Any,
        groups: Any,
        scores_rows_alone: bool,
        unit: Unit = Unit.RECORD,
    ) -> "Asked":
        """Return the arguments of a figure, checked; people: view, records and silos per person, colluders."""
        if not isinstance(model, ScoresRowsAlone):  # the commands' own, on rows they encoded from what the ledger saw
            check_ledger(ledger)
        if state is not None and ledger is not None:
            raise InputError("Simulated noise cannot be recorded as a release. Leave out random_state or ledger.")
        usual = protection_of(ledger)
        if unit is Unit.RECORD:
            check_unit(usual, _unit_of(model), is_counted=ledger is not None or people[1] is not None)
        protection = protection_from(usual, unit, *people)
        check_sizes(protection)
        if protection.view not in (View.EAVESDROPPER, View.AGGREGATE):
            raise InputError(f"view must be 'eavesdropper' or 'aggregate' for a metric, got {shown(people[0])}.")
        if protection.view is View.AGGREGATE and delta is None:
            raise InputError(
                "view='aggregate' needs Gaussian noise, the only noise that can be split into shares. Give delta too."
            )
        return cls(
            checks.positive("epsilon", epsilon),
            None if delta is None else checks.open_unit("delta", delta),
            protection,
            ledger,
            seed_of(state),
            groups,
            _row_by_row(model, scores_rows_alone),
        )

    @property
    def sampler(self) -> Sampler:
        """Secure noise, or seeded noise for a simulation."""
        return SecureSampler() if self.seed is None else SimulatedSampler(self.seed)

    def parts(self, n_records: int) -> Sequence[Ints]:
        """Return the rows that are added up together: every silo's own where sums are all that is seen, else all."""
        is_sum = self.protection.view is View.AGGREGATE
        layout = Layout.of(self.groups if is_sum else None, n_records)
        if is_sum:
            self.protection.check_silos(len(layout.rows))
        return layout.rows


def check_unit(usual: Protection, trained_for: Unit, *, is_counted: bool) -> None:
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
    """Return what a model protects; of models that are not of this package, and of the commands' own, a record."""
    if isinstance(model, ReleasedModel):
        return model.guarantee.protection.unit
    said = getattr(model, "privacy_", None)
    return said.protection.unit if isinstance(said, Guarantee) else Unit.RECORD


def check_sizes(protection: Protection) -> None:
    """Refuse neighbours for which the number of records, over which a figure is the mean, is secret."""
    if not protection.relation.has_public_sizes:
        raise InputError(
            "A private figure is a mean over a public number of records, so it is certified for replace-one "
            f"neighbours, but the ledger's budget is for {protection.relation.value}. Nothing was spent."
        )


def _row_by_row(model: Any, is_declared: bool) -> tuple[str, ...]:
    """Return what is assumed about how the model scores; refuse one that may look at several rows at once (C10).

    Trying it out would not do: a probe on these records reads them, and one on others proves nothing.
    """
    if isinstance(model, PrivateLinearModel | ReleasedModel | ScoresRowsAlone):
        return ()
    if checks.boolean("scores_rows_alone", is_declared):
        return (f"declared by the caller: {type(model).__name__} scores every row on its own",)
    raise InputError(
        f"{type(model).__name__} is not an estimator of this package, and the noise hides one prediction per "
        "record. If predict looks at several rows at once (to centre, rank or cluster them), one record changes "
        "many predictions. Give a model of this package, or pass scores_rows_alone=True if predict treats every "
        "row on its own."
    )


@dataclass(frozen=True)
class NoisySum:
    """A sum (d,) as it was released, the standard deviation of the noise on every entry, and what it cost."""

    values: Floats
    noise_std: float
    privacy: Guarantee


def noisy_sum(parts: Floats, certificate: Certificate, asked: Asked, X: Any, y: NDArray[Any], subject: str) -> NoisySum:
    """Release the sum of the parts (silos, d) with noise; recorded before it is drawn.

    The parts must be exact: whole multiples of a power of two, since sums of rounded floats depend on their order.
    """
    n = len(y)
    _warn(asked, n)
    shares = None if asked.protection.view is View.EAVESDROPPER else Shares(len(parts), asked.protection.n_colluders)
    release, std = _release(certificate, asked, shares, parts.shape[1])
    check_reach([release], n)
    plan = NoisePlan({(_KIND, 1): {COORDINATOR: release}})
    with opened(asked.ledger, silo_columns(X, y, asked.groups)) as ledger:
        if ledger is not None:
            ledger.check_protection(asked.protection)
        with open_release(plan, asked.sampler, ledger, label="metric", n_agents=len(parts)) as reserved:
            noisy = reserved.noise(plan).total(_KIND, 1, parts[:, :, None])
    privacy = Guarantee.of(
        account_for([release]),
        [release],
        delta=asked.delta or 0.0,
        origin=reserved.origin,
        assumptions=asked.notes,
        subject=subject,
    )
    return NoisySum(noisy[0, :, 0], std, privacy)


def _warn(asked: Asked, n: int) -> None:
    """Say what the caller of a figure, four frames above, should know."""
    if asked.seed is not None:
        words = "random_state is set, so the noise is simulated: the figure is NOT a private release."
        warnings.warn(words, SimulatedNoiseWarning, stacklevel=5)
    elif asked.ledger is None:
        facts = (asked.epsilon, asked.delta, asked.protection)
        words = figure_without_ledger_words(*facts, has_groups=asked.groups is not None)
        warn_once(words, NoLedgerWarning, stacklevel=6)
    if asked.delta is not None and asked.delta * n > 1:
        warnings.warn(large_delta_words(asked.delta, n), LargeDeltaWarning, stacklevel=5)


def _release(
    certificate: Certificate, asked: Asked, shares: Shares | None, dimension: int
) -> tuple[CoordinateLaplaceRelease | GaussianRelease, float]:
    """Return the release that spends the budget, on a grid, and the standard deviation of the noise in its values."""
    if asked.delta is None:
        grid = grid_for(certificate.bound / asked.epsilon)
        certificate = secure_grid(certificate, grid=grid, dimension=dimension)
        scale = math.nextafter(certificate.bound / asked.epsilon, math.inf)
        laplace = CoordinateLaplaceRelease(certificate=certificate, scale=scale, agent=COORDINATOR, round=1)
        return laplace, scale * math.sqrt(2)
    target = Target(asked.epsilon, asked.delta)
    rough = float(calibrate_gaussian(target, [certificate.bound], [1.0])[0])
    if shares is None:
        certificate = secure_grid(certificate, grid=grid_for(rough), dimension=dimension)
    else:  # nobody sees more than the noisy sum, which the certificate of the plain sum covers (C10)
        seen = replace(certificate.protection, view=View.PUBLIC)
        grid, plain = grid_for(rough / math.sqrt(shares.honest)), replace(certificate, protection=seen)
        certificate = masked_sum(plain, shares=shares, grid=grid, dimension=dimension)
    std = float(calibrate_gaussian(target, [certificate.bound], [1.0])[0])
    release = GaussianRelease(certificate=certificate, noise_std=std, agent=COORDINATOR, round=1)
    if shares is None:
        return release, std
    shared = summed(release, shares)
    return shared, shared.total_std
