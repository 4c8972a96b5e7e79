"""What the estimators share: parameters, the order of a fit, what is kept afterwards, and predictions."""

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpadmm import checks
from dpadmm.core.budget import ReusedProfile, reusable_profile
from dpadmm.data.profile import ReleasedProfile
from dpadmm.data.raw import RawSilos
from dpadmm.data.schema import Schema, Screening
from dpadmm.errors import InputError, LedgerError
from dpadmm.estimators.data import TrainingRows, compared, counted, labelled, ledger_data, new_data, opened, own_words
from dpadmm.estimators.notices import (
    AssumedBoundsWarning,
    HopelessPlanWarning,
    LargeDeltaWarning,
    NoIntervalsWarning,
    NoLedgerWarning,
    SimulatedNoiseWarning,
    no_ledger_words,
    warn_once,
)
from dpadmm.estimators.owners import Owners
from dpadmm.estimators.parameters import Wishes
from dpadmm.estimators.wishes import Books, boolean, check_fit_arguments, check_ledger, protection_of
from dpadmm.noise.draws import Sampler
from dpadmm.noise.planned import PublicRound
from dpadmm.planner.carrying import PlanOutcome, carry_out
from dpadmm.planner.plan import Plan
from dpadmm.planner.reasons import hopeless_words, large_delta_words
from dpadmm.privacy.ledger import ConfirmedLedger, Ledger
from dpadmm.privacy.protection import ONE_RECORD, Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.loss_records import LOSS_KINDS, released_loss
from dpadmm.problems.losses import LabelKind, Loss
from dpadmm.problems.softmax import AnyLoss
from dpadmm.reporting.facts import Spending
from dpadmm.reporting.intervals import CoefficientTable
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.outcome import released_model, spending_of
from dpadmm.reporting.statement import Guarantee, SearchCost


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """What fits with certified privacy, and accounts for all that it learns from its rows."""

    epsilon: float

    def __getstate__(self) -> dict[str, Any]:
        """Keep an open ledger as the path of its file: a copy opens that again for its next fit, or cannot fit.

        One with an accountant of its own is opened again when the copy is made, since a path would lose the rules.
        """
        state = dict(super().__getstate__())
        ledger = state.get("ledger")
        if isinstance(ledger, Ledger) and not ledger.has_own_accountant:
            state["ledger"] = ledger.path
        return state

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters that differ from their defaults, and always the epsilon."""
        text, stated = str(super().__repr__(N_CHAR_MAX)), signature(type(self)).parameters.get("epsilon")
        is_shown = stated is None or repr(self.epsilon) != repr(stated.default)
        if is_shown or not get_config()["print_changed_only"]:
            return text
        name, _, others = text.partition("(")
        return f"{name}(epsilon={self.epsilon!r}{'' if others == ')' else ', '}{others}"


class TrainingWay(Protocol):
    """How a fit is planned and carried out: by one plan, or by one that is chosen among several."""

    def plan(self, wishes: Wishes, rows: TrainingRows, raw: RawSilos, earlier: ReusedProfile | None) -> Plan:
        """Plan all that will be done; return what is about to be run, or most likely."""
        ...

    def check(self, earlier: ReusedProfile | None) -> None:
        """Refuse what cannot be released; from public facts alone."""
        ...

    def carry_out(
        self, raw: RawSilos, sampler: Sampler, ledger: ConfirmedLedger | None, earlier: ReusedProfile | None
    ) -> PlanOutcome:
        """Run what was planned; everything is reserved before anything is drawn."""
        ...

    def cost(self, done: PlanOutcome) -> SearchCost | None:
        """Return what the choice between candidates cost, None where there was none."""
        ...


@dataclass(eq=False, repr=False)
class PrivateLinearModel(PrivateEstimator):
    """A linear model of encoded rows, released under differential privacy. Parameters are checked by `fit`."""

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    alpha: float | None = None
    l1_ratio: float = 0.0
    fit_intercept: bool = True
    schema: Any = None
    missing: str = "error"
    unlisted: str = "error"
    out_of_range: str = "clip"
    feature_bounds: Any = None
    row_norm: float | None = None
    profile: str = "auto"
    profile_share: float | None = None
    unit: str | None = None
    view: str | None = None
    method: str = "auto"
    topology: Any = None
    records_per_person: int | None = None
    silos_per_person: int | None = None
    keep: int | None = None
    colluders: int | None = None
    neighbours: str | None = None
    nominal_records: int | None = None
    ledger: Any = None
    budget: float | None = None
    random_state: Any = None

    coef_: Any = field(init=False)
    intercept_: Any = field(init=False)
    privacy_: Guarantee = field(init=False)
    released_: ReleasedModel = field(init=False)
    plan_: Plan = field(init=False)
    history_: tuple[tuple[PublicRound, ...], ...] = field(init=False)
    n_features_in_: int = field(init=False)

    def _loss(self) -> Loss:
        """Return the loss of a record."""
        raise NotImplementedError

    def _array_rows(self, X: Any, y: Any, owners: Owners) -> TrainingRows:
        """Return an array and its labels, checked and encoded."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, groups: Any = None, persons: Any = None, **others: Any) -> Self:
        """Train on the rows of X with labels or targets y.

        Everything is checked and, with a ledger, recorded before anything is computed from the data.

        Parameters
        ----------
        X: an array (n, d), or with a schema a DataFrame with its columns, in any order. y: (n,), with a schema in the
            words or numbers of its label.
        groups: (n,), the silo of each record; None is one silo.
        persons: (n,), the person whose each row is, where people have several; each is then protected with all their
            rows, which count one together. None: every row is a person's only one.
        others: none; `sample_weight` is refused, with what to use instead.
        """
        check_fit_arguments(others, self.get_params())
        wishes = self._wishes(has_persons=persons is not None)
        rows = self._rows(wishes, X, y, Owners(groups, persons, self.keep, wishes.protection.silos_per_person))
        return self._train(wishes, rows, _OnePlan(self))

    def _rows(self, wishes: Wishes, X: Any, y: Any, owners: Owners) -> TrainingRows:
        """Return the rows, checked, with what each counts."""
        loss = self._loss()
        if wishes.rules is None:
            return self._counted(self._array_rows(X, y, owners))
        schema = wishes.rules.schema
        self._check_label(schema, loss)
        with own_words(self):
            rows = TrainingRows.of_table(wishes.rules, labelled(self, X, y, schema.label.name), owners)
        self.n_features_in_ = len(schema.columns)
        self.feature_names_in_ = np.array(schema.column_names, dtype=object)
        return self._counted(rows)

    def _wishes(self, *, has_persons: bool) -> Wishes:
        """Return the parameters as types; bad ones are refused here, before the data are looked at."""
        check_ledger(self.ledger)
        if self.random_state is not None and self.ledger is not None:
            raise InputError(
                "random_state makes the noise reproducible, so the result is not a private release and cannot be "
                "recorded in a ledger. Leave out random_state to release, or ledger to simulate."
            )
        boolean("fit_intercept", self.fit_intercept)
        usual = ONE_RECORD if self._books().is_new else protection_of(self.ledger)
        return Wishes.of(self.get_params(deep=False), usual, has_persons=has_persons)

    def _books(self) -> Books:
        """Return the ledger that a budget is for, checked; none without a budget."""
        if self.budget is None:
            return Books()
        if isinstance(self.ledger, Ledger):
            raise InputError(
                "budget is for a new ledger: pass the path of its file as ledger. An open ledger already has a budget."
            )
        books = Books(path=None if self.ledger is None else Path(self.ledger), budget=self.budget)
        books.check(checks.positive("epsilon", self.epsilon))
        return books

    def _check_label(self, schema: Schema, loss: Loss) -> None:
        """Refuse a schema whose label is not what this estimator predicts."""
        if schema.label.is_real is not (loss.target is LabelKind.REALS):
            kinds = ("one of two classes" if len(schema.label.classes) < 3 else "one of several classes", "a number")
            raise InputError(
                f"{type(self).__name__} predicts {kinds[not schema.label.is_real]}, but the schema's label "
                f"{schema.label.name!r} is {kinds[schema.label.is_real]}. Use another estimator, or another label."
            )

    def _counted(self, rows: TrainingRows) -> TrainingRows:
        """Return the rows with what each counts."""
        return rows

    def _fitted_loss(self, rows: TrainingRows) -> AnyLoss:
        """Return the loss that these rows are fitted with."""
        return self._loss()

    def _released_loss(self, rows: TrainingRows) -> AnyLoss:
        """Return the loss that these rows are fitted with, if a released model can state it."""
        loss = self._fitted_loss(rows)
        try:
            return released_loss(loss)
        except InputError as problem:
            raise InputError(
                f"{type(self).__name__} has the loss {type(loss).__name__}. Estimators release models of built-in "
                f"losses only ({', '.join(LOSS_KINDS)}); run a loss of your own with dpadmm.run. Nothing was spent."
            ) from problem

    def _problems(self, rows: TrainingRows) -> int | None:
        """Return how many models share the budget; None lets the planner choose between one and one for each class."""
        return 1

    def _train(self, wishes: Wishes, rows: TrainingRows, way: TrainingWay) -> Self:
        """Fit one problem, or one for each class, and keep what is public.

        Warnings come before anything is spent, so that whoever turns them into errors loses nothing.
        """
        notes = [f"before training, {rows.description}; this map is public", *rows.notes]
        if wishes.protection.unit is Unit.USER:
            notes.append("every group holds all records of one user")
        raw, n_silos = wishes.public_rows(rows.raw), len(rows.raw.parts)
        if not wishes.protection.relation.has_public_sizes and n_silos > 1:
            notes.append("the set of silos was taken from groups and is assumed to be public")
        table, labels, owners = rows.known
        books, known = self._books(), (table, labels, owners.groups, owners.persons)
        with ExitStack() as stack:
            is_new = books.is_new  # asked once: another process may make the file while this one plans
            ledger = stack.enter_context(opened(None if is_new else self.ledger, *known))
            if ledger is not None:
                ledger.check_protection(wishes.protection)
            earlier = None
            if ledger is not None and wishes.profile.is_wanted:
                earlier = reusable_profile(ledger, raw, wishes.protection, wishes.target)
            plan = way.plan(wishes, rows, raw, earlier)
            if plan.n_models > 1:
                notes.append(f"{plan.n_models} one-vs-rest models read every record; the epsilon covers all of them")
            self._warn(wishes, rows, plan)
            if is_new:  # made when everything is planned
                way.check(earlier)
                opening = books.open(ledger_data(*known), wishes.target.delta, wishes.protection)
                ledger = stack.enter_context(opening)
            if ledger is None and self.ledger is not None:
                raise LedgerError("A ledger was asked for, but none is open. Nothing was spent. Fit again.")
            done = way.carry_out(raw, wishes.sampler, ledger, earlier)
            spending = None if ledger is None else self._spending(ledger)
        names = [f"silo {i}" for i in range(1, n_silos + 1)]  # those of groups may be people's
        title = f"{rows.schema.label.name} from {checks.plural(n_silos, 'silo')}"
        model = released_model(done, rows.schema, names, title, spending, notes, way.cost(done))
        self.plan_ = done.plan
        self.history_ = done.histories
        self.privacy_ = model.guarantee
        self._keep(model, rows)
        return self

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the released model as .json or .npz, and return where it is; `dpadmm.load` and the commands read it."""
        check_is_fitted(self)
        return self.released_.save(path)

    def summary(self, level: float = 0.95) -> CoefficientTable:
        """Return the coefficients of two classes, with confidence intervals where these can be told (C14).

        Print it, or take its `frame()`; see `ReleasedModel.summary`. Intervals are for `aim="inference"`.
        """
        check_is_fitted(self)
        return self.released_.summary(level)

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report on the released model as one HTML page, and write it to `path` if that is given."""
        check_is_fitted(self)
        return self.released_.report(path)

    def _keep(self, model: ReleasedModel, rows: TrainingRows) -> None:
        """Keep the model, and what users of scikit-learn look for in it."""
        self.released_ = model
        self.coef_, self.intercept_ = model.rows.coefficients(model.weights)

    def _spending(self, ledger: ConfirmedLedger) -> Spending | None:
        """Return what the ledger says after the fit; whatever keeps it from saying so, the paid model must be kept."""
        try:
            return spending_of(ledger.ledger, os.path.basename(ledger.ledger.path))
        except LedgerError as problem:
            warnings.warn(f"The model is paid for, but its ledger cannot be read: {problem}", stacklevel=4)
            return None

    def _warn(self, wishes: Wishes, rows: TrainingRows, plan: Plan) -> None:
        """Say what the user should know; every word of it is public."""
        n_records = plan.task.n_records
        if wishes.is_simulated:
            self._notify(
                "random_state is set, so the noise is simulated and anyone with the seed can remove it: the "
                "result is NOT a private release. Leave out random_state to make one.",
                SimulatedNoiseWarning,
            )
        if rows.is_assumed:
            if plan.task.aim.wants_intervals:
                raise InputError(
                    "aim='inference' needs feature_bounds, what is publicly known about the columns (or row_norm): "
                    f"without, {rows.description}, and coefficients of such rows mean little. Nothing was spent."
                )
            self._notify(
                f"neither feature_bounds nor row_norm is given; {rows.description}. State public bounds for a "
                "better model; they must not be taken from the data.",
                AssumedBoundsWarning,
            )
        if plan.lacks_intervals:
            self._notify(plan.warnings[-1], NoIntervalsWarning)
        if plan.is_hopeless:
            self._notify(hopeless_words(plan.task, plan.expected), HopelessPlanWarning)
        if wishes.target.delta * n_records > 1:
            self._notify(large_delta_words(wishes.target.delta, n_records), LargeDeltaWarning)
        if self.ledger is None and not wishes.is_simulated:
            words = no_ledger_words(type(self).__name__, f"{2 * wishes.target.epsilon:g}")
            warn_once(f"{type(self).__name__}: {words}", NoLedgerWarning, stacklevel=5)

    def _notify(self, text: str, kind: type[Warning], depth: int = 5) -> None:
        """Warn the caller of fit, `depth` frames above the warning itself."""
        warnings.warn(f"{type(self).__name__}: {text}", kind, stacklevel=depth)

    @property
    def has_schema(self) -> bool:
        """Whether the model was fitted on a table with a schema."""
        check_is_fitted(self)
        return isinstance(self.released_.schema, Schema)

    def _scores(self, X: Any) -> Floats:
        """Return the scores (n, problems), rows outside the public bounds brought within them first."""
        if not self.has_schema:
            return self.released_.scores(new_data(self, X))
        screening = Screening.of(self.missing, self.unlisted, self.out_of_range)
        with own_words(self):
            return self.released_.scores(counted(X), screening=screening)

    @property
    def profile_(self) -> ReleasedProfile | None:
        """Noisy counts, means and quantiles of every column, None if none were released; free to look at."""
        check_is_fitted(self)
        return self.released_.profile

    def compared(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """Return predictions and labels of a table with a schema, and which rows were blanked, see `data.compared`."""
        table = labelled(self, X, y, self.released_.schema.label.name)
        screening = Screening.of(self.missing, self.unlisted, self.out_of_range)
        return compared(self.released_, table, screening, getattr(self, "threshold", None))

    def _table_score(self, measure: Callable[..., float], X: Any, y: Any, sample_weight: Any) -> float:
        """Return a figure on a table with a schema; blanked rows are left out."""
        found, labels, blank = self.compared(X, y)
        weights = None if sample_weight is None else np.asarray(sample_weight)[~blank]
        return float(measure(labels[~blank], found[~blank], sample_weight=weights))

    def __sklearn_tags__(self) -> Any:
        """Accepts sparse tables."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _OnePlan:
    """A fit by the plan that its parameters ask for."""

    def __init__(self, model: PrivateLinearModel) -> None:
        self.model = model

    def plan(self, wishes: Wishes, rows: TrainingRows, raw: RawSilos, earlier: ReusedProfile | None) -> Plan:
        model, width = self.model, rows.schema.dimension
        self.made = wishes.plan(model._released_loss(rows), raw, width, model._problems(rows), earlier)
        return self.made

    def check(self, earlier: ReusedProfile | None) -> None:
        self.made.spec.noise_plan(is_secure=True)

    def carry_out(
        self, raw: RawSilos, sampler: Sampler, ledger: ConfirmedLedger | None, earlier: ReusedProfile | None
    ) -> PlanOutcome:
        return carry_out(self.made, raw, sampler, ledger, progress=False, earlier=earlier)

    def cost(self, done: PlanOutcome) -> None:
        return None
