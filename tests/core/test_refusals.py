"""What runs and their plans refuse: every row of tests/snapshots/refusals/core.txt, and nothing of it is spent."""

from dataclasses import replace

import numpy as np
from tests.problems import own_parts
from tests.refusals import check_refusals

import dpadmm
from dpadmm.core.release import PlannedNoise
from dpadmm.core.spec import ReleaseFacts, RunSpec, TrainingSpec
from dpadmm.core.task import Task
from dpadmm.data import load_breast_cancer
from dpadmm.data.columns import Categorical, Numeric
from dpadmm.data.profile import ProfileForm
from dpadmm.estimators import ledger_data
from dpadmm.methods.base import Setting
from dpadmm.methods.decentralised import DecentralisedADMM
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import path, ring
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.planner.planner import plan
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.ledger import Budget, Ledger
from dpadmm.privacy.protection import ONE_RECORD, Protection, Unit, View
from dpadmm.problems.losses import Huber, Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, PublicFunctions
from dpadmm.queries.column_profile import ColumnProfile
from dpadmm.queries.curvature import Curvature
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise, run_private

TARGET = Target(epsilon=1.0, delta=1e-5)
QUIET = LocalEngine(progress=False, threads=1)
X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 3))
Y = np.sign(X[:, 0])
PARTS = [(X[:30], Y[:30]), (X[30:], Y[30:])]
STATED = {"epsilon": 0.1, "delta": 1e-5, "rounds": 2, "eta": 0.05, "mu": 0.01}
FACTS = ReleaseFacts((50, 2), ONE_RECORD, False)

problem = Problem.of(EmpiricalRisk(load_breast_cancer().silos(), Logistic(), mu=0.01))
paid = ColumnProfile(n_numeric=1, n_categorical=4, size=30, target=TARGET)


def private(method=PADMM(eta=0.01), problem=problem, **changes):  # noqa: B008 - a frozen value
    parts = {"rounds": 2, "target": TARGET, "sampler": SimulatedSampler(seed=0), "network": ring(4)} | changes
    return run_private(method, problem, engine=QUIET, **parts)


def spec_of(method, **protection):
    network = ring(4) if isinstance(method, PADMM) else None
    return RunSpec(method, Setting(problem, 2, network=network, protection=Protection(**protection)), TARGET)


def pays_for(n_numbers, n_categories, sizes=(50, 2), bins=None):
    """Check the rows of a profile that was planned for one number and four categories of two silos."""
    numbers = [Numeric(f"n{i}", 0, 1) for i in range(n_numbers)]
    form = ProfileForm((*numbers, *(Categorical(f"c{i}", ("a", "b")) for i in range(n_categories))))
    replace(paid, size=bins or form.size).check(form, sizes, FACTS)


def test_refused_and_nothing_spent(snapshot, tmp_path):
    data = ledger_data(X, Y, np.repeat(["silo 0", "silo 1"], 30))
    with Ledger.create(tmp_path / "a.ledger", data, Budget(epsilon=1.0, delta=1e-5)) as ledger:
        check_refusals(snapshot, "core", vars(own_parts), globals(), {"ledger": ledger})
        assert ledger.statement().releases == 0
        assert ledger.statement().spent_epsilon == 0
    pays_for(1, 4)
    TrainingSpec.of(run := spec_of(NoisyGradients(step=0.5)), Curvature(run, TARGET))
