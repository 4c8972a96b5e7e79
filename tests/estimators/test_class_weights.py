"""Public class weights: rows count by their class, and no certificate changes; thresholds of the estimators."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from tests.grouped import grouped

from dpadmm.errors import InputError
from dpadmm.estimators import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.methods.base import Agents
from dpadmm.methods.batches import whole_gradients
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.solvers.solver import Subproblem, prepare

OPTIONS = {"epsilon": 5.0, "delta": 1e-5, "row_norm": 1.0, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    return X, np.where(X[:, 0] + rng.standard_normal(600) > 0.8, "sick", "well"), np.arange(600) // 2


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("has_people", [False, True])
def test_gradients_and_minimisers_count_rows_by_their_weights(is_sparse, has_people):
    rng = np.random.default_rng(1)
    rows, labels = rng.standard_normal((9, 3)) / 4, rng.choice([-1.0, 1.0], 9)
    own = np.where(labels > 0, 1.0, 0.25)
    people = [PersonRows.of(np.arange(9) // 3).people] if has_people else None
    stored = sparse.csr_array(rows) if is_sparse else rows
    silos = replace(Silos.from_parts([stored], [labels], row_norm=2.0, people=people), row_weights=own)
    counts, n = (own / 3, 3) if has_people else (own, 9)
    problem, w = Problem.of(EmpiricalRisk(silos, Logistic(), mu=0.1)), rng.standard_normal((1, 3, 1))

    def gradient(w):
        slopes = -labels * expit(-labels * (rows @ w[0, :, 0]))
        return (rows.T @ (counts * slopes) / n + 0.1 * w[0, :, 0])[None, :, None]

    found = whole_gradients(Agents.of(problem, None, 1e-12, 1), w)
    np.testing.assert_allclose(found, gradient(w), atol=1e-8)  # person weights are rounded to 1/2^26
    np.testing.assert_allclose(problem.functions.take([0]).gradient(w), gradient(w), atol=1e-8)
    task = Subproblem(np.zeros((1, 3, 1)), np.ones((1, 3, 1)), np.ones(1), np.zeros((1, 3, 1)))
    point = prepare(problem.functions, np.ones(1), 1e-10).solve(task).point
    np.testing.assert_allclose(gradient(point) + point - 1, 0, atol=1e-7)


def test_the_heavier_class_is_found_more_often_for_the_same_price(table):
    X, y, persons = table
    fits = {}
    for weights in (None, {"sick": 4.0}):
        model = PrivateLogisticRegression(**grouped(**OPTIONS, class_weight=weights))
        fits[weights is None] = model.fit(X, y), model.predict(X)
    (plain, usual), (weighted, found) = fits[True], fits[False]
    assert (found == "sick").sum() > 2 * (usual == "sick").sum()
    assert plain.plan_.sensitivity.tolist() == weighted.plan_.sensitivity.tolist()
    with_persons = PrivateLinearSVC(**grouped(**OPTIONS, class_weight={"sick": 4.0})).fit(X, y, persons=persons)
    assert with_persons.privacy_.epsilon <= 5.0
    three = np.digitize(X[:, 0], (-0.3, 0.3))
    shares = []
    for way in ("softmax", "one-vs-rest"):
        model = PrivateLogisticRegression(
            **grouped(**OPTIONS | {"epsilon": 50.0}, class_weight={0: 0.1}, multi_class=way)
        )
        shares.append((model.fit(X, three).predict(X) == 0).mean())
    assert max(shares) < 0.2 < (three == 0).mean()


def test_thresholds(table):
    X, y, _ = table
    model = PrivateLogisticRegression(**grouped(**OPTIONS)).fit(X, y)
    likely = model.predict_proba(X)[:, 1]
    strict = model.set_params(training__threshold=0.8).predict(X)
    assert strict.tolist() == np.where(likely > 0.8, "well", "sick").tolist()
    assert model.score(X, y) == (strict == y).mean()


@pytest.mark.parametrize("weights", [np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([1.0])])
def test_weights_that_no_certificate_covers(weights):
    silos = Silos.from_parts([np.eye(2)], [np.array([1.0, -1.0])], row_norm=1.0)
    with pytest.raises(InputError):
        replace(silos, row_weights=weights)
