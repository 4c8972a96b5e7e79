"""Silos that differ: one clinic sees mostly the sick, another mostly the healthy.

A method that averages what each silo learned alone suffers; one that seeks consensus in every round hardly does. Noise
is simulated with the same seeds for all, since methods are compared here and nothing is released.
"""

import warnings

import numpy as np

from dpadmm import PrivateLogisticRegression, TrainingOptions
from dpadmm.data import logistic_table
from dpadmm.data.partition import dirichlet_label_skew, iid
from dpadmm.estimators import SimulatedNoiseWarning

METHODS = ("auto", "output-perturbation")


def silo_of(parts: list[np.ndarray], n_records: int) -> np.ndarray:
    """Return the silo of every record."""
    silo = np.empty(n_records, dtype=np.intp)
    for number, rows in enumerate(parts):
        silo[rows] = number
    return silo


def main(n_records: int = 12_000, runs: int = 5, epsilon: float = 1.0) -> dict[tuple[str, str], float]:
    """Compare methods on even and skewed silos; returns mean accuracies on fresh records by (partition, method)."""
    rng = np.random.default_rng(3)
    planted = logistic_table(2 * n_records, 8, rng=rng).data
    X, y = planted.features[:n_records], planted.labels[:n_records]
    fresh = planted.features[n_records:], planted.labels[n_records:]
    deals = {"even": iid(n_records, 5, rng), "skewed": dirichlet_label_skew(y, 5, 0.3, rng, least=n_records // 50)}
    found = {}
    for deal, parts in deals.items():
        shares = ", ".join(f"{np.mean(y[rows] > 0):.2f}" for rows in parts)
        print(f"{deal}: share of positive labels in the silos {shares}")
        for method in METHODS:
            scores = []
            for seed in range(runs):
                model = PrivateLogisticRegression(
                    epsilon=epsilon,
                    delta=1e-6,
                    classes=(-1, 1),
                    method=method,
                    random_state=seed,
                    training=TrainingOptions(row_norm=1.0),
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SimulatedNoiseWarning)
                    scores.append(model.fit(X, y, groups=silo_of(parts, n_records)).score(*fresh))
            found[deal, method] = float(np.mean(scores))
            print(f"  {model.plan_.method:20} accuracy {found[deal, method]:.3f} on fresh records (simulated noise)")
    return found


if __name__ == "__main__":
    main()
