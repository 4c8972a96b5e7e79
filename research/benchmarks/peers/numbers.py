"""Targets that are numbers: dpadmm's defaults beside AdaSSP, DP-GD and diffprivlib, on the same rows and budgets.

Peers' numbers are scaled to -1..1 by their public bounds, categories become indicators, and so is the target scaled.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accuracy import Figure, figure
from dpadmm.data import Numeric
from dpadmm.data.columns import RealLabel
from dpadmm.privacy.curves import m_of
from peers import own
from peers.environments import python_of
from regression_sets import DELTA, FIRST_SEED, SETS, SPLITS, loaded, measure_regression, split

WORKER = Path(__file__).parent / "workers" / "diffprivlib_linear.py"
OURS, ADASSP, DESCENT, DIFFPRIVLIB, LEAST = "dpadmm", "adassp", "dp-gd", "diffprivlib", "least squares"
TITLES = {
    OURS: "**dpadmm**",
    ADASSP: "AdaSSP",
    DIFFPRIVLIB: "diffprivlib LinearRegression (pure eps)",
    DESCENT: "DP-GD, tuned †",
    LEAST: "least squares, not private",
}
GRID = {"rounds": (20, 100), "step": (0.03, 0.1, 0.3, 1.0), "clip": (0.1, 0.3, 1.0)}
FIRST_TUNING_SEED = 30_000
_FAILS = 0.05  # probability that AdaSSP's ridge is too small

Rows = NDArray[np.float64]


class Numbers(NamedTuple):
    """Scaled rows with a constant of 1, their targets, and the most that a row's square can be."""

    train: Rows
    y: Rows
    test: Rows
    truth: Rows
    square: float


@cache
def scaled(name: str) -> tuple[Rows, Rows, float]:
    """Return a set's rows and targets scaled by public bounds, and the bound on a row's square."""
    table, known, parts = loaded(name), SETS[name].known, []
    for each in known.columns:
        cells = each.read(table[each.name])
        if isinstance(each, Numeric):
            parts.append(2 * (cells.values - each.lower)[:, None] / (each.upper - each.lower) - 1)
        else:
            parts.append(np.eye(len(each.feature_names))[cells.codes])
    label = known.label
    assert isinstance(label, RealLabel)
    rows = np.hstack([*parts, np.ones((len(table), 1))])
    return rows, label.read(table[label.name]).values, len(known.columns) + 1.0


def numbers(name: str, run: int) -> Numbers:
    """Return the rows of a run's split; the truth is scaled, which R^2 does not see."""
    (rows, y, square), chosen = scaled(name), split(len(loaded(name)), run)
    return Numbers(rows[chosen.train], y[chosen.train], rows[chosen.test], y[chosen.test], square)


def r2(truth: Rows, found: Rows) -> float:
    """Return the part of the variance that predictions within the bounds explain."""
    return float(1 - np.mean((np.clip(found, -1, 1) - truth) ** 2) / np.var(truth))


def adassp(data: Numbers, epsilon: float, rng: np.random.Generator) -> Rows:
    """Return the model of AdaSSP (Wang 2018) with Gaussian noise for replaced records, a third of m^2 for each release.

    Replacing a record moves the least eigenvalue by the row's square at most, the moments by sqrt(2) times it in
    Frobenius norm, and the products with targets within 1 by twice the row's norm.
    """
    m, d = m_of(epsilon, DELTA) / np.sqrt(3), data.train.shape[1]
    gram, unit = data.train.T @ data.train, data.square / m
    tail = np.sqrt(2 * np.log(6 / DELTA))
    least = max(np.linalg.eigvalsh(gram)[0] + unit * (rng.standard_normal() - tail), 0.0)
    noise = np.triu(rng.standard_normal((d, d)))
    noisy = gram + np.sqrt(2) * unit * (noise + np.triu(noise, 1).T)
    ridge = max(np.sqrt(2) * unit * np.sqrt(d * np.log(2 * d**2 / _FAILS)) - least, 0.0)
    products = data.train.T @ data.y + 2 * np.sqrt(data.square) / m * rng.standard_normal(d)
    return np.asarray(np.linalg.pinv(noisy + ridge * np.eye(d)) @ products)


def descend(data: Numbers, epsilon: float, rng: np.random.Generator, rounds: int, step: float, clip: float) -> Rows:
    """Return DP-GD: full gradients of the squared loss, records clipped, the mean of the last half of the models."""
    noise_std = own.gradient_noise(epsilon, DELTA, rounds, len(data.train), clip)
    lengths = np.linalg.norm(data.train, axis=1)
    model, models = np.zeros(data.train.shape[1]), []
    for _ in range(rounds):
        slopes = data.train @ model - data.y
        slopes *= own.clipped(slopes, lengths, clip)
        model = model - step * (slopes @ data.train / len(slopes) + noise_std * rng.standard_normal(len(model)))
        models.append(model)
    return np.asarray(np.mean(models[rounds // 2 :], axis=0))


def tuned_descent(name: str, epsilon: float) -> dict[str, float]:
    """Return the settings with the best held-out R^2 of one run: chosen with the data, not paid for."""
    data, best, most = numbers(name, 0), {}, -np.inf
    for values in product(*GRID.values()):
        settings = dict(zip(GRID, values, strict=True))
        model = descend(data, epsilon, np.random.default_rng(FIRST_TUNING_SEED), **settings)
        found = r2(data.truth, data.test @ model)
        if found > most:
            best, most = settings, found
    return best


def by_diffprivlib(python: Path, name: str, epsilon: float, run: int) -> float:
    """Fit in diffprivlib's own environment."""
    data = numbers(name, run)
    with tempfile.TemporaryDirectory() as place:
        rows, answers = Path(place) / "rows.npz", Path(place) / "answers.npy"
        np.savez(rows, train=data.train[:, :-1], y=data.y, test=data.test[:, :-1])
        subprocess.run(
            [str(python), str(WORKER), str(rows), str(epsilon), str(FIRST_SEED + run), str(answers)], check=True
        )
        return r2(data.truth, np.load(answers))


def measured(who: str, name: str, epsilon: float, run: int, settings: dict[str, float]) -> float:
    """Return the held-out R^2 of one fit in this environment."""
    if who == OURS:
        return measure_regression(name, epsilon, run)
    data, rng = numbers(name, run), np.random.default_rng(FIRST_SEED + run)
    if who == ADASSP:
        model = adassp(data, epsilon, rng)
    elif who == DESCENT:
        model = descend(data, epsilon, rng, **settings)
    else:
        model = np.linalg.lstsq(data.train, data.y, rcond=None)[0]
    return r2(data.truth, data.test @ model)


def measure(
    folder: Path, names: Sequence[str], epsilons: Sequence[float], runs: int, say: Callable[[str], None]
) -> dict[str, dict[str, Figure]]:
    """Return the figures by set and then by contender and budget, as `contender budget`; keep them in a file."""
    python, found = python_of(folder, "diffprivlib"), dict[str, dict[str, Figure]]()
    for name in names:
        found[name] = {}
        for who, epsilon in product(TITLES, epsilons):
            if who == DIFFPRIVLIB and python is None:
                continue
            settings = tuned_descent(name, epsilon) if who == DESCENT else {}
            scores = {
                run: by_diffprivlib(python, name, epsilon, run)
                if who == DIFFPRIVLIB and python is not None
                else measured(who, name, epsilon, run, settings)
                for run in range(runs)
            }
            found[name][f"{who} {epsilon:g}"] = figure(scores, SPLITS)
        say(f"{name}: numbers measured")
        (folder / "numbers.json").write_text(json.dumps(found))
    return found


def known_figures(folder: Path) -> dict[str, dict[str, Figure]]:
    """Return the figures that were kept; none before they were measured."""
    file = folder / "numbers.json"
    stored = json.loads(file.read_text()) if file.exists() else {}
    return {name: {key: Figure(*values) for key, values in each.items()} for name, each in stored.items()}


def section(figures: dict[str, dict[str, Figure]], epsilons: Sequence[float]) -> list[str]:
    """Return the part of the page about numbers; nothing before they were measured."""
    if not figures:
        return []
    heads = ["held-out R^2", *(f"eps {epsilon:g}" for epsilon in epsilons)]
    runs = max(cell.runs for each in figures.values() for cell in each.values())
    said = f"Records pooled; {runs} runs each. † Tuned on the held-out rows, and not paid for."
    lines = ["", "## Numbers", "", said]
    for name, each in figures.items():
        lines += ["", f"### {SETS[name].title}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for who, title in TITLES.items():
            cells = [each.get(f"{who} {epsilon:g}") for epsilon in epsilons]
            shown = ["-" if cell is None else f"{cell.mean:.3f} ± {cell.standard_error:.3f}" for cell in cells]
            lines.append(f"| {title} | {' | '.join(shown)} |")
    return lines
