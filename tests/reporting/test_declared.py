"""What rests on a user's declared constants says so in the statement, the model's file, its text and its page."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from tests.problems.own_parts import BelievedWithin

import dpadmm
from dpadmm.errors import InputError
from dpadmm.problems.losses import Huber

CONDITION = "certified if your declared constants hold (loss OwnHuber)"


@dataclass(frozen=True)
class OwnHuber(Huber):
    """A subclass that changes nothing."""


class OwnRegression(dpadmm.PrivateLinearRegression):
    """An estimator with a loss of its own."""

    loss = OwnHuber(0.5)

    def _loss(self):
        return self.loss


def fitted(kind=OwnRegression):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 2))
    model = kind(2.0, 1e-5, target_bounds=(-1, 1), feature_bounds=(-1, 1), profile="off", method="noisy-gradients")
    return model.fit(X, X[:, 0])


@pytest.fixture(scope="module")
def own():
    return fitted()


def test_the_statement_is_conditional(own):
    assert own.privacy_.declared == ("loss OwnHuber",)
    assert own.privacy_.standing == CONDITION
    assert "Certified   if your declared constants hold (loss OwnHuber): epsilon " in str(own.privacy_)
    assert own.privacy_.as_json()["declared"] == ["loss OwnHuber"]


def test_the_model_keeps_the_condition_in_its_file_text_and_page(own, tmp_path):
    place = own.save(tmp_path / "model.json")
    assert json.loads(place.read_text())["model"]["guarantee"]["declared"] == ["loss OwnHuber"]
    model = dpadmm.load(place)
    assert model.guarantee.standing == CONDITION
    assert "Certified   if your declared constants hold (loss OwnHuber): epsilon " in str(model)
    page = model.report()
    assert page.count(CONDITION) == 2
    assert '<span class="yes">certified if your declared constants hold</span>' in page
    assert '<span class="yes">certified</span>' not in page


def test_a_built_in_loss_has_no_condition(tmp_path):
    plain = fitted(dpadmm.PrivateLinearRegression)
    assert plain.privacy_.standing == "certified"
    model = dpadmm.load(plain.save(tmp_path / "model.json"))
    for text in (str(plain.privacy_), str(model), model.report()):
        assert "declared constants" not in text
    assert '<span class="yes">certified</span>' in model.report()


def test_an_estimator_refuses_a_loss_that_is_refuted():
    class Believing(OwnRegression):
        loss = BelievedWithin()

    with pytest.raises(InputError, match=r"slope_bound is declared 0\.01"):
        fitted(Believing)
