"""One gradient pass over one-hot rows: centred rows beside the dense table, and beside rows that are not centred.

20,000 rows of 12 columns with 83 or 84 categories each: 1000 columns, 12 ones a row. Centring by the frequencies
makes the table dense as numbers; `CentredRows` keeps it as it is, with one number more a row.
"""

import time

import numpy as np
from scipy import sparse

from dpadmm.methods.base import Agents
from dpadmm.methods.batches import whole_gradients
from dpadmm.problems.arrays import Matrix
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from table import Row

N, D, COLUMNS, REPETITIONS = 20_000, 1000, 12, 15


def tables() -> tuple[Matrix, Matrix, Matrix]:
    """Return the rows dense and centred, CSR without centring, and CSR with the centre kept apart."""
    rng = np.random.default_rng(0)
    starts = np.linspace(0, D, COLUMNS + 1).astype(np.int64)
    codes = starts[:-1] + (rng.random((N, COLUMNS)) ** 2 * np.diff(starts)).astype(np.int64)
    values, pointers = np.full(codes.size, COLUMNS**-0.5), np.arange(0, codes.size + 1, COLUMNS)
    plain = sparse.csr_array((values, codes.ravel(), pointers), shape=(N, D))
    centred = CentredRows(plain, np.ones(N), np.asarray(plain.mean(axis=0)), most_factor=1.0)
    return centred.toarray(), plain, centred


def agents(rows: Matrix) -> Agents:
    """Seat one agent whose gradients are asked for; nothing is solved."""
    labels = np.random.default_rng(1).choice([-1.0, 1.0], N)
    risk = EmpiricalRisk(Silos.from_parts([rows], [labels], row_norm=2.0), Logistic())
    return Agents(risk, np.ones(1), ElasticNet(), None, np.arange(1), np.zeros(1, dtype=np.int64), 1)  # type: ignore[arg-type]


def rows() -> list[Row]:
    """Measure all storages in turns, in processor time; the best of several repetitions counts."""
    seated, table = [agents(rows) for rows in tables()], []
    for replicas in (1, 16):
        x = np.random.default_rng(2).normal(size=(1, D, replicas))
        spent = np.full((REPETITIONS + 1, len(seated)), np.inf)
        for turn in range(REPETITIONS + 1):
            for which, each in enumerate(seated):
                begin = time.thread_time()
                whole_gradients(each, x)
                if turn > 0:  # the first call compiles
                    spent[turn, which] = time.thread_time() - begin
        dense, plain, ours = 1e3 * spent.min(axis=0)
        name = f"gradient pass, centred one-hot rows, d = {D}, {replicas} replica{'s' * (replicas > 1)}"
        table.append(Row(name, ours, "ms", "the dense table", dense, dense / ours))
        table.append(Row(name, ours, "ms", "CSR rows, not centred", plain, plain / ours))
    return table
