"""Private classifiers: logistic regression and a linear support vector machine."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from dpadmm import checks
from dpadmm.core.dataset import Dataset
from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import ArrayLabel
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import array_dataset, class_list, encoded_classes, hide_cells, training_data
from dpadmm.estimators.owners import RowOwners
from dpadmm.models.predict import predict_from_scores, probabilities_from_scores
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Logistic, Loss, SmoothedHinge
from dpadmm.settings import FitSettings, like

_CLASSES_READ = "the set of classes was taken from y and is assumed to be public; to be safe, state it with classes="
_CLASSES_GIVEN = "the classes were stated by the user without looking at y"


@dataclass(eq=False, repr=False)
class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """What both classifiers share: labels, one-vs-rest and decisions."""

    _: KW_ONLY
    classes: Any = None
    class_weight: Any = like(FitSettings, "class_weight")

    classes_: NDArray[Any] = field(init=False)

    def _array_dataset(self, X: Any, y: Any, owners: RowOwners) -> tuple[Dataset, NDArray[Any]]:
        table, labels = training_data(self, X, y, is_numeric=False)
        with hide_cells(self):
            check_classification_targets(labels)
        classes, is_given = class_list(self.classes, labels)
        label, codes = ArrayLabel("label", tuple(classes.tolist())), encoded_classes(labels, classes)
        note = _CLASSES_GIVEN if is_given else _CLASSES_READ
        return array_dataset(self, table, labels, label, codes, owners, note), classes

    def _keep(self, model: ReleasedModel, classes: NDArray[Any]) -> None:
        super()._keep(model, classes)
        self.classes_ = classes

    def decision_function(self, X: Any) -> Floats:
        """Return the signed scores: (n,) for two classes, (n, classes) for more."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the highest score; None for a blanked row of a table."""
        scores = self._scores(X)
        found = predict_from_scores(self.released_, scores, self.options.threshold)
        return found if np.isnan(scores).any() else found.astype(self.classes_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on these data. It has no noise: for private records there is `private_score`."""
        with hide_cells(self):
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
    epsilon : float
        The whole budget of a fit, > 0.
    delta : float
        Probability that the epsilon bound fails, in (0, 1), well below 1 / records.
    schema : Schema or path of its JSON file, optional
        X is then a DataFrame with its columns, in any order, and y has the classes of its label. It states bounds, norm
        and classes, so feature_bounds, row_norm and classes are refused beside it. Tables are read, screened and
        encoded as by `dpadmm fit`.
    feature_bounds : pair (low, high) or {column: (low, high)}, optional
        Public bounds, numbers or one per feature; features are clipped to them, centred and scaled. Without bounds and
        row_norm, rows are divided by sqrt(d) and shortened to norm 1, with a warning: bounds are never read off data.
    view : {"eavesdropper", "coordinator", "peer", "public", "aggregate"}, optional
        Whom it is protected from: whoever sees every message; the coordinator; another silo; who receives what a
        trusted coordinator publishes; who sees sums alone, since messages leave under masks with shares of one noise
        (C12). None: the ledger's, else the eavesdropper. All groups are in this process, from which masks hide nothing.
    method : str
        "auto", or a method's name from `dpadmm methods`.
    alpha : float, optional
        Weight of the penalty >= 0; None lets the planner add a small ridge.
    ledger : path or Ledger, optional
        Checks that it is that of these data, records the release and refuses it beyond its budget. Copies and worker
        processes open the same file.
    budget : float, optional
        Starts a new ledger at that path, with the epsilon that these data may ever spend, at the same delta.
    random_state : int or RandomState, optional
        None draws secure noise. Anything else simulates: `SimulatedNoiseWarning`, no private release.
    privacy : Privacy, optional
        Unit, neighbours and what is assumed about people. With persons= given to fit, a person is protected with all
        their rows.
    cells : CellRules, optional
        What to do with awkward cells of a table with a schema; also for predictions.
    training : TrainingOptions, optional
        Whatever else is fitted and how: l1_ratio, fit_intercept, slope_cap, multi_class, topology, profile, row_norm,
        threshold, expected_auc, ... One of them is set by `set_params(training__l1_ratio=0.5)`.
    classes : list, optional
        All classes, public; None reads them off y, which the statement then says.
    class_weight : {class: weight}, optional
        Public numbers by which records count, 1 for a class that is not named; the noise is that of the heaviest class,
        so that lighter ones are seen less well. Probabilities are those of a population in which classes are that much
        more frequent.
    aim : {"prediction", "inference"}
        With "inference", `summary()` gives coefficients of the ordinary logistic regression of two classes with
        confidence intervals, for a tenth of the squared budget (C14). Rows keep their length, and long ones count less;
        no slope is capped, so that predictions are noisier. For one silo, or the views "public" and "aggregate".

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_: as usual, in the units of X; with a schema, of its columns. Scores are
        `X coef_ + intercept_` for rows that are not shortened, with `aim="inference"` for all within the bounds; longer
        ones count by their direction from the centre.
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
    aim: str = like(FitSettings, "aim")

    _loss_choice = "logistic"

    def _loss(self) -> Loss:
        cap = self.options.slope_cap
        return Logistic() if cap is None else Logistic(cap)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class; one-vs-rest probabilities are scaled to sum to 1."""
        scores = self._scores(X)
        return probabilities_from_scores(self.released_, scores)


@dataclass(eq=False, repr=False)
class PrivateLinearSVC(PrivateLinearClassifier):
    """A linear support vector machine (smoothed hinge) with certified differential privacy.

    As `PrivateLogisticRegression`, with the hinge `max(0, 1 - s w'e)` whose corner is rounded by a parabola of width
    `hinge_width` > 0 (the raw hinge has no curvature bound). There is no `predict_proba`.

    Parameters
    ----------
    epsilon, delta, schema, feature_bounds, view, method, alpha, ledger, budget, random_state, privacy, cells, training
        As for `PrivateLogisticRegression`.
    classes, class_weight
        As for `PrivateLogisticRegression`.
    hinge_width : float
        Width of the parabola that rounds the corner, > 0.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = PrivateLinearSVC(epsilon=5.0, delta=1e-5, feature_bounds=(-1, 1), classes=("no", "yes")).fit(X, y)
    >>> model.privacy_.is_private_release
    True
    """

    _: KW_ONLY
    hinge_width: float = 0.5

    _loss_choice = "svm"

    def _loss(self) -> Loss:
        return SmoothedHinge(checks.positive("hinge_width", self.hinge_width))
