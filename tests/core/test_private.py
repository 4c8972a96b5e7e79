"""Private runs: what may leave, and what only looks like it."""

import copy
import pickle
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.core import spec as spec_module
from dpadmm.core.release import PlannedNoise
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.core.train import Problems, run_training
from dpadmm.data import load_breast_cancer
from dpadmm.data.examples import logistic_table
from dpadmm.data.partition import iid
from dpadmm.errors import InputError, SolverError
from dpadmm.methods.base import Setting, Silence
from dpadmm.methods.batches import Batches
from dpadmm.methods.dp_dgd import DPDGD
from dpadmm.methods.dp_gd import DPGD
from dpadmm.methods.dp_sgd import DPSGD
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.output_perturbation import OutputPerturbation
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete, path, ring
from dpadmm.noise.mechanisms import MessageKind
from dpadmm.noise.plan import calibrate, check_grids
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import PureTarget, Target
from dpadmm.privacy.certificates.local import MOST_PER_NOMINAL
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.protection import NeighbouringRelation, Protection, View
from dpadmm.privacy.releases import Origin
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, PublicFunctions, Weighting
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import Silos
from dpadmm.solvers import kernels
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise, run_private

TARGET = Target(epsilon=1.0, delta=1e-5)
QUIET = LocalEngine(progress=False, threads=1)


def train(spec, problems, sampler, ledger=None):
    return run_training(TrainingSpec.of(spec), Problems(problems), sampler, ledger, label="x")


@pytest.fixture(scope="module")
def problem():
    return Problem.of(EmpiricalRisk(load_breast_cancer().silos(), Logistic(), mu=0.01))


@pytest.fixture(scope="module")
def one_silo(problem):
    """The noise of sampled batches is searched for, silo by silo."""
    return Problem.of(problem.functions.take(np.array([0])))


def test_only_secure_noise_makes_a_release(problem):
    for sampler, origin in ((SimulatedSampler(seed=0), Origin.SIMULATED), (SecureSampler(), Origin.SECURE)):
        done = run_private(PADMM(eta=0.01), problem, 2, TARGET, sampler, ring(4), engine=QUIET)
        assert done.origin is origin
        assert done.is_private_release == (origin is Origin.SECURE)
        assert done.account.curve.epsilon(TARGET.delta) <= TARGET.epsilon


def test_a_release_fails_by_public_numbers(problem):
    """With messages beyond what 64-bit numbers can solve beside, whatever the records are."""
    with pytest.raises(SolverError, match="public numbers"):
        run_private(PADMM(eta=0.01), problem, 3, Target(1e-8, 1e-12), SecureSampler(), ring(4), engine=QUIET)
    spec = RunSpec(PADMM(eta=0.01), Setting(problem, 3, network=ring(4)), Target(1e-8, 1e-12))
    with pytest.raises(SolverError, match="public numbers"):
        train(spec, [problem], SecureSampler())


KNOWN = {}


@pytest.fixture
def planned_once(monkeypatch):
    """Composing sampled noise takes seconds, and these runs promise the same."""

    def remembered(mechanisms, *more, **options):
        key = repr((mechanisms, more, options))
        if key not in KNOWN:
            KNOWN[key] = calibrate(mechanisms, *more, **options)
        return KNOWN[key]

    monkeypatch.setattr(spec_module, "calibrate", remembered)


@pytest.mark.usefixtures("planned_once")
def test_a_release_refuses_batches_that_can_be_guessed(one_silo):
    known, secret = (DPSGD(step=0.5, batches=b) for b in (Batches(10, seed=0), Batches.secret(10)))
    with pytest.raises(InputError, match=r"Batches\.secret"):
        run_private(known, one_silo, 1, TARGET, SecureSampler(), engine=QUIET)
    assert not run_private(known, one_silo, 1, TARGET, SimulatedSampler(seed=0), engine=QUIET).is_private_release
    assert run_private(secret, one_silo, 1, TARGET, SecureSampler(), engine=QUIET).is_private_release


@pytest.mark.usefixtures("planned_once")
def test_every_run_draws_its_own_secret_batches(one_silo, monkeypatch):
    """One `Batches.secret` served several runs with the same batches: ten one-round runs were 0.1 counted, 1.3 true."""
    seeds = []
    key = Batches.key

    def noted(batches, step):
        seeds.append(batches.seed)
        return key(batches, step)

    monkeypatch.setattr(Batches, "key", noted)
    secret = DPSGD(step=0.5, batches=Batches.secret(10))
    for method in (secret, secret, copy.deepcopy(secret), pickle.loads(pickle.dumps(secret))):
        run_private(method, one_silo, 1, TARGET, SecureSampler(), engine=QUIET)
    QUIET.run(secret, one_silo, Stopping(rounds=1))
    assert None not in seeds
    assert len(set(seeds)) == len(seeds) == 5
    big = DPSGD(step=0.5, batches=Batches(10, seed=2**127))
    with pytest.raises(InputError, match=r"Batches\.secret"):
        run_private(big, one_silo, 1, TARGET, SecureSampler(), engine=QUIET)


@pytest.mark.usefixtures("planned_once")
def test_every_model_of_a_training_draws_its_own_secret_batches(one_silo, monkeypatch):
    seeds, key = set(), Batches.key
    monkeypatch.setattr(Batches, "key", lambda batches, step: (seeds.add(batches.seed), key(batches, step))[1])
    run = RunSpec(DPSGD(step=0.5, batches=Batches.secret(10)), Setting(one_silo, 1), TARGET, n_models=2)
    run_training(TrainingSpec.of(run), Problems([one_silo] * 2), SecureSampler(), label="x")
    assert None not in seeds
    assert len(seeds) == 2


def test_a_secure_run_shows_no_figure_that_read_the_data():
    """Losses and residuals are for simulations: a release carries none, whatever the engine was told to record."""
    table = logistic_table(40, 3, rng=np.random.default_rng(0)).data
    problem = Problem.of(EmpiricalRisk(table.silos(iid(40, 2, np.random.default_rng(1))), Logistic(), mu=0.1))
    engine = LocalEngine(progress=False, recording=Recording(every=1))
    for sampler, rows in ((SecureSampler(), 0), (SimulatedSampler(seed=0), 2)):
        done = run_private(PADMM(eta=0.1), problem, 2, Target(1.0, 1e-5), sampler, path(2), engine=engine)
        assert len(done.run.history.snapshots) == rows


def test_kernels_that_cannot_be_loaded_show_before_anything_is_reserved(problem, monkeypatch):
    """They are imported late, but not so late that a broken installation costs budget."""
    monkeypatch.setattr("dpadmm.problems.silos.SMALL", 0)
    monkeypatch.setitem(sys.modules, kernels.__name__, None)
    monkeypatch.delattr("dpadmm.solvers.kernels")
    monkeypatch.setattr("dpadmm.testing.open_release", lambda *_, **__: pytest.fail("reserved"))
    with pytest.raises(ImportError):
        run_private(PADMM(eta=0.01), problem, 2, TARGET, SecureSampler(), ring(4), engine=QUIET)


@pytest.mark.parametrize("algorithm", [PADMM(eta=0.01), DPGD(step=0.1), OutputPerturbation()])
def test_a_statement_is_about_the_people_that_were_asked_for(problem, algorithm):
    """Noise for people in three silos: sqrt(3) times that for one, and the statement says three."""
    network = ring(4) if isinstance(algorithm, PADMM) else None
    levels = {}
    for silos in (1, 3):
        people = Protection(records_per_person=2, silos_per_person=silos)
        planned = plan_noise(algorithm, problem, 1, Target(1.0, 1e-5), network, protection=people)
        said = planned.account()
        assert (said.protection.records_per_person, said.protection.silos_per_person) == (2, silos)
        assert said.curve.epsilon(1e-5) == pytest.approx(1.0, rel=1e-6)
        levels[silos] = next(iter(planned)).level
    assert levels[3] == pytest.approx(np.sqrt(3) * levels[1])


def test_laplace_noise_on_coordinates_is_released_on_a_grid_that_its_budget_counts(problem, tmp_path):
    silos = problem.functions.silos
    data = [SiloColumns(f"silo {i}", {"x": silos.part(i)[1]}) for i in range(4)]
    ledger = Ledger.create(tmp_path / "held", data, Budget(epsilon=1.0, delta=1e-5))
    method, target = DPDGD(step=0.3, decay=0.9, noise_decay=0.95), PureTarget(0.5)
    bare, planned = (plan_noise(method, problem, 3, target, ring(4), is_secure=each) for each in (False, True))
    for before, release in zip(bare, planned, strict=True):
        grid = release.certificate.grid
        assert 2.0**24 <= release.level / grid < 2.0**25 * (1 + 1e-6)
        assert release.certificate.bound == before.certificate.bound + grid * problem.dimension
    assert 0.5 * (1 - 1e-9) < planned.account().curve.epsilon(0.0) <= 0.5
    done = run_private(method, problem, 3, target, SecureSampler(), ring(4), ledger=ledger.confirm(data))
    grids = [release.certificate.grid for release in planned if release.round == 3]
    assert all((model % grid == 0).all() for model, grid in zip(done.run.models, grids, strict=True))
    assert ledger.statement().releases == 12


class TestWhatASpecIsFor:
    """The certificates are about the run's own public problem: no other one may be run under them."""

    HIDDEN = Protection(relation=NeighbouringRelation.ADD_OR_REMOVE, view=View.AGGREGATE)

    def silos(self, n, nominal=None, row_norm=1.0):
        rng = np.random.default_rng(n)
        tables, labels = [rng.uniform(-0.5, 0.5, (n, 3)) for _ in range(3)], [np.sign(rng.normal(size=n))] * 3
        return Silos.from_parts(tables, labels, row_norm, nominal=nominal)

    def spec(self, protection):
        public = Problem.of(PublicFunctions.of_loss(np.full(3, 100), 3, Logistic(), 1.0))
        setting = Setting(public, 2, 1e-9, None, protection)
        return RunSpec(NoisyGradients(step=0.5), setting, Target(1.0, 1e-5))

    @pytest.mark.parametrize("protection", [HIDDEN, Protection(view=View.PUBLIC)])
    @pytest.mark.parametrize(
        "other",
        [{"n": 5}, {"n": 5, "nominal": (5, 5, 5)}, {"n": 5, "nominal": (100, 100, 99)}, {"n": 100, "row_norm": 2.0}],
    )
    def test_other_sizes_or_constants_are_refused(self, protection, other):
        problem = Problem.of(EmpiricalRisk(self.silos(**other), Logistic()))
        with pytest.raises(InputError, match="was planned"):
            train(self.spec(protection), [problem], SecureSampler())

    def test_other_weights_are_refused(self):
        problem = Problem.of(EmpiricalRisk(self.silos(100), Logistic()), Weighting.EQUAL)
        with pytest.raises(InputError, match="was planned"):
            train(self.spec(Protection(view=View.PUBLIC)), [problem], SecureSampler())

    def test_less_curvature_is_refused_and_more_is_not(self):
        """P-ADMM's models move by gap/(2 eta deg + mu): with a smaller ridge, of functions or shared, by more."""
        public = PublicFunctions.of_loss(np.full(3, 100), 3, Logistic(), 1.0, mu=0.1)
        setting = Setting(Problem.of(public, regulariser=ElasticNet(l2=0.3)), 2, 1e-9, complete(3), Protection())
        spec = RunSpec(PADMM(eta=0.1), setting, Target(1.0, 1e-5))
        for mu, ridge, is_refused in ((0.05, 0.3, True), (0.1, 0.2, True), (0.1, 0.3, False)):
            problem = Problem.of(EmpiricalRisk(self.silos(100), Logistic(), mu), regulariser=ElasticNet(l2=ridge))
            assert problem.is_within(setting.problem) is not is_refused
            if is_refused:
                with pytest.raises(InputError, match="was planned"):
                    train(spec, [problem], SecureSampler())

    def test_another_loss_is_refused_even_if_its_constants_are_no_worse(self):
        """Objective perturbation has a branch that is proved for the logistic loss alone (C2)."""
        other = Problem.of(EmpiricalRisk(self.silos(100), Logistic(0.5)))
        assert not other.is_within(self.spec(Protection(view=View.PUBLIC)).setting.problem)
        constants = other.functions.constants
        unknown = Problem.of(PublicFunctions(np.full(3, 100), 3, constants))
        assert other.is_within(unknown)  # where constants are all that is public, they decide
        wide = replace(constants, gradient_range=0.4)  # of PS-ADMM's corrections
        assert not other.is_within(Problem.of(PublicFunctions(np.full(3, 100), 3, wide)))

    def test_the_solver_works_to_the_tolerance_that_is_certified(self):
        """An error that no certificate counts (C7) is one that no noise hides."""
        problem = Problem.of(EmpiricalRisk(self.silos(100), Logistic(), mu=0.1))
        for tolerance in (1e-9, 1e-3):
            setting = Setting(problem, 2, tolerance, complete(3), Protection())
            spec = RunSpec(PADMM(eta=0.1), setting, Target(1.0, 1e-5))
            (done,) = train(spec, [problem], SimulatedSampler(1)).runs(spec)
            noise = PlannedNoise(spec.noise_plan(is_secure=False), SimulatedSampler(1))
            exact = LocalEngine(tolerance=tolerance).run(spec.method, problem, Stopping(2), complete(3), noise)
            np.testing.assert_array_equal(done.models, exact.models)

    def test_true_sizes_are_no_nominal_ones_even_if_equal(self):
        """A mean over the records there are moves by up to 2 G/n when one is taken away, not by G/n."""
        problem = Problem.of(EmpiricalRisk(self.silos(100), Logistic()))
        with pytest.raises(InputError, match="with_nominal"):
            train(self.spec(self.HIDDEN), [problem], SecureSampler())
        target = Target(1.0, 1e-5)
        with pytest.raises(InputError, match="with_nominal"):
            run_private(NoisyGradients(step=0.5), problem, 2, target, SecureSampler(), protection=self.HIDDEN)

    def test_any_number_of_records_is_taken_with_the_nominal_ones(self):
        problem = Problem.of(EmpiricalRisk(self.silos(5, nominal=(100,) * 3), Logistic()))
        done = train(self.spec(self.HIDDEN), [problem], SecureSampler())
        assert done.is_private_release

    def test_integers_must_hold_many_times_the_nominal_records(self):
        """A secret number of records must not decide whether a run that is paid for breaks off."""
        assert self.spec(Protection(view=View.PUBLIC)).facts.most_records == 300
        spec = self.spec(self.HIDDEN)
        assert spec.facts.most_records == MOST_PER_NOMINAL * 300
        sharp = replace(spec, target=Target(1e6, 1e-5))
        with pytest.raises(InputError, match=f"{MOST_PER_NOMINAL * 300} records"):
            sharp.noise_plan()
        check_grids(sharp.noise_plan(is_secure=False), 300)  # as many as are named would do


@dataclass(frozen=True)
class Forgetful(PADMM):
    """Promises noise in every round, and asks for none in the second."""

    def local_step(self, k, agents, state, inbox, noise):
        return super().local_step(k, agents, state, inbox, Silence() if k == 2 else noise)


@pytest.mark.parametrize("sampler", [SimulatedSampler(seed=0), SecureSampler()])
def test_noise_that_was_planned_and_never_drawn_ends_the_run(problem, sampler):
    with pytest.raises(InputError, match="round 2"):
        run_private(Forgetful(eta=0.01), problem, 3, TARGET, sampler, ring(4), engine=QUIET)


def test_the_public_history_is_made_of_what_was_sent(problem):
    """Of the values before their noise nothing shows."""
    noise = PlannedNoise(plan_noise(PADMM(eta=0.01), problem, 3, TARGET, ring(4)), SimulatedSampler(seed=0))
    who, sent = np.arange(4), []
    for k in (1, 2, 3):
        sent.append(noise.perturb(MessageKind("message"), k, who, np.full((4, 5, 1), 100.0 * k))[:, :, 0])
    means = [each.mean(axis=0) for each in sent]
    for k, seen in enumerate(noise.history):
        assert (seen.round, seen.kind) == (k + 1, "message")
        np.testing.assert_allclose(seen.norms, np.linalg.norm(sent[k], axis=1))
        before = means[k - 1] if k else np.zeros(5)
        assert seen.movement == pytest.approx(np.linalg.norm(means[k] - before))
        average = np.mean(means[:k], axis=0) if k else np.zeros(5)
        assert seen.average_movement == pytest.approx(np.linalg.norm(np.mean(means[: k + 1], axis=0) - average))
