"""Private classifiers: logistic regression and a linear support vector machine."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from dpadmm import checks
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import (
    StatedColumns,
    TrainingRows,
    class_list,
    encoded_classes,
    own_words,
    training_data,
    with_class_weights,
)
from dpadmm.estimators.owners import Owners
from dpadmm.estimators.parameters import Wishes
from dpadmm.estimators.wishes import check_class_weight, class_weights_of, problems_of
from dpadmm.problems.aims import aim_of
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Logistic, Loss, SmoothedHinge
from dpadmm.problems.softmax import AnyLoss, Softmax
from dpadmm.reporting.model import ReleasedModel
from dpadmm.reporting.rows import PlainLabel

_CLASSES_READ = "the set of classes was taken from y and is assumed to be public; to be safe, state it with classes="
_CLASSES_GIVEN = "the classes were stated by the user without looking at y"


@dataclass(eq=False, repr=False)
class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """What both classifiers share: labels, one-vs-rest and decisions."""

    _: KW_ONLY
    expected_auc: float | None = None
    classes: Any = None
    class_weight: Any = None

    classes_: NDArray[Any] = field(init=False)

    def _array_rows(self, X: Any, y: Any, owners: Owners) -> TrainingRows:
        table, labels = training_data(self, X, y, is_numeric=False)
        with own_words(self):
            check_classification_targets(labels)
        classes, is_given = class_list(self.classes, labels)
        notes = [_CLASSES_GIVEN if is_given else _CLASSES_READ]
        label = PlainLabel(classes=tuple(classes.tolist()))
        stated = StatedColumns.of(self, table.shape[1], label, has_intercept=bool(self.fit_intercept))
        return TrainingRows.of_array(stated, table, labels, [encoded_classes(labels, classes)], owners, notes, classes)

    def _wishes(self, *, has_persons: bool) -> Wishes:
        class_weights_of(self.class_weight, self.method)
        return super()._wishes(has_persons=has_persons)

    def _counted(self, rows: TrainingRows) -> TrainingRows:
        return with_class_weights(rows, class_weights_of(self.class_weight, self.method))

    def _problems(self, rows: TrainingRows) -> int | None:
        return 1 if len(rows.classes) == 2 else len(rows.classes)

    def _keep(self, model: ReleasedModel, rows: TrainingRows) -> None:
        super()._keep(model, rows)
        self.classes_ = rows.classes

    def decision_function(self, X: Any) -> Floats:
        """Return the signed scores: (n,) for two classes, (n, classes) for more."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest score; None for a blanked row of a table."""
        scores = self._scores(X)
        found = self.released_.answers(scores, getattr(self, "threshold", None))
        return found if np.isnan(scores).any() else found.astype(self.classes_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on these data. It has no noise: for private records there is `private_accuracy`."""
        with own_words(self):
            if self.has_schema:
                from sklearn.metrics import accuracy_score  # late: scores are seldom asked for

                return self._table_score(accuracy_score, X, y, sample_weight)
            return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Noise costs accuracy, most of all on the small sets of scikit-learn's own checks."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


@dataclass(eq=False, repr=False)
class PrivateLogisticRegression(PrivateLinearClassifier):
    """Logistic regression with certified differential privacy.

    Minimises, over the encoded rows e of norm at most 1 (see `feature_bounds`) and labels s = -1/+1,

        (1/n) sum_m log(1 + exp(-s_m w'e_m)) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    by the method that the planner chooses from public facts, with noise that spends (epsilon, delta). More than two
    classes are one softmax model, with coefficients for each class (C13), or one model for each class against the rest;
    these share the one budget.

    Parameters
    ----------
    epsilon, delta: the whole budget of a fit; epsilon > 0, 0 < delta < 1. delta has no default.
    aim: "prediction", or "inference": `summary()` then tells coefficients of the ordinary logistic regression of two
        classes with confidence intervals, for a tenth of the squared budget (C14). Rows are hardly ever shortened and
        no pull is capped, so that predictions are noisier. For one silo, or the views "public" and "aggregate".
    alpha: weight of the penalty >= 0; None lets the planner add a small ridge. l1_ratio: in [0, 1].
    slope_cap: None, or in (0, 1): holds the pull of badly misclassified records at this slope, so that less noise is
        needed (0.7 serves well under strict budgets); the objective is then no longer the logistic one for them, and
        scores are no log-odds. Probabilities follow the link of the loss that was fitted.
    multi_class: for more than two classes, "softmax" or "one-vs-rest"; "auto" is softmax, unless simulations on
        made-up tables expect clearly more of the other, or `method` names one that is not certified for it.
    fit_intercept: adds a constant feature within the norm bound (so the intercept is penalised like the rest); without
        it the model is 0 where all columns are at their centres. A schema states by its `constant` whether there is an
        intercept, and there is one unless it states None; fit_intercept must agree with it.
    schema: a `Schema`, or the path of its JSON file: X is then a DataFrame with its columns, in any order, and y is in
        the words of its label. It states bounds, norm and classes, so feature_bounds, row_norm and classes are refused
        beside it. Tables are read, screened and encoded as by `dpadmm fit`.
    missing: "error", "fill" or "blank"; unlisted: "error", "zero" or "blank"; out_of_range: "clip" or "error". What to
        do with awkward cells of a table with a schema, see `Screening`; also for predictions.
    feature_bounds: public (low, high), numbers or one per feature, or {column: (low, high)} for a DataFrame; features
        are clipped to them, centred and scaled.
    row_norm: public bound on the norm of a row; longer rows are shortened. With feature_bounds it settles the encoding:
        features are scaled to -1..1 and nothing is counted. With neither, rows are divided by sqrt(d) and shortened to
        norm 1, with a warning: bounds are never read off the data.
    profile: "auto" counts the cells of every column first, with noise, for a small part of the budget, wherever that
        promises a better encoding of rows; "off" never does. It needs feature_bounds or a schema. One that the ledger
        keeps from an earlier fit is used at no further cost; the model's certified figure counts it on top of epsilon.
    profile_share: its part of the squared budget m^2, in (0, 1); None leaves it to the planner.
    unit: "record", "person" (with all their rows: give persons= to fit) or "user" (a group is a user). None: "person"
        with persons=, else the ledger's, else a record.
    view: from whom. "eavesdropper": whoever sees every message; "coordinator"; "peer"; "public": who receives what a
        trusted coordinator publishes; "aggregate": who sees sums alone, since messages leave under masks with shares of
        one noise (C12). None: the ledger's, else the eavesdropper. All groups are in this process, from which masks
        hide nothing.
    colluders: with view="aggregate", how many silos may look together with the coordinator; a silo that looks by itself
        is one. At least two others are needed. None: the ledger's, else 1. The statement says what more would see.
    method: "auto" or a method's name. topology: None, "complete", "ring", "star", "path" or a graph, for silos.
    records_per_person, silos_per_person: assumed maxima; they enter noise and statement. None: the ledger's,
        else 1.
    keep: with persons= given to fit, how many rows of a person are used in a silo, the first ones; None uses all. A
        person's rows count one together, so that it changes no guarantee.
    neighbours: "replace-one" (neighbouring data have one other record; sizes are public) or "add-remove" (one record
        more or less; sizes stay secret). None: the ledger's, else "replace-one". The two are not comparable.
    expected_auc: the AUC on new records that a model without privacy is thought to reach, in (0.5, 1), from earlier
        studies or public data, never from these records; the plan's forecast is for it, and whether it is hopeless.
    nominal_records: with "add-remove", the public number that stands for that of all records; choose it without
        counting them, rather too large than too small.
    classes: all classes, public; None reads them off y, which the statement then says.
    class_weight: {class: weight}, public numbers by which records count, 1 for a class that is not named; the noise is
        that of the heaviest class, so that lighter ones are seen less well. None: all count the same. Probabilities are
        then those of a population in which classes are that much more frequent.
    threshold: of two classes, the probability of the second above which it is predicted; None: the likelier one.
    ledger: path of a ledger, or an open one: checks that it is that of these data, records the release and refuses it
        beyond its budget. Copies and worker processes open the same file. budget: starts a new one at that path, with
        the epsilon that these data may ever spend, at the same delta.
    random_state: None draws secure noise. Anything else simulates: `SimulatedNoiseWarning`, no private release.

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_: as usual, in the units of X; with a schema, of its columns. Scores are
        `X coef_ + intercept_` for rows that are not shortened; longer ones count by their direction from the centre.
    profile_: noisy counts, means and quantiles of every column, None if none were released.
    released_: the `ReleasedModel`, to save, report and verify. privacy_: the `Guarantee`.
    plan_: what was planned and why. history_: per problem and round, what the released messages show.

    Guarantees
    ----------
    Nothing computed from X and y is kept but the accounted releases and what follows from them.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=5.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1))
    >>> model.fit(X, y).privacy_.epsilon <= 5.0
    True

    With a schema:

    >>> import pandas as pd
    >>> from dpadmm.data import BinaryLabel, Categorical, Numeric, Schema
    >>> columns = (Numeric("age", 0, 120), Categorical("sex", ("F", "M")))
    >>> schema = Schema(columns, BinaryLabel("sick", positive=("yes",), negative=("no",)))
    >>> table = pd.DataFrame({"sex": ["F", "M"] * 250, "age": rng.integers(20, 90, 500)})
    >>> model = PrivateLogisticRegression(epsilon=5.0, delta=1e-5, schema=schema)
    >>> model.fit(table, np.where(table["age"] > 55, "yes", "no")).coef_.shape
    (1, 3)
    """

    _: KW_ONLY
    aim: str = "prediction"
    slope_cap: float | None = None
    multi_class: str = "auto"
    threshold: float | None = None

    def _loss(self) -> Loss:
        return Logistic() if self.slope_cap is None else Logistic(checks.open_unit("slope_cap", self.slope_cap))

    def _wishes(self, *, has_persons: bool) -> Wishes:
        problems_of(self.multi_class, self.method, 2)  # refuses words and methods that do not fit
        check_class_weight(aim_of(self.aim), self.class_weight)
        return super()._wishes(has_persons=has_persons)

    def _problems(self, rows: TrainingRows) -> int | None:
        return problems_of(self.multi_class, self.method, len(rows.classes))

    def _fitted_loss(self, rows: TrainingRows) -> AnyLoss:
        if len(rows.classes) == 2 or (self._problems(rows) or 1) > 1:
            return self._loss()
        return Softmax(len(rows.classes), 1.0 if self.slope_cap is None else self.slope_cap)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class; one-vs-rest probabilities are scaled to sum to 1."""
        scores = self._scores(X)
        return self.released_.probabilities(scores)


@dataclass(eq=False, repr=False)
class PrivateLinearSVC(PrivateLinearClassifier):
    """A linear support vector machine (smoothed hinge) with certified differential privacy.

    As `PrivateLogisticRegression`, with the hinge `max(0, 1 - s w'e)` whose corner is rounded by a parabola of width
    `hinge_width` > 0 (the raw hinge has no curvature bound). There is no `predict_proba`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = PrivateLinearSVC(epsilon=5.0, delta=1e-5, feature_bounds=(-1, 1), classes=("no", "yes")).fit(X, y)
    >>> model.privacy_.is_private_release
    True
    """

    _: KW_ONLY
    hinge_width: float = 0.5

    def _loss(self) -> Loss:
        return SmoothedHinge(checks.positive("hinge_width", self.hinge_width))
