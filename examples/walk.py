"""A model that walks through ten hospitals: no coordinator, one hospital at a time (fixed-point ADMM, Algorithm 4).

The model is handed from hospital to hospital at random. Each improves it on its own records and adds noise before it
passes it on, so that nobody who sees every message learns much about any record (C5). One run is a real release; the
others are simulated and may be compared.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dpadmm
from dpadmm.method_run import RunResult

HOSPITALS, FEATURES, DELTA = 10, 5, 1e-6
TRUE = np.array([3.0, -2.0, 2.0, -1.0, 1.0])
EPSILONS = (0.5, 1.0, 2.0, 5.0)


def hospitals(n_records: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return every hospital's rows, of norm at most 1, and labels -1 or +1."""
    rng = np.random.default_rng(1)
    parts = []
    for _ in range(HOSPITALS):
        X = rng.uniform(-1, 1, (n_records, FEATURES)) / np.sqrt(FEATURES)
        parts.append((X, np.where(rng.uniform(size=n_records) < 1 / (1 + np.exp(-2 * X @ TRUE)), 1.0, -1.0)))
    return parts


def loss(parts: list[tuple[np.ndarray, np.ndarray]], w: np.ndarray) -> float:
    """Return the mean logistic loss on all records; nobody has them, they serve to judge the results."""
    return float(np.mean([np.logaddexp(0.0, -y * (X @ w)).mean() for X, y in parts]))


def optimum(parts: list[tuple[np.ndarray, np.ndarray]], steps: int = 2000) -> np.ndarray:
    """Return the minimiser without privacy, by gradient steps."""
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    w = np.zeros(FEATURES)
    for _ in range(steps):
        w += 4 * X.T @ (y / (1 + np.exp(y * (X @ w)))) / len(y)
    return w


def draw(gaps: np.ndarray, nothing: float, epsilons: Sequence[float], folder: Path) -> None:
    """Write the picture as SVG and PNG."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    axes.plot(epsilons, gaps.mean(axis=1), "o-", color="#0072B2", label="the model that walked")
    axes.fill_between(epsilons, gaps.min(axis=1), gaps.max(axis=1), color="#0072B2", alpha=0.15, linewidth=0)
    axes.axhline(nothing, color="grey", linestyle=":", label="spending nothing: all coefficients 0")
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel(f"epsilon, certified at delta = {DELTA:g}, for one record, against an eavesdropper")
    axes.set_ylabel("logistic loss above the optimum")
    axes.set_title(f"A model that walks through {HOSPITALS} hospitals\nmean and range of simulated runs")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8.5)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"walk.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else {})


def main(
    n_records: int = 500, epsilons: Sequence[float] = EPSILONS, runs: int = 5, folder: Path = Path()
) -> tuple[RunResult, np.ndarray, float]:
    """Release one model and simulate others; returns it, gaps to the optimum (epsilons, runs), and that of zeros."""
    parts = hospitals(n_records)
    best = loss(parts, optimum(parts))
    nothing = loss(parts, np.zeros(FEATURES)) - best
    done = dpadmm.run("fp-walk", parts, epsilon=epsilons[-1], delta=DELTA)
    print(done)
    print(f"released model: {loss(parts, done.model) - best:.4f} above the optimum; spending nothing: {nothing:.4f}")
    found = [
        [dpadmm.run("fp-walk", parts, epsilon=epsilon, delta=DELTA, seed=seed).model for seed in range(runs)]
        for epsilon in epsilons
    ]
    gaps = np.array([[loss(parts, w) - best for w in row] for row in found])
    for epsilon, row in zip(epsilons, gaps, strict=True):
        print(f"epsilon {epsilon:g}: {row.mean():.4f} above the optimum (simulated, {runs} runs)")
    draw(gaps, nothing, epsilons, folder)
    return done, gaps, nothing


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
