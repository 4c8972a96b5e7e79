"""Figures about a model that read private records: one noisy number each, accounted and recorded."""

import math
import uuid
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from dpadmm import checks
from dpadmm.checks import shown
from dpadmm.datasets.schema import Schema, Screening
from dpadmm.engines.private import masks_of
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import compared, labelled, opened, own_words
from dpadmm.estimators.notices import (
    LargeDeltaWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    no_ledger_words,
    warn_once,
)
from dpadmm.estimators.owners import Layout
from dpadmm.estimators.wishes import boolean, check_ledger, protection_from, protection_of, seed_of
from dpadmm.noise.draws import COORDINATOR, Sampler, Slot
from dpadmm.noise.plan import NoisePlan, check_reach, summed
from dpadmm.noise.planned import PlannedNoise
from dpadmm.noise.secure import SecureSampler, grid_for
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planning.planner import large_delta_words
from dpadmm.privacy.accounting import statement
from dpadmm.privacy.calibration import Target, calibrate_gaussian
from dpadmm.privacy.certificates import bounded_sum
from dpadmm.privacy.certificates.masked import Shares, masked_sum
from dpadmm.privacy.protection import Certificate, Norm, Protection, Unit, View, secure_grid
from dpadmm.privacy.records import CoordinateLaplaceRelease, GaussianRelease, Origin
from dpadmm.problems.arrays import Floats
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.statement import PrivacyStatement

STEPS = 2**20
"""Values between 0 and 1 are rounded to this many steps and added as integers, so that no float rounding leaks."""

_SLOT = Slot("metric")


class ScoresRowsAlone:
    """For models that, by how they are written, score each row by itself: all that C10 can count."""


@dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """A noisy mean: `value` in its possible range, the noise's standard deviation, and what it cost.

    `standard_error` is that of the noise alone, a public number; the sampling error of n records comes on top.
    """

    value: float
    standard_error: float
    n_records: int
    privacy: PrivacyStatement

    def __str__(self) -> str:
        """Return the figure with its noise."""
        return f"{self.value:.4f} +- {self.standard_error:.4f} (noise), {self.n_records} records"


def private_accuracy(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    delta: float | None = None,
    groups: Any = None,
    view: str = "eavesdropper",
    colluders: int | None = None,
    max_records_per_person: int | None = None,
    max_silos_per_person: int | None = None,
    ledger: Any = None,
    random_state: Any = None,
    scores_rows_alone: bool = False,
) -> PrivateScore:
    """Return the share of correct predictions on private records, with noise (C10).

    The count of correct answers gets exact discrete Laplace noise of pure epsilon, or Gaussian noise for (epsilon,
    delta) if delta is given. The model must not depend on these records but through accounted releases, and must score
    each row by itself: one record then changes one answer, which is what the noise hides.

    Parameters
    ----------
    model: a fitted estimator or a `ReleasedModel` of this package; any other with `predict` only with
        scores_rows_alone=True. A `ReleasedModel` refuses empty and unlisted cells; an estimator does what it was told.
    X, y: the records. epsilon > 0; delta None or in (0, 1).
    ledger: path of the ledger of these records, or an open one; groups: the silo of each record, as the ledger knows
        them. max_records_per_person, max_silos_per_person: None takes the ledger's, else 1.
    view: "eavesdropper": whoever has all records puts one noise on the sum. "aggregate": every silo of `groups` adds
        its share of one noise to its own part, and the parts are summed under masks (C12); it needs delta.
    colluders: for "aggregate", how many silos may look together with the coordinator; None takes the ledger's, else 1.
    random_state: not None simulates, with a warning.
    scores_rows_alone: your word that `predict` answers for each row by itself, whatever other rows stand beside it (not
        so if it centres, ranks or clusters the rows it is given). The statement keeps it as an assumption.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=9.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> score = private_accuracy(model, X, y, epsilon=1.0)
    >>> 0 <= score.value <= 1, score.privacy.certified <= 1.0, score.privacy.delta
    (True, True, 0.0)
    """
    labels = _labels(model, X, y)
    people = (view, max_records_per_person, max_silos_per_person, colluders)
    asked = _Asked.of(model, epsilon, delta, people, ledger, random_state, groups, scores_rows_alone)
    found, wanted = _compared(model, X, labels)
    hits = found == wanted
    return _noisy_mean(hits.astype(np.int64) * STEPS, asked, X, labels, "the accuracy")


def private_absolute_error(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    largest: float,
    delta: float | None = None,
    groups: Any = None,
    view: str = "eavesdropper",
    colluders: int | None = None,
    max_records_per_person: int | None = None,
    max_silos_per_person: int | None = None,
    ledger: Any = None,
    random_state: Any = None,
    scores_rows_alone: bool = False,
) -> PrivateScore:
    """Return the mean of `min(|prediction - y|, largest)` on private records, with noise (C10).

    largest: public bound > 0 of one record's error, for instance the width of the target's bounds. The others as in
    `private_accuracy`.
    """
    top = checks.positive("largest", largest)
    target = _labels(model, X, y)
    people = (view, max_records_per_person, max_silos_per_person, colluders)
    asked = _Asked.of(model, epsilon, delta, people, ledger, random_state, groups, scores_rows_alone)
    found, wanted = _compared(model, X, target)
    with own_words(model):
        errors = np.abs(np.asarray(found, dtype=np.float64) - wanted.astype(np.float64))
    if not np.all(np.isfinite(errors)):
        raise InputError("The targets or predictions hold values that are not finite. Put a public constant there.")
    whole = np.rint(np.minimum(errors / top, 1.0) * STEPS).astype(np.int64)
    score = _noisy_mean(whole, asked, X, target, "the mean absolute error")
    return replace(score, value=score.value * top, standard_error=score.standard_error * top)


@dataclass(frozen=True)
class _Asked:
    """The arguments, checked."""

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
    ) -> "_Asked":
        if not isinstance(model, ScoresRowsAlone):  # the commands' own, on rows they encoded from what the ledger saw
            check_ledger(ledger)
        if state is not None and ledger is not None:
            raise InputError("Simulated noise cannot be recorded as a release: leave random_state or ledger out.")
        protection = protection_from(protection_of(ledger), Unit.RECORD, *people)
        check_sizes(protection)
        if protection.view not in (View.EAVESDROPPER, View.AGGREGATE):
            raise InputError(f"view must be 'eavesdropper' or 'aggregate' for a metric, got {shown(people[0])}.")
        if protection.view is View.AGGREGATE and delta is None:
            raise InputError(
                "Shares of a noise add up to it for Gaussian noise alone: with view='aggregate' give delta too."
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
        return SecureSampler() if self.seed is None else SimulatedSampler(self.seed)


def check_sizes(protection: Protection) -> None:
    """Refuse neighbours for which the number of records, over which a figure is the mean, is secret."""
    if not protection.relation.has_public_sizes:
        raise InputError(
            "A private figure is a mean over a public number of records, so it is certified for replace-one "
            f"neighbours; the ledger's budget is for {protection.relation.value}. Nothing was spent."
        )


def _labels(model: Any, X: Any, y: Any) -> NDArray[Any]:
    if not hasattr(model, "predict"):
        raise InputError(f"model must be a fitted estimator with predict, got {type(model).__name__}.")
    with own_words(model):
        labels = column_or_1d(y)
        if not isinstance(model, ScoresRowsAlone):  # the commands' own take rows that are encoded already
            check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)
        check_consistent_length(X, labels)
    return np.asarray(labels)


def _row_by_row(model: Any, is_declared: bool) -> tuple[str, ...]:
    """Return what is assumed about how the model scores; refuse one that may look at several rows at once (C10).

    Trying it out would not do: a probe on these records reads them, and one on others proves nothing.
    """
    if isinstance(model, PrivateLinearModel | ReleasedModel | ScoresRowsAlone):
        return ()
    if boolean("scores_rows_alone", is_declared):
        return (f"declared by the caller: {type(model).__name__} scores each row by itself",)
    raise InputError(
        f"{type(model).__name__} is not an estimator of this package, and the noise hides one answer a record: if "
        "predict looks at several rows at once (it centres, ranks or clusters them), one record changes many answers. "
        "Give a model of this package, or say scores_rows_alone=True if predict answers for each row by itself."
    )


def _compared(model: Any, X: Any, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return predictions and what they should be; for a table with a schema both as its label means them."""
    if isinstance(model, PrivateLinearModel) and model.has_schema:
        with own_words(model):
            return model.compared(X, labels)[:2]
    if isinstance(model, ReleasedModel) and isinstance(model.schema, Schema):
        with own_words(model):
            return compared(model, labelled(model, X, labels, model.schema.label.name), Screening())[:2]
    return _predictions(model, X, labels), labels


def _predictions(model: Any, X: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Return one prediction per record. A column would be compared with every label, and one record count n times."""
    with own_words(model):
        found = np.asarray(model.predict(X))
        if found.shape == (len(labels), 1):
            found = found[:, 0]
        if found.shape != labels.shape:
            raise ValueError(f"predict must return one value per record, {len(labels)} in all, got {found.shape}.")
    return found


def _noisy_mean(whole: NDArray[np.int64], asked: _Asked, X: Any, y: NDArray[Any], subject: str) -> PrivateScore:
    """Release the sum of whole steps with noise and return it as a mean; recorded before it is drawn."""
    if asked.seed is not None:
        words = "random_state is set, so the noise is simulated: THE FIGURE IS NO PRIVATE RELEASE."
        warnings.warn(words, SimulatedNoiseWarning, stacklevel=3)
    elif asked.ledger is None:
        words = no_ledger_words(asked.epsilon, asked.delta, asked.protection, has_groups=asked.groups is not None)
        warn_once(words, NoLedgerWarning, depth=3)
    n = len(whole)
    if asked.delta is not None and asked.delta * n > 1:
        warnings.warn(large_delta_words(asked.delta, n), LargeDeltaWarning, stacklevel=3)
    certificate = bounded_sum(
        n_records=n,
        norm=Norm.L1 if asked.delta is None else Norm.L2,
        records_per_person=asked.protection.records_per_person,
        silos_per_person=asked.protection.silos_per_person,
    )
    parts = _parts(whole, asked)
    shares = None if asked.protection.view is View.EAVESDROPPER else Shares(len(parts), asked.protection.n_colluders)
    release, std = _release(certificate, asked, shares)
    run = f"metric-{uuid.uuid4()}"
    check_reach([release], n)
    with opened(asked.ledger, X, y, asked.groups) as ledger:
        if ledger is not None:
            ledger.check_protection(asked.protection)
            ledger.reserve([release], run=run, algorithm="metric", origin=Origin.SECURE)
        masks = masks_of(shares, run) if asked.seed is None else None
        noise = PlannedNoise(NoisePlan({(_SLOT, 1): {COORDINATOR: release}}), asked.sampler, masks=masks)
        noisy = noise.total(_SLOT, 1, parts)
        noise.check_drawn()
    privacy = PrivacyStatement.of(
        statement([release]),
        [release],
        delta=asked.delta or 0.0,
        origin=noise.origin,
        assumptions=asked.notes,
        subject=subject,
    )
    value = float(np.clip(noisy.item() / n, 0.0, 1.0))
    return PrivateScore(value=value, standard_error=std / n, n_records=n, privacy=privacy)


def _parts(whole: NDArray[np.int64], asked: _Asked) -> Floats:
    """Return what is summed, (silos, 1, 1): every silo's own part where sums are all that is seen, else all at once.

    At most 2^20 n is exact in a float up to n = 2^33; dividing by a power of two is exact too.
    """
    is_sum = asked.protection.view is View.AGGREGATE
    layout = Layout.of(asked.groups if is_sum else None, len(whole))
    if is_sum:
        asked.protection.check_silos(len(layout.rows))
    return np.array([int(whole[rows].sum()) / STEPS for rows in layout.rows])[:, None, None]


def _release(
    certificate: Certificate, asked: _Asked, shares: Shares | None
) -> tuple[CoordinateLaplaceRelease | GaussianRelease, float]:
    """Return the release that spends the budget, on a grid, and the standard deviation of the noise in its value."""
    if asked.delta is None:
        grid = grid_for(certificate.bound / asked.epsilon)
        certificate = secure_grid(certificate, grid=grid, dimension=1)
        scale = math.nextafter(certificate.bound / asked.epsilon, math.inf)
        laplace = CoordinateLaplaceRelease(certificate=certificate, scale=scale, agent=COORDINATOR, round=1)
        return laplace, scale * math.sqrt(2)
    target = Target(asked.epsilon, asked.delta)
    rough = float(calibrate_gaussian(target, [certificate.bound], [1.0])[0])
    if shares is None:
        certificate = secure_grid(certificate, grid=grid_for(rough), dimension=1)
    else:  # nobody sees more than the noisy sum, which the certificate of the plain sum covers (C10)
        grid, plain = grid_for(rough / math.sqrt(shares.honest)), replace(certificate, view=View.PUBLIC)
        certificate = masked_sum(plain, shares=shares, grid=grid, dimension=1)
    std = float(calibrate_gaussian(target, [certificate.bound], [1.0])[0])
    release = GaussianRelease(certificate=certificate, noise_std=std, agent=COORDINATOR, round=1)
    if shares is None:
        return release, std
    shared = summed(release, shares)
    return shared, shared.total_std
