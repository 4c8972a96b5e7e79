"""Regression with an l1 penalty: which of the features matter, from silos with a few outlying targets.

With squared loss a record's influence is unbounded, so no noise could protect it. The Huber loss bounds it, and also
limits the effect of outliers. The l1 penalty needs a proximal step, which methods with a coordinator have: the planner
picks one.
"""

import numpy as np

from dpadmm import PrivateLinearRegression, TrainingOptions

RELEVANT = {0: 2.0, 5: -1.5, 11: 1.0}


def table(n_records: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return features in [-1, 1] and targets that three of sixteen explain, one target in fifty recorded wrongly."""
    X = rng.uniform(-1, 1, (n_records, 16))
    y = X[:, list(RELEVANT)] @ list(RELEVANT.values()) + 0.2 * rng.standard_normal(n_records)
    return X, np.where(rng.random(n_records) < 0.02, 1e4, y)


def main(n_records: int = 12_000, epsilon: float = 2.0) -> PrivateLinearRegression:
    """Fit the model and print the largest coefficients."""
    X, y = table(n_records, np.random.default_rng(1))
    silo = np.arange(n_records) % 3
    lasso = PrivateLinearRegression(
        epsilon=epsilon,
        delta=1e-6,
        alpha=0.002,
        feature_bounds=(-1, 1),
        target_bounds=(-5, 5),
        training=TrainingOptions(l1_ratio=1.0),
    )
    lasso.fit(X, y, groups=silo)
    print(lasso.plan_.method, "for", lasso.plan_.task.regulariser)
    print(f"certified epsilon {lasso.privacy_.epsilon:.3f} at delta {lasso.privacy_.delta}")
    largest = np.argsort(-np.abs(lasso.coef_))[:5]
    for j in largest:
        print(f"feature {j:2}: {lasso.coef_[j]:+.2f}   (truth {RELEVANT.get(int(j), 0.0):+.1f})")
    print(f"{np.sum(np.abs(lasso.coef_) < 0.1)} of 16 coefficients are below 0.1")
    return lasso


if __name__ == "__main__":
    main()
