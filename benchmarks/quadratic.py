"""Quadratic agents: stored inverses streamed once a round, against np.linalg.solve and the memory bandwidth."""

import subprocess
import sys

import numpy as np
from numba import njit

from dpadmm.data import random_quadratics
from dpadmm.methods.consensus import ConsensusADMM
from dpadmm.problems.problem import Problem, Weighting
from dpadmm.solvers.closed_forms import QuadraticSolver
from dpadmm.solvers.solver import Subproblem
from dpadmm.testing import LocalEngine, Recording, Stopping
from table import Row, peak_memory, seconds

D, RHO = 5, 5.0


@njit(nogil=True, cache=True, fastmath=True)
def _sum(values):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


def read_bandwidth() -> float:
    """Return bytes per second of one thread summing an array far larger than the caches."""
    values = np.ones(60_000_000)
    return values.nbytes / seconds(lambda: _sum(values), repeats=5)


def _subproblem(n: int) -> Subproblem:
    rng = np.random.default_rng(0)
    centre = rng.standard_normal((n, D, 1))
    # The point goes to one array used again and again: fresh memory costs as much as the product.
    return Subproblem(np.zeros_like(centre), centre, np.full(n, RHO), centre, out=np.empty_like(centre))


def _solver(n: int, threads: int) -> QuadraticSolver:
    agents = random_quadratics(n, D, rng=np.random.default_rng(1))
    return QuadraticSolver(agents, np.ones(n), 1e-6, threads)


def rows() -> list[Row]:
    """Measure speed against bandwidth and linear solves, and scaling in the number of agents."""
    n = 1_000_000
    solver, task = _solver(n, 1), _subproblem(n)
    # Turn by turn, because the bandwidth of a shared machine drifts by a fifth within seconds; the best of each.
    turns = [(read_bandwidth(), seconds(lambda: solver.solve(task), repeats=5)) for _ in range(5)]
    bandwidth, spent = max(turn[0] for turn in turns), min(turn[1] for turn in turns)
    # Counted: the inverses once; slopes, weights, penalties, defects, lin and centre read; point and norms written.
    moved = 8.0 * n * (D * D + D + 1 + 1 + 1 + D + D + D + 1)
    table = [
        Row(
            "quadratic, 1e6 agents x 5, 1 thread",
            moved / spent / 1e9,
            "GB/s",
            "measured read bandwidth of one thread",
            bandwidth / 1e9,
            moved / spent / bandwidth,
            0.85,
        )
    ]
    direct = _solve_each_round(solver, task)
    for threads in (1, 2):
        solver.threads = threads
        fast = seconds(lambda: solver.solve(task), repeats=5)
        name = f"quadratic, 1e6 agents x 5, {threads} thread{'s' * (threads > 1)}"
        table.append(Row(name, 1e3 * fast, "ms/round", "np.linalg.solve each round", 1e3 * direct, direct / fast))
    del solver, task
    base = None
    for size in (1_000, 10_000, 100_000, 1_000_000):
        solver, task = _solver(size, 1), _subproblem(size)
        fast = seconds(lambda s=solver, t=task: s.solve(t), repeats=5) / size * 1e9
        base = fast if base is None else base
        table.append(Row(f"quadratic, {size:.0e} agents, 1 thread", fast, "ns/agent", "1e3 agents", base, base / fast))
    table.append(_memory())
    return table


def _solve_each_round(solver: QuadraticSolver, task: Subproblem) -> float:
    matrices = solver.risk.curvatures + RHO * np.eye(D)
    return seconds(lambda: np.linalg.solve(matrices, RHO * task.centre - solver.risk.slopes[:, :, None]), 2)


def _memory() -> Row:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    peak = float(done.stdout) / 1e3
    return Row("consensus ADMM, 1e6 agents x 10 rounds, peak memory", peak, "GB", "limit", 2.0, 2.0 / peak, 1.0)


def run_alone() -> float:
    """Run a million agents in this process; return its peak memory in MB."""
    agents = random_quadratics(1_000_000, D, rng=np.random.default_rng(1))
    engine = LocalEngine(progress=False, recording=Recording(every=10), tolerance=1e-6)
    engine.run(ConsensusADMM(rho=RHO), Problem.of(agents, Weighting.EQUAL), Stopping(rounds=10))
    return peak_memory()


if __name__ == "__main__":
    print(run_alone())
