"""Sensors on a ring agree on their mean temperature without anybody in the middle.

Every sensor adds noise to what it tells its two neighbours, so nobody has to be trusted, and a reading is hidden within
half a degree. What is released is the mean of what all of them sent last.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dpadmm
from dpadmm.costs import Graph, Linear, Quadratics
from dpadmm.networks import ring


def sensors(readings: np.ndarray) -> Quadratics:
    """Return costs (x - reading)^2/2, whose sum is least at the mean."""
    return Quadratics(np.eye(1), -readings[:, None], curvature=(1.0, 1.0))


def main(sizes: tuple[int, ...] = (8, 16, 32), runs: int = 20, folder: Path = Path()) -> dict[int, float]:
    """Make one real release, then compare rings of different sizes; returns errors of the mean in degrees."""
    found = {}
    for n in sizes:
        readings = np.random.default_rng(n).normal(21.0, 2.0, n)
        agents, guess = sensors(readings), sensors(np.full(n, 18.0))  # the guess: what the forecast said
        asked = {"protect": Linear(0.5), "epsilon": 1.0, "delta": 1e-6}
        plan = dpadmm.costs.plan(guess, Graph(ring(n)), guess=guess, guess_error=0.2, **asked)
        asked |= {"rounds": plan.rounds, **plan.numbers}
        real = dpadmm.minimise(agents, Graph(ring(n)), **asked)
        errors = [
            dpadmm.minimise(agents, Graph(ring(n)), seed=seed, **asked).public[0] - readings.mean()
            for seed in range(runs)
        ]
        found[n] = float(np.sqrt(np.mean(np.square(errors))))
        print(f"{n} sensors: certified epsilon {real.epsilon:.3f}, {plan.rounds} rounds, mean {real.public[0]:.2f}")
        print(f"  error {found[n]:.2f} degrees; spending nothing (the forecast) {abs(18.0 - readings.mean()):.2f}")
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(sizes, list(found.values()), "o-", label="private, epsilon 1 for half a degree")
    axes.axhline(3.0, color="grey", linestyle=":", label="spending nothing: the forecast, about 3 off")
    axes.set(xlabel="sensors on the ring", ylabel="error of the mean (degrees)", xticks=sizes, ylim=(0, None))
    axes.legend(fontsize=8)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"sensor-ring.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else {})
    return found


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
