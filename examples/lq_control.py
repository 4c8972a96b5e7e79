"""A hundred parties steer one system; where each wants it to go stays private.

All parties share the inputs of a linear system over ten steps, and every one has a private wish where its state should
be at each step. Inputs are optimal for the sum of all costs. Three ways: rounds of ADMM, one noisy sum of linear terms,
and spending nothing at all, with a public guess of what parties want.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dpadmm
from dpadmm.costs import Consensus, Linear, Quadratics, Result

STEPS = 10
A, B = np.array([[1.0, 0.2], [0.0, 0.9]]), np.array([[0.0], [0.3]])
START = np.array([0.0, 0.0])


def response() -> tuple[np.ndarray, np.ndarray]:
    """Return states x = M u + free, over all steps."""
    powers = [np.linalg.matrix_power(A, k) for k in range(STEPS + 1)]
    blocks = [[powers[t - s] @ B if s <= t else np.zeros((2, 1)) for s in range(STEPS)] for t in range(STEPS)]
    return np.block(blocks), np.concatenate([powers[t + 1] @ START for t in range(STEPS)])


M, FREE = response()
WEIGHT = np.kron(np.eye(STEPS), np.diag([1.0, 0.1]))  # of positions and speeds
COMMON = M.T @ WEIGHT @ M + 0.2 * np.eye(STEPS)  # every party's curvature: public


def parties(preferred: np.ndarray) -> Quadratics:
    """Return costs ||x - wish||^2 in the weights plus a little for the inputs, as functions of the inputs."""
    curvature = np.linalg.eigvalsh(COMMON)
    return Quadratics(COMMON, (FREE - preferred) @ WEIGHT @ M, (float(curvature[0]), float(curvature[-1])))


def preferred(n: int, rng: np.random.Generator, mean: float) -> np.ndarray:
    """Return paths that rise to about `mean`, a different one for every party."""
    rise = np.linspace(0.1, 1.0, STEPS)
    goals = mean + rng.uniform(-0.5, 0.5, (n, 1))
    return np.stack([goals * rise, np.zeros((n, STEPS))], axis=2).reshape(n, -1)


def cost(inputs: np.ndarray, agents: Quadratics) -> float:
    """Return the mean cost of inputs, up to what no input changes."""
    return float(0.5 * inputs @ COMMON @ inputs + inputs @ agents.q.mean(axis=0))


def main(n: int = 100, runs: int = 20, epsilon: float = 1.0, folder: Path = Path()) -> dict[str, float]:
    """Steer the system in three ways; returns the gap of each to the optimal cost."""
    known = preferred(n, np.random.default_rng(0), 1.0)  # the public guess: everybody wants about 1
    agents, guess = parties(preferred(n, np.random.default_rng(1), 1.5)), parties(known)
    distance = float(np.linalg.norm(M.T @ WEIGHT[:, ::2] @ np.linspace(0.1, 1.0, STEPS)))  # a goal, by 1
    metric = np.linalg.cholesky(COMMON).T
    asked = {"protect": Linear(distance), "epsilon": epsilon, "delta": 1e-6, "guess": guess, "guess_error": 0.5}
    inputs = {"optimum": np.linalg.solve(COMMON, -agents.q.mean(axis=0))}
    inputs["spending nothing"] = np.linalg.solve(COMMON, -guess.q.mean(axis=0))
    done: dict[str, Result] = {
        "ADMM": dpadmm.minimise(agents, Consensus(metric=metric), method="admm", **asked),
        "one noisy sum": dpadmm.minimise(agents, Consensus(), method="sums", **asked),
    }
    inputs |= {name: result.public for name, result in done.items()}
    print(f"certified epsilon {done['ADMM'].epsilon:.3f}, {done['one noisy sum'].epsilon:.3f} for a goal, by 1")
    print(f"the planner: {done['one noisy sum'].forecast}")
    least = cost(inputs["optimum"], agents)
    gaps = {name: cost(u, agents) / abs(least) + 1 for name, u in inputs.items()}
    for name, result in done.items():  # one release may be lucky: the mean of simulated ones
        coupling, method = (Consensus(metric=metric), "admm") if name == "ADMM" else (Consensus(), "sums")
        asked |= {"method": method, "rounds": result.plan.rounds, **result.plan.numbers}
        tries = [dpadmm.minimise(agents, coupling, seed=seed, **asked).public for seed in range(runs)]
        gaps[name] = float(np.mean([cost(u, agents) / abs(least) + 1 for u in tries]))
        asked = {key: asked[key] for key in ("protect", "epsilon", "delta", "guess", "guess_error")}
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, u in inputs.items():
        print(f"{name}: gap to the optimal cost {gaps[name]:.2%}")
        style = "k--" if name == "optimum" else "o-"
        axes.plot(np.arange(1, STEPS + 1), (M @ u + FREE)[::2], style, label=f"{name}, gap {gaps[name]:.1%}", ms=3)
    axes.set(xlabel="step", ylabel="position")
    axes.legend(fontsize=8)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"lq-control.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else {})
    return gaps


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
