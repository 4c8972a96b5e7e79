"""Private Poisson regression of counts."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from dpadmm import checks
from dpadmm.core.dataset import Dataset
from dpadmm.data.columns import RealLabel
from dpadmm.errors import InputError
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import array_dataset, hide_cells, training_data
from dpadmm.estimators.exposure import CountDataset, count_dataset, positive_numbers
from dpadmm.estimators.owners import RowOwners
from dpadmm.models.predict import predict_from_scores
from dpadmm.planner.resolved import ResolvedSettings, check_fit_arguments
from dpadmm.privacy.protection import Unit
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Poisson
from dpadmm.settings import FitSettings, like


class _CountedRows(NamedTuple):
    """Rows as they came, with the exposure and the weight of each, None where all have the same."""

    X: Any
    exposure: Any
    weights: Any


@dataclass(eq=False, repr=False)
class PrivatePoissonRegressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Poisson regression of counts, with exposures, with certified differential privacy (C20).

    The expected count of a record is `exposure * exp(X coef_ + intercept_)`. Fitted by noisy sums of gradients, over
    the encoded rows e of norm at most 1, of the loss with the slopes

        mu(l) - min(y, C),   l = exposure exp(w'e),   mu(l) = E min(Y, C) for Y ~ Poisson(l)

    Counts above the ceiling C count as C, and so do those that the model expects: coefficients are those of the Poisson
    regression without a ceiling, whatever C is, as long as counts are Poisson. For one silo, or the views "public" and
    "aggregate".

    Parameters
    ----------
    epsilon, delta, schema, feature_bounds, view, method, alpha, ledger, budget, random_state, privacy, cells, training
        As for `PrivateLogisticRegression`. With a schema, `TrainingOptions(exposure="days")` names a column of it.
    ceiling : int
        C, public, a whole number above 0, such that hardly any count is higher: noise grows with it. Without, 5. A
        schema's label states its own, as bounds (0, C).

    Attributes
    ----------
    coef_ (d,), intercept_: in the units of X; `exp(coef_)` are rate ratios. released_, privacy_, plan_, history_: as
        there.

    >>> rng = np.random.default_rng(0)
    >>> X, days = rng.uniform(-1, 1, (500, 2)), rng.uniform(0.5, 2, 500)
    >>> y = rng.poisson(days * np.exp(X[:, 0] - 1))
    >>> model = PrivatePoissonRegressor(epsilon=5.0, delta=1e-5, feature_bounds=(-1, 1), ceiling=4)
    >>> model.fit(X, y, exposure=days).predict(X, exposure=days).shape
    (500,)
    """

    _: KW_ONLY
    ceiling: int | None = None
    aim: str = like(FitSettings, "aim")

    _loss_choice = "poisson"

    def _loss(self) -> Poisson:
        return Poisson() if self.ceiling is None else Poisson(checks.count("ceiling", self.ceiling))

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        persons: Any = None,
        *,
        exposure: Any = None,
        sample_weight: Any = None,
        **others: Any,
    ) -> Self:
        """Train on the rows of X with counts y.

        Parameters
        ----------
        X, groups, persons: as for the other estimators. y: (n,), moved within 0 and the ceiling.
        exposure: (n,), above 0, the time or population over which each count was taken; private, like X. Where there is
            an offset, its exponential. With a schema, `TrainingOptions(exposure=...)` names a column instead.
        sample_weight: (n,), above 0 and public: it must not depend on anything that is to be hidden. Records count by
            it, and the noise is that of the heaviest.
        """
        check_fit_arguments(others, self.get_params())
        resolved = self._resolved(has_persons=persons is not None)
        self._train([resolved], _CountedRows(X, exposure, sample_weight), y, groups, persons)
        return self

    def _dataset(self, settings: ResolvedSettings, X: Any, y: Any, owners: RowOwners) -> tuple[Dataset, NDArray[Any]]:
        schema, training = settings.settings.schema, settings.training
        X = X if isinstance(X, _CountedRows) else _CountedRows(X, None, None)
        if training.exposure is not None and (schema is None or X.exposure is not None):
            raise InputError("exposure is a column of the schema in training=, or an argument of fit. Leave one out.")
        dataset, none = super()._dataset(settings, X.X, y, owners)
        number, weights, base = len(np.asarray(y)), None, None
        rows = owners.layout(number).rows
        if X.weights is not None:
            who = settings.protection
            if who.unit is Unit.PERSON or not who.relation.has_public_sizes:
                raise InputError(
                    "sample_weight is public and has one number for each row, but how many rows there are, or a person "
                    "has, is hidden here. Leave it out."
                )
            weights = positive_numbers("sample_weight", X.weights, number)[np.concatenate(rows)]
        if training.exposure is not None:
            return count_dataset(dataset, training, weights), none
        if X.exposure is not None:
            exposure = positive_numbers("exposure", X.exposure, number)
            base = [np.log(exposure[part]) for part in rows]
        return CountDataset.of(dataset, base, weights), none

    def _array_dataset(self, X: Any, y: Any, owners: RowOwners) -> tuple[Dataset, NDArray[Any]]:
        table, target = training_data(self, X, y, is_numeric=True)
        counts, ceiling = np.asarray(target, dtype=np.float64), self._loss().ceiling
        label, note = RealLabel("label", 0, ceiling), f"counts above {ceiling} count as {ceiling}, a public ceiling"
        return array_dataset(self, table, counts, label, label.encode(counts), owners, note), np.array(())

    def predict(self, X: Any, exposure: Any = None) -> Floats:
        """Return the expected counts, over an exposure of 1 where none is given; NaN for a blanked row of a table."""
        scores = self._scores(X)
        rates = predict_from_scores(self.released_, scores)
        return rates if exposure is None else rates * positive_numbers("exposure", exposure, len(rates))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, exposure: Any = None) -> float:
        """Return D^2, the share of the Poisson deviance that is explained. It has no noise."""
        from sklearn.metrics import d2_tweedie_score  # late: scores are seldom asked for

        with hide_cells(self):
            counts = np.asarray(y, dtype=np.float64)
            return float(d2_tweedie_score(counts, self.predict(X, exposure), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        """Noise costs accuracy on the small sets of scikit-learn's own checks; counts are not negative."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.positive_only = True
        return tags
