"""Softmax against one model for each class, and what the planner takes: accuracy and log-loss, side by side.

    python benchmarks/classes.py --runs 20
    python benchmarks/classes.py --sets digits clinic --epsilons 1 --silos 4 --view eavesdropper --runs 10

Each run splits a set anew, three to one, and trains on the same rows, with the whole budget, as the planner plans it:
one softmax model, one model for each class against the rest, and without privacy. "auto" is the one of the two that
the planner takes. Sets: scikit-learn's digits (1,797 rows, ten classes), wine and iris (178 and 150, three); made-up
ones, anew in each run: a clinic's stages (4,000 rows, three classes in order), its diagnoses (three, not in order, one
of them rare), and ten kinds (8,000 rows, ten classes). Noise is simulated, from the run's seed. Standard errors are of
the mean over runs; those of differences are of the paired ones.
"""

import argparse
import math
import statistics
import sys
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpadmm import TrainingOptions
from dpadmm.estimators import PrivateLogisticRegression

WAYS = ("softmax", "one-vs-rest")
DELTA = 1e-5


def digits(seed: int):
    X, y = load_digits(return_X_y=True)
    return X, y, (0, 16)


def wine(seed: int):
    X, y = load_wine(return_X_y=True)
    low = np.array([10, 0, 1, 10, 60, 0, 0, 0, 0, 0, 0, 1, 200], dtype=float)
    return X, y, (low, np.array([16, 7, 4, 35, 180, 5, 6, 1, 5, 15, 2, 5, 2000], dtype=float))


def iris(seed: int):
    X, y = load_iris(return_X_y=True)
    return X, y, ((4, 1, 0, 0), (9, 5, 8, 3))


def clinical_rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return twelve columns as of a laboratory, bell-shaped and log-normal, and the correlated normals behind them."""
    latent = 0.6 * rng.standard_normal((n, 3)) @ rng.standard_normal((3, 12)) + rng.standard_normal((n, 12))
    latent /= latent.std(axis=0)
    return np.where(np.arange(12) % 2, np.exp(0.6 * (latent - 3)), 0.4 + 0.1 * latent).clip(0, 1), latent


def stages(seed: int):
    rng = np.random.default_rng((seed, 1))
    X, latent = clinical_rows(4000, rng)
    score = latent @ rng.standard_normal(12)
    score = score / score.std() + 0.5 * rng.logistic(size=4000)
    return X, np.digitize(score, np.quantile(score, (0.5, 0.8))), (0, 1)


def diagnoses(seed: int):
    rng = np.random.default_rng((seed, 2))
    X, latent = clinical_rows(4000, rng)
    scores = latent @ rng.standard_normal((12, 3)) * 0.5 + np.log((0.6, 0.3, 0.1))
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1), (0, 1)


def kinds(seed: int):
    rng = np.random.default_rng((seed, 3))
    centres = rng.standard_normal((10, 20))
    y = rng.integers(0, 10, 8000)
    return (centres[y] + 1.2 * rng.standard_normal((8000, 20))), y, (-5, 5)


SETS: dict[str, Callable] = {
    "digits": digits,
    "wine": wine,
    "iris": iris,
    "stages": stages,
    "diagnoses": diagnoses,
    "kinds": kinds,
}


def scores(model, X, y) -> tuple[float, float]:
    """Return accuracy and log-loss."""
    chances = model.predict_proba(X)[np.arange(len(y)), y]
    return float((model.predict(X) == y).mean()), float(-np.log(np.maximum(chances, 1e-300)).mean())


def one_run(name: str, epsilon: float, seed: int, wanted: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Train both ways, and without privacy, on the same split."""
    X, y, bounds = SETS[name](seed)
    train, test, labels, truth = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    found = {"not private": scores(plain.fit(train, labels), test, truth)}
    groups = None if wanted.silos == 1 else np.arange(len(train)) % wanted.silos
    for way in WAYS:
        model = PrivateLogisticRegression(
            epsilon,
            DELTA,
            feature_bounds=bounds,
            classes=range(int(y.max()) + 1),
            view=wanted.view,
            random_state=seed,
            training=TrainingOptions(multi_class=way),
        )
        found[way] = scores(model.fit(train, labels, groups), test, truth)
    return found


def taken(name: str, epsilon: float, wanted: argparse.Namespace) -> str:
    """Return which way the planner takes; that depends on public facts alone, so it is the same in all runs."""
    X, y, bounds = SETS[name](0)
    train, _, labels, _ = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    groups = None if wanted.silos == 1 else np.arange(len(train)) % wanted.silos
    number = int(y.max()) + 1
    model = PrivateLogisticRegression(
        epsilon, DELTA, feature_bounds=bounds, classes=range(number), view=wanted.view, random_state=0
    )
    return WAYS[model.fit(train, labels, groups).plan_.times > 1]


def summed(values: list[float]) -> str:
    """Return mean and standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.3f} +- {error:.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["digits"], choices=SETS)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="Seed of the first run.")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--silos", type=int, default=1)
    parser.add_argument("--view", default="public", choices=["public", "eavesdropper", "aggregate"])
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")  # every fit would say that its noise is simulated
    for name in wanted.sets:
        for epsilon in wanted.epsilons:
            runs = [one_run(name, epsilon, wanted.first + number, wanted) for number in range(wanted.runs)]
            sys.stdout.write(f"{name}, epsilon {epsilon:g}, delta {DELTA:g}, {wanted.silos} silos, {wanted.view}, ")
            sys.stdout.write(f"{wanted.runs} runs; auto is {taken(name, epsilon, wanted)}\n")
            for way in ("not private", *WAYS):
                right, loss = ([run[way][i] for run in runs] for i in range(2))
                sys.stdout.write(f"  {way:12} accuracy {summed(right)}   log-loss {summed(loss)}\n")
            gains, saved = ([run[WAYS[0]][i] - run[WAYS[1]][i] for run in runs] for i in range(2))
            sys.stdout.write(f"  {'difference':12} accuracy {summed(gains)}   log-loss {summed(saved)}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
