"""A saved model on tables: exact on data declared public, noisy and recorded on private data, nothing in between."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.contracts.centred_rows import as_array, centred

from dpadmm.core.dataset import ledger_columns
from dpadmm.data.schema import Schema
from dpadmm.data.tables import encode_table, read_silos
from dpadmm.errors import BudgetError, DpadmmError, InputError
from dpadmm.evaluation import evaluate, private
from dpadmm.evaluation.evaluate import json_of, text_of
from dpadmm.models import predict
from dpadmm.models.measurement import Basis
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import Protection
from dpadmm.settings import Privacy

COST = {"epsilon": 1.0, "delta": 1e-5}
PUBLISHED = {"public": "made up for a test", "declare": "published"}


def true_accuracy(study) -> tuple[float, float]:
    model, table = study.loaded(), pd.concat([pd.read_csv(file) for file in study.files])
    encoded = encode_table(Schema.load(study.folder / "schema.json"), table, encoding=model.encoding)
    hits = np.sign(encoded.features @ np.array(model.coefficients)) == encoded.labels
    share = (encoded.labels > 0).mean()
    return float(hits.mean()), float(max(share, 1 - share))


def spent(study) -> float:
    with Ledger.open(study.ledger) as ledger:
        return ledger.statement().spent_epsilon


def test_public_data_are_measured_exactly(study):
    before = study.model.read_bytes()
    accuracy, baseline = true_accuracy(study)
    found = study.measure(**PUBLISHED, record=False).measurement
    assert (found.value, found.baseline) == (pytest.approx(accuracy), pytest.approx(baseline))
    assert study.model.read_bytes() == before
    study.measure(**PUBLISHED)
    (kept,) = study.loaded().measurements
    assert (kept.on, kept.basis, kept.epsilon) == ("made up for a test", Basis.PUBLIC, 0.0)
    assert "published" in kept.declaration


def test_private_data_are_measured_with_noise_and_recorded(study):
    """Gaussian noise: 6 standard deviations fail once in 5e8."""
    done = study.measure(**COST, ledger=study.ledger)
    found, (accuracy, _) = done.measurement, true_accuracy(study)
    assert found.epsilon == pytest.approx(1.0, rel=1e-6)
    assert 0 < abs(found.value - accuracy) <= 6 * found.uncertainty
    assert 1.2 < spent(study) < 2.0  # Gaussian epsilons grow slower than they add: sqrt(2) ratios
    assert "have trained" in found.declaration
    assert found.declaration in text_of(done, None)
    with pytest.raises(BudgetError):
        study.measure(**COST | {"epsilon": 3.0}, ledger=study.ledger)
    assert len(study.loaded().measurements) == 1


def test_rows_that_are_stored_centred(study, monkeypatch):
    """Both kinds of figures, of the rows of several tables."""
    read = predict.read_rows

    def read_centred(*arguments, **options):
        found = read(*arguments, **options)
        return replace(found, features=centred(as_array(found.features)))

    for module in (evaluate, private):
        monkeypatch.setattr(module, "read_rows", read_centred)
    accuracy, _ = true_accuracy(study)
    assert study.measure(**PUBLISHED, record=False).measurement.value == pytest.approx(accuracy)
    said = study.measure(**COST, record=False).measurement
    assert abs(said.value - accuracy) <= 6 * said.uncertainty  # fails once in 5e8


def test_what_the_ledger_assumes_is_not_asked_again(study):
    """Without the option 1.0 would be recorded where a person in both silos pays 2.155."""
    place, protection = study.folder / "two.ledger", Protection(silos_per_person=2, records_per_person=3)
    data = ledger_columns(read_silos(study.files, None, protection=None))
    Ledger.create(place, data, Budget(epsilon=9.0, delta=1e-5), protection=protection).close()
    kept, free = (study.measure(**COST, record=False, **more).measurement for more in ({"ledger": place}, {}))
    assert kept.uncertainty == pytest.approx(6 * free.uncertainty, rel=1e-4)
    for less in (Privacy(silos_per_person=1), Privacy(records_per_person=2)):
        with pytest.raises(InputError):
            study.measure(**COST, record=False, ledger=place, privacy=less)


def with_clinics(study):
    """Return the tables in one file with a column that names their silos."""
    names = [silo.name for silo in study.loaded().silos]
    return pd.concat([pd.read_csv(file).assign(clinic=name) for file, name in zip(study.files, names, strict=True)])


def test_training_records_are_recognised(study):
    """Renamed, in another order, put together, or split by a column; others are not."""
    held_out = {"public": "hi", "declare": "held-out", "ledger": study.ledger}
    tables = with_clinics(study)
    renamed = [file.rename(study.folder / f"new-{number}.csv") for number, file in enumerate(study.files)]
    whole, other = study.folder / "whole.csv", study.folder / "other.csv"
    tables.to_csv(whole, index=False)
    for files, more in ((renamed[::-1], {}), ([whole], {}), ([whole], {"split_by": "clinic"})):
        with pytest.raises(InputError, match="training records"):
            study.measure(*files, **held_out, **more)
    tables.drop(columns="clinic").sample(frac=0.5, random_state=0).to_csv(other, index=False)
    found = study.measure(other, **held_out).measurement
    assert "none of" in found.declaration
    foreign = study.folder / "foreign.ledger"
    study.measure(other, **COST, ledger=foreign, budget=2.0)
    with pytest.raises(InputError, match="the ledger"):
        study.measure(other, **held_out | {"ledger": foreign})


def test_training_records_are_recognised_in_parts_of_their_table(study):
    """A model of one table, which is split for the evaluation; the rows stand in any order."""
    import dpadmm

    whole = study.folder / "whole.csv"
    with_clinics(study).sample(frac=1, random_state=0).to_csv(whole, index=False)
    more = {"schema": study.folder / "schema.json", "ledger": study.folder / "l", "budget": 3.0}
    training = dpadmm.TrainingOptions(profile="off", anyway=True)
    dpadmm.fit(
        [whole], "sick", **COST, **more, out=dpadmm.OutputFiles(model=study.model, force=True), training=training
    )
    with pytest.raises(InputError, match="training records"):
        study.measure(whole, public="hi", declare="held-out", ledger=study.folder / "l", split_by="clinic")


def test_an_evaluation_is_released_once_and_asked_again_for_nothing(study):
    done = study.measure(**COST, ledger=study.ledger)
    assert done.place == study.folder / "model.evaluation.json"
    figures = json_of(done, None)["figures"]
    low, high = figures["roc_auc"]["noise_interval"]
    assert low <= figures["roc_auc"]["value"] <= high
    assert figures["confusion"]["accuracy"]["value"] == done.measurement.value
    assert {each.score for each in done.measurement.others} == {"AUC", "log-loss"}
    assert figures["calibration"][0]["low"] == 0.0
    ledger = study.ledger.read_bytes()
    again = json_of(study.measure(earlier=done.place), 0.3)
    assert study.ledger.read_bytes() == ledger
    assert (again["epsilon"], again["figures"]["confusion"]["threshold"]) == (0.0, 0.3)
    assert again["figures"]["roc_auc"] == figures["roc_auc"]
    assert again["figures"]["confusion"]["accuracy"] != figures["confusion"]["accuracy"]
    replace(study.loaded(), run="another").save(study.model)
    with pytest.raises(InputError, match="another model"):
        study.measure(earlier=done.place)


def test_groups_are_paid_for_together_and_the_table_fits_80_columns(study):
    first, second = (study.measure(epsilon=9.0, delta=1e-5, by="sex") for _ in range(2))
    assert second.place.name == "model.evaluation-2.json"
    assert first.measurement.epsilon <= 9.0
    assert set(json_of(first, None)["figures"]["groups"]) == {"F", "M"}
    text = text_of(replace(first, place=first.place.name), None)
    for part in ("sex = F", "sex = M", "AUC", "log-loss", "precision at 0.5", "true positives", "mean 0."):
        assert part in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "settings",
    [
        COST | {"by": "age"},
        COST | {"threshold": 1.0},
        COST | {"out": "model.json", "record": False},
        COST | {"plot": "north.csv.png", "out": "missing/e.json"},
        COST | {"ledger": "new"},
        COST | {"person": "patient"},
        PUBLISHED | {"split_by": "sex"},
        {"public": "hi", "declare": "held-out", "ledger": "study.ledger"},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(study, monkeypatch, settings):
    monkeypatch.chdir(study.folder)
    before = {each.name: each.read_bytes() for each in study.folder.iterdir()}
    with pytest.raises(DpadmmError):
        study.measure(**settings)
    assert {each.name: each.read_bytes() for each in study.folder.iterdir()} == before
