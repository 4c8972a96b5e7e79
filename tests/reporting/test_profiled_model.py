"""A fit that counted its columns keeps the counts: in Python, in its file, on its page, with what they cost."""

import warnings

import numpy as np
import pandas as pd
import pytest
from tests.page_facts import facts_of

from dpadmm import PrivateLogisticRegression
from dpadmm.core.model import ReleasedModel
from dpadmm.data.columns import BinaryLabel, Categorical, Numeric
from dpadmm.data.schema import Schema

N = 3000
SCHEMA = Schema(
    (Numeric("age", 0, 120), Categorical("sex", ("F", "M"))),
    BinaryLabel("sick", positive=("yes",), negative=("no",)),
    constant=0.3,
)


@pytest.fixture(scope="module")
def fitted() -> tuple[PrivateLogisticRegression, pd.DataFrame]:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"age": rng.normal(50, 12, N).clip(0, 120), "sex": rng.choice(["F", "M"], N, p=[0.7, 0.3])})
    sick = np.where(rng.random(N) < 1 / (1 + np.exp(-(table["age"] - 50) / 6)), "yes", "no")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateLogisticRegression(epsilon=2.0, delta=1e-5, schema=SCHEMA, random_state=1)
        return model.fit(table, sick, groups=np.arange(N) % 2), table


def test_what_was_counted_can_be_looked_at(fitted):
    model, table = fitted
    age, shares = model.profile_["age"], model.profile_["sex"].frequencies()
    assert age.mean().low < table["age"].mean() < age.mean().high
    assert abs(age.mean().value - table["age"].mean()) < 5 * age.mean().std_error + 1.5  # half of what a bin may hide
    assert age.quantile(0.5).low <= table["age"].median() <= age.quantile(0.5).high
    assert np.all(np.abs(shares["share"] - [0.7, 0.3]) < 5 * shares["std_error"] + 0.03)
    assert model.profile_.table().index.tolist() == ["age", "sex"]


def test_the_file_keeps_the_counts_and_their_cost(fitted, tmp_path):
    model, _ = fitted
    for name in ("m.json", "m.npz"):
        again = ReleasedModel.load(model.released_.save(tmp_path / name))
        assert again.profile == model.profile_
        assert again.guarantee == model.released_.guarantee
    assert 0 < model.released_.guarantee.profile.epsilon < 2.0


def test_the_page_draws_them(fitted):
    model, _ = fitted
    page = model.released_.report()
    assert page.count("<h3>") == 2
    assert f"ε = {model.released_.guarantee.profile.epsilon:.4g}" in facts_of(page)["profile-cost"][0]
    assert "a part of the ε of this run" in page  # simulated noise: there is no ε above
    assert "ElasticNet" not in page
