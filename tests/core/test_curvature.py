"""The release after the last round: packed without loss, paid for before anything is drawn, read from noise alone."""

import math

import numpy as np
import pytest

from dpadmm.core.loop import run_rounds
from dpadmm.core.release import OpenRelease
from dpadmm.core.spec import RunSpec, TrainingSpec
from dpadmm.core.train import Problems, run_training
from dpadmm.errors import BudgetError, InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.noise.mechanisms import Constant
from dpadmm.noise.sampler import SecureSampler, SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, View
from dpadmm.problems.losses import Logistic
from dpadmm.problems.problem import EmpiricalRisk, Problem, PublicFunctions
from dpadmm.problems.silos import Silos
from dpadmm.queries.curvature import CURVATURE, Curvature, curvature_messages, pack, packed_size, unpack

D, ROUNDS = 3, 40
M = m_of(1.0, 1e-5)
TRAINING, OWN = Target(0.9, 1e-5), Target(0.2, 1e-5)


def silos_of(sizes, seed=0):
    rng = np.random.default_rng(seed)
    rows = [rng.uniform(-0.5, 0.5, (n, D)) for n in sizes]
    labels = [np.where(rng.random(len(each)) < 1 / (1 + np.exp(-3 * each[:, 0])), 1.0, -1.0) for each in rows]
    return Silos.from_parts(rows, labels, 1.0)


def problem_of(sizes=(300,), mu=0.02, seed=0):
    return Problem.of(EmpiricalRisk(silos_of(sizes, seed), Logistic(), mu=mu))


def spec_of(problem, protection=ONE_RECORD, training=TRAINING, own=OWN):
    setting = Setting(problem, ROUNDS, protection=protection)
    run = RunSpec(NoisyGradients(step=2.0), setting, training, Constant())
    return TrainingSpec.of(run, Curvature(run, own))


def curvature_plan(spec, is_secure=False):
    return spec.part(spec.sums[0], is_secure)


def train(spec, problem, sampler, ledger=None):
    return run_training(spec, Problems([problem]), sampler, ledger, label="x")


def hessian(problem, point):
    """By the plain formula, all rows together, in sums."""
    silos = problem.functions.silos
    chance = 1 / (1 + np.exp(-silos.features @ point))
    return (silos.features * (chance * (1 - chance))[:, None]).T @ silos.features


class TestPacking:
    def test_distances_are_kept(self):
        rng = np.random.default_rng(0)
        for d in (1, 2, 5):
            matrix = rng.standard_normal((d, d))
            matrix = matrix + matrix.T
            assert len(pack(matrix)) == packed_size(d)
            assert np.linalg.norm(pack(matrix)) == pytest.approx(np.linalg.norm(matrix))
            np.testing.assert_allclose(unpack(pack(matrix), d), matrix)

    def test_noise_is_as_strong_in_every_direction(self):
        """On the diagonal tau, beside it tau/sqrt(2), so that the matrix can be turned at will."""
        noise = np.random.default_rng(1).standard_normal((packed_size(3), 10_000))
        found = np.stack([unpack(each, 3) for each in noise.T])
        assert found[:, 0, 0].std() == pytest.approx(1.0, rel=0.05)
        assert found[:, 0, 1].std() == pytest.approx(math.sqrt(0.5), rel=0.05)


class TestMessages:
    def test_the_sum_over_silos_is_the_curvature_without_the_ridge(self):
        problem, point = problem_of((100, 50, 30)), np.array([0.5, -1.0, 2.0])
        sent = curvature_messages(problem, point[:, None]).sum(axis=0)[:, 0]
        np.testing.assert_allclose(180 * unpack(sent, D), hessian(problem, point), rtol=1e-10)

    def test_only_losses_of_one_score(self):
        class Other:
            functions = None
            n_agents = 1

        with pytest.raises(InputError, match="one score"):
            curvature_messages(Other(), np.zeros((D, 1)))


class TestPlan:
    @pytest.mark.parametrize(
        ("sizes", "who", "gap"),
        [
            ((300,), ONE_RECORD, math.sqrt(2) / 4),
            ((100, 200), Protection(view=View.PUBLIC), math.sqrt(2) / 4),
            ((100, 200), Protection(view=View.PUBLIC, records_per_person=2, silos_per_person=2), math.sqrt(2)),
            ((100, 100, 100), Protection(view=View.AGGREGATE, colluders=1), math.sqrt(2) / 4),
            ((300,), Protection(relation=NeighbouringRelation.ADD_OR_REMOVE), 1 / 4),
        ],
    )
    def test_costs_add_up_in_squares(self, sizes, who, gap):
        spec = spec_of(problem_of(sizes), who)
        (release,) = curvature_plan(spec)
        assert release.round == ROUNDS + 1
        assert sum(sizes) * release.bound == pytest.approx(gap, rel=1e-4)
        own = m_of(OWN.epsilon, OWN.delta)
        assert release.noise_std == pytest.approx(release.bound / own, rel=1e-6)
        whole = spec.noise_plan(is_secure=False).account().curve.m
        alone = spec.runs[0].noise_plan(is_secure=False).account().curve.m
        assert whole == pytest.approx(math.hypot(alone, own), rel=1e-6)
        assert spec.noise_plan().account().curve.m == pytest.approx(whole, rel=1e-3)

    def test_a_cap_on_the_slope_is_none_on_the_curvature(self):
        """Whatever a record's pull is held to, it bends as much as at its steepest."""
        loss, norm, n = Logistic(0.75), 2.0, 300
        functions = PublicFunctions.of_loss(np.array([n]), D, loss, norm)
        (release,) = curvature_plan(spec_of(Problem.of(functions)))
        steepest = loss.curvature(np.linspace(-20, 20, 100_001)).max()
        assert n * release.bound == pytest.approx(math.sqrt(2) * steepest * norm**2, rel=1e-4)


def loud(problem, who=ONE_RECORD):
    """A run with hardly any noise: what comes out is what went in."""
    spec = spec_of(problem, who, Target(1e7, 1e-5), Target(1e7, 1e-5))
    return train(spec, problem, SimulatedSampler(1)).released["curvature"]


class TestRuns:
    def test_without_noise_point_gradient_and_curvature_are_right(self):
        problem = problem_of((120, 80), mu=0.05)
        found = loud(problem, Protection(view=View.PUBLIC))
        rows, labels = problem.functions.silos.features, problem.functions.silos.labels
        x = y = np.zeros(D)
        points, sums = [], []
        for _ in range(ROUNDS):  # the descent by hand
            gradient = -(rows * labels[:, None]).T @ (1 / (1 + np.exp(labels * (rows @ y)))) / 200
            points.append(y)
            sums.append(200 * gradient)
            after = y - 2.0 * (gradient + 0.05 * y)
            x, y = after, after + 0.9 * (after - x)
        first = 3 * ROUNDS // 10
        np.testing.assert_allclose(found.point, np.mean(points[first:], axis=0), atol=1e-4)
        np.testing.assert_allclose(found.gradient, np.mean(sums[first:], axis=0), atol=1e-2)
        np.testing.assert_allclose(found.matrix, hessian(problem, found.point), atol=1e-2)

    @pytest.mark.parametrize(
        ("sizes", "who"),
        [
            ((300,), ONE_RECORD),
            ((150, 150), Protection(view=View.PUBLIC)),
            ((100,) * 3, Protection(view=View.AGGREGATE)),
        ],
    )
    def test_the_noise_is_what_is_said(self, sizes, who):
        problem = problem_of(sizes)
        spec = spec_of(problem, who)
        runs = [train(spec, problem, SimulatedSampler(seed)).released["curvature"] for seed in range(45)]
        off = np.array([each.matrix - hessian(problem, each.point) for each in runs])
        diagonal = off[:, np.arange(D), np.arange(D)] / runs[0].matrix_std
        beside = math.sqrt(2) * off[:, [0, 0, 1], [1, 2, 2]] / runs[0].matrix_std
        assert diagonal.std() == pytest.approx(1.0, rel=0.3)  # 135 numbers: a false alarm has chance 1e-6
        assert beside.std() == pytest.approx(1.0, rel=0.3)
        assert runs[0].gradient_std == pytest.approx(_gradient_noise(spec.runs[0], sizes), rel=1e-6)

    def test_a_secure_run_is_a_release_of_all(self):
        problem = problem_of((100, 100, 100))
        spec = spec_of(problem, Protection(view=View.AGGREGATE))
        done = train(spec, problem, SecureSampler())
        assert done.is_private_release
        assert np.isfinite(done.released["curvature"].matrix).all()
        assert {each.kind for each in done.runs(spec.runs[0])[0].history} == {"broadcast"}
        assert (CURVATURE, ROUNDS + 1) in done.plan.releases

    def test_what_is_kept_follows_from_the_noisy_sums_alone(self):
        """Fed the sums of one run, neighbours and strangers keep the same point and gradient."""
        spec = spec_of(problem_of())

        class Replayed:
            def __init__(self):
                self.plan, self.history, self.sums = spec.runs[0].noise_plan(is_secure=False), [], []
                self.given = np.random.default_rng(3).normal(0, 0.1, (ROUNDS, 1, D, 1))

            def total(self, kind, k, messages):
                self.sums.append(self.given[k - 1])
                return self.given[k - 1]

        kept = []
        for seed in (0, 1):
            run = run_rounds(spec.runs[0], problem_of(seed=seed), Replayed())
            found = spec.sums[0].read(np.zeros(packed_size(D)), 1.0, {"run": [run]})
            kept.append((found.point, found.gradient))
        np.testing.assert_array_equal(*[each[0] for each in kept])
        np.testing.assert_array_equal(*[each[1] for each in kept])


def _gradient_noise(run, sizes):
    (_, row), *_ = run.noise_plan(is_secure=False).releases.items()
    (release,) = row.values()
    total = release.noise_std
    if len(sizes) == 3:
        total *= math.sqrt(3 / 2)  # one of three shares does not count
    return sum(sizes) * total / math.sqrt(ROUNDS - 3 * ROUNDS // 10)


class TestLedger:
    def ledger(self, tmp_path, epsilon):
        table = np.arange(300.0)
        data = (SiloColumns("all", {"x": table}),)
        return Ledger.create(tmp_path / "data.ledger", data, Budget(epsilon=epsilon, delta=1e-5)), data

    def test_all_of_it_is_reserved_before_anything_is_drawn(self, tmp_path, monkeypatch):
        """A ledger with room for the rounds, but not for the curvature as well, lets nothing be drawn."""
        problem = problem_of()
        spec = spec_of(problem)
        rounds = spec.runs[0].noise_plan().account().curve.epsilon(1e-5)
        whole = spec.noise_plan().account().curve.epsilon(1e-5)
        assert rounds < whole
        held, data = self.ledger(tmp_path, (rounds + whole) / 2)

        def never(*_args, **_more):
            raise AssertionError("drawn before it was paid for")

        monkeypatch.setattr(SecureSampler, "perturb", never)
        with held, pytest.raises(BudgetError):
            train(spec, problem, SecureSampler(), held.confirm(data))

    def test_a_curvature_that_is_not_drawn_is_noticed(self, monkeypatch):
        problem = problem_of()
        monkeypatch.setattr(OpenRelease, "total", lambda *_: (np.zeros(packed_size(D)), 1.0))
        with pytest.raises(InputError, match="curvature"):
            train(spec_of(problem), problem, SecureSampler())
