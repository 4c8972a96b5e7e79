"""A lasso over a ring without a coordinator: P-ADMM with constant against decaying noise, at the same epsilon.

Eight agents know two neighbours each. They share an l1 penalty: everyone minimises with an eighth of it, which the
certificate (C1) takes for any convex penalty. Early rounds are far from the optimum anyway, so noise that decays hurts
less than as much of it in every round; P-ADMM was proposed with such noise. Results are simulated and may be compared.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dpadmm
from dpadmm.networks import ring
from dpadmm.problems import ElasticNet, Huber

AGENTS, FEATURES, ROUNDS, DELTA = 8, 10, 40, 1e-6
TRUE = np.r_[0.8, -0.6, 0.4, np.zeros(FEATURES - 3)]
LOSS, PENALTY = Huber(0.5), ElasticNet(l1=0.005)
NOISES = {"constant": "constant", "decaying": "geometric:0.9"}  # variance from round to round
EPSILONS = (0.5, 1.0, 2.0, 5.0)


def silos(n_records: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return every agent's rows, of norm at most 1, and numbers that three features explain."""
    rng = np.random.default_rng(1)
    parts = []
    for _ in range(AGENTS):
        X = rng.uniform(-1, 1, (n_records, FEATURES)) / np.sqrt(FEATURES)
        parts.append((X, X @ TRUE + 0.1 * rng.standard_normal(n_records)))
    return parts


def model(parts: list[tuple[np.ndarray, np.ndarray]], epsilon: float, noise: str, seed: int) -> np.ndarray:
    """Return the model of a simulated run."""
    done = dpadmm.run(
        "p-admm",
        parts,
        epsilon=epsilon,
        delta=DELTA,
        loss=LOSS,
        regulariser=PENALTY,
        topology=ring(AGENTS),
        schedule=NOISES[noise],
        seed=seed,
        rounds=ROUNDS,
        eta=0.002,
    )
    return done.model


def pooled(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows and numbers; nobody has them, they serve to judge the results."""
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def objective(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Return the penalised mean loss at w."""
    return float(LOSS.value(X @ w - y).mean() + PENALTY.value(w[:, None])[0])


def optimum(X: np.ndarray, y: np.ndarray, steps: int = 500) -> np.ndarray:
    """Return the minimiser without privacy, by proximal gradient steps."""
    w, step = np.zeros((FEATURES, 1)), FEATURES
    for _ in range(steps):
        w = PENALTY.prox(w - step * X.T @ LOSS.slope(X @ w - y[:, None]) / len(y), step)
    return w[:, 0]


def draw(gaps: dict[str, np.ndarray], nothing: float, epsilons: Sequence[float], folder: Path) -> None:
    """Write the picture as SVG and PNG."""
    figure = Figure(figsize=(6.4, 3.8), layout="constrained")
    axes = figure.subplots()
    for (noise, found), colour in zip(gaps.items(), ("#D55E00", "#0072B2"), strict=True):
        axes.plot(epsilons, found.mean(axis=1), "o-", color=colour, label=f"P-ADMM, {noise} noise")
        axes.fill_between(epsilons, found.min(axis=1), found.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    axes.axhline(nothing, color="grey", linestyle=":", label="spending nothing: all coefficients 0")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_xlabel(f"epsilon, certified at delta = {DELTA:g}, for one record, against an eavesdropper")
    axes.set_ylabel("objective above the optimum")
    axes.set_title(f"A lasso over a ring of {AGENTS} agents, {ROUNDS} rounds\nmean and range of simulated runs")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8.5)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"ring-lasso.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else {})


def main(
    n_records: int = 2000, epsilons: Sequence[float] = EPSILONS, runs: int = 3, folder: Path = Path()
) -> dict[str, np.ndarray]:
    """Compare the two noises; returns the gaps to the optimum (epsilons, runs) by noise."""
    parts = silos(n_records)
    rows = pooled(parts)
    best = objective(*rows, optimum(*rows))
    nothing = objective(*rows, np.zeros(FEATURES)) - best
    print(f"spending nothing: {nothing:.5f} above the optimum")
    gaps = {}
    for noise in NOISES:
        models = [[model(parts, epsilon, noise, seed) for seed in range(runs)] for epsilon in epsilons]
        gaps[noise] = np.array([[objective(*rows, w) - best for w in row] for row in models])
        for epsilon, gap in zip(epsilons, gaps[noise].mean(axis=1), strict=True):
            print(f"{noise} noise, epsilon {epsilon:g}: {gap:.5f} above the optimum (simulated, {runs} runs)")
    draw(gaps, nothing, epsilons, folder)
    return gaps


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
