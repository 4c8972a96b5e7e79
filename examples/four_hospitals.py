"""Four hospitals, one model: what trust and epsilon buy.

The same model is trained against two observers: an eavesdropper who hears every message (each hospital adds its own
noise), and the public, who sees what a trusted coordinator publishes (one noise for all). Many runs are compared, so
their noise is simulated; the first fit is a real release. Accuracy may be shown because the data set is published.
"""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpadmm import PrivateLogisticRegression, data
from dpadmm.estimators import HopelessPlanWarning, SimulatedNoiseWarning

X, y = load_breast_cancer(return_X_y=True)
KNOWN = data.load_breast_cancer()
HIGH = [column.upper for column in KNOWN.schema.columns]
VIEWS = {"eavesdropper": "from anyone who hears all messages", "public": "from the public; the coordinator is trusted"}
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def model(epsilon: float, view: str = "eavesdropper", seed: int | None = None) -> PrivateLogisticRegression:
    """Return an unfitted model; bounds and classes are public knowledge."""
    return PrivateLogisticRegression(
        epsilon=epsilon, delta=1e-5, view=view, feature_bounds=(0, HIGH), classes=(0, 1), random_state=seed
    )


def simulated_accuracies(view: str, epsilon: float, runs: int) -> np.ndarray:
    """Return the accuracies of runs with seeded noise, which are not releases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        warnings.simplefilter("ignore", HopelessPlanWarning)  # the planner warns at the smallest budgets
        fits = [model(epsilon, view, seed).fit(X, y, groups=KNOWN.groups) for seed in range(runs)]
    return np.array([fit.score(X, y) for fit in fits])


def draw(found: dict[str, np.ndarray], epsilons: Sequence[float], runs: int, folder: Path) -> None:
    """Write the picture as SVG and PNG."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (view, texts), colour in zip(VIEWS.items(), ("#0072B2", "#D55E00"), strict=True):
        scores = found[view]
        axes.plot(epsilons, scores.mean(axis=1), "o-", color=colour, label=f"protected {texts}")
        axes.fill_between(epsilons, scores.min(axis=1), scores.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y).score(X, y)
    axes.axhline(plain, color="black", linestyle="--", linewidth=1, label="pooled, no privacy")
    axes.axhline(np.bincount(y).max() / len(y), color="grey", linestyle=":", label="always the majority class")
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("epsilon, certified at delta = 1e-5, for one patient's record")
    axes.set_ylabel("accuracy")
    axes.set_title(f"Breast cancer at four hospitals, {len(y)} patients\nmean and range of {runs} simulated runs")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize=8.5)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"four-hospitals.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else {})


def main(epsilons: Sequence[float] = EPSILONS, runs: int = 10, folder: Path = Path()) -> dict[str, np.ndarray]:
    """Make one real release, then compare simulated ones; returns accuracies (epsilons, runs) by view."""
    released = model(1.0).fit(X, y, groups=KNOWN.groups)
    print(released.privacy_)
    print(f"accuracy {released.score(X, y):.2f} (public data)")
    found = {}
    for view in VIEWS:
        found[view] = np.array([simulated_accuracies(view, epsilon, runs) for epsilon in epsilons])
        for epsilon, scores in zip(epsilons, found[view], strict=True):
            print(f"{view:12}  epsilon {epsilon:<4g}  accuracy {scores.mean():.3f}  (simulated, {runs} runs)")
    draw(found, epsilons, runs, folder)
    return found


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
