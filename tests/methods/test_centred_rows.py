"""Every method on centred rows runs as on the dense table: the worst cases of the registry, and private runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from tests.contracts.centred_rows import centred_silos

from dpadmm.methods.base import Agents
from dpadmm.methods.batches import Batches, Moment, batch_gradients, whole_gradients
from dpadmm.methods.registry import METHODS
from dpadmm.networks import complete
from dpadmm.problems.centred import CentredRows
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, Recording, Stopping
from dpadmm_research.audit.worst_cases import worst_cases

EXACT = LocalEngine(progress=False, threads=1, recording=Recording(every=0), tolerance=1e-11)
CASES = [case for method in METHODS for case in worst_cases(method, 0)]
ON_RECORDS = [case for case in CASES if isinstance(case.problems[0].functions, EmpiricalRisk)]


def close(found, expected):
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9 * scale)


@pytest.mark.parametrize("case", ON_RECORDS, ids=lambda case: f"{case.algorithm.about.name}: {case.pair}")
def test_every_method_runs_as_on_dense_rows(case):
    dense, ends = case.problems[0], []
    functions = replace(dense.functions, silos=centred_silos(dense.functions.silos))
    network = complete(dense.n_agents) if case.algorithm.needs_network else None
    # Closed forms for single records are exact; what they count as their rounding, with labels of 1e4, is above 1e-11.
    engine = replace(EXACT, tolerance=1e-8) if (dense.functions.sizes == 1).any() else EXACT
    for problem in (dense, replace(dense, functions=functions)):
        ends.append(engine.run(case.algorithm, problem, Stopping(case.rounds), network))
    close(ends[1].models, ends[0].models)
    close(ends[1].estimate, ends[0].estimate)


def test_gradients_make_no_dense_table(monkeypatch):
    """Whole passes and batches at 20,000 rows of 5,000 columns."""
    monkeypatch.setattr(CentredRows, "toarray", lambda _: pytest.fail("a dense table was made"))
    n, d, each = 20_000, 5_000, 10
    rng = np.random.default_rng(4)
    places = (rng.integers(0, d, n * each), np.arange(0, n * each + 1, each))
    table = sparse.csr_array((np.full(n * each, 0.2), *places), shape=(n, d))
    rows, labels = CentredRows(table, np.full(n, 0.2), np.full(d, each / d), 0.2), rng.choice([-1.0, 1.0], n)
    risk = EmpiricalRisk(Silos.from_parts([rows], [labels], 4.0), Logistic())
    agents = Agents(risk, np.ones(1), None, None, np.arange(1), np.zeros(1, dtype=np.int64), 1)
    v = rng.normal(size=(1, d, 2))
    whole = whole_gradients(agents, v)
    all_records = batch_gradients(Batches(n, seed=0), Moment(1), agents, v)
    np.testing.assert_allclose(whole, risk.gradient(v), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(all_records, whole, rtol=1e-10, atol=1e-15)
    margins = labels[:, None] * (table @ v[0] - 0.2 * (np.full(d, each / d) @ v[0]))
    pulls = labels[:, None] * Logistic().slope(margins) / n
    np.testing.assert_allclose(whole[0], table.T @ pulls - each / d * 0.2 * pulls.sum(axis=0), rtol=1e-10, atol=1e-15)
