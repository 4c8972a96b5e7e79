"""What rests on a user's declared constants says so in the statement, the model's file, its text and its page."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.grouped import grouped
from tests.page_facts import facts_of

import dpadmm
from dpadmm.problems.losses import Huber

CONDITION = "certified if your declared constants hold (loss OwnHuber)"
X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 2))


@dataclass(frozen=True)
class OwnHuber(Huber):
    """A subclass that changes nothing."""


def regression(kind=dpadmm.PrivateLinearRegression, **others):
    public = {"target_bounds": (-1, 1), "feature_bounds": (-1, 1), "profile": "off", "method": "noisy-gradients"}
    return kind(2.0, 1e-5, **grouped(**public, **others))


@pytest.fixture(scope="module")
def plain():
    return regression().fit(X, X[:, 0])


def test_statements_of_a_loss_of_ones_own_are_conditional(plain):
    done = dpadmm.run("p-admm", [(X, X[:, 0])] * 2, epsilon=1.0, delta=1e-5, loss=OwnHuber(0.5), rounds=2, eta=0.05)
    assert done.account.declared == ("loss OwnHuber",)
    assert CONDITION in str(done)
    said = replace(plain.privacy_, declared=done.account.declared)
    assert said.standing == CONDITION
    assert "(loss OwnHuber): epsilon " in str(said)


def test_a_model_keeps_a_condition_in_its_file_text_and_page(plain, tmp_path):
    released = plain.released_
    model = replace(released, guarantee=replace(released.guarantee, declared=("loss OwnHuber",)))
    place = model.save(tmp_path / "model.json")
    assert json.loads(place.read_text())["model"]["guarantee"]["declared"] == ["loss OwnHuber"]
    model = dpadmm.load(place)
    assert model.guarantee.standing == CONDITION
    assert "(loss OwnHuber): epsilon " in str(model)
    facts = facts_of(model.report())
    assert facts["standing"] == [CONDITION]
    assert "loss OwnHuber" in facts["proof"][0]


def test_a_built_in_loss_has_no_condition(plain, tmp_path):
    assert plain.privacy_.standing == "certified"
    model = dpadmm.load(plain.save(tmp_path / "model.json"))
    for text in (str(plain.privacy_), str(model), model.report()):
        assert "declared constants" not in text
