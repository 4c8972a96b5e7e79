"""Figures about a model that read private records: one noisy number each, accounted and recorded."""

import math
import uuid
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from dpadmm import checks
from dpadmm.errors import InputError
from dpadmm.estimators.bookkeeping import check_ledger, opened
from dpadmm.estimators.notices import SimulatedNoiseWarning
from dpadmm.estimators.statement import PrivacyStatement
from dpadmm.estimators.validation import own_words, seed_of
from dpadmm.noise.draws import COORDINATOR, Batch, Draw, Sampler, Slot
from dpadmm.noise.plan import check_reach
from dpadmm.noise.secure import SecureSampler, grid_for
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.privacy.accounting import statement
from dpadmm.privacy.calibration import Target, calibrate_gaussian
from dpadmm.privacy.certificates import bounded_sum, secure_grid
from dpadmm.privacy.ledger import Origin as LedgerOrigin
from dpadmm.privacy.records import Certificate, CoordinateLaplaceRelease, GaussianRelease, Norm

STEPS = 2**20
"""Values between 0 and 1 are rounded to this many steps and added as integers, so that no float rounding leaks."""

_SLOT = Slot("metric")


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
    max_records_per_person: int = 1,
    max_silos_per_person: int = 1,
    ledger: Any = None,
    random_state: Any = None,
) -> PrivateScore:
    """Return the share of correct predictions on private records, with noise (C10).

    The count of correct answers gets exact discrete Laplace noise of pure epsilon, or Gaussian noise for (epsilon,
    delta) if delta is given. The model must not depend on these records but through accounted releases.

    Parameters
    ----------
    model: fitted classifier with `predict`. X, y: the records. epsilon > 0; delta None or in (0, 1).
    ledger: path of the ledger of these records, or an open one. random_state: not None simulates, with a warning.

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
    asked = _Asked.of(epsilon, delta, max_records_per_person, max_silos_per_person, ledger, random_state)
    hits = _predictions(model, X, labels) == labels
    return _noisy_mean(hits.astype(np.int64) * STEPS, asked, X, labels, "the accuracy")


def private_absolute_error(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    largest: float,
    delta: float | None = None,
    max_records_per_person: int = 1,
    max_silos_per_person: int = 1,
    ledger: Any = None,
    random_state: Any = None,
) -> PrivateScore:
    """Return the mean of `min(|prediction - y|, largest)` on private records, with noise (C10).

    largest: public bound > 0 of one record's error, for instance the width of the target's bounds. The others as in
    `private_accuracy`.
    """
    top = checks.positive("largest", largest)
    target = _labels(model, X, y)
    asked = _Asked.of(epsilon, delta, max_records_per_person, max_silos_per_person, ledger, random_state)
    found = _predictions(model, X, target)
    with own_words(model):
        errors = np.abs(np.asarray(found, dtype=np.float64) - target.astype(np.float64))
    if not np.all(np.isfinite(errors)):
        raise InputError("The targets or predictions hold values that are not finite. Drop those rows first.")
    whole = np.rint(np.minimum(errors / top, 1.0) * STEPS).astype(np.int64)
    score = _noisy_mean(whole, asked, X, target, "the mean absolute error")
    return PrivateScore(
        value=score.value * top,
        standard_error=score.standard_error * top,
        n_records=score.n_records,
        privacy=score.privacy,
    )


@dataclass(frozen=True)
class _Asked:
    """The arguments, checked."""

    epsilon: float
    delta: float | None
    records: int
    silos: int
    ledger: Any
    seed: int | None

    @classmethod
    def of(cls, epsilon: float, delta: float | None, records: int, silos: int, ledger: Any, state: Any) -> "_Asked":
        asked = cls(
            checks.positive("epsilon", epsilon),
            None if delta is None else checks.open_unit("delta", delta),
            checks.count("max_records_per_person", records),
            checks.count("max_silos_per_person", silos),
            ledger,
            seed_of(state),
        )
        check_ledger(ledger)
        if asked.seed is not None and ledger is not None:
            raise InputError("Simulated noise cannot be recorded as a release: leave random_state or ledger out.")
        return asked

    @property
    def sampler(self) -> Sampler:
        return SecureSampler() if self.seed is None else SimulatedSampler(self.seed)


def _labels(model: Any, X: Any, y: Any) -> NDArray[Any]:
    if not hasattr(model, "predict"):
        raise InputError(f"model must be a fitted estimator with predict, got {type(model).__name__}.")
    with own_words(model):
        labels = column_or_1d(y)
        check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)
        check_consistent_length(X, labels)
    return np.asarray(labels)


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
        _warn_simulated()
    n = len(whole)
    certificate = bounded_sum(
        n_records=n,
        norm=Norm.L1 if asked.delta is None else Norm.L2,
        records_per_person=asked.records,
        silos_per_person=asked.silos,
    )
    release, std = _release(certificate, asked)
    check_reach([release], n)
    with opened(asked.ledger, X, y) as ledger:
        if ledger is not None:
            ledger.reserve([release], run=f"metric-{uuid.uuid4()}", algorithm="metric", origin=LedgerOrigin.SECURE)
        # At most 2^20 n is exact in a float up to n = 2^33; dividing by a power of two is exact too.
        total = np.full((1, 1, 1), int(whole.sum()) / STEPS)
        noisy = asked.sampler.perturb(total, release, Draw(_SLOT, 1, Batch.one(COORDINATOR)))
    privacy = PrivacyStatement.of(
        statement([release]), [release], delta=asked.delta or 0.0, origin=noisy.origin, subject=subject
    )
    value = float(np.clip(noisy.values.item() / n, 0.0, 1.0))
    return PrivateScore(value=value, standard_error=std / n, n_records=n, privacy=privacy)


def _release(certificate: Certificate, asked: _Asked) -> tuple[CoordinateLaplaceRelease | GaussianRelease, float]:
    """Return the release that spends the budget, on a grid, and the standard deviation of its noise."""
    if asked.delta is None:
        grid = grid_for(certificate.bound / asked.epsilon)
        certificate = secure_grid(certificate, grid=grid, dimension=1)
        scale = math.nextafter(certificate.bound / asked.epsilon, math.inf)
        laplace = CoordinateLaplaceRelease(certificate=certificate, scale=scale, agent=COORDINATOR, round=1)
        return laplace, scale * math.sqrt(2)
    target = Target(asked.epsilon, asked.delta)
    rough = float(calibrate_gaussian(target, [certificate.bound], [1.0])[0])
    certificate = secure_grid(certificate, grid=grid_for(rough), dimension=1)
    std = float(calibrate_gaussian(target, [certificate.bound], [1.0])[0])
    return GaussianRelease(certificate=certificate, noise_std=std, agent=COORDINATOR, round=1), std


def _warn_simulated() -> None:
    warnings.warn(
        "random_state is set, so the noise is simulated: THE FIGURE IS NO PRIVATE RELEASE.",
        SimulatedNoiseWarning,
        stacklevel=4,
    )
