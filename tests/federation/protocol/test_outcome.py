"""The end of a federation: a model like any other, with what it cost each silo."""

import re
import subprocess
import sys
from dataclasses import asdict, replace
from html import unescape

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from dpadmm.core.model import DataLocation, ReleasedModel
from dpadmm.data.tables import encode_table
from dpadmm.errors import InputError
from dpadmm.federation.agreement import NoiseOrigin
from dpadmm.federation.outcome import outcome_of
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
def test_the_model_says_what_it_cost_every_silo(worlds, tmp_path, noise):
    world = worlds.make(tmp_path, noise=noise)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    model = federation_model(outcome, worlds.SCHEMA)
    page = unescape(model.report(name="model.json"))
    for silo, fact in zip(outcome.silos, model.silos, strict=True):
        assert asdict(silo) == {"name": fact.name, "records": fact.records} | asdict(fact.cost)
        assert f'<th scope="row">{silo.name}</th><td class="n">{silo.records}</td><td class="n">4</td>' in page
        assert f"ε = {silo.epsilon:.6g} at" in page
        assert f"{silo.name}: epsilon {silo.epsilon:.6g}" in model.statement
    assert "federated: every silo's own process kept its records" in page
    held = re.findall(r'<tr><th scope="row">(\w+)</th>.*<td>holds this run</td></tr>', page)
    assert held == [silo.name for silo in outcome.silos]
    assert "Every silo keeps its own ledger" in page
    assert f'recorded in the silos\' ledgers as <code class="digest">{model.run}</code>' in page
    ledger = "ledger" if noise is NoiseOrigin.SECURE else "rehearsal.ledger"
    assert f"<code>dpadmm report model.json --ledger SILO/{ledger}</code>" in page
    unsaved = unescape(model.report())
    assert f"<code>dpadmm ledger show SILO/{ledger}</code>" in unsaved
    assert "dpadmm report" not in unsaved  # there is no file to name
    assert "ledger verify" not in page  # there is no file that whoever reads it could verify
    assert "No ledger was kept" not in page
    rehearsed = unescape(federation_model(outcome, worlds.SCHEMA, DataLocation.ONE_PLACE).report())
    assert "simulated in one place: all tables were on one machine" in rehearsed
    assert "kept its" not in rehearsed
    assert "dpadmm report" not in rehearsed  # it was not saved, so there is no file to name
    assert model.guarantee.is_private_release == (noise is NoiseOrigin.SECURE)
    assert ("Not a private release" in page) == (noise is NoiseOrigin.TEST)
    assert ("digest of the terms", world.agreement.digest) in model.choice.settings


def test_a_federations_model_is_a_model_like_any_other(worlds, tmp_path):
    world = worlds.make(tmp_path, noise=NoiseOrigin.SECURE)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    model = federation_model(outcome, worlds.SCHEMA)
    rows = pd.DataFrame(np.random.default_rng(3).uniform(-4, 4, (20, 3)), columns=["a", "b", "c"])
    scores = encode_table(worlds.SCHEMA, rows, is_labelled=False).features @ outcome.tail_average
    for name in ("model.json", "model.npz"):
        again = ReleasedModel.load(model.save(tmp_path / name))
        assert again == model
        assert again.decision_function(rows).tolist() == scores.tolist()
        assert again.predict(rows).tolist() == np.where(scores > 0, "above 0", "at most 0").tolist()
        assert again.predict_proba(rows)[:, 1].tolist() == expit(scores).tolist()
    for name, silo in world.silos.items():
        again.verify(digest=model.digest, ledger=silo.files.ledger(NoiseOrigin.SECURE))
        spending = again.spending_now(silo.files.ledger(NoiseOrigin.SECURE))
        assert (spending.ledger, spending.releases) == (f"{name}/ledger", 4)
        page = unescape(again.report(spending=spending, name="model.npz"))
        assert f"<dd>{name}/ledger, as of" in page
        assert "This is one silo's ledger; every other silo keeps its own." in page
        assert f"dpadmm ledger verify {name}/ledger --expected-head {spending.head}" in page
    other = replace(model, run="another run")
    with pytest.raises(InputError, match="not the ledger the model was trained with"):
        other.verify(ledger=silo.files.ledger(NoiseOrigin.SECURE))
    with pytest.raises(InputError, match="another model"):
        other.verify(digest=model.digest)


def test_a_schema_that_the_silos_have_not_approved_is_refused(worlds, tmp_path):
    world = worlds.make(tmp_path)
    coordinator = world.coordinator()
    world.drive(coordinator)
    wider = replace(worlds.SCHEMA, columns=(replace(worlds.SCHEMA.columns[0], upper=4.0), *worlds.SCHEMA.columns[1:]))
    with pytest.raises(InputError, match="not the schema that the silos approved"):
        federation_model(outcome_of(coordinator), wider)


def test_names_cannot_break_the_page(worlds, tmp_path):
    world = worlds.make(tmp_path, run="a&lt;b&amp;'c'")
    coordinator = world.coordinator()
    world.drive(coordinator)
    page = federation_model(outcome_of(coordinator), worlds.SCHEMA).report()
    assert "a&amp;lt;b&amp;amp;" in page
    assert "a&lt;b" not in page
