"""What is told about a run is what its statement, its plan and its messages say."""

import json

import numpy as np
import pytest

from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planning import Task, carry_out, plan
from dpadmm.privacy.calibration import Target
from dpadmm.privacy.methods import PAdmm
from dpadmm.problems.losses import Logistic
from dpadmm.problems.silos import Silos
from dpadmm.reporting.claims import claims_of
from dpadmm.reporting.codec import encode
from dpadmm.reporting.outcome import choice_of, guarantee_of, loss_words, wiring_of


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        rng = np.random.default_rng(0)
        x = rng.uniform(-0.5, 0.5, (500, 3))
        y = np.where(rng.random(500) < 1 / (1 + np.exp(-8 * x[:, 0])), 1.0, -1.0)
        silos = Silos.from_parts([x[:300], x[300:]], [y[:300], y[300:]], 1.0, ["a", "b"])
        made = plan(Task(sizes=(300, 200), dimension=3, loss=Logistic(), target=Target(1.0, 1e-5)), method="p-admm")
        return carry_out(made, silos, SimulatedSampler(seed=1), progress=False)


def test_the_guarantee_is_the_statement(outcome):
    said = guarantee_of(outcome)
    assert said.epsilon == outcome.statement.curve.epsilon(1e-5)
    assert said.certificates == tuple(outcome.statement.theorems)
    assert not said.is_release
    json.dumps(encode(said), allow_nan=False)


def test_wiring_and_choice(outcome):
    assert wiring_of(outcome.plan).edges == ((0, 1),)
    chosen = choice_of(outcome.plan)
    assert (chosen.method, chosen.rounds) == ("p-admm", outcome.plan.rounds)
    assert chosen.expected.mean == outcome.plan.expected.mean
    assert loss_words(Logistic()) == "logistic regression"


def test_claims_are_those_of_the_account_command_or_say_why_not(outcome):
    """Theorem 3 knows constant and falling noise only; where the plan's noise rises there is a reason, no claim."""
    claims, reason = claims_of(outcome.plan, outcome.noise_plan)
    rows = outcome.noise_plan.releases
    levels = [next(iter(rows[key].values())).noise_std for key in sorted(rows, key=lambda key: key[1])]
    if np.ptp(levels) > 1e-9:
        assert claims == ()
        assert "Theorem 3" in reason
        return
    made = outcome.plan
    worst = max(
        PAdmm(records=n, degree=1, eta=made.algorithm.eta, rounds=made.rounds, mu=made.mu, weight=n / 500)
        .claimed_epsilon(levels, 1e-5)[0]
        .value
        for n in (300, 200)
    )
    assert claims[0].epsilon == pytest.approx(worst)
