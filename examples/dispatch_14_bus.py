"""Economic dispatch on the IEEE 14-bus grid, where what each bus draws is private.

The operator sees one release of two noisy numbers: the total load, and what the loads contribute to the flow on the
line from bus 1 to bus 2, which may carry 120 MW. Generators are scheduled by these numbers. Noise hides every load
within 1 MW; a margin on the line makes room for it, and costs a little.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import LinearConstraint, minimize

import dpadmm
from dpadmm.costs import Allocations, Amount, Result, Sharing
from dpadmm.problems.regularisers import ElasticNet

# Buses from 1; loads in MW, reactances of lines and transformers: the IEEE 14-bus test case.
LOADS = {2: 21.7, 3: 94.2, 4: 47.8, 5: 7.6, 6: 11.2, 9: 29.5, 10: 9.0, 11: 3.5, 12: 6.1, 13: 13.5, 14: 14.9}
LINES = [
    (1, 2, 0.05917), (1, 5, 0.22304), (2, 3, 0.19797), (2, 4, 0.17632), (2, 5, 0.17388), (3, 4, 0.17103),
    (4, 5, 0.04211), (4, 7, 0.20912), (4, 9, 0.55618), (5, 6, 0.25202), (6, 11, 0.19890), (6, 12, 0.25581),
    (6, 13, 0.13027), (7, 8, 0.17615), (7, 9, 0.11001), (9, 10, 0.08450), (9, 14, 0.27038), (10, 11, 0.19207),
    (12, 13, 0.19988), (13, 14, 0.34802),
]  # fmt: skip
# Of each generator: bus, largest output in MW, and cost c P^2 + b P in $/h.
GENERATORS = [
    (1, 332.4, 0.0430293, 20.0), (2, 140.0, 0.25, 20.0), (3, 100.0, 0.01, 40.0), (6, 100.0, 0.01, 40.0),
    (8, 100.0, 0.01, 40.0),
]  # fmt: skip
LIMIT = 120.0
BUS, MOST, SQUARE, LINEAR = (np.array(column) for column in zip(*GENERATORS, strict=True))


def shares() -> np.ndarray:
    """Return which part of a MW that enters at each bus, and leaves at bus 1, flows from bus 1 to bus 2."""
    susceptance = np.zeros((14, 14))
    for start, end, reactance in LINES:
        i, j = start - 1, end - 1
        susceptance[[i, j], [i, j]] += 1 / reactance
        susceptance[[i, j], [j, i]] -= 1 / reactance
    angles = np.zeros((14, 14))
    angles[1:, 1:] = np.linalg.inv(susceptance[1:, 1:])
    return (angles[0] - angles[1]) / LINES[0][2]


SHARES = shares()


def dispatch(total: float, flow: float, margin: float) -> np.ndarray:
    """Return the cheapest outputs that cover a total load and keep the line below its limit less the margin."""
    keep = [
        LinearConstraint(np.ones(len(BUS)), total, total),
        LinearConstraint(SHARES[BUS - 1], -np.inf, LIMIT - margin + flow),
    ]
    found = minimize(
        lambda p: SQUARE @ p**2 + LINEAR @ p,
        np.full(len(BUS), total / len(BUS)),
        jac=lambda p: 2 * SQUARE * p + LINEAR,
        bounds=list(zip(np.zeros(len(BUS)), MOST, strict=True)),
        constraints=keep,
        method="SLSQP",
    )
    return found.x


def flow_of(outputs: np.ndarray, loads: np.ndarray) -> float:
    """Return the true flow from bus 1 to bus 2; bus 1 takes up whatever is missing."""
    return float(SHARES[BUS - 1] @ outputs - SHARES[np.array(list(LOADS)) - 1] @ loads)


def hourly_cost(outputs: np.ndarray, loads: np.ndarray) -> float:
    """Return the cost once bus 1 has taken up the imbalance."""
    balanced = outputs + np.eye(len(BUS))[0] * (loads.sum() - outputs.sum())
    return float(SQUARE @ balanced**2 + LINEAR @ balanced)


def release(loads: np.ndarray, epsilon: float, seed: int | None = None) -> Result:
    """Release the two sums once, with noise that hides each load within 1 MW."""
    buses = np.array(list(LOADS)) - 1
    maps = np.stack([np.ones(len(buses)), SHARES[buses]], axis=1)[:, :, None]
    agents = Allocations(loads, lower=0.0, upper=200.0)
    return dpadmm.minimise(
        agents, Sharing(ElasticNet(), maps), protect=Amount(1.0), epsilon=epsilon, delta=1e-6, rounds=1, rho=1.0,
        seed=seed,
    )  # fmt: skip


def main(margin: float = 9.0, runs: int = 200, epsilon: float = 1.0, folder: Path = Path()) -> dict[float, float]:
    """Make one release, then simulate many; returns how often the line kept its limit, by margin."""
    loads = np.array(list(LOADS.values()))
    exact = np.array([loads.sum(), SHARES[np.array(list(LOADS)) - 1] @ loads])
    optimum = hourly_cost(dispatch(*exact, 0.0), loads)
    done = release(loads, epsilon)
    outputs = dispatch(*done.sums[0], margin)
    print(f"certified epsilon {done.epsilon:.3f}; two sums released, {np.round(done.sums[0], 1)} MW")
    print(f"this dispatch: {flow_of(outputs, loads):.1f} MW on the line, {hourly_cost(outputs, loads):.0f} $/h")
    guess = 0.9 * exact  # spending nothing: yesterday's public figures, a tenth too low
    blind = dispatch(*guess, margin)
    cost_of_guess = hourly_cost(blind, loads) / optimum - 1
    print(f"spending nothing: cost {cost_of_guess:+.2%}, {flow_of(blind, loads):.1f} MW on the line (limit {LIMIT:g})")
    kept, figure = {}, Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    noisy = [release(loads, epsilon, seed).sums[0] for seed in range(runs)]
    for headroom, colour in ((0.0, "#D55E00"), (margin, "#0072B2")):
        plans = [dispatch(*each, headroom) for each in noisy]
        flows = np.array([flow_of(plan, loads) for plan in plans])
        gap = np.mean([hourly_cost(plan, loads) for plan in plans]) / optimum - 1
        kept[headroom] = float((flows <= LIMIT + 1e-6).mean())
        print(
            f"margin {headroom:g} MW: cost {gap:+.2%}, the line keeps its limit in {kept[headroom]:.1%} of {runs} runs"
        )
        axes.hist(flows, bins=30, alpha=0.6, color=colour, label=f"margin {headroom:g} MW: {kept[headroom]:.0%} within")
    axes.axvline(LIMIT, color="black", linestyle="--", label="limit")
    axes.set(xlabel="flow from bus 1 to bus 2 (MW)", ylabel="simulated runs")
    axes.legend(loc="upper left", fontsize=8)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"dispatch.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else {})
    return kept


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
