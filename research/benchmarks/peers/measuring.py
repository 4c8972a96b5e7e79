"""Runs contenders: tells each process what to fit, scores its answers, and chooses settings where that is asked for."""

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from peers.contenders import Contender, Kind, Scaling, View
from peers.environments import python_of
from peers.results import FAILED, LOSS, Cell, Results, scores
from peers.sets import DELTA, Loaded, PublicRows, by_bounds, by_profile, load

WORKERS = Path(__file__).parent / "workers"
FIRST_SEED, FIRST_TUNING_SEED = 20_000, 30_000
"""Seeds from here on are for this benchmark alone: nothing of ours may be tuned on them."""
NO_BUDGET = 0.0


@dataclass(frozen=True)
class Bench:
    """What is measured: budgets, runs, where results and environments are kept, and how progress is said.

    most_choices: how many settings are tried at most; None tries all.
    """

    epsilons: tuple[float, ...]
    runs: int
    folder: Path
    results: Results
    say: Callable[[str], None]
    most_choices: int | None = None

    def epsilons_of(self, contender: Contender) -> tuple[float, ...]:
        """Return the budgets that make a difference for a contender."""
        return (NO_BUDGET,) if contender.kind is Kind.NON_PRIVATE else self.epsilons

    def shown(self, contender: Contender, name: str, epsilon: float) -> list[Cell]:
        """Return the fits that the tables show; none while settings are not chosen."""
        chosen = self.chosen(contender, name, epsilon)
        if chosen is None:
            return []
        budget = epsilon if epsilon in self.epsilons_of(contender) else NO_BUDGET
        return [Cell(contender.name, name, budget, run, _text(chosen), False) for run in range(self.runs)]

    def tried(self, contender: Contender, name: str, epsilon: float, settings: dict[str, Any]) -> list[Cell]:
        """Return the fits by which settings are judged."""
        runs = range(load(name).tuning_runs)
        return [Cell(contender.name, name, epsilon, run, _text(settings), True) for run in runs]

    def chosen(self, contender: Contender, name: str, epsilon: float) -> dict[str, Any] | None:
        """Return the settings: as stated, or those with the least held-out loss; None before all were tried."""
        if contender.kind is not Kind.TUNED:
            return contender.settings
        best, least = None, math.inf
        for settings in contender.choices()[: self.most_choices]:
            found = [self.results.get(contender, cell) for cell in self.tried(contender, name, epsilon, settings)]
            if any(each is None for each in found):
                return None
            loss = float(np.mean([each.get(LOSS, math.inf) for each in found if each is not None]))
            if best is None or loss < least:
                best, least = settings, loss
        return best

    def measure(self, contender: Contender, name: str) -> None:
        """Make all fits of a contender on a data set that are not known yet."""
        if python_of(self.folder, contender.environment) is None:
            self.say(f"{name}, {contender.name}: left out, its environment was not made")
            return
        epsilons = self.epsilons_of(contender)
        if contender.kind is Kind.TUNED:
            choices = contender.choices()[: self.most_choices]
            self._fit(
                contender, name, [c for e in epsilons for s in choices for c in self.tried(contender, name, e, s)]
            )
        self._fit(contender, name, [c for e in epsilons for c in self.shown(contender, name, e)])

    def _fit(self, contender: Contender, name: str, cells: Sequence[Cell]) -> None:
        left = [cell for cell in cells if self.results.get(contender, cell) is None]
        if not left:
            return
        data = load(name)
        left.sort(key=lambda cell: (cell.epsilon, cell.run) if contender.scaling is Scaling.PROFILE else (cell.run,))
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            jobs = Path(place) / "jobs.json"
            jobs.write_text(json.dumps(jobs_for(contender, data, left)))
            rows = name if contender.scaling is Scaling.OWN else str(self._rows(data, Path(place)))
            self._follow(contender, data, left, [rows, str(jobs), place])

    def _rows(self, data: Loaded, place: Path) -> Path:
        """Write the rows where a process of another environment finds them."""
        path = place / "rows.npz"
        train = {f"train{number}": rows for number, rows in enumerate(data.train)}
        np.savez(path, features=data.features(), labels=data.positive, silo=data.silo_numbers(), **train)
        return path

    def _follow(self, contender: Contender, data: Loaded, cells: Sequence[Cell], texts: Sequence[str]) -> None:
        """Run the process and score its answers as they come."""
        python, place, done = python_of(self.folder, contender.environment), Path(texts[-1]), 0
        errors = place / "errors.txt"
        with errors.open("w") as complaints, subprocess.Popen(
            [str(python), str(WORKERS / f"{contender.worker}.py"), *texts], stdout=subprocess.PIPE, stderr=complaints,
            text=True, env=_surroundings(contender, place),
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                answer = place / f"{said['number']}.npy"
                cell = cells[said.pop("number")]
                if FAILED not in said:
                    said |= scores(data, data.split_of(cell.run), np.load(answer))
                    answer.unlink()
                self.results.add(contender, cell, said)
                done += 1
                if done % 20 == 0 or done == len(cells):
                    self.say(f"{cell.data}, {contender.name}: {done} of {len(cells)}{' tried' * cell.is_tuning}")
        if done < len(cells):
            raise SystemExit(f"{contender.name} ended early:\n{errors.read_text()[-2000:]}")


def jobs_for(contender: Contender, data: Loaded, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return what the process is told: budget, seed, split, encoding and settings of every fit."""
    jobs, encodings = [], dict[tuple[float, int, bool], PublicRows]()
    for number, cell in enumerate(cells):
        split, seed = data.split_of(cell.run), cell.run + (FIRST_TUNING_SEED if cell.is_tuning else FIRST_SEED)
        key = (cell.epsilon, cell.run, cell.is_tuning)
        if key not in encodings:
            encodings[key] = _public_rows(contender, data, cell.epsilon, split, seed)
        rows = encodings[key]
        epsilon, delta = at_budget(contender, rows.epsilon, rows.delta)
        jobs.append(
            {
                "number": number, "epsilon": epsilon, "delta": delta, "seed": seed, "split": split,
                "encoding": rows.encoding, "settings": json.loads(cell.settings),
            }
        )  # fmt: skip
    return jobs


def _public_rows(contender: Contender, data: Loaded, epsilon: float, split: int, seed: int) -> PublicRows:
    if contender.scaling is Scaling.PROFILE:
        return by_profile(data, epsilon, split, seed + 1_000_000, is_pooled=contender.view is not View.EAVESDROPPER)
    if contender.scaling is Scaling.BOUNDS:
        return by_bounds(data, epsilon)
    return PublicRows(None, epsilon, DELTA)


def at_budget(contender: Contender, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the budget that a contender is told.

    Replacing a record is removing one and adding another: (e, d) for either gives (2 e, (1 + exp(e)) d) for both.
    """
    if not contender.halves:
        return epsilon, delta
    return epsilon / 2, delta / (1 + math.exp(epsilon / 2))


def _surroundings(contender: Contender, place: Path) -> dict[str, str]:
    """Return the process's environment: one thread, no plans of other code, and nobody else's packages."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {key: value for key, value in os.environ.items() if contender.environment is None or key != "PYTHONPATH"}
    return {**kept, **one, "XDG_CACHE_HOME": str(place)}


def _text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
