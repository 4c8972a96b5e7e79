"""What is told about a run is what its statement, its plan and its messages say."""

import json

import numpy as np
import pytest

from dpadmm.codec import encode
from dpadmm.methods.base import Topology
from dpadmm.models.build import choice_of, guarantee_of, history_of
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.planner import Task, plan
from dpadmm.privacy.accounting import Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.silos import Silos
from dpadmm.testing import run_plan


@pytest.fixture(scope="module")
def made():
    return plan(Task(sizes=(300, 200), dimension=3, loss=Logistic(), target=Target(1.0, 1e-5)), method="p-admm")


@pytest.fixture(scope="module")
def outcome(made):
    rng = np.random.default_rng(0)
    x = rng.uniform(-0.5, 0.5, (500, 3))
    y = np.where(rng.random(500) < 1 / (1 + np.exp(-8 * x[:, 0])), 1.0, -1.0)
    silos = Silos.from_parts([x[:300], x[300:]], [y[:300], y[300:]], 1.0, ["a", "b"])
    return run_plan(made, silos, SimulatedSampler(seed=1), progress=False)


def test_the_guarantee_is_the_statement(made, outcome):
    said = guarantee_of(made, outcome)
    assert said.epsilon == outcome.account.curve.epsilon(1e-5)
    assert said.theorems == tuple(outcome.account.theorems)
    assert not said.is_private_release
    json.dumps(encode(said), allow_nan=False)


def test_the_method_and_its_forecast_are_those_of_the_plan(made):
    chosen = choice_of(made)
    assert (chosen.topology, chosen.edges) == (Topology.GRAPH, ((0, 1),))
    assert (chosen.method, chosen.rounds) == ("p-admm", made.rounds)
    forecast = made.expected
    assert [each.signal for each in chosen.expected.signals] == ["weak", "moderate", "strong"]
    assert [(each.low, each.high) for each in chosen.expected.signals] == [(x.low, x.high) for x in forecast.signals]


def test_rounds_are_what_the_noisy_messages_show(made, outcome):
    """Sizes and noise of messages, and certified bounds, which the noise exceeds."""
    found, public = history_of(outcome), outcome.runs()[0].history
    assert [each.round for each in found] == list(range(1, made.rounds + 1))
    for each, seen in zip(found, public, strict=True):
        assert (each.movement, each.average_movement, each.noise) == (
            seen.movement,
            seen.average_movement,
            seen.noise_norm,
        )
        assert (each.messages, each.size) == (2, pytest.approx(np.mean(seen.norms)))
        assert 0 < each.bound < each.noise
