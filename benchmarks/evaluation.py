"""Private evaluations, over and over with fresh noise: how far figures are from the exact ones, and how often covered.

    DPADMM_DATA=... python benchmarks/evaluation.py --runs 2000

Scores are those of a model that was trained on other records. Adult (left out without DPADMM_DATA): the 30,162 complete
rows of its training file, scored by a private model of its test file. Made up: 30,000 log-odds of a normal law, with
labels by these odds. Every run adds noise of the certified scale, for epsilon .2 at delta 1e-6, to the same counts.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from sklearn.metrics import roc_auc_score

from dpadmm.estimators import PrivateLogisticRegression
from dpadmm.evaluation import PrivateEvaluation, private_evaluation
from dpadmm.evaluation.metrics import LOG_ODDS_LIMIT, RESOLUTIONS, ScoreBins, counts_of
from dpadmm.models.measurement import EvaluatedFigure
from dpadmm.privacy.accounting import Target, calibrate_gaussian
from dpadmm.privacy.certificates.sums import cell_counts
from dpadmm.problems.arrays import Floats
from dpadmm_research.datasets import adult
from table import Row

TARGET, WITHIN, RUNS = Target(0.2, 1e-6), 0.02, 2000
RECORDS, ADULT_TRAINING, SEED = 30_000, 30_162, 40_000


@dataclass(frozen=True)
class World:
    """Scores of records and their labels, 0 or 1."""

    name: str
    log_odds: Floats
    labels: Floats

    def exact(self) -> dict[str, float]:
        """Return the figures without noise and without bins."""
        cut, y, found = np.clip(self.log_odds, -LOG_ODDS_LIMIT, LOG_ODDS_LIMIT), self.labels > 0, self.log_odds > 0
        return {
            "AUC": float(roc_auc_score(y, self.log_odds)),
            "log-loss": float(np.logaddexp(0.0, np.where(y, -cut, cut)).mean()),
            "accuracy": float((found == y).mean()),
            "sensitivity": float(found[y].mean()),
        }

    def evaluations(self, runs: int, target: Target = TARGET) -> Iterator[PrivateEvaluation]:
        """Yield evaluations of the same counts with fresh noise of the certified scale."""
        n, rng = len(self.labels), np.random.default_rng(SEED)
        bound = cell_counts(n_records=n, histograms=len(RESOLUTIONS)).bound
        std = float(calibrate_gaussian(target, [bound], [1.0])[0])
        counts = counts_of(ScoreBins().places(self.log_odds), self.labels.astype(np.intp), 2)
        for _ in range(runs):
            noisy = counts + std * rng.standard_normal(len(counts))
            yield replace(blank_form(), counts=tuple(noisy.tolist()), noise_std=std, records=n)


@cache
def blank_form() -> PrivateEvaluation:
    """Return an evaluation of made-up records, whose counts are to be replaced."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 1))
    y = (X[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateLogisticRegression(9.0, 1e-5, feature_bounds=(-1, 1), classes=(0, 1), random_state=0).fit(X, y)
        return private_evaluation(model, X, y, 1.0, delta=1e-5, random_state=0)


def made_up(positives: float, spread: float) -> World:
    """Return log-odds of a normal law of this deviation, shifted so that about this share is positive."""
    rng = np.random.default_rng(7)
    noise, coins = spread * rng.standard_normal(RECORDS), rng.random(RECORDS)
    low, high = -20.0, 20.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        share = (1 / (1 + np.exp(-(noise + middle)))).mean()
        low, high = (middle, high) if share < positives else (low, middle)
    log_odds = noise + low
    labels = (coins < 1 / (1 + np.exp(-log_odds))).astype(float)
    return World(f"made up, {positives:.0%} positive, deviation {spread:g}", log_odds, labels)


def adult_scores() -> World:
    """Return the scores of Adult's training file by a private model of its test file."""
    table = adult.read_adult().reset_index(drop=True)
    train, test = table.iloc[:ADULT_TRAINING], table.iloc[ADULT_TRAINING:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateLogisticRegression(1.0, 1e-6, schema=adult.SCHEMA, random_state=0).fit(test, test["income"])
    log_odds = model.released_.linked.log_odds(model.decision_function(train))
    return World("Adult, 25% positive", log_odds, (train["income"] == ">50K").to_numpy(float))


def worlds() -> list[World]:
    """Return all that can be measured here."""
    found = [made_up(0.25, 1.0), made_up(0.25, 2.0), made_up(0.05, 1.0), made_up(0.05, 2.0)]
    return [adult_scores(), *found] if os.environ.get("DPADMM_DATA") else found


@dataclass(frozen=True)
class Measured:
    """One figure over all runs: mean error, its deviation, 95 % quantile of |error|, and how often it is covered."""

    exact: float
    bias: float
    deviation: float
    usual: float
    within: float
    covered: float


def figures(found: PrivateEvaluation) -> dict[str, EvaluatedFigure]:
    """Return the figures that `World.exact` has."""
    at_half = found.confusion()
    return {
        "AUC": found.roc_auc(),
        "log-loss": found.log_loss(),
        "accuracy": at_half.accuracy,
        "sensitivity": at_half.sensitivity,
    }


def measure(world: World, runs: int, target: Target = TARGET) -> dict[str, Measured]:
    """Evaluate over and over; compare with the exact figures."""
    exact, errors, covered = world.exact(), [], []
    for found in world.evaluations(runs, target):
        made = figures(found)
        errors.append([each.value - exact[name] for name, each in made.items()])
        ends = {name: each.noise_interval for name, each in made.items()}
        covered.append([low <= exact[name] <= high for name, (low, high) in ends.items()])
    error, hit = np.array(errors), np.array(covered)
    return {
        name: Measured(
            exact[name],
            float(np.nanmean(error[:, j])),
            float(np.nanstd(error[:, j])),
            float(np.nanquantile(np.abs(error[:, j]), 0.95)),
            float((np.abs(error[:, j]) <= WITHIN).mean()),
            float(hit[:, j].mean()),
        )
        for j, name in enumerate(exact)
    }


def rows(runs: int = RUNS) -> list[Row]:
    """Return two rows a world: how often the AUC is within .02, and how often its noise interval covers it."""
    made = []
    for world in worlds():
        auc = measure(world, runs)["AUC"]
        name, reserved = f"evaluation, {world.name}", None if world.labels.mean() < 0.1 else 0.95
        made += [
            Row(f"{name}: AUC within .02", auc.within, "of runs", "", target=reserved),
            Row(f"{name}: AUC covered by the noise interval", auc.covered, "of runs", "", target=0.93),
        ]
    return made


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="evaluations of each world")
    parser.add_argument("--epsilon", type=float, default=TARGET.epsilon, help="what each of them spends")
    asked = parser.parse_args()
    for world in worlds():
        print(f"{world.name}, {len(world.labels)} records, {asked.runs} runs at epsilon {asked.epsilon:g}")
        for name, each in measure(world, asked.runs, Target(asked.epsilon, TARGET.delta)).items():
            print(
                f"  {name:12} exact {each.exact:.4f}, mean error {each.bias:+.4f}, deviation {each.deviation:.4f}, "
                f"95 % of runs within {each.usual:.4f}, {each.within:.1%} within .02, covered {each.covered:.1%}"
            )


if __name__ == "__main__":
    main()
