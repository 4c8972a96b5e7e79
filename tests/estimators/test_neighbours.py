"""Add-remove neighbours: what is asked for, what is refused, and that no true size shows or decides anything."""

import json
import re
import warnings

import numpy as np
import pytest
from tests.builders import instant_plans
from tests.grouped import grouped

from dpadmm.codec import encode
from dpadmm.core.dataset import ArrayRows, Dataset
from dpadmm.core.task import TableShape, nominal_sizes
from dpadmm.data.columns import Numeric, ThresholdLabel
from dpadmm.data.profile import ProfileForm
from dpadmm.data.schema import Schema
from dpadmm.errors import BudgetError, InputError
from dpadmm.estimators import PrivateLogisticRegression
from dpadmm.estimators.data import ledger_data
from dpadmm.estimators.notices import LargeDeltaWarning
from dpadmm.evaluation import private_score
from dpadmm.noise.sampler import SecureSampler
from dpadmm.planner import Task, plan
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.silos import Silos
from dpadmm.testing import run_plan

ADDED = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE, view=View.PUBLIC)
NOMINAL = 1200
SIZES = ((457, 881), (1319, 509))  # true ones, of two data sets


def rows(sizes):
    """Return X, y and groups of silos with so many records."""
    X = np.random.default_rng(sum(sizes)).uniform(-1, 1, (sum(sizes), 3))
    return X, (X[:, 0] > 0).astype(int), np.repeat(np.arange(len(sizes)), sizes)


def estimator(**asked):
    usual = {"epsilon": 1.0, "delta": 1e-5, "feature_bounds": (-1, 1), "classes": (0, 1)}
    return PrivateLogisticRegression(
        **grouped(**(usual | {"neighbours": "add-remove", "nominal_records": NOMINAL} | asked))
    )


def is_shown(text, sizes):
    """Return whether one of the sizes, or their sum, stands in a text as a number of its own."""
    return any(re.search(rf"(?<![\w.]){n}(?:\.0)?(?![\w.])", text) for n in (*sizes, sum(sizes)))


def test_the_search_for_sizes_finds_them():
    assert is_shown("457 records", SIZES[0])
    assert is_shown('{"sizes": [1338.0]}', SIZES[0])
    assert not is_shown("0.457 f457 4570", SIZES[0])


def fitted(sizes, place):
    """Fit with a ledger, and return the estimator, everything that may be shown of it, and the ledger's entries."""
    X, y, groups = rows(sizes)
    with (
        warnings.catch_warnings(record=True) as seen,
        Ledger.create(place, ledger_data(X, y, groups), Budget(epsilon=1.5, delta=1e-5), protection=ADDED) as ledger,
    ):
        warnings.simplefilter("always")
        model = estimator(delta=2e-6, ledger=ledger).fit(X, y, groups)  # neighbours could be left out: the ledger's
        ledger.export_json(place.with_suffix(".json"))
        with pytest.raises(BudgetError) as dear:
            estimator(epsilon=1.4, ledger=ledger).fit(X, y, groups)
        with pytest.raises(InputError) as other:
            estimator(neighbours="replace-one", nominal_records=None, ledger=ledger).fit(X, y, groups)
        with pytest.raises(InputError) as figure:
            private_score(model, X, y, 0.1, groups=groups, ledger=ledger)
        said = ledger.statement()
    entries = json.loads(place.with_suffix(".json").read_text())["entries"]
    texts = {
        "plan": model.plan_.describe(),
        "plan json": json.dumps(model.plan_.as_json()),
        "statement": str(model.privacy_),
        "statement json": json.dumps(encode(model.privacy_)),
        "model's statement": model.released_.statement,
        "ledger": str(said).split("Head")[0],
        "errors": f"{dear.value} {other.value} {figure.value}",
        "warnings": " ".join(str(one.message) for one in seen),
    }
    files = {
        "model": json.dumps(encode(model.released_)),
        "repr": f"{model!r} {model.plan_!r} {model.history_!r} {model.released_!r}",
        "ledger file": place.with_suffix(".json").read_text(),
    }
    return model, texts, files, entries


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return fits of two data sets of other sizes, with the same nominal number."""
    place = tmp_path_factory.mktemp("ledgers")
    with instant_plans():
        return [fitted(sizes, place / f"{i}.ledger") for i, sizes in enumerate(SIZES)]


class TestSecrecy:
    def test_no_true_size_is_shown_anywhere(self, both):
        for sizes, (_, texts, files, _) in zip(SIZES, both, strict=True):
            shown = [name for name, text in (texts | files).items() if is_shown(text, sizes)]
            assert not shown
            assert str(NOMINAL) in texts["plan"]
            assert "nominally" in texts["model's statement"]

    def test_data_of_other_sizes_give_the_same_texts(self, both):
        (_, first, _, _), (_, second, _, _) = both
        assert first == second

    def test_ledgers_of_data_of_other_sizes_have_the_same_entries(self, both):
        """But for times, keyed marks of the data, names of runs and the noisy counts."""
        private = {"time", "key_check", "run", "data", "counts", "detail"}
        kept = [[{k: v for k, v in e["body"].items() if k not in private} for e in entries] for *_, entries in both]
        assert kept[0] == kept[1]
        known = [entries[0]["body"]["data"] for *_, entries in both]
        shapes = [[(len(s["columns"]), len(s["label"])) for s in each["silos"]] for each in known]
        assert (shapes[0], len(known[0]["common"])) == (shapes[1], len(known[1]["common"]))

    def test_every_statement_names_the_relation(self, both):
        for name in ("plan", "statement", "model's statement", "ledger"):
            assert "add-or-remove" in both[0][1][name]
        said = both[0][1]["statement"]
        assert "sizes n_i" not in said
        assert re.search(r"number of \w+ is public", said) is None

    def test_the_profile_is_kept_and_used_again(self, both):
        model, *_ = both[0]
        assert model.profile_ is not None
        assert model.profile_.is_nominal
        assert model.profile_.records == NOMINAL

    @pytest.mark.filterwarnings("default")
    def test_the_delta_warning_is_about_the_nominal_number(self):
        X, y, _ = rows((300,))
        with pytest.warns(LargeDeltaWarning, match="0.0005"):
            estimator(delta=1e-3, nominal_records=2000, random_state=0).fit(X, y)


def test_one_silo_hides_alone_and_may_have_few_records():
    X, y, _ = rows((5,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator(random_state=0).fit(X, y)
    assert model.plan_.method == "noisy-gradients"
    assert model.privacy_.protection.relation is NeighbouringRelation.ADD_OR_REMOVE
    assert model.privacy_.protection.view is View.EAVESDROPPER


SCHEMA = Schema((Numeric("a", -1, 1), Numeric("b", -1, 1)), ThresholdLabel("y", 0))


class TestEmptySilos:
    @pytest.mark.parametrize("view", [Protection(view=View.AGGREGATE, colluders=0), Protection(view=View.PUBLIC)])
    def test_they_take_part_from_round_0_on(self, view):
        """In sums of masked and of plain messages; the plan does not know that they are empty."""
        hidden = Protection(relation=ADDED.relation, view=view.view, colluders=view.colluders)
        task = Task(
            sizes=nominal_sizes(600, 3),
            dimension=SCHEMA.dimension,
            loss=Logistic(),
            target=Target(5.0, 1e-5),
            protection=hidden,
            row_norm=SCHEMA.row_norm,
            table=TableShape.of(ProfileForm(SCHEMA.columns)),
        )
        made, rng = plan(task), np.random.default_rng(0)
        assert made.profile is not None
        shown = set()
        for sizes in ((300, 0, 250), (0, 0, 0), (700, 1, 0)):
            tables = [rng.uniform(-1, 1, (n, 2)) for n in sizes]
            raw = Dataset(SCHEMA, [ArrayRows(each, np.sign(each[:, 0])) for each in tables], nominal=task.sizes)
            done = run_plan(made, raw, SecureSampler(), progress=False)
            assert np.all(np.isfinite(done.model))
            shown.add((str(done.account), repr(done.plan), str(done.receipts)))
        assert len(shown) == 1


def test_encoded_rows_are_summed_over_nominal_numbers_too():
    """However many there are: a plan is carried out on silos of any true size, shown by the nominal ones."""
    task = Task(sizes=nominal_sizes(600, 3), dimension=2, loss=Logistic(), target=Target(5.0, 1e-5), protection=ADDED)
    made, rng = plan(task), np.random.default_rng(0)
    for n in (150, 200, 700):
        tables = [rng.uniform(-0.5, 0.5, (n, 2)) for _ in range(3)]
        silos = Silos.from_parts(tables, [np.sign(table[:, 0]) for table in tables], 1.0)
        functions = made.problem(silos).functions
        assert functions.sizes.tolist() == [200, 200, 200]
        bare = -0.5 * (tables[0] * np.sign(tables[0][:, :1])).sum(axis=0) / 200
        np.testing.assert_allclose(functions.gradient(np.zeros((1, 2, 1)))[0, :, 0], bare)
        assert run_plan(made, silos, SecureSampler(), progress=False).is_private_release
