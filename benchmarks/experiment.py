"""A whole private experiment: 50 noise runs of 50 P-ADMM rounds over 5 agents, against one replica at a time."""

import time

import numpy as np

from dpadmm.core.release import PlannedNoise
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import ring
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise
from logistic import ETA, TOLERANCE, N, problem, scipy_loop
from table import Row

REPLICAS, ROUNDS = 50, 50


def _engine_run(task, replicas: int, threads: int) -> float:
    engine = LocalEngine(
        replicas=replicas, progress=False, recording=Recording(every=0), tolerance=TOLERANCE, threads=threads
    )
    method, network = PADMM(eta=ETA), ring(N)
    plan = plan_noise(method, task, ROUNDS, Target(1.0, 1e-5), network, engine=engine)
    begin = time.perf_counter()
    engine.run(method, task, Stopping(rounds=ROUNDS), network, PlannedNoise(plan, SimulatedSampler(0), replicas))
    return time.perf_counter() - begin


def rows() -> list[Row]:
    """Measure the batch, the same engine one replica at a time, and the SciPy loop, per replica and round."""
    task = problem()
    _engine_run(task, REPLICAS, 1)  # compiles
    whole = {threads: _engine_run(task, REPLICAS, threads) for threads in (1, 2)}
    single = float(np.mean([_engine_run(task, 1, 1) for _ in range(2)]))
    loop = scipy_loop(task, 1, time.perf_counter) / 1e3 * ROUNDS
    name = f"P-ADMM, {REPLICAS} replicas x {ROUNDS} rounds x {N} agents"
    table = []
    for threads, spent in whole.items():
        label = f"{name}, {threads} thread{'s' * (threads > 1)}"
        table.append(Row(label, spent, "s", "SciPy loop per replica", loop * REPLICAS, loop * REPLICAS / spent))
    table.append(
        Row(
            f"{name}, 1 thread",
            whole[1],
            "s",
            "this engine, replica by replica",
            single * REPLICAS,
            single * REPLICAS / whole[1],
        )
    )
    return table
