"""Figures of a model on private records, each one noisy sum: checked, calibrated, recorded, and only then drawn (C10).

`private_score` releases how often a model is right, or how far off it is on average; `private_confusion` which class is
predicted as which; `private_evaluation` counts of scores, from which all other figures of two classes follow.
"""

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from dpadmm import checks
from dpadmm.checks import option_name, safe_repr
from dpadmm.core.budget import LedgerData, LedgerFile
from dpadmm.core.model import Guarantee, ReleasedModel
from dpadmm.core.release import open_release
from dpadmm.core.spec import ReleaseFacts, plan_sum
from dpadmm.data.columns import Categorical
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateEstimator, PrivateLinearModel
from dpadmm.estimators.data import add_label, hide_cells, predict_and_label, silo_columns
from dpadmm.estimators.notices import (
    LargeDeltaWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    figure_without_ledger_notice,
    warn_once,
)
from dpadmm.estimators.owners import RowOwners, RowsBySilo
from dpadmm.evaluation.metrics import (
    LOG_ODDS_LIMIT,
    RESOLUTIONS,
    PrivateConfusion,
    PrivateEvaluation,
    ScoreBins,
    counts_of,
)
from dpadmm.models.build import now
from dpadmm.models.predict import read_rows
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import check_grids, vector_on_grid
from dpadmm.noise.sampler import Sampler, SecureSampler, SimulatedSampler
from dpadmm.planner.planner import large_delta_text
from dpadmm.planner.resolved import protection_from, seed_of
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.certificates.sums import bounded_sum, cell_counts
from dpadmm.privacy.ledger import Ledger
from dpadmm.privacy.protection import Certificate, Norm, Protection, Unit, View
from dpadmm.problems.arrays import Floats, Ints
from dpadmm.settings import CellRules, Privacy

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
            ledger = LedgerFile.of(ledger)
        if random_state is not None and ledger.is_wanted:
            raise InputError("Simulated noise cannot be recorded as a release. Leave out random_state or ledger.")
        privacy, usual = Privacy() if privacy is None else privacy, ledger.protection
        if not isinstance(privacy, Privacy):
            raise InputError(f"privacy must be a dpadmm.Privacy(...) or None, got {safe_repr(privacy)}.")
        strange = privacy.stated("unit", "neighbours", "nominal_records", "keep")
        if strange:
            raise InputError(f"{option_name(strange[0])} does not apply to a private figure. Leave it out.")
        has_ledger = ledger.is_wanted and not ledger.is_new
        if not has_persons:
            _check_unit(usual, _unit_of(model), is_counted=privacy.records_per_person is not None or has_ledger)
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
            raise InputError(f"view must be 'eavesdropper' or 'aggregate' for a metric, got {safe_repr(view)}.")
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
        layout = RowsBySilo.of(self.silos if is_sum else None, self.n)
        if is_sum:
            protection.check_silos(len(layout.rows))
        return layout.rows


def first_rows(X: Any, y: Any, groups: Any, persons: Any, protection: Protection) -> tuple[CountedRows, Ints]:
    """Return the rows that are counted, and where they stand: all, or of persons the first row in each silo."""
    if persons is None:
        return CountedRows(len(y), groups, silo_columns(X, y, groups)), np.arange(len(y))
    used = RowOwners(groups, persons, 1, protection.silos_per_person).layout(len(y))
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
    certify = partial(
        cell_counts,
        histograms=histograms,
        unit=people.unit,
        records_per_person=people.records_per_person,
        silos_per_person=people.silos_per_person,
    )
    return _release(counts, certify, request, rows, subject)


def _release(
    values: Callable[[Ints], Floats],
    certify: Callable[..., Certificate],
    request: FigureRequest,
    rows: CountedRows,
    subject: str,
) -> NoisySum:
    """Release the sum (d,) of the exact values of all rows; one silo's own are added up first where only sums leave."""
    target, protection = request.target, request.protection
    delta = 0.0 if isinstance(target, PureTarget) else target.delta
    silos = rows.of_silos(protection)
    parts = np.array([values(each) for each in silos])
    facts = ReleaseFacts(tuple(map(len, silos)), protection, is_pooled=True)

    def on_grid(certificate: Certificate, grid: float) -> Certificate:
        if (
            facts.shares is not None
        ):  # nobody sees more than the noisy sum, which the certificate of the plain sum covers (C10)
            certificate = replace(certificate, protection=replace(certificate.protection, view=View.PUBLIC))
        return vector_on_grid(certificate, grid, dimension=parts.shape[1], shares=facts.shares)

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


def warn_of_figure(request: FigureRequest, rows: CountedRows) -> None:
    """Say what the caller of a figure should know; called by the function that they called, before it releases."""
    target = request.target
    delta = None if isinstance(target, PureTarget) else target.delta
    if request.seed is not None:
        text = "random_state is set, so the noise is simulated: the figure is NOT a private release."
        warnings.warn(text, SimulatedNoiseWarning, stacklevel=3)
    elif not request.ledger.is_wanted:
        text = figure_without_ledger_notice(
            target.epsilon, delta, request.protection, has_groups=rows.silos is not None
        )
        warn_once(text, NoLedgerWarning, stacklevel=4)
    if delta is not None and delta * rows.n > 1:
        warnings.warn(large_delta_text(delta, rows.n), LargeDeltaWarning, stacklevel=3)


def _check_unit(usual: Protection, trained_for: Unit, *, is_counted: bool) -> None:
    """Refuse a figure that hides a record where a person with all their rows is to be hidden.

    usual: what the ledger's budget is about. trained_for: what the model protects.
    is_counted: whether it was stated, now or to the ledger, how many records a person has.
    """
    if usual.unit is Unit.PERSON:
        raise InputError(
            "The ledger's budget is per person, so a figure must know which person each row belongs to. For classes, "
            f"use an evaluation with {option_name('persons')}. Models of numbers can be measured on public data, or on "
            "rows of other people with a ledger of their own. Nothing was spent."
        )
    if trained_for is Unit.PERSON and not is_counted:
        raise InputError(
            "The model protects every person with all their rows, but this figure would protect single records. "
            f"Say which person each row belongs to, in an evaluation with {option_name('persons')}; or state the most "
            "records that one person has in these data (1 if nobody has more) with "
            f"{option_name('records_per_person')}. Nothing was spent."
        )


def _unit_of(model: Any) -> Unit:
    """Return what a model protects; of models that are not of this package, a record."""
    if isinstance(model, ReleasedModel):
        return model.guarantee.protection.unit
    guarantee = getattr(model, "privacy_", None)
    return guarantee.protection.unit if isinstance(guarantee, Guarantee) else Unit.RECORD


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


STEPS = 2**20
"""Values between 0 and 1 are rounded to this many steps and added as integers, so that no float rounding leaks."""


@dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """A noisy mean: `value` in its possible range, the noise's standard deviation, and what it cost.

    `standard_error` is that of the noise alone, a public number; the sampling error of n records comes on top.
    """

    value: float
    standard_error: float
    n_records: int
    privacy: Guarantee

    def __str__(self) -> str:
        """Return the figure with its noise."""
        return f"{self.value:.4f} +- {self.standard_error:.4f} (noise), {self.n_records} records"


def private_score(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    largest: float | None = None,
    delta: float | None = None,
    groups: Any = None,
    view: str = "eavesdropper",
    privacy: Privacy | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    random_state: Any = None,
    scores_rows_alone: bool = False,
) -> PrivateScore:
    """Return the share of correct predictions, or the mean absolute error, on private records, with noise (C10).

    The sum gets exact discrete Laplace noise of pure epsilon, or Gaussian noise for (epsilon, delta) if delta is given.
    The model must not depend on these records but through accounted releases, and must score each row by itself: one
    record then changes one answer, which is what the noise hides.

    Parameters
    ----------
    model: a fitted estimator or a `ReleasedModel` of this package; any other with `predict` only with
        scores_rows_alone=True. A `ReleasedModel` refuses empty and unlisted cells; an estimator follows its own rules.
    X, y: the records. epsilon > 0; delta None or in (0, 1).
    largest: None scores classes. For a number, a public bound > 0 of one record's error, for instance the width of the
        target's bounds; the score is then the mean of `min(|prediction - y|, largest)`.
    ledger: path of the ledger of these records, or an open one; groups: the silo of each record, as the ledger knows
        them. privacy: records_per_person and silos_per_person, where None takes the ledger's, else 1; colluders.
    view: "eavesdropper": whoever has all records puts one noise on the sum. "aggregate": every silo of `groups` adds
        its share of one noise to its own part, and the parts are summed under masks (C12); it needs delta. In
        `privacy`, colluders says how many silos may look together with the coordinator; None takes the ledger's, else
        1.
    random_state: not None simulates, with a warning.
    scores_rows_alone: declares that `predict` answers for each row by itself, whatever other rows are beside it (not
        so if it centres, ranks or clusters the rows it is given). The statement keeps it as an assumption.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 1))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=9.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> score = private_score(model, X, y, epsilon=1.0)
    >>> 0 <= score.value <= 1, score.privacy.epsilon <= 1.0, score.privacy.delta
    (True, True, 0.0)
    """
    most = None if largest is None else checks.positive("largest", largest)
    labels = labels_of(model, X, y)
    model = chosen_model(model)
    target = PureTarget(epsilon) if delta is None else Target(epsilon, delta)
    request = FigureRequest.of(model, target, view, privacy, ledger, random_state, scores_rows_alone=scores_rows_alone)
    found, wanted = predictions_and_labels(model, X, labels)
    rows = CountedRows(len(labels), groups, silo_columns(X, labels, groups))
    warn_of_figure(request, rows)
    if most is None:
        return release_mean((found == wanted).astype(np.float64), 1.0, request, rows, "the accuracy")
    with hide_cells(model):
        errors = np.abs(np.asarray(found, dtype=np.float64) - wanted.astype(np.float64))
    return release_mean(errors, most, request, rows, "the mean absolute error")


def release_mean(values: Floats, most: float, request: FigureRequest, rows: CountedRows, subject: str) -> PrivateScore:
    """Release the mean of `min(value, most)` of values >= 0 (n,), of whole steps, so that their order does not matter.

    At most 2^20 n is exact in a float up to n = 2^33; dividing by a power of two is exact too.
    """
    if not np.all(np.isfinite(values)):
        raise InputError(
            "The targets or predictions contain values that are not finite. Replace them with a public constant."
        )
    whole, people = np.rint(np.minimum(values / most, 1.0) * STEPS).astype(np.int64), request.protection
    certify = partial(
        bounded_sum,
        norm=Norm.L1 if isinstance(request.target, PureTarget) else Norm.L2,
        records_per_person=people.records_per_person,
        silos_per_person=people.silos_per_person,
    )

    def total(part: Ints) -> Floats:
        return np.array([int(whole[part].sum()) / STEPS])

    found = _release(total, certify, request, rows, subject)
    value = float(np.clip(found.values.item() / rows.n, 0.0, 1.0)) * most
    return PrivateScore(
        value=value, standard_error=found.noise_std / rows.n * most, n_records=rows.n, privacy=found.privacy
    )


def _classifier(model: Any, figure: str) -> PrivateLinearModel | ReleasedModel:
    """Return the classifier that a figure is about."""
    model = chosen_model(model)
    if not isinstance(model, PrivateLinearModel | ReleasedModel):
        raise InputError(
            f"{figure} takes a classifier of this package or its ReleasedModel, got {type(model).__name__}."
        )
    return model


def labels_of(model: Any, X: Any, y: Any) -> NDArray[Any]:
    """Return y as a vector, one label for each row of X."""
    if not hasattr(model, "predict"):
        raise InputError(f"model must be a fitted estimator with predict, got {type(model).__name__}.")
    with hide_cells(model):
        labels = column_or_1d(y)
        check_array(X, accept_sparse=True, dtype=None, ensure_all_finite=False)
        check_consistent_length(X, labels)
    return np.asarray(labels)


def predictions_and_labels(model: Any, X: Any, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return predictions and what they should be; for a table with a schema both as its label means them."""
    with hide_cells(model):
        if isinstance(model, PrivateLinearModel) and model.has_schema:
            return model.predict_and_label(X, labels)[:2]
        if isinstance(model, ReleasedModel) and not model.schema.is_array:
            return predict_and_label(model, add_label(model, X, labels, model.schema.label.name), CellRules())[:2]
        found = np.asarray(model.predict(X))
        if found.shape == (len(labels), 1):  # compared with every label, one record would count n times
            found = found[:, 0]
        if found.shape != labels.shape:
            raise ValueError(f"predict must return one value per record, {len(labels)} in all, got {found.shape}.")
        return found, labels


def private_confusion(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    delta: float,
    groups: Any = None,
    persons: Any = None,
    view: str = "eavesdropper",
    privacy: Privacy | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    random_state: Any = None,
) -> PrivateConfusion:
    """Return the confusion matrix of a classifier on private records, with noise (C10).

    A record is one count in two histograms, right or wrong and the matrix, so that no cell's noise grows with the
    number of classes. For two classes `private_evaluation` says more.

    Parameters
    ----------
    model: a fitted classifier of this package, a search that was fitted, or a `ReleasedModel`. persons: as in
        `private_evaluation`. The others as in `private_score`.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(9.0, 1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> found = private_confusion(model, X, y, epsilon=1.0, delta=1e-6)
    >>> found.accuracy().value > 0.7, found.counts.shape, found.privacy.epsilon <= 1.0
    (True, (2, 2), True)
    """
    model = _classifier(model, "private_confusion")
    schema = (model.released_ if isinstance(model, PrivateLinearModel) else model).schema
    classes = tuple(schema.label.classes)
    if not classes:
        raise InputError("A confusion matrix is for classes, but this model predicts a number.")
    labels, target = labels_of(model, X, y), Target(epsilon, delta)
    request = FigureRequest.of(model, target, view, privacy, ledger, random_state, has_persons=persons is not None)
    found, wanted = predictions_and_labels(model, X, labels)
    rows, kept = first_rows(X, labels, groups, persons, request.protection)
    warn_of_figure(request, rows)
    # Where the labels are a column of a table, predictions and labels are encoded; else they are the classes.
    known = classes if schema.is_array else encoded_classes(classes)
    return release_confusion(found[kept], wanted[kept], known, classes, request, rows)


def encoded_classes(classes: tuple[Any, ...]) -> tuple[float, ...]:
    """Return what the classes of a schema's label are in encoded labels: -1 and +1, or numbers from 0.

    >>> encoded_classes(("no", "yes")), encoded_classes(("A", "B", "C"))
    ((-1.0, 1.0), (0.0, 1.0, 2.0))
    """
    return (-1.0, 1.0) if len(classes) == 2 else tuple(float(place) for place in range(len(classes)))


def release_confusion(
    found: NDArray[Any],
    wanted: NDArray[Any],
    known: tuple[Any, ...],
    classes: tuple[Any, ...],
    request: FigureRequest,
    rows: CountedRows,
) -> PrivateConfusion:
    """Release the counts of predictions by class; known: the classes as predictions and labels have them.

    A record whose prediction or label is no class, since it was blanked, is wrong, and in no cell of the matrix.
    """
    places, number = {name: place for place, name in enumerate(known)}, len(known)
    truths, answers = (np.array([places.get(each, -1) for each in part.tolist()]) for part in (wanted, found))
    is_right = (truths == answers) & (truths >= 0)
    cells = np.where((truths < 0) | (answers < 0), -1, number * truths + answers)

    def counts(part: Ints) -> Floats:
        matrix = np.bincount(cells[part][cells[part] >= 0], minlength=number**2)
        return np.concatenate([[is_right[part].sum(), (~is_right[part]).sum()], matrix]).astype(np.float64)

    drawn = release_counts(counts, 2, request, rows, "the confusion matrix")
    return PrivateConfusion(
        classes=classes,
        records=rows.n,
        right=(float(drawn.values[0]), float(drawn.values[1])),
        counts=drawn.values[2:].reshape(number, number),
        noise_std=drawn.noise_std,
        privacy=drawn.privacy,
    )


NONE_LISTED = "none of them"
"""The group of records whose cell is empty or not listed, where such cells are let through."""


@dataclass(frozen=True)
class ScoredRows:
    """Scores and labels -1/+1 of records, which were blanked, and the number of each record's group.

    is_screened: rows may have been blanked, or be in no listed group; known before the rows are looked at.
    """

    model: ReleasedModel
    scores: Floats = field(repr=False)
    labels: Floats = field(repr=False)
    blank: NDArray[np.bool_] = field(repr=False)
    by: str = ""
    values: tuple[str, ...] = ()
    group: NDArray[np.intp] | None = field(default=None, repr=False)
    is_screened: bool = False

    @classmethod
    def of(
        cls, model: ReleasedModel, tables: Sequence[tuple[Any, str]], screening: CellRules, by: str | None
    ) -> "ScoredRows":
        """Return the rows of labelled tables, each with its name for messages, as the model reads them."""
        check_two_classes(model)
        column = None if by is None else group_column(model, by)
        read = [read_rows(model, table, where, screening, is_labelled=True) for table, where in tables]
        scores = np.concatenate([np.asarray(part.features @ model.weights.T)[:, 0] for part in read])
        codes = None if column is None else np.concatenate([column.read(t[column.name]).codes for t, _ in tables])
        return cls(
            model,
            scores if model.linked is None else model.linked.log_odds(scores),
            np.concatenate([part.labels for part in read]),
            np.concatenate([part.blank for part in read]),
            by or "",
            () if column is None else tuple(map(str, column.categories)),
            codes,
            screening != CellRules(out_of_range=screening.out_of_range),
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that have figures of their own."""
        return (*self.values, NONE_LISTED) if self.values and self.is_screened else self.values

    @property
    def bins(self) -> ScoreBins:
        """The grid: of log-odds, or as far as a score can reach, by the norms of the model and of an encoded row."""
        if self.model.has_probabilities:
            return ScoreBins(LOG_ODDS_LIMIT)
        return ScoreBins(float(np.linalg.norm(self.model.weights)) * self.model.encoding.row_norm or 1.0)

    @property
    def histograms(self) -> int:
        """The number of histograms that count a record: all resolutions, and once more with its group."""
        return len(RESOLUTIONS) * (2 if self.values else 1)

    def take(self, kept: NDArray[np.int64]) -> "ScoredRows":
        """Return some of the rows."""
        group = None if self.group is None else self.group[kept]
        return replace(self, scores=self.scores[kept], labels=self.labels[kept], blank=self.blank[kept], group=group)

    def counts(self, rows: NDArray[np.int64]) -> Floats:
        """Return the counts of these records: of both classes, of both in every group, of blank ones."""
        places, classes = self.bins.places(self.scores[rows]), (self.labels[rows] > 0).astype(np.intp)
        is_blank, parts = self.blank[rows], []
        parts.append(counts_of(places, np.where(is_blank, -1, classes), 2))
        if self.group is not None:
            group = np.where(self.group[rows] < 0, len(self.values), self.group[rows])
            parts.append(counts_of(places, np.where(is_blank, -1, 2 * group + classes), 2 * len(self.groups)))
        if self.is_screened:
            parts.append(np.array([float(is_blank.sum())]))
        return np.concatenate(parts)


def check_two_classes(model: ReleasedModel) -> None:
    """Refuse models whose predictions are numbers, or one of more than two classes."""
    if model.schema.label.is_real or model.n_scores > 1:
        raise InputError(
            "Private evaluations are for models of two classes. Use private_confusion for more classes, "
            "private_score for a number."
        )


def group_column(model: ReleasedModel, by: str) -> Categorical:
    """Return the column that defines groups; its values must be listed, so that they are public."""
    listed = [each for each in model.schema.columns if isinstance(each, Categorical)]
    found = next((each for each in listed if each.name == by), None)
    if found is None:
        known = ", ".join(each.name for each in listed) or "none"
        raise InputError(f"Groups need a column whose categories the schema lists ({known}), got {safe_repr(by)}.")
    return found


def private_evaluation(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float,
    *,
    delta: float,
    by: str | None = None,
    groups: Any = None,
    persons: Any = None,
    view: str = "eavesdropper",
    privacy: Privacy | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    random_state: Any = None,
) -> PrivateEvaluation:
    """Return noisy counts of a model's scores on private records: AUC, log-loss, calibration and more, paid once (C10).

    Parameters
    ----------
    model: a fitted classifier of this package or a `ReleasedModel`, of two classes.
    X, y: the records. epsilon > 0; delta in (0, 1).
    by: a column whose values the model's schema lists; all figures are then also had for each of them. Noise grows by
        at most sqrt(2) for that, however many groups there are.
    persons: (n,), the person of each row, where people have several: each is protected with all their rows, and counted
        by the first of them in a silo. The others as in `private_score`.

    >>> from dpadmm.estimators import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 1))
    >>> y = (X[:, 0] + rng.normal(0, 0.5, 2000) > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=9.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1)).fit(X, y)
    >>> found = private_evaluation(model, X, y, epsilon=1.0, delta=1e-6)
    >>> found.roc_auc().value > 0.8, found.log_loss().is_visible, found.privacy.epsilon <= 1.0
    (True, True, True)
    """
    model = _classifier(model, "private_evaluation")
    target = Target(epsilon, delta)
    request = FigureRequest.of(model, target, view, privacy, ledger, random_state, has_persons=persons is not None)
    scored, labels = _scored(model, X, y, by), labels_of(model, X, y)
    rows, kept = first_rows(X, labels, groups, persons, request.protection)
    warn_of_figure(request, rows)
    return release_evaluation(scored.take(kept), request, rows)


def release_evaluation(
    scored: ScoredRows, request: FigureRequest, rows: CountedRows, on: str = ""
) -> PrivateEvaluation:
    """Release the counts of scores. on: which records these are."""
    found = release_counts(scored.counts, scored.histograms, request, rows, "the evaluation")
    label = scored.model.schema.label
    negative, positive = map(str, label.classes)
    return PrivateEvaluation(
        model=scored.model.run,
        label=label.name,
        classes=(negative, positive),
        records=rows.n,
        counts=tuple(found.values.tolist()),
        noise_std=found.noise_std,
        privacy=found.privacy,
        limit=scored.bins.limit,
        has_probabilities=scored.model.has_probabilities,
        by=scored.by,
        groups=scored.groups,
        has_blank=scored.is_screened,
        time=now(),
        on=on,
    )


def _scored(model: Any, X: Any, y: Any, by: str | None) -> ScoredRows:
    """Return the rows as the model scores them."""
    released = model.released_ if isinstance(model, PrivateLinearModel) else model
    check_two_classes(released)
    if not released.schema.is_array:
        screening = model.screening if isinstance(model, PrivateLinearModel) else CellRules()
        with hide_cells(model):
            table = add_label(model, X, y, released.schema.label.name)
            return ScoredRows.of(released, [(table, "X")], screening, by)
    if by is not None:
        raise InputError("by= names a column of a schema; this model was trained on an array of numbers.")
    labels = labels_of(model, X, y)
    with hide_cells(model):
        scores = np.asarray(model.decision_function(X), dtype=np.float64)
        known = np.asarray(released.schema.label.classes)
        if not np.isin(labels, known).all():
            raise InputError("y contains labels that are not classes of the model.")
    scores = scores if released.linked is None else released.linked.log_odds(scores)
    return ScoredRows(released, scores, np.where(labels == known[1], 1.0, -1.0), np.zeros(len(labels), dtype=bool))
