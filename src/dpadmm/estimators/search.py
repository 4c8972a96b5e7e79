"""A search over settings whose one epsilon covers all fits, their scores and the choice."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpadmm import checks
from dpadmm.checks import nearest, safe_repr
from dpadmm.core.model import Guarantee, ReleasedModel
from dpadmm.core.train import Trained
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateEstimator, PrivateLinearModel
from dpadmm.planner.resolved import check_fit_arguments
from dpadmm.problems.arrays import Floats

SEARCHABLE = ("alpha", "method", "hinge_width", "huber_threshold", "training__l1_ratio", "training__slope_cap")
"""What may be searched: what is fitted, and how. All else says which rows there are, who is protected, or what it
costs, and must be the same for all candidates."""


@dataclass(eq=False, repr=False)
class PrivateSearchCV(MetaEstimatorMixin, PrivateEstimator):  # type: ignore[misc]
    """Choose settings of a private estimator; epsilon covers every fit, the scores and the choice (C15).

    All candidates are simulated on synthetic data first, which costs nothing. Where there are records enough for noisy
    scores to distinguish candidates, the most promising are trained on the records, each with its share of the budget,
    and compared by noisy sums over all training records; the best one's model is released. One column profile, if any,
    serves all. Everything is reserved in the ledger as one run, before the first draw.

    Parameters
    ----------
    estimator : PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression
        With all that candidates have in common. Its epsilon and delta cover everything together, and its ledger,
        budget and random_state are those of the search.
    param_grid : dict or list of dict
        {name: values}, as in scikit-learn; at least two candidates. May be searched: alpha, method, hinge_width,
        huber_threshold, training__l1_ratio and training__slope_cap.
    compared : "auto" or int
        How many candidates are trained and compared on the records. "auto": two where that is worth its cost, which
        public facts say, and else 1: simulations alone choose, and the one model gets the whole budget.

    Attributes
    ----------
    best_estimator_, best_params_, best_index_: the chosen candidate, fitted. privacy_, released_, classes_: its own.
    cv_results_: of every candidate its params, its `simulated_score` (minus the log-loss, or accuracy, or R^2, on
        synthetic data), whether it `is_trained`, and `mean_test_score` with `noise_std`: by how much it was better on a
        record than the trained ones on average, with noise; NaN if it was not trained.
    best_score_: the `mean_test_score` of the chosen one.

    Guarantees
    ----------
    As for the estimators. Scores are on records that were trained on; what noise hides of one record bounds how much
    a model can have learned by heart.

    >>> from dpadmm import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=2.0, delta=1e-5, feature_bounds=(-1, 1), classes=(0, 1))
    >>> search = PrivateSearchCV(model, {"alpha": [1e-4, 1.0]}).fit(X, y)
    >>> search.best_params_, search.privacy_.epsilon <= 2.0
    ({'alpha': 0.0001}, True)
    """

    estimator: Any
    param_grid: Any
    _: KW_ONLY
    compared: Any = "auto"

    best_estimator_: PrivateLinearModel = field(init=False)
    best_params_: dict[str, Any] = field(init=False)
    best_index_: int = field(init=False)
    best_score_: float = field(init=False)
    cv_results_: dict[str, Any] = field(init=False)

    def fit(self, X: Any, y: Any, groups: Any = None, persons: Any = None, **others: Any) -> Self:
        """Choose, train and release; X, y, groups and persons as in `PrivateLogisticRegression.fit`.

        Everything is checked and, with a ledger, recorded before noise is drawn.
        """
        check_fit_arguments(others, self.get_params())
        number, proposed = self._number(), _list_candidates(self.estimator, self.param_grid)
        models = [self._candidate(params) for params in proposed]
        resolved = [model._resolved(has_persons=persons is not None) for model in models]
        names = [", ".join(f"{name}={safe_repr(value)}" for name, value in params.items()) for params in proposed]
        done = models[0]._train(resolved, X, y, groups, persons, names, number)
        self.best_index_ = done.chosen
        self.best_params_ = proposed[done.chosen]
        chosen = {name: value for name, value in models[done.chosen].get_params().items() if name in SEARCHABLE}
        self.best_estimator_ = models[0].set_params(**chosen)
        self.cv_results_ = _results(done, proposed)
        self.best_score_ = float(self.cv_results_["mean_test_score"][done.chosen])
        return self

    def _number(self) -> int | None:
        """Return how many candidates are to be compared, None where public facts decide."""
        if isinstance(self.compared, str):
            if self.compared != "auto":
                raise InputError(
                    f"compared must be 'auto' or a whole number of at least 1, got {safe_repr(self.compared)}."
                )
            return None
        return checks.count("compared", self.compared)

    def _candidate(self, params: Mapping[str, Any]) -> PrivateLinearModel:
        """Return the estimator with a candidate's settings; ledger and generator are the estimator's own."""
        model: PrivateLinearModel = clone(self.estimator)
        own = {name: getattr(self.estimator, name) for name in ("ledger", "random_state")}
        return model.set_params(**params, **own)

    @property
    def privacy_(self) -> Guarantee:
        """What all of it together cost."""
        check_is_fitted(self)
        return self.best_estimator_.privacy_

    @property
    def released_(self) -> ReleasedModel:
        """The chosen model, to save, report and verify."""
        check_is_fitted(self)
        return self.best_estimator_.released_

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes; only classifiers have them."""
        return np.asarray(self.best_estimator_.classes_)

    @property
    def n_features_in_(self) -> int:
        """Features seen in fit."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} is not fitted yet, so it has no n_features_in_.")
        return self.best_estimator_.n_features_in_

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predictions of the chosen model."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class by the chosen model."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Floats:
        """Return the signed scores of the chosen model."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the chosen model's accuracy, or R^2, on these data. It has no noise: only for public records."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y, sample_weight))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the chosen model, see `ReleasedModel.save`."""
        return self.released_.save(path)

    def report(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report on the chosen model as one HTML page, and write it to `path` if that is given."""
        return self.released_.report(path)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a candidate was chosen."""
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        """As the estimator's."""
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        tags.target_tags, tags.input_tags = own.target_tags, own.input_tags
        return tags


def _results(done: Trained, proposed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what may be shown of all candidates: settings, simulations, and noisy scores."""
    search, found, number = done.search, done.outcome.released.get("scores"), len(proposed)
    assert search is not None
    scores, noise, trained = np.full(number, math.nan), math.nan, search.trained
    if found is not None:
        n_records = done.plan.task.n_records
        scores[list(trained)] = -found.scores / n_records
        noise = found.noise_std / n_records
    is_trained = np.isin(np.arange(number), trained)
    simulated = np.array(search.simulated)
    order = np.lexsort((-simulated, -np.nan_to_num(scores), ~is_trained))
    names = dict.fromkeys(name for params in proposed for name in params)
    return {
        **{f"param_{name}": _column([params.get(name, np.ma.masked) for params in proposed]) for name in names},
        "params": list(proposed),
        "simulated_score": simulated,
        "is_trained": is_trained,
        "mean_test_score": scores,
        "noise_std": np.where(is_trained, noise, math.nan),
        "rank_test_score": 1 + np.argsort(order),
    }


def _column(values: Sequence[Any]) -> Any:
    """Return a masked array of one setting, masked where a candidate does not name it, as scikit-learn does."""
    column = np.ma.MaskedArray(np.empty(len(values), dtype=object), mask=True)
    for place, value in enumerate(values):
        if value is not np.ma.masked:
            column[place] = value
    return column


def _list_candidates(estimator: Any, grid: Any) -> list[dict[str, Any]]:
    """Return the candidates' settings; refuse what cannot be searched, before anything else is looked at."""
    if not isinstance(estimator, PrivateLinearModel):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else type(estimator).__name__
        raise InputError(
            "PrivateSearchCV takes a PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression, got "
            f"{what}. Put transformers before the search, in a pipeline whose last step it is."
        )
    try:
        found = [dict(params) for params in ParameterGrid(grid)]
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"param_grid must be {{name: list of values}}, or a list of such, got {safe_repr(grid)}."
        ) from problem
    known = estimator.get_params()
    for name in dict.fromkeys(name for params in found for name in params):
        allowed = ", ".join(each for each in SEARCHABLE if each in known)
        if name not in known:
            raise InputError(
                f"{type(estimator).__name__} has no parameter {safe_repr(name)}; may be searched: {allowed}."
                f"{nearest(name, list(known))}"
            )
        if name not in SEARCHABLE:
            raise InputError(
                f"{name} cannot be searched: it says which rows there are, who is protected or what is spent, which is "
                f"the same for all candidates. May be searched: {allowed}."
            )
    if len(found) < 2:
        raise InputError(f"A search needs at least 2 candidates, got {len(found)}. Fit the estimator itself.")
    return found
