"""Runs with a user's own parts: what is refuted costs nothing, what is not is stated as conditional everywhere."""

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from tests.problems.own_parts import (
    BUILT_IN,
    HONEST_LOSSES,
    HONEST_REGULARISERS,
    Ball,
    ClippedLine,
    NaiveLogistic,
    OwnRidge,
    OwnRisk,
)

import dpadmm
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.core.task import Task
from dpadmm.core.train import Problems, run_training
from dpadmm.errors import InputError
from dpadmm.estimators import ledger_data
from dpadmm.federation.terms import Participant
from dpadmm.methods.base import Setting
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dvp import DVP
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.planner.drafting import federation_terms
from dpadmm.planner.planner import plan
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, PublicFunctions
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.testing import LocalEngine, run_private

X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 3))
Y = np.sign(X[:, 0])
PARTS = [(X[:30], Y[:30]), (X[30:], Y[30:])]
SILOS = Silos.from_parts([X[:30], X[30:]], [Y[:30], Y[30:]], row_norm=1.0, names=["silo 0", "silo 1"])
TARGET, QUIET = Target(0.1, 1e-5), LocalEngine(progress=False, threads=1)
STATED = {"epsilon": 0.1, "delta": 1e-5, "rounds": 2, "eta": 0.05, "mu": 0.01}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(
        tmp_path / "a.ledger", ledger_data(X, Y, np.repeat(["silo 0", "silo 1"], 30)), Budget(epsilon=1.0, delta=1e-5)
    ) as held:
        yield held


def train(spec, own):
    return run_training(TrainingSpec.of(spec), Problems([own]), SimulatedSampler(0), label="dp-gd")


def problem(loss=None, regulariser=None, risk=EmpiricalRisk):
    return Problem.of(risk(SILOS, loss or Huber(0.5), mu=0.01), regulariser=regulariser)


def run(functions, algorithm=None, sampler=None):
    return run_private(
        algorithm or DPGD(step=0.1), functions, 2, TARGET, sampler or SimulatedSampler(0), complete(2), engine=QUIET
    )


@pytest.mark.parametrize("loss", HONEST_LOSSES.values(), ids=list(HONEST_LOSSES))
def test_an_honest_loss_is_certified_if_its_constants_hold(loss):
    done = dpadmm.run("p-admm", PARTS, loss=loss, seed=1, **STATED)
    assert done.account.declared == (f"loss {type(loss).__name__}",)
    assert f"({done.account.declared[0]})" in str(done)


def test_built_in_parts_are_certified_without_a_condition():
    for loss in BUILT_IN:
        if np.isfinite(loss.slope_bound):
            said = run(problem(loss, ElasticNet(l2=0.1))).account
            assert (said.declared, said.standing) == ((), "certified")


@pytest.mark.parametrize(
    ("functions", "algorithm", "named"),
    [
        (problem(regulariser=HONEST_REGULARISERS["group norm"]), None, "regulariser GroupNorm"),
        (problem(risk=OwnRisk), None, "functions OwnRisk"),
        (problem(), DPDGD(step=0.1, decay=0.9, constraint=Ball(2.0)), "constraint Ball"),
    ],
    ids=["regulariser", "functions", "constraint"],
)
def test_every_own_part_makes_the_statement_conditional(functions, algorithm, named):
    target = PureTarget(1.0) if algorithm is not None else TARGET
    done = run_private(
        algorithm or DPGD(step=0.1), functions, 2, target, SimulatedSampler(0), complete(2), engine=QUIET
    )
    assert done.account.declared == (named,)
    assert all(release.certificate.declared == (named,) for release in done.plan)


def test_a_run_is_made_on_the_parts_that_it_was_specified_with():
    """A plan that knows constants alone could otherwise be run on a loss that nobody has checked."""
    own = problem(ClippedLine())
    bare = Problem.of(PublicFunctions(SILOS.sizes, 3, own.functions.constants))
    spec = RunSpec(DPGD(step=0.1), Setting(bare, 2), TARGET)
    with pytest.raises(InputError, match="not specified"):
        train(spec, own)
    planned = Problem.of(PublicFunctions.of_loss(SILOS.sizes, 3, ClippedLine(), 1.0, 0.01))
    spec = replace(spec, setting=Setting(planned, 2))
    assert train(spec, own).plan.account().declared


def test_the_condition_is_in_the_ledger_and_survives_it(ledger, tmp_path):
    run_built_in = {**STATED, "loss": "huber", "ledger": ledger}
    dpadmm.run("p-admm", PARTS, **run_built_in)
    before = ledger.statement()
    assert (before.declared, before.standing) == ((), "certified")
    dpadmm.run("p-admm", PARTS, **run_built_in | {"loss": ClippedLine()})
    ledger.export_json(tmp_path / "log.json")
    ledger.close()
    with Ledger.open(tmp_path / "a.ledger") as again:
        said, runs = again.statement(), again.runs()
    assert said.declared == ("loss ClippedLine",)
    assert "(loss ClippedLine)" in str(said)
    assert sorted(run.declared for run in runs) == [(), ("loss ClippedLine",)]
    entries = json.loads((tmp_path / "log.json").read_text())["entries"]
    released = [entry["body"]["release"] for entry in entries if entry["body"]["event"] == "release"]
    written = [release["certificate"]["declared"] for release in released]
    assert written.count(["loss ClippedLine"]) == written.count([]) > 0


def test_a_subclass_of_the_logistic_loss_gets_no_theorem_of_its_own():
    """C2 needs no Jacobian term for the logistic loss itself; a subclass may be any other."""
    certificates = []
    for loss in (Logistic(), NaiveLogistic()):
        done = run_private(
            DVP(eta=1.0), problem(loss), 1, PureTarget(1.0), SimulatedSampler(0), complete(2), engine=QUIET
        )
        certificates.append(next(iter(done.plan)).certificate)
    assert certificates[0].jacobian_free_rate is not None
    assert certificates[1].jacobian_free_rate is None


def test_a_planner_keeps_a_subclass_of_the_logistic_loss():
    task = Task(sizes=(30, 30), dimension=3, loss=NaiveLogistic(), target=Target(0.5, 1e-5))
    made = plan(task, method="p-admm")
    assert type(made.task.loss) is NaiveLogistic
    assert made.spec.noise_plan().account().declared == ("loss NaiveLogistic",)


def test_terms_of_a_federation_do_not_take_a_subclass_for_the_penalty_it_inherits_from():
    silos = [Participant(name, 300, name * 64) for name in "ab"]
    for penalty, is_refused in ((ElasticNet(l1=0.01), False), (OwnRidge(l1=0.01), True)):
        made = plan(Task(sizes=(300, 300), dimension=3, loss=Logistic(), target=Target(2.0, 1e-5), regulariser=penalty))
        with pytest.raises(InputError, match="penalty") if is_refused else nullcontext():
            federation_terms(made, "run", silos, "c" * 64, "d" * 64)


def test_secure_noise_is_conditional_too():
    done = run(problem(ClippedLine()), PADMM(eta=0.05), SecureSampler())
    assert done.is_private_release
    assert done.account.declared == ("loss ClippedLine",)


class QuietGD(DPGD):
    """A method that promises a thousandth of what its gradients may change."""

    def mechanisms(self, setting):
        (mechanism,) = super().mechanisms(setting)
        rows = [
            replace(row, certificates=tuple(replace(each, bound=each.bound / 1000) for each in row.certificates))
            for row in mechanism.rows
        ]
        return (replace(mechanism, rows=tuple(rows)),)


def test_a_method_of_ones_own_is_named_since_its_declared_constants_are_believed():
    said = run(problem(), QuietGD(step=0.1)).account
    assert said.declared == ("method QuietGD",)
    assert said.standing != "certified"
    assert run(problem(), DPGD(step=0.1)).account.declared == ()
