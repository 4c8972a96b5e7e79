"""Poisson regression: against iterated least squares, by estimator and `fit`, files, exposures, weights, refusals."""

import numpy as np
import pandas as pd
import pytest

import dpadmm
from dpadmm import PrivatePoissonRegressor, TrainingOptions
from dpadmm.data import Numeric, Schema
from dpadmm.data.columns import RealLabel
from dpadmm.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::dpadmm.estimators.SimulatedNoiseWarning")
TRUE = np.array([0.6, -0.4, 0.3])
OPTIONS = {"epsilon": 1e4, "delta": 1e-6, "feature_bounds": (-1, 1), "random_state": 0, "aim": "inference"}
COUNTED = TrainingOptions(loss="poisson", exposure="days")
COLUMNS = (Numeric("a", -1, 1), Numeric("b", -1, 1), Numeric("days", 0.25, 2))


def drawn(n, seed=0):
    rng = np.random.default_rng(seed)
    X, days = rng.uniform(-1, 1, (n, 2)), rng.uniform(0.5, 2, n)
    return X, rng.poisson(days * np.exp(X @ TRUE[:2] + TRUE[2] - 1)), days


def iterated_least_squares(X, y, days, weights=1.0):
    """The usual Poisson regression: coefficients, the intercept last, and their standard errors."""
    rows, found = np.column_stack([X, np.ones(len(X))]), np.zeros(X.shape[1] + 1)
    for _ in range(30):
        rates = days * np.exp(rows @ found)
        bend = (rows.T * (weights * rates)) @ rows
        found = found + np.linalg.solve(bend, rows.T @ (weights * (y - rates)))
    return found, np.sqrt(np.diag(np.linalg.inv(bend)))


@pytest.fixture(scope="module")
def table():
    X, y, days = drawn(2000)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "days": days, "claims": y})


def test_without_noise_it_is_the_usual_regression():
    X, y, days = drawn(6000)
    weights = np.where(X[:, 1] > 0, 3.0, 1.5)
    for own in (None, weights):
        model = PrivatePoissonRegressor(**OPTIONS, ceiling=12).fit(X, y, exposure=days, sample_weight=own)
        rows = model.released_.encoding.encode(X)  # long ones count less
        counted = (1.0 if own is None else own) / np.maximum(1.0, (rows**2).sum(axis=1))
        expected, errors = iterated_least_squares(X, y, days, counted)
        found = np.append(model.coef_, model.intercept_)
        assert (np.abs(found - expected) < 0.2 * errors).all()
    assert any("weights are assumed to be public" in each for each in model.privacy_.assumptions)
    np.testing.assert_allclose(model.predict(X, exposure=days), days * model.predict(X))
    assert model.score(X, y, exposure=days) > 0.05


def test_intervals_at_a_small_budget():
    """Coefficients and standard errors at epsilon 1, beside those of the usual regression on the same rows."""
    X, y, days = drawn(20_000, seed=5)
    model = PrivatePoissonRegressor(**OPTIONS | {"epsilon": 1.0}, ceiling=6).fit(X, y, exposure=days)
    table = model.summary()
    rows = table.rows
    expected, errors = iterated_least_squares(X, y, days)
    for row, other, error in zip(rows, expected, errors, strict=True):
        assert error < row.std_err < 5 * error
        assert abs(row.coef - other) < 5 * np.hypot(row.std_err, error)
    np.testing.assert_allclose(table.frame()["rate ratio"].iloc[:2], np.exp(model.coef_), rtol=1e-12)
    assert "rate ratio" in str(table)
    assert "change of the logarithm of the rate" in model.report()


def test_tables_with_a_column_of_exposures(table, tmp_path):
    known = Schema(COLUMNS, RealLabel("claims", 0, 6))
    model = dpadmm.fit(table, epsilon=5.0, delta=1e-6, schema=known, seed=3, training=COUNTED)
    own = {"epsilon": 5.0, "delta": 1e-6, "schema": known, "random_state": 3}
    fitted = PrivatePoissonRegressor(**own, training=TrainingOptions(exposure="days"))
    fitted.fit(table.drop(columns="claims"), table["claims"])
    assert model.schema.column_names == ("a", "b")
    np.testing.assert_array_equal(model.predict(table), fitted.predict(table))
    loaded = dpadmm.load(model.save(tmp_path / "model.json"))
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert "Poisson regression" in model.report()
    assert model.loss_description == "Poisson regression (counts up to 6)"
    without = dpadmm.fit(table, epsilon=5.0, delta=1e-6, schema=known, seed=3, training=TrainingOptions(loss="poisson"))
    assert without.schema.column_names == ("a", "b", "days")
    for export in (model.to_sklearn, model.to_plain_json):
        with pytest.raises(InputError, match="Poisson"):
            export()


def test_silos_under_masks_and_sparse_rows():
    from scipy import sparse

    X, y, days = drawn(1500)
    found = [
        PrivatePoissonRegressor(**OPTIONS | {"aim": "prediction", "view": "aggregate"})
        .fit(each, y, groups=np.arange(1500) % 3, exposure=days)
        .coef_
        for each in (X, sparse.csr_array(X))
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-8)


def test_tables_that_are_read_in_passes(table, tmp_path):
    file = tmp_path / "table.parquet"
    table.assign(claims=table["claims"].clip(0, 6)).to_parquet(file, index=False)
    known = Schema(COLUMNS, RealLabel("claims", 0, 6))
    options = {"epsilon": 5.0, "delta": 1e-6, "schema": known, "seed": 3}
    plain = TrainingOptions(loss="poisson")
    streams = (dpadmm.TableOptions(stream=True), dpadmm.TableOptions(stream=False))
    found = [dpadmm.fit(file, **options, training=plain, table=each) for each in streams]
    np.testing.assert_allclose(found[0].coefficients, found[1].coefficients, atol=1e-9)
    with pytest.raises(InputError, match="in passes"):
        dpadmm.fit(file, **options, training=COUNTED, table=dpadmm.TableOptions(stream=True))


def test_what_is_refused(table):
    X, y, days = drawn(60)
    model = PrivatePoissonRegressor(**OPTIONS)
    for wrong in (-days, days[:9], days * np.nan, "x"):
        with pytest.raises(InputError, match="exposure"):
            model.fit(X, y, exposure=wrong)
        with pytest.raises(InputError, match="sample_weight"):
            model.fit(X, y, sample_weight=wrong)
    secret = dpadmm.Privacy(neighbours="add-remove", nominal_records=60)
    for more, persons in (({}, np.arange(60) // 2), ({"privacy": secret}, None)):
        with pytest.raises(InputError, match="hidden"):
            PrivatePoissonRegressor(**OPTIONS | {"aim": "prediction"} | more).fit(
                X, y, persons=persons, sample_weight=days
            )
    with pytest.raises(InputError, match="noisy sums"):
        PrivatePoissonRegressor(**OPTIONS | {"aim": "prediction"}).fit(X, y, groups=np.arange(60) % 2)
    with pytest.raises(InputError, match="noisy-gradients"):
        PrivatePoissonRegressor(**OPTIONS | {"method": "dp-gd", "aim": "prediction"}).fit(X, y)
    plain = {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(InputError, match="schema"):
        dpadmm.plan(sizes=[900], dimension=3, **plain, training=TrainingOptions(loss="poisson"))
    for label in (RealLabel("claims", 0, 2.5), RealLabel("claims", 1, 6)):
        with pytest.raises(InputError, match="whole"):
            dpadmm.fit(table, schema=Schema(COLUMNS, label), **plain, training=COUNTED)
    for columns, training in (
        (COLUMNS[:2], COUNTED),
        ((*COLUMNS[:2], Numeric("days", 0, 2)), COUNTED),
        (COLUMNS, TrainingOptions(loss="huber", exposure="days")),
    ):
        with pytest.raises(InputError, match="exposure"):
            dpadmm.fit(table, schema=Schema(columns, RealLabel("claims", 0, 6)), **plain, training=training)
    with pytest.raises(InputError):
        PrivatePoissonRegressor(**OPTIONS, training=TrainingOptions(exposure="days")).fit(X, y)
