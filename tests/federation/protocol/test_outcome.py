"""The end of a federation: a model like any other, with what it cost each silo."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.page_facts import facts_of

from dpadmm.core.model import DataLocation, ReleasedModel
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError
from dpadmm.federation.outcome import outcome_of
from dpadmm.federation.terms import NoiseOrigin
from dpadmm.models.federated import federation_model


def test_without_the_extra_there_is_a_clear_error(tmp_path):
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "from pathlib import Path\n"
        "from dpadmm.federation.coordinator_store import CoordinatorFiles\n"
        f"CoordinatorFiles(Path({str(tmp_path / 'c')!r})).create()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert "pip install '.[federation]'" in done.stderr
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("noise", list(NoiseOrigin))
def test_the_model_says_what_it_cost_every_silo(setups, tmp_path, noise):
    world = setups.make(tmp_path, noise=noise)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    model = federation_model(outcome, setups.SCHEMA)
    facts = facts_of(model.report(name="model.json"))
    for paid, fact, cost in zip(outcome.costs, model.silos, facts["cost"], strict=True):
        assert fact.cost == paid
        assert f"ε = {paid.epsilon:.6g} at" in cost
        assert f"{fact.name}: epsilon {paid.epsilon:.6g}" in model.statement
    assert facts["silo"] == list(world.silos)
    assert len(facts["own-ledger"]) == len(outcome.costs)
    assert facts["ledger-run"] == [model.run]
    ledger = "silo.db" if noise is NoiseOrigin.SECURE else "rehearsal.db"
    assert facts["command"][2:] == [f"dpadmm report model.json --ledger SILO/{ledger}"]
    unsaved = facts_of(model.report())["command"]  # there is no file to name, and none that the reader could verify
    assert unsaved[1:] == [f"dpadmm ledger show SILO/{ledger}"]
    assert "no-ledger" not in facts
    rehearsed = facts_of(federation_model(outcome, setups.SCHEMA, DataLocation.ONE_PLACE).report())
    assert rehearsed["location"] != facts["location"]
    assert len(rehearsed["command"]) == 1
    assert model.guarantee.is_private_release == (noise is NoiseOrigin.SECURE)
    assert ("not-private" in facts) == (noise is NoiseOrigin.TEST)
    assert ("digest of the terms", world.terms.digest) in model.choice.settings


def test_a_federations_model_is_a_model_like_any_other(setups, tmp_path):
    world = setups.make(tmp_path, noise=NoiseOrigin.SECURE)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    model = federation_model(outcome, setups.SCHEMA)
    rows = pd.DataFrame(np.random.default_rng(3).uniform(-4, 4, (20, 3)), columns=["a", "b", "c"])
    scores = encode_table(setups.SCHEMA, rows, is_labelled=False).features @ outcome.tail_average
    for name in ("model.json", "model.npz"):
        again = ReleasedModel.load(model.save(tmp_path / name))
        assert again == model
        assert again.decision_function(rows).tolist() == scores.tolist()
        assert again.predict(rows).tolist() == np.where(scores > 0, "above 0", "at most 0").tolist()
        assert again.predict_proba(rows)[:, 1].tolist() == expit(scores).tolist()
    for name, silo in world.silos.items():
        again.verify(digest=model.digest, ledger=silo.files.ledger(NoiseOrigin.SECURE))
        spending = again.spending_now(silo.files.ledger(NoiseOrigin.SECURE))
        assert (spending.ledger, spending.releases) == (f"{name}/silo.db", 4)
        facts = facts_of(again.report(spending=spending, name="model.npz"))
        assert facts["ledger"] == [f"{name}/silo.db"]
        assert "one-silos-ledger" in facts
        assert facts["command"][-1] == f"dpadmm ledger verify {name}/silo.db --expected-head {spending.head}"
    other = replace(model, run="another run")
    with pytest.raises(InputError, match="not the ledger the model was trained with"):
        other.verify(ledger=silo.files.ledger(NoiseOrigin.SECURE))
    with pytest.raises(InputError, match="another model"):
        other.verify(digest=model.digest)


def test_a_schema_that_the_silos_have_not_approved_is_refused(setups, tmp_path):
    world = setups.make(tmp_path)
    coordinator = world.coordinator()
    world.drive(coordinator)
    wider = replace(setups.SCHEMA, columns=(replace(setups.SCHEMA.columns[0], upper=4.0), *setups.SCHEMA.columns[1:]))
    with pytest.raises(InputError, match="not the schema that the silos approved"):
        federation_model(outcome_of(coordinator), wider)


def test_names_cannot_break_the_page(setups, tmp_path):
    world = setups.make(tmp_path, run="a&lt;b&amp;'c'")
    coordinator = world.coordinator()
    world.drive(coordinator)
    page = federation_model(outcome_of(coordinator), setups.SCHEMA).report()
    assert "a&amp;lt;b&amp;amp;" in page
    assert "a&lt;b" not in page
