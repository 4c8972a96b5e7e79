"""Many records: a planned fit of a million rows with twenty columns, end to end, on one thread and on two.

One silo runs noisy gradients, five silos without trust run P-ADMM, with secure noise; reading the array, the plan and
the preparation are included. Every fit has a process of its own, which may use as many cores as it is to have threads.
"""

import json
import os
import subprocess
import sys
import time
import warnings

import numpy as np
from scipy.special import expit

from dpadmm import PrivateLogisticRegression, TrainingOptions
from growth import dense_rows
from table import Row

RECORDS, COLUMNS, DELTA = 1_000_000, 20, 1e-7
CASES = ((1, 1.0), (5, 1.0), (5, 5.0))
"""Silos and epsilons."""


def fit(X: np.ndarray, y: np.ndarray, silos: int, epsilon: float) -> PrivateLogisticRegression:
    """Fit with the planner's defaults; the norm of the rows is known."""
    model = PrivateLogisticRegression(epsilon, DELTA, training=TrainingOptions(row_norm=1.0, profile="off"))
    return model.fit(X, y, groups=None if silos == 1 else np.arange(len(y)) % silos)


def main(threads: int, silos: int, epsilon: float) -> None:
    """Fit once on so many cores and print what it took as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    warnings.simplefilter("ignore")
    rng, X = np.random.default_rng(1), dense_rows(RECORDS, COLUMNS)
    y = (rng.random(RECORDS) < expit(5 * X @ rng.standard_normal(COLUMNS))).astype(int)
    fit(X[:20_000], y[:20_000], silos, epsilon)  # compiles
    wall, processor = time.perf_counter(), time.process_time()
    model = fit(X, y, silos, epsilon)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    plan = model.plan_
    print(json.dumps({"wall": wall, "processor": processor, "method": plan.method, "rounds": plan.rounds}))


def rows() -> list[Row]:
    """Measure every case on one thread and on two; the ratio is that of the times on the clock."""
    table = []
    for silos, epsilon in CASES:
        alone = None
        for threads in (1, 2):
            command = [sys.executable, __file__, *map(str, (threads, silos, epsilon))]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            what = f"{found['method']}, {found['rounds']} rounds, {silos} silo{'s' * (silos > 1)}, epsilon {epsilon:g}"
            name = f"fit of 1,000,000 x 20, {what}, {threads} thread{'s' * (threads > 1)}"
            if alone is None:
                alone = found["wall"]
                table.append(Row(f"{name}: processor time", found["processor"], "s", ""))
                table.append(Row(name, alone, "s", ""))
            else:
                table.append(Row(name, found["wall"], "s", "the same on one thread", alone, alone / found["wall"]))
    return table


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
