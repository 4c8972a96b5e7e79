"""How the time of a run grows with records, dimension, agents and rounds: fitted exponents, all wanted at most 1.1.

A run is one replica of P-ADMM on a ring with simulated noise, preparation included, in processor time on one thread.
The two largest problems run on two threads and with secure noise, as a release does, in processes of their own, whose
peak memory is told, data included.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy import sparse

from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring
from dpadmm.noise.sampler import Sampler, SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.problems.arrays import Matrix
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, run_private
from table import Row, peak_memory

AGENTS, ROUNDS, REPEATS, MOST = 5, 10, 2, 1.1


def sparse_rows(n: int, d: int, entries: int = 50) -> Matrix:
    """Return rows of unit norm; columns are met as words in texts are, the first ones often."""
    rng = np.random.default_rng(0)
    indices = np.sort((d ** rng.random((n, entries), dtype=np.float32) - 1).astype(np.int32), axis=1)
    values = rng.random((n, entries))
    rows = sparse.csr_array((values.ravel(), indices.ravel(), np.arange(0, n * entries + 1, entries)), shape=(n, d))
    rows.sum_duplicates()
    lengths = 1.000001 * np.sqrt(np.add.reduceat(rows.data**2, rows.indptr[:-1]))
    rows.data /= np.repeat(lengths, np.diff(rows.indptr))
    return rows


def dense_rows(n: int, d: int) -> Matrix:
    """Return correlated rows of unit norm: twenty common factors and noise."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 20)) @ (np.geomspace(1, 0.1, 20)[:, None] * rng.standard_normal((20, d)))
    rows += 0.5 * rng.standard_normal((n, d))
    return rows / (1.000001 * np.linalg.norm(rows, axis=1, keepdims=True))


def problem(rows: Matrix, agents: int = AGENTS) -> Problem:
    """Spread the rows over agents; the labels follow a linear rule, with errors."""
    rng = np.random.default_rng(1)
    margins = 5 * rows @ rng.standard_normal(rows.shape[1])
    labels = np.where(rng.random(rows.shape[0]) < 1 / (1 + np.exp(-margins)), 1.0, -1.0)
    parts = [slice(i, None, agents) for i in range(agents)]
    silos = Silos.from_parts([rows[part] for part in parts], [labels[part] for part in parts], row_norm=1.0)
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=1e-3))


def run(task: Problem, rounds: int = ROUNDS, threads: int = 1, sampler: Sampler | None = None) -> None:
    """Run P-ADMM once, with simulated noise unless a sampler is given."""
    engine = LocalEngine(progress=False, threads=threads, recording=Recording(every=0))
    target, network = Target(1.0, 1e-5), ring(task.n_agents)
    noise = SimulatedSampler(0) if sampler is None else sampler
    run_private(PADMM(eta=0.01), task, rounds, target, noise, network, engine=engine)


def spent(task: Problem, rounds: int) -> float:
    """Return the least processor time of several runs."""
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        run(task, rounds)
        times.append(time.process_time() - begin)
    return min(times)


def exponent(sizes: list[int], times: list[float]) -> float:
    """Return p of the fit `time = c size^p`."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


GROWTHS: dict[str, tuple[list[int], Callable[[int], tuple[Problem, int]]]] = {
    "n, records (sparse, d = 2,000)": (
        [10_000, 40_000, 160_000],
        lambda n: (problem(sparse_rows(n, 2000)), ROUNDS),
    ),
    "n, records (dense, d = 20)": (
        [20_000, 80_000, 320_000],
        lambda n: (problem(dense_rows(n, 20)), ROUNDS),
    ),
    "d, columns (sparse, 50 entries a row, n = 20,000)": (
        [2000, 20_000, 200_000],
        lambda d: (problem(sparse_rows(20_000, d)), ROUNDS),
    ),
    "d, columns (dense, n = 20,000)": (
        [500, 1000, 2000],
        lambda d: (problem(dense_rows(20_000, d)), ROUNDS),
    ),
    "N, agents (2,000 records each, d = 100)": (
        [5, 20, 80],
        lambda agents: (problem(dense_rows(2000 * agents, 100), agents), ROUNDS),
    ),
    "K, rounds (sparse, n = 20,000, d = 2,000)": (
        [10, 40, 160],
        lambda rounds: (problem(sparse_rows(20_000, 2000)), rounds),
    ),
}
"""What grows, its sizes, and what makes the problem and the rounds of a size."""


def _large() -> list[Row]:
    """Return seconds and peak memory of 40 rounds on the largest problems, each in a process of its own."""
    table = []
    for kind, name, limit in (
        ("sparse", "P-ADMM, 40 rounds, d = 100,000 sparse, n = 200,000, 2 threads", 90.0),
        ("dense", "P-ADMM, 40 rounds, d = 2,000 dense, n = 20,000, processor time", 15.0),
    ):
        done = subprocess.run([sys.executable, __file__, kind], capture_output=True, text=True, check=True)
        measured = json.loads(done.stdout)
        seconds = measured["wall" if kind == "sparse" else "processor"]
        table.append(Row(name, seconds, "s", "", most=limit))
        table.append(Row(f"{name}: peak memory", measured["megabytes"], "MB", "", most=1000.0))
    return table


def rows() -> list[Row]:
    """Measure all growths and the largest problems."""
    run(problem(sparse_rows(2000, 2000)))  # compiles
    table = []
    for name, (sizes, made) in GROWTHS.items():
        times = [spent(*made(size)) for size in sizes]
        shown = ", ".join(f"{size:,}: {seconds:.2g} s" for size, seconds in zip(sizes, times, strict=True))
        table.append(Row(f"growth with {name}", exponent(sizes, times), "exponent", shown, most=MOST))
    return table + _large()


def main(kind: str) -> None:
    """Run one of the largest problems and print what it took as JSON."""
    run(problem(sparse_rows(2000, 2000)))
    task = problem(sparse_rows(200_000, 100_000) if kind == "sparse" else dense_rows(20_000, 2000))
    wall, processor = time.perf_counter(), time.process_time()
    run(task, rounds=40, threads=2, sampler=SecureSampler())
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(json.dumps({"wall": wall, "processor": processor, "megabytes": peak_memory()}))


if __name__ == "__main__":
    main(sys.argv[1])
