"""What the estimators share: parameters, the order of a fit, what is kept afterwards, and predictions."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpadmm import checks
from dpadmm.checks import nearest, safe_repr
from dpadmm.core.budget import LedgerFile
from dpadmm.core.dataset import Dataset
from dpadmm.core.model import Guarantee, ReleasedModel
from dpadmm.core.release import PublicRound
from dpadmm.core.task import Aim
from dpadmm.core.train import Trained, train
from dpadmm.data.profile import ReleasedProfile
from dpadmm.data.schema import Schema
from dpadmm.errors import InputError
from dpadmm.estimators.data import (
    ASSUMED_ROWS,
    add_label,
    hide_cells,
    new_data,
    predict_and_label,
    reset_rows,
    table_dataset,
)
from dpadmm.estimators.notices import (
    AssumedBoundsWarning,
    HopelessPlanWarning,
    LargeDeltaWarning,
    NoIntervalsWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    no_ledger_notice,
    warn_once,
)
from dpadmm.estimators.owners import RowOwners
from dpadmm.inference.intervals import CoefficientTable
from dpadmm.models.predict import coefficients_in_units, score_rows
from dpadmm.planner.planner import Plan, hopeless_text, large_delta_text
from dpadmm.planner.resolved import ResolvedSettings, check_fit_arguments, seed_of
from dpadmm.privacy.ledger import Ledger
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import LOSS_KINDS, LabelKind, Loss, Poisson
from dpadmm.settings import RECORDS, CellRules, FitSettings, Privacy, SettingsRecord, TrainingOptions, by_name, like

_FROM_FIT = 7  # frames between a warning about the plan and the caller of fit
_STATED = ("feature_bounds", "row_norm", "classes", "target_bounds")


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """What fits with certified privacy, and accounts for all that it learns from its rows."""

    def __getstate__(self) -> dict[str, Any]:
        """Keep an open ledger as the path of its file: a copy opens that again for its next fit, or cannot fit."""
        state = dict(super().__getstate__())
        ledger = state.get("ledger")
        if isinstance(ledger, Ledger):
            state["ledger"] = ledger.path
        return state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, also the settings in records, such as `training__l1_ratio`."""
        found: dict[str, Any] = super().get_params(deep)
        for name in RECORDS.keys() & found.keys() if deep else ():
            record = RECORDS[name]() if found[name] is None else found[name]
            if isinstance(record, SettingsRecord):
                found |= {f"{name}__{each}": value for each, value in vars(record).items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `training__l1_ratio` sets one setting of a record and keeps the others."""
        plain = {name: value for name, value in params.items() if name.partition("__")[0] not in RECORDS}
        for name in sorted(params.keys() - plain.keys()):
            outer, _, inner = name.partition("__")
            if inner and outer in self.get_params(deep=False):
                kept = plain.get(outer, getattr(self, outer))
                kept = RECORDS[outer]() if kept is None else kept
                if inner not in vars(kept):
                    raise InputError(f"{outer} has no setting {safe_repr(inner)}.{nearest(inner, vars(kept))}")
                plain[outer] = replace(kept, **{inner: params[name]})
            else:
                plain[name] = params[name]
        super().set_params(**plain)
        return self


@dataclass(eq=False, repr=False)
class PrivateLinearModel(PrivateEstimator):
    """A linear model of encoded rows, released under differential privacy. Parameters are checked by `fit`."""

    epsilon: float
    delta: float
    _: KW_ONLY
    schema: Any = None
    feature_bounds: Any = None
    view: str | None = like(FitSettings, "view")
    method: str = like(FitSettings, "method")
    alpha: float | None = like(FitSettings, "alpha")
    ledger: Any = None
    budget: float | None = like(FitSettings, "budget")
    random_state: Any = None
    privacy: Privacy | None = None
    cells: CellRules | None = None
    training: TrainingOptions | None = None

    coef_: Any = field(init=False)
    intercept_: Any = field(init=False)
    privacy_: Guarantee = field(init=False)
    released_: ReleasedModel = field(init=False)
    plan_: Plan = field(init=False)
    history_: tuple[tuple[PublicRound, ...], ...] = field(init=False)
    n_features_in_: int = field(init=False)

    _loss_choice: ClassVar[Literal["logistic", "svm", "huber", "poisson"]]

    def _loss(self) -> Loss | Poisson:
        """Return the loss of a record."""
        raise NotImplementedError

    def _array_dataset(self, X: Any, y: Any, owners: RowOwners) -> tuple[Dataset, NDArray[Any]]:
        """Return an array and its labels, checked, and the classes as they came, none for a number."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, groups: Any = None, persons: Any = None, **others: Any) -> Self:
        """Train on the rows of X with labels or targets y.

        Everything is checked and, with a ledger, recorded before noise is drawn.

        Parameters
        ----------
        X: an array (n, d), or with a schema a DataFrame with its columns, in any order. y: (n,), with a schema in the
            names or numbers of its label.
        groups: (n,), the silo of each record; None is one silo.
        persons: (n,), the person ID of each row, where people have several; each is then protected with all their
            rows, which count one together. None: every row is a person's only one.
        others: none; `sample_weight` is refused, with what to use instead.
        """
        check_fit_arguments(others, self.get_params())
        self._train([self._resolved(has_persons=persons is not None)], X, y, groups, persons)
        return self

    def _dataset(self, settings: ResolvedSettings, X: Any, y: Any, owners: RowOwners) -> tuple[Dataset, NDArray[Any]]:
        """Return the rows, checked, and the classes as they came, none for a number."""
        schema = settings.settings.schema
        if schema is None:
            return self._array_dataset(X, y, owners)
        self._check_label(schema, self._loss())
        with hide_cells(self):
            table = add_label(self, X, y, schema.label.name)
            dataset = table_dataset(schema, settings.screening, table, owners)
        self.n_features_in_ = len(schema.columns)
        self.feature_names_in_ = np.array(schema.column_names, dtype=object)
        return dataset, np.array(schema.label.classes)

    @property
    def options(self) -> TrainingOptions:
        """What is fitted and how."""
        return TrainingOptions() if self.training is None else self.training

    @property
    def screening(self) -> CellRules:
        """What to do with awkward cells of a table with a schema."""
        return self.cells or CellRules()

    def _resolved(self, *, has_persons: bool) -> ResolvedSettings:
        """Return the parameters as types; bad ones are refused here, before the data are looked at."""
        ledger = self._ledger_file()
        if self.random_state is not None and self.ledger is not None:
            raise InputError(
                "random_state makes the noise reproducible, so the result is not a private release and cannot be "
                "recorded in a ledger. Leave out random_state to release, or ledger to simulate."
            )
        own = self.get_params(deep=False)
        shared = {name: own[name] for name in by_name(FitSettings) if name in own}
        settings = FitSettings(**shared | {"seed": seed_of(self.random_state), "schema": None})
        if settings.training.loss != "auto":
            raise InputError(f"{type(self).__name__} has a loss of its own. Leave out loss.")
        training = replace(settings.training, loss=self._loss_choice)
        settings = replace(settings, training=training, schema=self._stated_schema(training))
        own_loss = self._checked_loss()
        resolved = ResolvedSettings.of(settings, ledger.protection, has_persons=has_persons, own_loss=own_loss)
        if resolved.protection.unit is Unit.PERSON and not has_persons:
            raise InputError(
                "The unit 'person' protects people with all their rows. Say which person each row belongs to: "
                "fit(..., persons=...)."
            )
        return resolved

    def _checked_loss(self) -> Loss | Poisson:
        """Return the loss of a record, if a released model can state it."""
        loss = self._loss()
        if type(loss) not in LOSS_KINDS.values():
            raise InputError(
                f"{type(self).__name__} has the loss {type(loss).__name__}. Estimators release models of built-in "
                f"losses only ({', '.join(LOSS_KINDS)}); run a loss of your own with dpadmm.run. Nothing was spent."
            )
        return loss

    def _stated_schema(self, training: TrainingOptions) -> Schema | None:
        """Return the schema, if there is one, with an intercept's feature or without one as asked for."""
        if self.schema is None:
            if self.screening != CellRules():
                raise InputError("missing, unlisted and out_of_range are for tables with a schema. Pass schema= too.")
            return None
        for name, value in (self.get_params(deep=False) | {"row_norm": training.row_norm}).items():
            if name in _STATED and value is not None:
                raise InputError(
                    f"{name} and schema cannot be given together, because the schema states it. Leave one out."
                )
        schema = Schema.load(os.fspath(self.schema)) if isinstance(self.schema, str | os.PathLike) else self.schema
        if not isinstance(schema, Schema):
            raise InputError(f"schema must be a Schema, the path of its JSON file or None, got {safe_repr(schema)}.")
        return schema.with_intercept(training.fit_intercept)

    def _ledger_file(self) -> LedgerFile:
        """Return the ledger, checked where a budget is given."""
        ledger = LedgerFile.of(self.ledger, self.budget)
        if self.budget is not None:
            ledger.check(checks.positive("epsilon", self.epsilon))
        return ledger

    def _check_label(self, schema: Schema, loss: Loss | Poisson) -> None:
        """Refuse a schema whose label is not what this estimator predicts."""
        if schema.label.is_real is not (loss.target is LabelKind.REALS):
            kinds = ("one of two classes" if len(schema.label.classes) < 3 else "one of several classes", "a number")
            raise InputError(
                f"{type(self).__name__} predicts {kinds[not schema.label.is_real]}, but the schema's label "
                f"{schema.label.name!r} is {kinds[schema.label.is_real]}. Use another estimator, or another label."
            )

    def _train(
        self,
        candidates: Sequence[ResolvedSettings],
        X: Any,
        y: Any,
        groups: Any,
        persons: Any,
        names: Sequence[str] = (),
        compared: int | None = None,
    ) -> Trained:
        """Train by what was asked for, or by the best of several candidates, and keep what is public; see `train`.

        Warnings come before anything is spent, so that whoever turns them into errors loses nothing.
        """
        settings = candidates[0]
        owners = RowOwners(groups, persons, settings.settings.privacy.keep, settings.protection.silos_per_person)
        dataset, classes = self._dataset(settings, X, y, owners)
        dataset = dataset.weighted(settings.settings.class_weight)

        def on_plan(plan: Plan) -> list[str]:
            self._warn(settings, dataset, plan)
            notes = []
            if settings.protection.unit is Unit.USER:
                notes.append("every group holds all records of one user")
            if not settings.protection.relation.has_public_sizes and len(dataset.rows) > 1:
                notes.append("the set of silos was taken from groups and is assumed to be public")
            if plan.run.n_models > 1:
                number = plan.run.n_models
                notes.append(f"{number} one-vs-rest models read every record; the epsilon covers all of them")
            return notes

        done = train(dataset, candidates, self._ledger_file(), on_plan, names=names, compared=compared)
        if done.unread is not None:
            warnings.warn(f"The model is paid for, but its ledger cannot be read: {done.unread}", stacklevel=3)
        self.plan_ = done.plan
        self.history_ = tuple(each.history for each in done.outcome.runs())
        self.privacy_ = done.model.guarantee
        self._keep(done.model, classes)
        return done

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the released model as .json or .npz, and return where it is; `dpadmm.load` and the commands read it."""
        check_is_fitted(self)
        return self.released_.save(path)

    def summary(self, level: float = 0.95, reference: Mapping[str, str | int] | None = None) -> CoefficientTable:
        """Return the coefficients in units of the table, with confidence intervals where there are any (C14).

        Print it, or take its `frame()`; see `ReleasedModel.summary`. Intervals are for `aim="inference"`.
        """
        check_is_fitted(self)
        return self.released_.summary(level, reference)

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report on the released model as one HTML page, and write it to `path` if that is given."""
        check_is_fitted(self)
        return self.released_.report(path)

    def _keep(self, model: ReleasedModel, classes: NDArray[Any]) -> None:
        """Keep the model, and what users of scikit-learn look for in it."""
        self.released_ = model
        self.coef_, self.intercept_ = coefficients_in_units(model)
        if model.schema.label.is_real:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])

    def _warn(self, settings: ResolvedSettings, dataset: Dataset, plan: Plan) -> None:
        """Say what the user should know; every word of it is public."""
        n_records = plan.task.n_records
        if settings.is_simulated:
            self._notify(
                "random_state is set, so the noise is simulated and anyone with the seed can remove it: the "
                "result is NOT a private release. Leave out random_state to make one.",
                SimulatedNoiseWarning,
            )
        if dataset.schema.is_array and self.feature_bounds is None and self.options.row_norm is None:
            if plan.task.aim is Aim.INFERENCE:
                raise InputError(
                    "aim='inference' needs feature_bounds, what is publicly known about the columns (or row_norm): "
                    f"without, {ASSUMED_ROWS}, and coefficients of such rows mean little. Nothing was spent."
                )
            self._notify(
                f"neither feature_bounds nor row_norm is given; {ASSUMED_ROWS}. State public bounds for a "
                "better model; they must not be taken from the data.",
                AssumedBoundsWarning,
            )
        if plan.lacks_intervals:
            self._notify(plan.warnings[-1], NoIntervalsWarning)
        if plan.is_hopeless:
            self._notify(hopeless_text(plan.task, plan.expected), HopelessPlanWarning)
        if settings.target.delta * n_records > 1:
            self._notify(large_delta_text(settings.target.delta, n_records), LargeDeltaWarning)
        if self.ledger is None and not settings.is_simulated:
            notice = no_ledger_notice(type(self).__name__, f"{2 * settings.target.epsilon:g}")
            warn_once(f"{type(self).__name__}: {notice}", NoLedgerWarning, stacklevel=_FROM_FIT)

    def _notify(self, text: str, kind: type[Warning], depth: int = _FROM_FIT) -> None:
        """Warn the caller of fit, `depth` frames above the warning itself."""
        warnings.warn(f"{type(self).__name__}: {text}", kind, stacklevel=depth)

    @property
    def has_schema(self) -> bool:
        """Whether the model was fitted on a table with a schema."""
        check_is_fitted(self)
        return not self.released_.schema.is_array

    def _scores(self, X: Any) -> Floats:
        """Return the scores (n, problems), rows outside the public bounds brought within them first."""
        if not self.has_schema:
            return score_rows(self.released_, new_data(self, X))
        with hide_cells(self):
            return score_rows(self.released_, reset_rows(X), screening=self.screening)

    @property
    def profile_(self) -> ReleasedProfile | None:
        """Noisy counts, means and quantiles of every column, None if none were released; free to look at."""
        check_is_fitted(self)
        return self.released_.profile

    def predict_and_label(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """Return predictions and labels of a table with a schema, and which rows were blanked."""
        table = add_label(self, X, y, self.released_.schema.label.name)
        return predict_and_label(self.released_, table, self.screening, self.options.threshold)

    def _table_score(self, measure: Callable[..., float], X: Any, y: Any, sample_weight: Any) -> float:
        """Return a figure on a table with a schema; blanked rows are left out."""
        found, labels, blank = self.predict_and_label(X, y)
        weights = None if sample_weight is None else np.asarray(sample_weight)[~blank]
        return float(measure(labels[~blank], found[~blank], sample_weight=weights))

    def __sklearn_tags__(self) -> Any:
        """Accepts sparse tables."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
