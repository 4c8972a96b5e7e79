"""Private linear regression with a bounded loss."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from dpadmm import checks
from dpadmm.core.dataset import Dataset
from dpadmm.data.columns import RealLabel
from dpadmm.data.encoding import target_range
from dpadmm.estimators.base import PrivateLinearModel
from dpadmm.estimators.data import array_dataset, hide_cells, training_data
from dpadmm.estimators.notices import AssumedBoundsWarning
from dpadmm.estimators.owners import RowOwners
from dpadmm.models.predict import predict_from_scores
from dpadmm.problems.arrays import Floats
from dpadmm.problems.losses import Huber, Loss
from dpadmm.settings import FitSettings, like


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression - ridge, lasso or elastic net - with certified differential privacy.

    Minimises, over the encoded rows e of norm at most 1 and targets t scaled to [-1, 1] by `target_bounds`,

        (1/n) sum_m huber(w'e_m - t_m) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    with huber(r) = r^2/2 up to `huber_threshold`, then linear: the squared loss with bounded influence, without which
    no amount of noise could hide a record.

    Parameters
    ----------
    epsilon, delta, schema, feature_bounds, view, method, alpha, ledger, budget, random_state, privacy, cells, training
        As for `PrivateLogisticRegression`; `TrainingOptions(l1_ratio=1)` is the lasso.
    target_bounds : pair (low, high), optional
        Public bounds of y; targets outside are clipped. Without, y is clipped to (-1, 1), with a warning: bounds are
        never read off the data. A schema's label states its own.
    huber_threshold : float
        > 0, in units of half the target range. Smaller means less noise and more weight on the median.
    aim : {"prediction", "inference"}
        With "inference", `summary()` gives coefficients of the ordinary linear regression with confidence intervals
        that hold however residuals vary (C14). Rows keep their length, and long ones count less; residuals are clipped
        at three deviations of the target, as the column profile has it. For one silo, or the views "public" and
        "aggregate".

    Attributes
    ----------
    coef_ (d,), intercept_: in the units of X and y. With `aim="inference"` predictions are `X coef_ + intercept_`
        within `feature_bounds`; else for rows that are not shortened, longer ones counting by their direction from the
        centre alone. released_, privacy_, plan_, history_: as there.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 2))
    >>> model = PrivateLinearRegression(epsilon=5.0, delta=1e-5, feature_bounds=(-1, 1), target_bounds=(-3, 3))
    >>> model.fit(X, 2 * X[:, 0]).coef_.shape
    (2,)
    """

    _: KW_ONLY
    target_bounds: Any = None
    huber_threshold: float = 0.5
    aim: str = like(FitSettings, "aim")

    _loss_choice = "huber"

    def _loss(self) -> Loss:
        return Huber(checks.positive("huber_threshold", self.huber_threshold))

    def _array_dataset(self, X: Any, y: Any, owners: RowOwners) -> tuple[Dataset, NDArray[Any]]:
        low, high = (-1.0, 1.0) if self.target_bounds is None else target_range(self.target_bounds)
        table, target = training_data(self, X, y, is_numeric=True)
        target = np.asarray(target, dtype=np.float64)
        if self.target_bounds is None:
            self._notify(
                "target_bounds are not given, so y is clipped to -1..1. State public bounds of y; they must not "
                "be taken from the data.",
                AssumedBoundsWarning,
                depth=6,
            )
        label, note = RealLabel("label", low, high), f"targets are clipped to the public bounds {low:g} to {high:g}"
        return array_dataset(self, table, target, label, label.encode(target), owners, note), np.array(())

    def predict(self, X: Any) -> Floats:
        """Return `X coef + intercept`; of a table with a schema within the label's bounds, NaN for a blanked row."""
        scores = self._scores(X)
        return predict_from_scores(self.released_, scores)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R^2 on these data. It has no noise: for private records there is `private_score`."""
        with hide_cells(self):
            if self.has_schema:
                from sklearn.metrics import r2_score  # late: scores are seldom asked for

                return self._table_score(r2_score, X, y, sample_weight)
            return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Noise and clipped targets cost accuracy on the small sets of scikit-learn's own checks."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
