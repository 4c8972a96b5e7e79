"""Public weights of classes in the terms of a federation: signed, applied by every silo, refused where noise is not."""

from dataclasses import replace

import numpy as np
import pytest
from tests.builders import with_rounds

from dpadmm.data import RealLabel
from dpadmm.data.columns import ClassLabel
from dpadmm.federation.errors import Refusal
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.models.federated import federation_model
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.planner import Task, plan
from dpadmm.planner.drafting import federation_terms
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Protection, View
from dpadmm.problems.losses import Logistic, Softmax
from dpadmm.testing import run_plan

pytestmark = pytest.mark.usefixtures("instant_forecasts")
SIZES = (60, 40, 50)
PUBLIC, MASKED = Protection(view=View.PUBLIC), Protection(view=View.AGGREGATE)
SAMPLED = (("batch", 10), ("inner_steps", 2), ("rho", 0.1), ("step", 0.1))
WEIGHTS = {2: (0.25, 1.0), 3: (1.0, 0.5, 0.1)}


@pytest.fixture
def classes(setups, monkeypatch, request):
    """Worlds whose label is one of two classes or, where the test says so, three."""
    if request.node.callspec.params["number"] == 3:
        usual = setups.tables

        def tables(sizes):
            args = np.array(["low", "mid", "high"])
            return {
                name: table.assign(y=args[np.digitize(table["y"], (-0.8, 0.8))]) for name, table in usual(sizes).items()
            }

        monkeypatch.setattr(setups, "tables", tables)
        monkeypatch.setattr(setups, "SCHEMA", replace(setups.SCHEMA, label=ClassLabel("y", ("low", "mid", "high"))))
    return setups


def weighted_rows(silos, number):
    """Return silos of which every row counts as its class, by a rule of its own."""
    places = {-1.0: 0, 1.0: 1} if number == 2 else {0.0: 0, 1.0: 1, 2.0: 2}
    return replace(silos, row_weights=np.array([WEIGHTS[number][places[label]] for label in silos.labels]))


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize(
    ("method", "protection"), [("p-admm", Protection()), ("noisy-gradients", PUBLIC), ("noisy-gradients", MASKED)]
)
def test_every_silo_applies_the_weights(classes, tmp_path, method, protection, number):
    """The model is the in-process one of weighted rows; a silo that left them out would give another."""
    is_masked = protection is MASKED
    world = classes.make(tmp_path, method, approves=False, **(classes.MASKED if is_masked else {}))
    loss = Logistic() if number == 2 else Softmax(3)
    task = Task(sizes=SIZES, dimension=3, loss=loss, target=Target(1.0, 1e-5), protection=protection)
    made = plan(task, method=method)
    made = with_rounds(made, 6)
    known = world.terms
    people = (known.participants, known.coordinator, known.schema)
    terms = federation_terms(made, "weighted", *people, class_weights=WEIGHTS[number], noise=NoiseOrigin.TEST, seed=5)
    world.approve(terms)
    coordinator = world.coordinator(terms)
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    rows = classes.stacked(world.silos.values())
    here, plain = (
        run_plan(made, each, SimulatedSampler(seed=5), progress=False) for each in (weighted_rows(rows, number), rows)
    )
    np.testing.assert_allclose(outcome.tail_average, here.model, rtol=0, atol=1e-12)
    assert np.linalg.norm(here.model - plain.model) > 0.01
    # Noise hides the heaviest class: it is that of terms without weights.
    unweighted = federation_terms(made, "weighted", *people, noise=NoiseOrigin.TEST, seed=5)
    assert terms.plan_mark == unweighted.plan_mark
    model = federation_model(outcome, classes.SCHEMA)
    assert "records are weighted by their class" in model.statement
    assert (terms.loss, terms.n_classes) == (made.task.loss, 3 if number == 3 else 1)
    table = next(iter(classes.tables((30,)).values()))
    assert model.predict_proba(table).shape == (30, number)
    assert all(f": {weight:g}" in model.statement for weight in WEIGHTS[number])


def test_weights_of_other_classes_than_the_schema_has(setups, tmp_path, monkeypatch):
    """A silo with a number to predict has no classes to weigh."""
    monkeypatch.setattr(setups, "SCHEMA", replace(setups.SCHEMA, label=RealLabel("y", -5, 5)))
    world = setups.make(tmp_path, approves=False)
    with pytest.raises(Refusal, match="other classes than the 0 of"):
        world.first.approve(replace(world.terms, class_weights=(1.0, 0.5)))
