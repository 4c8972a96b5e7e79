"""What is told about a run is what its statement, its plan and its messages say."""

import json
import math

import numpy as np
import pytest

from dpadmm.noise.plan import at_levels
from dpadmm.noise.simulated import SimulatedSampler
from dpadmm.planning import Task, carry_out, plan
from dpadmm.privacy.calibration import Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.silos import Silos
from dpadmm.reporting.files import encode
from dpadmm.reporting.outcome import choice_of, claims_of, guarantee_of, loss_words, wiring_of


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


def test_claims_are_the_papers_or_say_why_there_are_none(outcome):
    """Theorem 3 knows constant and falling noise only; where the noise rises there is a reason, no claim."""
    made = outcome.plan

    def claims(levels):
        return claims_of(made, at_levels(made.algorithm.promises(made.setting), [levels]))

    none, reason = claims(np.linspace(1.0, 2.0, made.rounds))
    assert none == ()
    assert "Theorem 3" in reason
    (claim,), reason = claims(np.full(made.rounds, 2.0))
    # Theorems 2 and 3 by hand: V = G w_i, the largest at the silo of 300 of the 500 records
    rho = made.rounds * (0.6 * made.setting.gradient_bound / made.algorithm.eta / 2.0) ** 2 / 2
    assert claim.epsilon == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e5)))
    assert reason is None
