"""Preconditioned noisy gradients: against the pseudo-code in plain NumPy, the optimum, and the certificates C14, C9."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import dpadmm
from dpadmm.errors import InputError
from dpadmm.estimators import SimulatedNoiseWarning
from dpadmm.methods.base import BROADCAST, Agents, OneNoise, Silence
from dpadmm.methods.preconditioned import SECOND_MOMENTS, PreconditionedGradients, PreconditionedSilos, second_moments
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.curves import m_of
from dpadmm.privacy.protection import ONE_RECORD, NeighbouringRelation, Protection, Unit, View
from dpadmm.problems.arrays import packed_size, unpack
from dpadmm.problems.losses import Huber, Logistic, Softmax
from dpadmm.problems.problem import EmpiricalRisk, Problem, SoftmaxRisk
from dpadmm.problems.quadratics import QuadraticAgents
from dpadmm.problems.regularisers import ElasticNet
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.testing import LocalEngine, Recording, Stopping, plan_noise, run_private

D, MU, SIZES, ONE = 4, 0.05, (70, 50, 30), Target(1.0, 1e-5)
QUIET = LocalEngine(progress=False, threads=1, recording=Recording(every=0))
PUBLIC = Protection(view=View.PUBLIC)
BOTH = pytest.mark.parametrize(
    ("method", "who"), [(PreconditionedGradients(), PUBLIC), (PreconditionedSilos(), ONE_RECORD)]
)


def rows_of(sizes, seed=0):
    """Rows of norm at most 1 whose last column nearly repeats the first."""
    rng, tables = np.random.default_rng(seed), []
    for n in sizes:
        rows = rng.standard_normal((n, D))
        rows[:, -1] = rows[:, 0] + 0.1 * rows[:, -1]
        tables.append(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0))
    return tables, [np.where(rng.random(n) < 0.5, 1.0, -1.0) for n in sizes]


def problem_of(sizes=SIZES, mu=MU, ridge=0.0, loss=None):
    tables, labels = rows_of(sizes)
    return Problem.of(
        EmpiricalRisk(Silos.from_parts(tables, labels, 1.0), loss or Logistic(), mu=mu),
        regulariser=ElasticNet(l2=ridge),
    )


def optimum(problem, mu):
    """By Newton's method on all rows together."""
    (rows, labels), x = (problem.functions.silos.features, problem.functions.silos.labels), np.zeros(D)
    for _ in range(50):
        chance = expit(-labels * (rows @ x))
        gradient = -rows.T @ (labels * chance) / len(rows) + mu * x
        x = x - np.linalg.solve(
            (rows * (chance * (1 - chance))[:, None]).T @ rows / len(rows) + mu * np.eye(D), gradient
        )
    return x


class Pushed(OneNoise):
    """Adds known numbers to whatever leaves, for the noise of a plan."""

    def __init__(self, plan):
        self.plan, self.pushes = plan, {}

    def perturb(self, kind, k, agents, values):
        rng = np.random.default_rng((k, len(kind.name)))
        push = 0.01 * rng.standard_normal(values.shape)
        self.pushes[kind, k] = push.sum(axis=0)[:, 0]
        return values + push


class TestPseudoCode:
    @BOTH
    @pytest.mark.parametrize(("mu", "ridge"), [(MU, 0.0), (0.0, MU)])
    def test_ten_rounds_with_noise(self, method, who, mu, ridge):
        problem, rounds = problem_of(mu=mu, ridge=ridge), 10
        hook = Pushed(plan_noise(method, problem, rounds, ONE, protection=who))
        run = QUIET.run(method, problem, Stopping(rounds), noise=hook)

        rows, labels = problem.functions.silos.features, problem.functions.silos.labels
        noisy = rows.T @ rows / (4 * len(rows)) + unpack(hook.pushes[SECOND_MOMENTS, 1], D)
        values, vectors = np.linalg.eigh(noisy)
        firsts = [row for (kind, _), row in hook.plan.releases.items() if kind == SECOND_MOMENTS]
        s = math.sqrt(sum(release.noise_std**2 for release in firsts[0].values()))
        metric = vectors @ np.diag(np.maximum(values, 0) + s * math.sqrt(2 * D) + MU) @ vectors.T
        x, y, path = np.zeros(D), np.zeros(D), []
        for k in range(2, rounds + 1):
            gradient = -rows.T @ (labels * expit(-labels * (rows @ y))) / len(rows) + MU * y
            after = y - np.linalg.solve(metric, gradient + hook.pushes[BROADCAST, k])
            x, y = after, after + 0.7 * (after - x)
            path.append(x)
        np.testing.assert_allclose(run.estimate[:, 0], path[-1], atol=1e-12)
        np.testing.assert_allclose(run.tail_average[:, 0], np.mean(path[-4:], axis=0), atol=1e-12)  # half of nine

    @BOTH
    def test_few_rounds_without_noise_reach_the_optimum_of_columns_that_nearly_agree(self, method, who):
        problem = problem_of(mu=1e-3)
        found = QUIET.run(method, problem, Stopping(60)).estimate[:, 0]
        np.testing.assert_allclose(found, optimum(problem, 1e-3), atol=1e-4)

    def test_second_moments_are_the_plain_formula_whoever_the_rows_belong_to(self):
        tables, labels = rows_of(SIZES)
        persons = [PersonRows.of(np.arange(n) // 2).people for n in SIZES]
        for people, sizes, loss, kappa in ((None, SIZES, Logistic(), 0.25), (persons, (35, 25, 15), Huber(2.0), 1.0)):
            silos = Silos.from_parts(tables, labels, 1.0, people=people)
            agents = Agents.of(Problem.of(EmpiricalRisk(silos, loss, mu=0.3)), None, 1e-9, 1)
            for i, found in enumerate(second_moments(agents)[:, :, 0]):
                counted = tables[i] if people is None else 0.5**0.5 * tables[i]
                wanted = kappa * agents.weights[i] * counted.T @ counted / sizes[i]
                np.testing.assert_allclose(unpack(found, D), wanted, atol=1e-14)
                alone = second_moments(agents.take(np.array([i])))[0, :, 0]
                np.testing.assert_allclose(found, alone, atol=1e-15)


def matrices(method, problem):
    """What leaves the silos in the first round, before noise."""
    agents = Agents.of(problem, None, 1e-9, 1)
    state, inbox = method.start(agents, 1)
    return method.local_step(1, agents, state, inbox, Silence())[1][:, :, 0]


def bound_of(method, problem, who, agent):
    plan = plan_noise(method, problem, 3, ONE, protection=who)
    (row,) = (row for (kind, _), row in plan.releases.items() if kind == SECOND_MOMENTS)
    return row[agent].bound


class TestCertificates:
    @pytest.mark.parametrize("relation", list(NeighbouringRelation))
    @pytest.mark.parametrize(("records", "silos"), [(1, 1), (2, 1), (2, 2)])
    def test_the_sum_is_reached_and_never_passed(self, relation, records, silos):
        """A person's rows in one direction, against none or against rows at a right angle; and against random ones."""
        is_added = relation is NeighbouringRelation.ADD_OR_REMOVE
        who = Protection(view=View.PUBLIC, relation=relation, records_per_person=records, silos_per_person=silos)
        rng, sizes, most = np.random.default_rng(1), (5, 4, 6), 0.0
        for trial in range(60):
            tables, _ = rows_of(sizes, seed=trial)
            other = [table.copy() for table in tables]
            for i in range(silos):
                for world, axis in ((tables[i], 0), (other[i], 1)):
                    world[:records] = np.eye(D)[axis] if trial == 0 else rng.dirichlet(np.ones(D), records) ** 0.5
            if is_added:  # the second world has fewer records, not others
                other = [table[records * (i < silos) :] for i, table in enumerate(tables)]
            worlds = []
            for parts in (tables, other):
                made = Silos.from_parts(parts, [np.ones(len(part)) for part in parts], 1.0)
                worlds.append(Problem.of(EmpiricalRisk(made.with_nominal(sizes) if is_added else made, Logistic())))
            p, q = (matrices(PreconditionedGradients(), world).sum(axis=0) for world in worlds)
            most = max(most, float(np.linalg.norm(p - q) / bound_of(PreconditionedGradients(), worlds[0], who, -1)))
        assert 0.999 < most <= 1

    def test_every_silo_is_reached_and_never_passed(self):
        most, method = np.zeros(2), PreconditionedSilos()
        for trial in range(60):
            tables, labels = rows_of((5, 4), seed=trial)
            other = [table.copy() for table in tables]
            for i in range(2):
                angle = np.random.default_rng(trial).uniform(0, np.pi) if trial else np.pi / 2
                tables[i][0], other[i][0] = np.eye(D)[0], np.cos(angle) * np.eye(D)[0] + np.sin(angle) * np.eye(D)[1]
            worlds = [Problem.of(EmpiricalRisk(Silos.from_parts(t, labels, 1.0), Logistic())) for t in (tables, other)]
            gap = np.linalg.norm(np.subtract(*(matrices(method, world) for world in worlds)), axis=1)
            most = np.maximum(most, gap / [bound_of(method, worlds[0], ONE_RECORD, i) for i in range(2)])
        assert (most > 0.999).all()
        assert (most <= 1).all()

    @BOTH
    @pytest.mark.parametrize("share", [0.02, 0.1])
    def test_the_matrix_gets_its_share_and_all_together_the_budget(self, method, who, share):
        plan = plan_noise(replace(method, share=share), problem_of(), 17, ONE, protection=who)
        m, spent = m_of(ONE.epsilon, ONE.delta), {}
        for (kind, k), row in plan.releases.items():
            for agent, release in row.items():
                spent.setdefault(agent, {}).setdefault(kind, []).append((k, (release.bound / release.noise_std) ** 2))
        for kinds in spent.values():
            assert [k for k, _ in kinds[SECOND_MOMENTS]] == [1]
            assert [k for k, _ in kinds[BROADCAST]] == list(range(2, 18))
            assert kinds[SECOND_MOMENTS][0][1] == pytest.approx(share * m**2, rel=1e-4)
            assert sum(part for _, part in kinds[BROADCAST]) == pytest.approx((1 - share) * m**2, rel=1e-4)

    @pytest.mark.parametrize(
        ("method", "sizes", "who", "theorems"),
        [
            (
                PreconditionedGradients(),
                (150,),
                ONE_RECORD,
                {"C14 (second moments) + C8", "C9 (sum of gradients) + C8"},
            ),
            (PreconditionedSilos(), SIZES, ONE_RECORD, {"C14 (second moments) + C8", "C9 (full gradient) + C8"}),
            (
                PreconditionedGradients(),
                SIZES,
                Protection(view=View.AGGREGATE, colluders=1),
                {"C14 (second moments) + C12", "C9 (sum of gradients) + C12"},
            ),
        ],
    )
    def test_secure_runs_count_the_grid_of_the_longest_message(self, method, sizes, who, theorems):
        done = run_private(method, problem_of(sizes), 4, ONE, SecureSampler(), engine=QUIET, protection=who)
        assert {release.certificate.theorem for release in done.plan} == theorems
        assert all(release.certificate.grid_dimension >= packed_size(D) for release in done.plan)
        assert np.isfinite(done.run.estimate).all()


def test_a_model_shows_its_gradients_round_by_round_and_no_matrix_among_them():
    tables, labels = rows_of((400,))
    asked = {"method": "noisy-gradients-preconditioned", "random_state": 0, "classes": (-1, 1)}
    model = dpadmm.PrivateLogisticRegression(1.0, 1e-5, training=dpadmm.TrainingOptions(row_norm=1.0), **asked)
    with pytest.warns(SimulatedNoiseWarning):
        model.fit(tables[0], labels[0])
    assert [each.round for each in model.released_.history] == list(range(2, 18))
    assert "second moments" in str(model.released_)


class TestRefusals:
    @pytest.mark.parametrize(
        ("made", "rounds", "what"),
        [
            (lambda: problem_of(), 1, "at least 2 rounds"),
            (lambda: replace(problem_of(), regulariser=ElasticNet(l1=0.1)), 5, "ridge"),
            (lambda: softmax(), 5, "one score"),
            (lambda: Problem.of(QuadraticAgents(np.ones((3, 1, 1)), np.ones((3, 1)))), 5, "one score"),
            (lambda: wide(), 5, "up to 1000 features"),
        ],
    )
    @BOTH
    def test_what_has_no_matrix_is_refused(self, method, who, made, rounds, what):
        with pytest.raises(InputError, match=what):
            plan_noise(method, made(), rounds, ONE, protection=who)

    @BOTH
    def test_users_are_refused(self, method, who):
        with pytest.raises(InputError, match="user"):
            plan_noise(method, problem_of(), 5, ONE, protection=replace(who, unit=Unit.USER))

    @pytest.mark.parametrize(
        "wrong", [{"share": 0.0}, {"share": 1.0}, {"step": 0.0}, {"momentum": 1.0}, {"averaged": 0}]
    )
    def test_numbers(self, wrong):
        with pytest.raises(InputError, match=next(iter(wrong))):
            PreconditionedGradients(**wrong)


def softmax():
    return Problem.of(SoftmaxRisk(Silos.from_parts([np.eye(3)], [np.arange(3.0)], 1.0), Softmax(3)))


def wide():
    return Problem.of(EmpiricalRisk(Silos.from_parts([np.eye(2, 1001)], [np.ones(2)], 1.0), Logistic()))
