"""Softmax against one model for each class: accuracy and log-loss on handwritten digits, side by side.

    python benchmarks/classes.py --runs 20

Each run splits scikit-learn's digits anew, three to one, and trains both on the same rows with the whole budget, all in
one silo, as the planner plans it. Noise is simulated, from the run's seed. Standard errors are of the mean over runs;
those of differences are of the paired ones.
"""

import argparse
import math
import statistics
import sys
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from dpadmm.estimators import PrivateLogisticRegression

WAYS = ("softmax", "one-vs-rest")
DELTA = 1e-5


def scores(model, X, y) -> tuple[float, float]:
    """Return accuracy and log-loss."""
    chances = model.predict_proba(X)[np.arange(len(y)), y]
    return float((model.predict(X) == y).mean()), float(-np.log(np.maximum(chances, 1e-300)).mean())


def one_run(epsilon: float, seed: int) -> dict[str, tuple[float, float]]:
    """Train both ways, and without privacy, on the same split."""
    X, y = load_digits(return_X_y=True)
    train, test, labels, truth = train_test_split(X / 16, y, test_size=0.25, random_state=seed, stratify=y)
    found = {"not private": scores(LogisticRegression(max_iter=2000).fit(train, labels), test, truth)}
    for way in WAYS:
        model = PrivateLogisticRegression(
            epsilon, DELTA, feature_bounds=(0, 1), classes=range(10), multi_class=way, random_state=seed
        )
        found[way] = scores(model.fit(train, labels), test, truth)
    return found


def summed(values: list[float]) -> str:
    """Return mean and standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.3f} +- {error:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0])
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")  # every fit would say that its noise is simulated
    for epsilon in wanted.epsilons:
        runs = [one_run(epsilon, seed) for seed in range(wanted.runs)]
        sys.stdout.write(f"digits, epsilon {epsilon:g}, delta {DELTA:g}, {wanted.runs} runs\n")
        for way in ("not private", *WAYS):
            right, loss = ([run[way][i] for run in runs] for i in range(2))
            sys.stdout.write(f"  {way:12} accuracy {summed(right)}   log-loss {summed(loss)}\n")
        gains = [run[WAYS[0]][0] - run[WAYS[1]][0] for run in runs]
        sys.stdout.write(f"  {'difference':12} accuracy {summed(gains)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
