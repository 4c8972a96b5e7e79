"""A thousand electric cars charge overnight; how much energy each one needs stays private.

Every car spreads its need over 24 hours, within the limits of its charger. The grid broadcasts a price signal, made of
noisy sums of what the cars would draw; no car sends its need. Nothing is charged twice: each car keeps a schedule that
delivers exactly what it needs. The planner knows a public guess of the fleet and says what to expect.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import dpadmm
from dpadmm.costs import Allocations, Amount, Ball, Result, Sharing, Whole
from dpadmm.problems.regularisers import Quadratic

HOURS = np.arange(24)
CHARGER = 7.0  # kW


def fleet(n: int, seed: int) -> Allocations:
    """Return cars that need 4 to 20 kWh, prefer the early evening a little, and wear with fast charging."""
    needs = np.random.default_rng(seed).uniform(4.0, 20.0, n)
    early = np.where((HOURS >= 17) & (HOURS < 21), -0.02, 0.0)
    return Allocations(needs, lower=0.0, upper=np.full(24, CHARGER), costs=(0.01, early))


def other_load(n: int) -> np.ndarray:
    """Return what everything else draws in each hour, with peaks in the morning and the evening."""
    return n * (1 + 0.25 * np.exp(-(((HOURS - 9) / 3) ** 2)) + 0.45 * np.exp(-(((HOURS - 19) / 3) ** 2)))


def grid(n: int) -> Quadratic:
    """Return the cost of generating the total load: every kW makes all others dearer."""
    steep = 0.1 / n
    return Quadratic(steep * np.eye(24), steep * other_load(n))


def cost(cars: Allocations, schedules: np.ndarray) -> float:
    """Return the cost of a schedule for every car (cars, 24)."""
    own = cars.value(schedules[:, :, None]).sum()
    return float(own + grid(cars.n_agents).value(schedules.sum(axis=0)[:, None])[0])


def alone(cars: Allocations) -> np.ndarray:
    """Return what every car would do by itself."""
    start = np.zeros((cars.n_agents, 24, 1))
    return cars.solve(None, np.full(cars.n_agents, 1e-9), start, start, 1e-3)[:, :, 0]


def draw(cars: Allocations, curves: dict[str, np.ndarray], folder: Path) -> None:
    """Draw the total load, hour by hour."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for (name, total), style in zip(curves.items(), ("-", "-", "--"), strict=True):
        colour = {"everybody alone": "#D55E00", "private": "#0072B2"}.get(name, "black")
        axes.step(HOURS, total, where="mid", label=name, color=colour, linestyle=style)
    axes.fill_between(HOURS, other_load(cars.n_agents), step="mid", color="grey", alpha=0.2, label="everything else")
    axes.set(xlabel="hour", ylabel="total load (kW)", xticks=HOURS[::3], ylim=(0, None))
    axes.legend(loc="lower left", fontsize=8)
    for ending in ("svg", "png"):
        figure.savefig(folder / f"ev-charging.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else {})


def main(n_cars: int = 1000, epsilon: float = 1.0, folder: Path = Path()) -> dict[str, tuple[Result, float]]:
    """Charge the fleet under two protections; returns results, and which part of the possible saving they keep."""
    cars, coupling = fleet(n_cars, seed=1), Sharing(grid(n_cars))
    best = dpadmm.minimise(cars, coupling, protect=Amount(10.0), epsilon=1e9, delta=0.5, rounds=150, rho=0.03, seed=0)
    uncontrolled, least = cost(cars, alone(cars)), cost(cars, best.kept)
    found = {}
    for name, protect in (("a need, by 10 kWh", Amount(10.0)), ("a whole car", Whole(Ball(12.0, is_positive=True)))):
        done = dpadmm.minimise(
            cars, coupling, protect=protect, epsilon=epsilon, delta=1e-6, guess=fleet(n_cars, seed=2), method="admm"
        )
        spent = cost(cars, done.kept)
        kept = (uncontrolled - spent) / (uncontrolled - least)
        print(f"{name}: certified epsilon {done.epsilon:.3f}, {done.plan.rounds} rounds")
        print(f"  keeps {kept:.1%} of the possible saving, gap to the optimum {spent / least - 1:.2%}")
        print(f"  {done.forecast}")
        found[name] = done, kept
    totals = {
        "everybody alone": alone(cars),
        "private": next(iter(found.values()))[0].kept,
        "optimum, not private": best.kept,
    }
    draw(cars, {name: x.sum(axis=0) + other_load(n_cars) for name, x in totals.items()}, folder)
    return found


if __name__ == "__main__":
    main(folder=Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
