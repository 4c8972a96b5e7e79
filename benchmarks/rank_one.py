"""Users with one record each: the closed form against a plain per-user NumPy loop."""

import numpy as np

from dpadmm.problems.losses import Logistic, Squared
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos
from dpadmm.solvers.closed_forms import RankOneSolver
from dpadmm.solvers.solver import Subproblem
from dpadmm_research.datasets.generators import sparse_regression
from table import Row, seconds

N, D, PULL = 1000, 64, 1.0


def _loop(rows, labels, centre):
    out = np.empty_like(centre)
    for i in range(len(rows)):
        a, v = rows[i], centre[i, :, 0]
        out[i, :, 0] = v - a * (a @ v - labels[i]) / (PULL + a @ a)
    return out


def rows() -> list[Row]:
    """Measure 1,000 users as in the fixed-point paper, a 10 % sample of them, and 1e6 users."""
    table = []
    data = sparse_regression(N, D, rng=np.random.default_rng(0)).data
    centre = np.random.default_rng(1).standard_normal((N, D, 1))
    for size in (N, N // 10):
        who = np.arange(size) * (N // size)
        risk = EmpiricalRisk(_users(data, who), Squared())
        task = Subproblem(np.zeros((size, D, 1)), centre[who].copy(), np.full(size, PULL), centre[who].copy())
        plain = seconds(lambda w=who, t=task: _loop(data.features[w], data.labels[w], t.centre), repeats=5)
        for threads in (1, 2):
            solver = RankOneSolver(risk, np.ones(size), 1e-8, threads)
            fast = seconds(lambda s=solver, t=task: s.solve(t), repeats=20)
            name = f"rank-one squared, {size} users x {D}, {threads} thread{'s' * (threads > 1)}"
            target = 35.0 if size == N else 20.0
            table.append(
                Row(
                    name,
                    1e9 * fast / size,
                    "ns/user",
                    "NumPy loop over users",
                    1e9 * plain / size,
                    plain / fast,
                    target,
                )
            )
    many = sparse_regression(300_000, D, rng=np.random.default_rng(2)).data
    centre = np.random.default_rng(1).standard_normal((300_000, D, 1))
    task = Subproblem(np.zeros_like(centre), centre, np.full(len(centre), PULL), centre)
    for loss in (Squared(), Logistic()):
        signs = many.labels if isinstance(loss, Squared) else np.sign(many.labels)
        risk = EmpiricalRisk(Silos.one_record_each(many.features, signs, many.row_norm), loss)
        solver = RankOneSolver(risk, np.ones(len(centre)), 1e-8, 1)
        fast = seconds(lambda s=solver: s.solve(task), repeats=3) / len(centre) * 1e9
        table.append(Row(f"rank-one {type(loss).__name__.lower()}, 3e5 users x {D}, 1 thread", fast, "ns/user", "-"))
    return table


def _users(data, who):
    return Silos.one_record_each(data.features[who], data.labels[who], data.row_norm)
