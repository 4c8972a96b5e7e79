"""Many records: planned fits of a million rows, end to end, beside an earlier state of this package in the same run.

With secure noise; reading the array, the plan and the preparation are included. The earlier state is that of a commit:
its source is taken out of the repository, and left out where there is none. Every fit has a process of its own, which
may use as many cores as it is to have threads.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import dpadmm
from dpadmm import PrivateLogisticRegression
from growth import dense_rows
from table import Row

RECORDS, DELTA, EARLIER = 1_000_000, 1e-7, "70d13aa"
CASES = ((20, 1, 1.0, 8.0), (100, 1, 1.0, 8.0), (20, 5, 1.0, 4.0), (20, 5, 5.0, None))
"""Columns, silos, epsilon, and how many times less processor time than the earlier state is wanted."""


def fit(X: np.ndarray, y: np.ndarray, silos: int, epsilon: float) -> PrivateLogisticRegression:
    """Fit with the planner's defaults; the norm of the rows is known."""
    stated = {"row_norm": 1.0, "profile": "off"}
    options = getattr(dpadmm, "TrainingOptions", None)  # earlier states took each setting by itself
    model = PrivateLogisticRegression(epsilon, DELTA, **stated if options is None else {"training": options(**stated)})
    return model.fit(X, y, groups=None if silos == 1 else np.arange(len(y)) % silos)


def main(threads: int, columns: int, silos: int, epsilon: float) -> None:
    """Fit once on so many cores and print what it took as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    warnings.simplefilter("ignore")
    rng, X = np.random.default_rng(1), dense_rows(RECORDS, columns)
    y = (rng.random(RECORDS) < expit(5 * X @ rng.standard_normal(columns))).astype(int)
    fit(X[:30_000], y[:30_000], silos, epsilon)  # compiles
    wall, processor = time.perf_counter(), time.process_time()
    model = fit(X, y, silos, epsilon)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    plan = model.plan_
    print(json.dumps({"wall": wall, "processor": processor, "method": plan.method, "rounds": plan.rounds}))


def measured(threads: int, columns: int, silos: int, epsilon: float, source: Path | None = None) -> dict[str, Any]:
    """Return what a fit took in a process of its own; source: of the package, None for this one."""
    command = [sys.executable, __file__, *map(str, (threads, columns, silos, epsilon))]
    env = os.environ if source is None else os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def earlier_source(folder: Path) -> Path | None:
    """Return the earlier state's source, from the repository; None without one."""
    command = ["git", "-C", str(Path(__file__).parent), "archive", EARLIER, "src"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0:
        return None
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def rows() -> list[Row]:
    """Measure every case on one thread, beside the earlier state, and on two; the latter's ratio is of the clock."""
    table = []
    with ExitStack() as stack:
        source = earlier_source(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for columns, silos, epsilon, target in CASES:
            case = (columns, silos, epsilon)
            alone, both = measured(1, *case), measured(2, *case)
            what = f"{alone['method']}, {alone['rounds']} rounds, {silos} silo{'s' * (silos > 1)}, epsilon {epsilon:g}"
            name = f"fit of {RECORDS:,} x {columns}, {what}"
            if source is not None:
                before = measured(1, *case, source)
                then = f"{EARLIER}: {before['method']}, {before['rounds']} rounds"
                ratio = before["processor"] / alone["processor"]
                table.append(
                    Row(f"{name}: processor time", alone["processor"], "s", then, before["processor"], ratio, target)
                )
            ratio = alone["wall"] / both["wall"]
            table.append(Row(f"{name}, 2 threads", both["wall"], "s", "the same on one thread", alone["wall"], ratio))
    return table


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
