"""Whatever is thrown at fit: a clear message of ours or a model, and no budget spent on a refusal."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.grouped import grouped

from dpadmm.errors import DpadmmError, InputError
from dpadmm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression, ledger_data
from dpadmm.privacy.ledger import Budget, Ledger

KINDS = (PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (24, 2))
Y = (X[:, 0] > 0).astype(int)

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.integers(-3, 3), st.none(), st.booleans(), st.text(max_size=3)
)
BAD = {
    "epsilon": (0, -1.0, np.nan, np.inf, "1", None, True, [1.0], 1 + 1j),
    "delta": (0.0, 1.0, -1e-5, 2, np.nan, None, "small", [1e-5], False),
    "alpha": (-0.1, np.nan, np.inf, "big", [1.0], True),
    "l1_ratio": (-0.1, 1.1, np.nan, "half", None, 0.5),  # the last needs alpha
    "fit_intercept": ("yes", None, 1, [True]),
    "feature_bounds": ((1, 0), (1,), 5, "ab", (np.nan, 1), ([0, 0, 0], [1, 1, 1]), ("a", "b"), {}),
    "row_norm": (0, -1, np.nan, np.inf, "1", [1.0]),
    "unit": ("person", "", 3, "function", ["record"]),
    "view": ("nobody", 0),
    "method": ("magic", None, 5, "admm", ["auto"]),
    "topology": ("mesh", 7, "ring", [(0, 1)]),  # a ring needs silos
    "records_per_person": (0, -1, 1.5, "1", np.nan),
    "silos_per_person": (0, 2, 1.5, "1"),  # two silos, but there is one
    "keep": (0, -1, 1.5, "2", [1], 2),  # the last needs persons
    "ledger": (5, object(), ["a"]),
    "random_state": (-1, 1.5, "seed", True, np.random.default_rng(0)),
}
ONLY = {
    PrivateLinearRegression: {
        "target_bounds": ((1, 0), (1,), 5, "ab", (np.nan, 1), ([0], [1, 2])),
        "huber_threshold": (0, -1, np.nan, np.inf, "1", None),
    },
    PrivateLinearSVC: {"hinge_width": (0, -1, np.nan, np.inf, "1", None), "classes": (5, (0,), (0, 0), (7, 8))},
    PrivateLogisticRegression: {
        "slope_cap": (0, 1.0, np.nan, "x", True),
        "classes": (5, (0,), (0, 0), (7, 8), "ab", ("a", "b"), (0, None)),
    },
}


def build(kind, **options):
    public = {"target_bounds": (-1, 1)} if kind is PrivateLinearRegression else {}
    return kind(**grouped(**{"epsilon": 5.0, "delta": 1e-5, "row_norm": 2.0, **public, **options}))


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """An open ledger with next to no budget: whatever gets as far as a release is refused."""
    path = tmp_path_factory.mktemp("fuzz") / "held.ledger"
    with Ledger.create(path, ledger_data(X, Y), Budget(epsilon=1e-9, delta=1e-12)) as ledger:
        yield ledger


def refusal(model, *data, **options):
    """Return the error of ours that a fit ends in, None if it gives a model; any other error goes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(*data, **options)
        except DpadmmError as error:
            return error
    return None


def refused(kind, *data, **options):
    """Return the error of ours that an estimator with these options ends in, None if it gives a model."""
    try:
        model = build(kind, **options)
    except InputError as error:
        return error
    error_found = refusal(model, *data)
    assert error_found is None or not hasattr(model, "coef_")
    return error_found


@pytest.mark.parametrize("kind", KINDS)
def test_bad_parameters_are_refused_by_name(kind, held):
    for name, values in {**BAD, **ONLY[kind]}.items():
        for value in values:
            error_found = refused(kind, X, Y, **{"ledger": held, name: value})
            assert isinstance(error_found, InputError), (name, value)
            name_part = "person" if name.startswith("max") else name.split("_")[0]
            assert name_part in str(error_found), (name, value, error_found)
    assert (held.statement().releases, held.statement().refusals) == (0, 0)


shapes = st.sampled_from([(24, 2), (24,), (0, 2), (24, 0), (2, 24), (1, 2), (3, 3, 3), (), (23, 2)])
tables = st.one_of(
    shapes.map(lambda shape: np.resize(np.linspace(-1, 1, 7), shape)),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e308]).map(
        lambda bad: np.where(np.arange(48).reshape(24, 2) == 5, bad, X)
    ),
    st.sampled_from([None, "text", {}, [[]], [["a", "b"]] * 24, X.astype(complex) * 1j, X.astype(object), 5]),
)
targets = st.one_of(
    st.sampled_from([Y, Y[:-1], Y * 0, Y * np.nan, Y.reshape(-1, 1), np.stack([Y, Y], 1), None, "ab", [], X[:, 0]]),
    st.sampled_from([Y.astype(str), Y * 1j, [None] * 24, np.where(Y > 0, np.inf, 0.0), list("ab" * 12), [0, "a"] * 12]),
)
groupings = st.one_of(
    st.none(),
    st.sampled_from([Y, Y[:-1], [], "ab", np.arange(24), np.zeros(24), [None] * 24, Y * np.nan, [0, "a"] * 12, 3, {}]),
)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_data_get_a_message_and_spend_nothing(kind, held):
    outcomes = set()

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(tables, targets, groupings)
    def attack(table, target, groups):
        error_found = refusal(build(kind, ledger=held), table, target, groups=groups)
        outcomes.add(type(error_found))
        assert error_found is not None, "a release went past an empty budget"
        assert len(str(error_found)) > 20

    attack()
    assert InputError in outcomes
    assert held.statement().releases == 0


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(sorted(BAD)), numbers, min_size=1, max_size=3))
def test_any_parameters_give_a_model_or_a_message(kind, options):
    options = {k: v for k, v in options.items() if k != "ledger" or v is None}
    try:
        model = build(kind, **options)
    except InputError as error:
        error_found = error
    else:
        error_found = refusal(model, X, Y)
    if error_found is None:
        assert np.all(np.isfinite(model.predict(X)))
        assert model.privacy_.epsilon <= model.epsilon * (1 + 1e-6)
    else:
        assert len(str(error_found)) > 20


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", ["text", [[np.nan, 0.0]], [[1.0]], [1.0, 2.0], None, [[1j, 0.0]], np.zeros((0, 2))])
def test_predict_refuses_what_it_cannot_use(kind, bad):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build(kind).fit(X, Y)
    with pytest.raises(InputError):
        model.predict(bad)
