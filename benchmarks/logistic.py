"""Logistic ADMM rounds: all replicas at once against one SciPy L-BFGS-B call per agent and replica.

A run of 40 noisy rounds, as an experiment has; the first rounds need more passes, so fewer rounds give a smaller
ratio. One thread is measured in processor time on both sides, so that other work on the machine disturbs it little;
two threads in wall-clock time on both sides. The ratio moves by a tenth between runs, mostly with SciPy's time.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dpadmm.data.partition import iid
from dpadmm.methods.base import Agents
from dpadmm.networks import ring
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, Weighting
from dpadmm_research.datasets.adult_synthetic import adult_like
from table import Row

N, MU, ETA, TOLERANCE, ROUNDS = 5, 2e-4, 1e-2, 1e-9, 40
NOISE_STD = 0.05


def problem() -> Problem:
    """Return an Adult-like problem: 45,000 rows, 104 columns, 12 non-zeros a row, five agents on a ring."""
    data = adult_like(45_000, seed=0)
    silos = data.silos(iid(data.n_rows, N, np.random.default_rng(0)))
    return Problem.of(EmpiricalRisk(silos, Logistic(), mu=MU), Weighting.EQUAL)


def ours(task: Problem, replicas: int, threads: int, clock: Callable[[], float]) -> tuple[float, float]:
    """Return milliseconds per round and replica, and passes over the data per round, of noisy ADMM rounds."""
    network = ring(N)
    agents = Agents.of(task, network, TOLERANCE, threads)
    rng = np.random.default_rng(1)
    x = np.zeros((N, task.dimension, replicas))
    a, sent, heard = x.copy(), x.copy(), x.copy()
    spent, passes = [], []
    for _ in range(ROUNDS):
        begin = clock()
        solution = agents.minimise(a, (2 * sent + heard) / 4, np.full(N, 4 * ETA), x)
        spent.append(clock() - begin)
        passes.append(solution.passes.mean())
        x = solution.point
        sent = x + NOISE_STD * rng.standard_normal(x.shape)
        heard = network.neighbour_sum(sent)
        a = a + ETA * (2 * sent - heard)
    return 1e3 * float(np.mean(spent[2:])) / replicas, float(np.mean(passes[2:]))


def scipy_loop(task: Problem, replicas: int, clock: Callable[[], float]) -> float:
    """Return milliseconds per round and replica of the loop a user would write, at the same accuracy."""
    risk, network = task.functions, ring(N)
    offsets = risk.silos.offsets
    rows = risk.folded(slice(0, int(offsets[-1])))
    parts = [rows[offsets[i] : offsets[i + 1]] for i in range(N)]
    rng = np.random.default_rng(1)
    x = np.zeros((N, task.dimension, replicas))
    a, sent, heard = x.copy(), x.copy(), x.copy()
    pull, spent = 4 * ETA, []
    for _ in range(ROUNDS):
        begin = clock()
        new = np.empty_like(x)
        for i in range(N):
            for r in range(replicas):
                new[i, :, r] = _one(parts[i], a[i, :, r], (2 * sent + heard)[i, :, r] / 4, pull, x[i, :, r])
        spent.append(clock() - begin)
        x = new
        sent = x + NOISE_STD * rng.standard_normal(x.shape)
        heard = network.neighbour_sum(sent)
        a = a + ETA * (2 * sent - heard)
    return 1e3 * float(np.mean(spent[2:])) / replicas


def _one(rows, lin, centre, pull, start):
    def objective(w):
        margins, away = rows @ w, w - centre
        value = np.logaddexp(0, -margins).mean() + 0.5 * MU * w @ w + lin @ w + 0.5 * pull * away @ away
        return value, -(rows.T @ expit(-margins)) / rows.shape[0] + MU * w + lin + pull * away

    options = {"gtol": TOLERANCE / 3, "ftol": 0.0, "maxiter": 2000, "maxfun": 4000}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x


def rows() -> list[Row]:
    """Measure everything."""
    task = problem()
    ours(task, 50, 1, time.thread_time)  # compiles
    table = []
    for threads, target, clock in ((1, 17.0, time.thread_time), (2, 25.0, time.perf_counter)):
        loop = scipy_loop(task, 2, clock)
        fast, passes = ours(task, 50, threads, clock)
        name = f"logistic, 50 replicas, {threads} thread{'s' * (threads > 1)} ({passes:.1f} passes)"
        reference = "SciPy L-BFGS-B per agent and replica"
        table.append(Row(name, fast, "ms/round/replica", reference, loop, loop / fast, target))
    loop = scipy_loop(task, 1, time.thread_time)
    fast, passes = ours(task, 1, 1, time.thread_time)
    name = f"logistic, one replica, 1 thread ({passes:.1f} passes)"
    table.append(Row(name, fast, "ms/round", "SciPy L-BFGS-B per agent", loop, loop / fast, 8.0))
    base = None
    for replicas in (1, 4, 16, 64):
        fast, _ = ours(task, replicas, 1, time.thread_time)
        base = fast if base is None else base
        name = f"logistic, {replicas} replica{'s' * (replicas > 1)}, 1 thread"
        table.append(Row(name, fast, "ms/round/replica", "the same with one replica", base, base / fast))
    return table
