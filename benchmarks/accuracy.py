"""`make bench-accuracy`: how good the planner's defaults are on real data, beside an earlier state of this package.

Every figure is a mean over runs with simulated noise, with its standard error. The earlier figures, in
`accuracy_baseline.json`, come from the same rows, silos, splits and seeds: once with public bounds alone, and once with
typical values typed in by hand. The first table holds fits on twelve sets, real and made, against the planner's
forecasts for their own signals. Scores of every run are kept in a file until the code changes, so a benchmark that was
interrupted goes on where it stopped.
"""

import argparse
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise, product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import dpadmm
from accuracy_sets import (
    ACCURACY,
    EAVESDROPPER,
    LOSS,
    MASKED,
    METRICS,
    PUBLIC,
    RISK,
    SETS,
    TRAINING,
    TRUST,
    UNWATCHED,
    RealSet,
    measure,
)
from dpadmm.errors import InputError
from forecast_sets import (
    FORECAST,
    FORECAST_SETS,
    HIGH,
    LOW,
    NON_PRIVATE,
    REACHED,
    ForecastSet,
    is_within,
    measure_forecast,
)
from regression_sets import SETS as REGRESSION_SETS
from regression_sets import SPLITS as REGRESSION_SPLITS
from regression_sets import RegressionSet, measure_regression
from round_sets import CLEAR, CLEARANCE, FEW, FEW_SECONDS, ROUND_SETS, ROUNDS, USUAL, USUAL_SECONDS, measure_rounds

HERE = Path(__file__).parent
BASELINE = HERE / "accuracy_baseline.json"
EPSILONS = (0.1, 0.5, 1.0, 5.0)
RUNS, WORKERS = 20, 2
FORECAST_EPSILONS, FORECAST_RUNS, LEAST_WITHIN = (0.1, 1.0, 5.0), 5, 0.9
BOUNDS, TYPED = "bounds", "typed"
MOST_LOST = 0.005
REGRESSION, R2 = "regression", "held-out R^2"


class Figure(NamedTuple):
    """A mean over runs, with its standard error."""

    mean: float
    standard_error: float
    runs: int

    def __str__(self) -> str:
        """Say it shortly."""
        return f"{self.mean:.4f} ± {self.standard_error:.4f}"


@dataclass(frozen=True)
class Aim:
    """Bounds that a mean is to keep, and one that it would be good to keep."""

    least: float = -math.inf
    most: float = math.inf
    goal: float | None = None

    def __str__(self) -> str:
        """Say it shortly."""
        ends = [f">= {self.least:g}"] * math.isfinite(self.least) + [f"<= {self.most:g}"] * math.isfinite(self.most)
        return ", ".join(ends) + ("" if self.goal is None else f" (goal {self.goal:g})")

    def is_met(self, mean: float) -> bool:
        """Return whether a mean is within the bounds."""
        return self.least <= mean <= self.most


ADULT_AIMS = ((0.1, 0.376, 0.372), (0.5, 0.338, 0.335), (1.0, 0.331, 0.328), (5.0, 0.325, 0.3235))
SUM_AIMS = ((0.1, 0.357, 0.350), (0.5, 0.331, 0.329), (1.0, 0.326, 0.3255), (5.0, 0.3245, 0.323))
MASKED_AIMS = ((0.1, 0.361, 0.357), (0.5, 0.333, 0.331), (1.0, 0.327, 0.326), (5.0, 0.325, 0.324))
AIMS = {
    ("adult", trust, f"{TRAINING} {LOSS}", epsilon): Aim(most=most, goal=goal)
    for trust, aims in (
        (EAVESDROPPER, ADULT_AIMS),
        (PUBLIC, SUM_AIMS),
        (UNWATCHED, SUM_AIMS),
        (MASKED, MASKED_AIMS),
    )
    for epsilon, most, goal in aims
} | {
    ("adult", EAVESDROPPER, f"{TRAINING} {RISK}", 1.0): Aim(0.95, 1.05),
    ("breast", EAVESDROPPER, f"{TRAINING} {ACCURACY}", 1.0): Aim(0.915),
    ("heart", EAVESDROPPER, f"{TRAINING} {ACCURACY}", 1.0): Aim(0.775),
}


class Cell(NamedTuple):
    """One run: a data set, who is trusted, a budget and the number of the run, which names its seed and its split."""

    name: str
    trust: str
    epsilon: float
    run: int


def figure(scores: dict[int, float], splits: int) -> Figure:
    """Return the mean over runs, by their numbers, and the standard error that the noise gives it.

    Runs `r` and `r + splits` share their rows. Splits are the same for everything that is compared, so what differs
    between them is not counted.
    """
    shared: dict[int, list[float]] = {}
    for run, score in scores.items():
        shared.setdefault(run % splits, []).append(score)
    runs, freedom = len(scores), len(scores) - len(shared)
    squares = sum(float(np.sum((np.array(part) - np.mean(part)) ** 2)) for part in shared.values())
    error = math.sqrt(squares / freedom / runs) if freedom > 0 else math.nan
    return Figure(float(np.mean(list(scores.values()))), error, runs)


def gain(metric: str, earlier: Figure, now: Figure) -> float:
    """Return by how many standard errors of the difference the score is better than it was."""
    better = earlier.mean - now.mean if metric.endswith(LOSS) else now.mean - earlier.mean
    error = math.hypot(earlier.standard_error, now.standard_error)
    if error == 0:
        return math.copysign(math.inf, better) if better else 0.0
    return better / error


class Scores:
    """Scores of single runs, kept in a file that is added to line by line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"accuracy-{source_digest()[:12]}.jsonl"
        self.known: dict[Cell, dict[str, float]] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                *cell, found = json.loads(line)
                self.known[Cell(*cell)] = found

    def add(self, cell: Cell, found: dict[str, float]) -> None:
        """Keep the scores of a run."""
        self.known[cell] = found
        with self.path.open("a") as file:
            file.write(json.dumps([*cell, found]) + "\n")

    def figures(self, name: str, trust: str, epsilon: float, runs: int) -> dict[str, Figure]:
        """Return the figures of a set at a budget, from the runs of these numbers that there are."""
        cells = [Cell(name, trust, epsilon, run) for run in range(runs)]
        found = {cell.run: self.known[cell] for cell in cells if cell in self.known}
        if not found:
            return {}
        return {
            metric: figure({run: each[metric] for run, each in found.items()}, SETS[name].splits(metric))
            for metric in METRICS
        }


def source_digest() -> str:
    """Return a digest of the code whose accuracy is measured."""
    files = [*Path(dpadmm.__file__).parent.rglob("*.py"), *HERE.glob("*_sets.py")]
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def measured(cell: Cell) -> dict[str, float]:
    """Return the scores of a run."""
    if cell.trust == REGRESSION:
        return {R2: measure_regression(cell.name, cell.epsilon, cell.run)}
    if cell.trust == ROUNDS:
        return measure_rounds(cell.name, cell.epsilon, cell.run)
    return measure_forecast(*cell) if cell.trust == FORECAST else measure(*cell)


def run_cells(cells: Sequence[Cell], workers: int) -> Iterator[tuple[Cell, dict[str, float]]]:
    """Yield the scores of the runs as they end; one worker is this process."""
    if workers == 1:
        yield from ((cell, measured(cell)) for cell in cells)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(measured, cell): cell for cell in cells}
        try:
            yield from ((waiting[each], each.result()) for each in as_completed(waiting))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def earlier_figures(name: str) -> dict[str, dict[float, dict[str, Figure]]]:
    """Return what the earlier state reached on a set, by what was typed in, budget and metric."""
    stored = json.loads(BASELINE.read_text())["figures"][name]
    return {
        kind: {
            float(epsilon): {metric: Figure(*values) for metric, values in found.items()}
            for epsilon, found in by_epsilon.items()
        }
        for kind, by_epsilon in stored.items()
    }


def table_of(name: str, scores: Scores, trusts: Sequence[str], epsilons: Sequence[float], runs: int) -> Table:
    """Return a set's figures, earlier (when nobody was trusted) and now."""
    commit = json.loads(BASELINE.read_text())["commit"]
    shown = Table(title=f"{SETS[name].title}, delta 1e-5, up to {runs} runs", title_justify="left")
    for title in (
        "score",
        "trusted",
        "eps",
        commit,
        f"{commit}, typical values typed in",
        "now",
        "gain / SE",
        "aim",
        "",
    ):
        shown.add_column(title, justify="left" if title in ("score", "trusted", "aim", "") else "right")
    earlier = earlier_figures(name)
    for metric in METRICS:
        for trust in trusts:
            for epsilon in epsilons:
                now = scores.figures(name, trust, epsilon, runs).get(metric)
                if now is not None:
                    row = _row(name, trust, metric, epsilon, earlier if trust == EAVESDROPPER else {}, now)
                    shown.add_row(*row, end_section=epsilon == epsilons[-1])
    return shown


def _row(
    name: str, trust: str, metric: str, epsilon: float, earlier: dict[str, dict[float, dict[str, Figure]]], now: Figure
) -> tuple[str, ...]:
    before, typed = (earlier.get(kind, {}).get(epsilon, {}).get(metric) for kind in (BOUNDS, TYPED))
    aim, remarks = AIMS.get((name, trust, metric, epsilon)), []
    change = math.nan if before is None or metric.endswith(RISK) else gain(metric, before, now)
    if aim is not None:
        remarks.append("met" if aim.is_met(now.mean) else "NOT MET")
    if change < -1:
        remarks.append("WORSE")
    return (
        metric,
        trust,
        f"{epsilon:g}",
        "" if before is None else str(before),
        "" if typed is None else str(typed),
        str(now),
        "" if math.isnan(change) else f"{change:+.1f}",
        "" if aim is None else str(aim),
        ", ".join(remarks),
    )


def regression_cells(names: Sequence[str], epsilons: Sequence[float], runs: int) -> list[Cell]:
    """Return the runs on sets with a number as target."""
    return [Cell(name, REGRESSION, epsilon, run) for name in names for epsilon in epsilons for run in range(runs)]


def regression_table(scores: Scores, names: Sequence[str], epsilons: Sequence[float], runs: int) -> Table:
    """Return the held-out R^2 of every set with a number as target."""
    shown = Table(title=f"Held-out R^2 of numbers, delta 1e-5, up to {runs} runs", title_justify="left")
    for title in ("set", *(f"eps {epsilon:g}" for epsilon in epsilons), ""):
        shown.add_column(title, justify="left" if title in ("set", "") else "right")
    for name in names:
        found = []
        for epsilon in epsilons:
            known = [scores.known.get(cell) for cell in regression_cells([name], [epsilon], runs)]
            found.append(
                figure({run: each[R2] for run, each in enumerate(known) if each is not None}, REGRESSION_SPLITS)
            )
        falls = any(gain(R2, earlier, now) < -2 for earlier, now in pairwise(found))
        shown.add_row(REGRESSION_SETS[name].title, *map(str, found), "FALLS WITH EPSILON" if falls else "")
    return shown


def at_hand(
    sets: Mapping[str, RealSet] | Mapping[str, ForecastSet] | Mapping[str, RegressionSet], console: Console
) -> list[str]:
    """Return the names of sets whose files are there, and say which are not."""
    found = []
    for name, each in sets.items():
        try:
            each.read()
            found.append(name)
        except InputError as problem:
            console.print(f"{each.title} is left out. {problem}", markup=False)
    return found


def forecast_table(scores: Scores, runs: int) -> Table:
    """Return what was forecast, for each set's own signal, and what fits reached."""
    shown = Table(title=f"AUC of fits within the forecast, {runs} runs each", title_justify="left")
    for title in ("set", "without privacy", "eps", "forecast (first run)", "reached", "within"):
        shown.add_column(title, justify="left" if title == "set" else "right")
    everything: list[bool] = []
    for name, chosen in FORECAST_SETS.items():
        for epsilon in FORECAST_EPSILONS:
            cells = [Cell(name, FORECAST, epsilon, run) for run in range(runs)]
            found = [scores.known[cell] for cell in cells if cell in scores.known]
            if found:
                reached, without = ([each[key] for each in found] for key in (REACHED, NON_PRIVATE))
                within = [is_within(each) for each in found]
                everything += within
                shown.add_row(
                    chosen.title,
                    f"{np.mean(without):.3f}",
                    f"{epsilon:g}",
                    f"{found[0][LOW]:.2f} to {found[0][HIGH]:.2f}",
                    f"{min(reached):.3f} to {max(reached):.3f}",
                    f"{sum(within)} of {len(within)}",
                    end_section=epsilon == FORECAST_EPSILONS[-1],
                )
    share = float(np.mean(everything)) if everything else math.nan
    verdict = "met" if share >= LEAST_WITHIN else "NOT MET"
    shown.caption = f"within: {share:.3f} of {len(everything)} fits; aim >= {LEAST_WITHIN:g}, {verdict}"
    return shown


def rounds_table(scores: Scores, names: Sequence[str], epsilons: Sequence[float], runs: int) -> Table:
    """Return the loss of few preconditioned rounds less that of the usual ones, run by run."""
    shown = Table(title=f"Few rounds: held-out log-loss, delta 1e-5, up to {runs} runs", title_justify="left")
    for title in ("rows", "eps", "n m/sqrt(N d)", "usual", "few", "few - usual", "processor time", "aim", ""):
        shown.add_column(title, justify="left" if title in ("rows", "aim", "") else "right")
    gaps: list[float] = []
    for name in names:
        for epsilon in epsilons:
            cells = [Cell(name, ROUNDS, epsilon, run) for run in range(runs)]
            found = [scores.known[cell] for cell in cells if cell in scores.known]
            if found:
                gap = figure({run: each[FEW] - each[USUAL] for run, each in enumerate(found)}, 1)
                aim = Aim(most=ROUND_SETS[name].aim if epsilon == 1.0 else MOST_LOST)
                usual, few, before, now, clearance = (
                    float(np.mean([each[kind] for each in found]))
                    for kind in (USUAL, FEW, USUAL_SECONDS, FEW_SECONDS, CLEARANCE)
                )
                verdict = "met" if aim.is_met(gap.mean) else "NOT MET"
                if clearance < CLEAR:
                    verdict = "not planned"
                else:
                    gaps.append(gap.mean)
                shown.add_row(
                    *(name, f"{epsilon:g}", f"{clearance:.0f}", f"{usual:.4f}", f"{few:.4f}", str(gap)),
                    *(f"{now:.2g} of {before:.2g} s", str(aim), verdict),
                )
    shown.caption = f"mean {np.mean(gaps) if gaps else math.nan:+.4f} where they are planned; aim <= 0"
    return shown


def add_missing(scores: Scores, cells: Sequence[Cell], workers: int, title: str, console: Console) -> None:
    """Measure what is not known yet."""
    left = [cell for cell in cells if cell not in scores.known]
    done = run_cells(left, min(workers, len(left)) or 1)
    for cell, found in track(done, title, total=len(left), console=console):
        scores.add(cell, found)


def arguments(texts: Sequence[str] | None) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description="Accuracy of the planner's defaults on real data.")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="all if left out")
    parser.add_argument("--trust", nargs="+", choices=TRUST, default=list(TRUST), help="all if left out")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--runs", type=int, default=RUNS, help="per set and budget; a multiple of 5 suits the splits")
    parser.add_argument(
        "--only", choices=("accuracy", "forecasts", "regression", "rounds"), help="one part; all if left out"
    )
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes")
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder for the scores of single runs")
    return parser.parse_args(texts)


def main(texts: Sequence[str] | None = None) -> None:
    """Measure what is not known yet, and print one table per set."""
    asked, console = arguments(texts), Console(width=190)
    scores = Scores(asked.results)
    console.print(f"Scores of single runs: {scores.path}", soft_wrap=True, markup=False)
    with ExitStack() as stack:
        # Plans are made anew: a cache filled by other code would hide what this code does.
        os.environ["XDG_CACHE_HOME"] = stack.enter_context(tempfile.TemporaryDirectory())
        if asked.only in (None, "regression"):
            names = at_hand(REGRESSION_SETS, console)
            add_missing(scores, regression_cells(names, asked.epsilons, asked.runs), asked.workers, "Numbers", console)
            console.print(regression_table(scores, names, asked.epsilons, asked.runs))
        if asked.only in (None, "forecasts"):
            cells = [
                Cell(name, FORECAST, epsilon, run)
                for name in at_hand(FORECAST_SETS, console)
                for run in range(FORECAST_RUNS)
                for epsilon in FORECAST_EPSILONS
            ]
            add_missing(scores, cells, asked.workers, "Forecasts", console)
            console.print(forecast_table(scores, FORECAST_RUNS))
        if asked.only in (None, "rounds"):
            names = [name for name, each in ROUND_SETS.items() if each.title not in SETS or each.title in asked.sets]
            cells = [Cell(*key, run) for key in product(names, [ROUNDS], asked.epsilons) for run in range(asked.runs)]
            add_missing(scores, cells, asked.workers, "Few rounds", console)
            console.print(rounds_table(scores, names, asked.epsilons, asked.runs))
        if asked.only in ("forecasts", "regression", "rounds"):
            return
        for name in at_hand({name: SETS[name] for name in asked.sets}, console):
            cells = [
                Cell(name, trust, epsilon, run)
                for trust in asked.trust
                for epsilon in asked.epsilons
                for run in range(asked.runs)
            ]
            add_missing(scores, cells, asked.workers, SETS[name].title, console)
            console.print(table_of(name, scores, asked.trust, asked.epsilons, asked.runs))
    console.print(
        "Mean ± standard error (of the noise; rows, silos and splits are the same). Gain / SE: by how many standard "
        "errors of the difference the score is better than with public bounds at the earlier commit; WORSE: by more "
        "than one worse. Training: fitted and scored on the same records; held-out: scored on others."
    )


if __name__ == "__main__":
    main()
