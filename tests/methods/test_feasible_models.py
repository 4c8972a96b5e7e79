"""What a method releases under a constraint satisfies it, whatever the noise did: last models and tail averages."""

from dataclasses import fields, replace

import numpy as np
import pytest

import dpadmm
from dpadmm.core.spec import FinalModel, RunSpec, TrainingSpec
from dpadmm.core.train import Problems, run_training
from dpadmm.methods.base import Setting, by_name
from dpadmm.methods.batches import Batches
from dpadmm.methods.fixed_point.participation import Participation
from dpadmm.networks import ring
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem
from dpadmm.problems.regularisers import Box, ElasticNet, Simplex
from dpadmm.problems.silos import Silos

ROUNDS, D = 4, 5
SETS = (Box(0.0, np.inf), Box(-0.01, (0.01, 0.02, 0.0, np.inf, 0.5)), Simplex(), Simplex(0.3))
RNG = np.random.default_rng(3)
ROWS = RNG.uniform(-0.4, 0.4, (3, 12, D))
SILOS = Silos.from_parts(list(ROWS), np.sign(ROWS[..., 0]), row_norm=1.0)
NUMBERS = {
    "consensus": {"rho": 0.5},
    "p-admm": {"eta": 0.5},
    "consensus-gaussian": {"rho": 0.5},
    "ps-admm": {"rho": 0.5, "step": 0.3, "inner_steps": 2, "batches": Batches.secret(3)},
    "dp-prox-sgd": {"step": 0.5, "batches": Batches.secret(3)},
    "dp-cd": {"step": 0.5, "block_size": 2, "blocks": Participation.in_turn(3, ROUNDS)},
    "fp-walk": {"gamma": 1.0, "participation": Participation.one_at_random(3, ROUNDS, RNG)},
}
ELSEWHERE = {"fp-lasso": "its problem has no constraint", "fp-general": "its regulariser is a function of z"}
TAKING = sorted(name for name, kind in by_name().items() if kind.about.is_private and kind.about.takes_any_regulariser)
CONSTRAINED = sorted(name for name, kind in by_name().items() if "constraint" in {each.name for each in fields(kind)})


def released(method, regulariser, output, network=None):
    """Release a model with so much noise that it is far out without care."""
    problem = Problem.of(EmpiricalRisk(SILOS, Logistic()), regulariser=regulariser)
    target = PureTarget(0.5) if method.about.is_pure else Target(0.5, 1e-6)
    spec = RunSpec(method, Setting(problem, ROUNDS, network=network), target, output=output)
    sampler = SimulatedSampler(0)  # with fresh noise a free model would now and then lie in the set
    done = run_training(TrainingSpec.of(spec), Problems([problem]), sampler, label="test")
    return done.runs(spec)[0].model(output)


@pytest.mark.parametrize("output", FinalModel)
@pytest.mark.parametrize("wanted", SETS, ids=repr)
@pytest.mark.parametrize("name", sorted(set(TAKING) - set(ELSEWHERE)))
def test_a_released_model_lies_in_the_domain_of_the_regulariser(name, wanted, output):
    kind = by_name()[name]
    setting = Setting(Problem.of(EmpiricalRisk(SILOS, Logistic()), regulariser=wanted), ROUNDS)
    method = kind(**NUMBERS[name]) if name in NUMBERS else kind.at_step(setting, 1.0)
    model = released(method, wanted, output, ring(3) if method.needs_network else None)
    assert np.linalg.norm(model - wanted.prox(model, 1.0)) <= 1e-9


@pytest.mark.parametrize("output", FinalModel)
@pytest.mark.parametrize("name", sorted(set(CONSTRAINED) - set(ELSEWHERE)))
def test_a_released_model_lies_in_the_constraint_of_the_method(name, output):
    numbers = NUMBERS.get(name, {"step": 0.5, "decay": 0.9})
    for wanted in SETS[:2]:
        method = by_name()[name](**numbers, constraint=wanted)
        network = ring(3) if method.needs_network else None
        model = released(method, ElasticNet(l2=0.1), output, network)
        assert np.linalg.norm(model - wanted.prox(model, 1.0)) <= 1e-9
        free = released(replace(method, constraint=None), ElasticNet(l2=0.1), output, network)
        assert np.linalg.norm(free - wanted.prox(free, 1.0)) > 1e-3  # the noise would have left the set


def test_the_call_takes_constraints_by_name():
    """Rounds and numbers are given, or chosen by the planner."""
    parts, budget = [(rows, np.sign(rows[:, 0])) for rows in ROWS], {"epsilon": 1.0, "delta": 1e-6, "seed": 0}
    shares = dpadmm.run("consensus-gaussian", parts, regulariser="simplex", rounds=3, rho=0.5, **budget)
    assert (shares.model >= 0).all()
    assert shares.model.sum() == pytest.approx(1.0, abs=1e-9)
    assert (dpadmm.run("dp-gd", parts, regulariser="non-negative", **budget).model >= 0).all()
