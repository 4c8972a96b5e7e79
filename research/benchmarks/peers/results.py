"""Scores of single fits, kept in a file that is added to line by line until the code behind them changes."""

import hashlib
import json
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import dpadmm
from accuracy import Figure, figure
from peers.contenders import Contender, Scaling
from peers.environments import requirements
from peers.sets import Loaded

HERE = Path(__file__).parent
LOSS, AUC, ACCURACY, TRAINING = "log-loss", "AUC", "accuracy", "training log-loss"
METRICS = (LOSS, AUC, ACCURACY, TRAINING)
SECONDS, PROCESSOR, MEGABYTES = "seconds", "processor", "megabytes"
FAILED = "failed"


class Cell(NamedTuple):
    """One fit: who, on what, at which budget (0: none), with which noise, and with which settings, as JSON.

    is_tuning: it was made to choose settings; its noise is shown nowhere.
    """

    contender: str
    data: str
    epsilon: float
    run: int
    settings: str
    is_tuning: bool


def scores(data: Loaded, split: int, probabilities: np.ndarray) -> dict[str, float]:
    """Return all scores of a fit, from the probabilities of all rows."""
    test, train = data.test[split], data.train[split]
    truth, risk = data.positive[test], probabilities[test]
    return {
        LOSS: float(log_loss(truth, risk)),
        AUC: float(roc_auc_score(truth, risk)),
        ACCURACY: float(accuracy_score(truth, risk > 0.5)),
        TRAINING: float(log_loss(data.positive[train], probabilities[train])),
    }


class Results:
    """What is known so far; lines of older code are ignored."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self._lock, self._digests = folder / "scores.jsonl", threading.Lock(), dict[str, str]()
        self._lines: dict[tuple[str, Cell], dict[str, Any]] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                digest, cell, found = json.loads(line)
                self._lines[digest, Cell(*cell)] = found

    def get(self, contender: Contender, cell: Cell) -> dict[str, Any] | None:
        """Return what a fit has scored, None if it was not made by this code."""
        return self._lines.get((self._digest(contender), cell))

    def add(self, contender: Contender, cell: Cell, found: dict[str, Any]) -> None:
        """Keep the scores of a fit."""
        digest = self._digest(contender)
        with self._lock, self.path.open("a") as file:
            self._lines[digest, cell] = found
            file.write(json.dumps([digest, cell, found]) + "\n")

    def total(self, names: Collection[str]) -> tuple[int, float]:
        """Return how many fits on these data sets the figures rest on, and their hours of processor time."""
        current = set(self._digests.values())
        lines = [
            found for (digest, cell), found in self._lines.items() if digest in current and cell.data in names
        ]  # fmt: skip
        return len(lines), sum(line.get(PROCESSOR, 0.0) for line in lines) / 3600

    def _digest(self, contender: Contender) -> str:
        if contender.name not in self._digests:
            self._digests[contender.name] = source_digest(contender)
        return self._digests[contender.name]


def source_digest(contender: Contender) -> str:
    """Return a digest of the code that a contender's scores depend on."""
    package = Path(dpadmm.__file__).parent
    files = [HERE / "workers" / f"{contender.worker}.py", HERE / "workers" / "protocol.py", HERE / "sets.py"]
    files += [HERE / "own.py"] if contender.worker == "own_methods" else []
    files += [requirements(contender.environment)] if contender.environment is not None else []
    files += {Scaling.OWN: package.rglob("*.py"), Scaling.PROFILE: package.glob("data/*.py")}.get(contender.scaling, ())
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def figure_of(found: Iterable[dict[str, Any] | None], metric: str, splits: int) -> Figure | None:
    """Return the mean over runs in their order with its standard error; None where a run is missing or has failed."""
    lines = list(found)
    if not lines or any(line is None or FAILED in line for line in lines):
        return None
    return figure({run: line[metric] for run, line in enumerate(lines) if line is not None}, splits)


def cost_of(found: Iterable[dict[str, Any] | None], what: str) -> float:
    """Return the median cost of these fits; NaN where none is known."""
    values = [line[what] for line in found if line is not None and what in line]
    return float(np.median(values)) if values else float("nan")
