"""What every contender's process shares: it reads rows and jobs, fits, and writes probabilities and costs.

Called as `python worker.py rows.npz jobs.json answers/`. It runs in the contender's own environment, so it needs numpy
alone. For every job it writes `answers/<number>.npy`, the probabilities of all rows, and prints one line of JSON.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Job:
    """One fit: a budget, a seed, which split, how rows are encoded, and the contender's own settings."""

    number: int
    epsilon: float
    delta: float
    seed: int
    split: int
    encoding: dict[str, Any] | None
    settings: dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Encoded rows of a split: every row's norm is at most `norm`, whoever it is. silo: of the training rows."""

    train: np.ndarray
    labels: np.ndarray
    silo: np.ndarray
    everything: np.ndarray
    norm: float


Probabilities = np.ndarray
"""Of all rows, in the order of the table."""


def encoded(features: np.ndarray, encoding: dict[str, Any]) -> np.ndarray:
    """Return `(clip(x) - centre) / scale`, rows longer than the radius shortened; public numbers alone."""
    centre, scale, lower, upper = (np.array(encoding[key]) for key in ("centre", "scale", "lower", "upper"))
    rows = (np.clip(features, lower, upper) - centre) / scale
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows * np.minimum(1.0, encoding["radius"] / np.maximum(norms, 1e-300))).astype(np.float32)


class Shop:
    """The rows of a data set, encoded once for every split and encoding that follow each other."""

    def __init__(self, path: str) -> None:
        stored = np.load(path)
        self.features, self.labels, self.silo = stored["features"], stored["labels"], stored["silo"]
        self.splits = {int(key[5:]): stored[key] for key in stored.files if key.startswith("train")}
        self._last: tuple[str, Rows] | None = None

    def rows(self, job: Job) -> Rows:
        """Return the rows as the job wants them."""
        key = json.dumps([job.split, job.encoding])
        if self._last is None or self._last[0] != key:
            assert job.encoding is not None
            rows, train = encoded(self.features, job.encoding), self.splits[job.split]
            self._last = key, Rows(rows[train], self.labels[train], self.silo[train], rows, job.encoding["radius"])
        return self._last[1]


def serve(fit: Callable[[Job, Rows], Probabilities]) -> None:
    """Do all jobs on encoded rows."""
    path, jobs, answers = sys.argv[1:4]
    shop = Shop(path)
    for job in jobs_of(jobs):
        answer(job, Path(answers), partial(fit, job, shop.rows(job)))


def jobs_of(path: str) -> list[Job]:
    """Return what is to be done."""
    return [Job(**each) for each in json.loads(Path(path).read_text())]


def answer(job: Job, answers: Path, fit: Callable[[], Probabilities]) -> None:
    """Fit, write the probabilities and print what it took; a contender that fails says why and goes on."""
    begin, busy = time.perf_counter(), time.process_time()
    said: dict[str, Any] = {"number": job.number}
    try:
        found = fit()
        said |= {"seconds": time.perf_counter() - begin, "processor": time.process_time() - busy}
        np.save(answers / f"{job.number}.npy", np.asarray(found, dtype=np.float64))
    except Exception as problem:  # noqa: BLE001 - whatever a peer raises is its result
        said["failed"] = f"{type(problem).__name__}: {problem}"[:300]
    said["megabytes"] = peak_megabytes()
    print(json.dumps(said), flush=True)


def peak_megabytes() -> float:
    """Return the most memory that this process has held; NaN where the system does not tell.

    `getrusage` would count the process that started this one as well.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))
