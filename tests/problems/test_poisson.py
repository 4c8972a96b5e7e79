"""The loss of counts (C20): SciPy's distribution, finite differences, bounds that are attained, sums, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

from dpadmm.core.spec import ReleaseFacts
from dpadmm.errors import InputError
from dpadmm.methods.base import Setting
from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.methods.p_admm import PADMM
from dpadmm.networks import complete
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import NeighbouringRelation, Protection, Unit
from dpadmm.problems.losses import Huber, Poisson
from dpadmm.problems.problem import CountRisk, EmpiricalRisk, Problem, PublicFunctions, risk_of
from dpadmm.problems.silos import PersonRows, Silos
from dpadmm.queries.curvature import CurvatureFacts, curvature_messages, pack, plan_curvature
from dpadmm.testing import run_private

CEILINGS = [1, 2, 3, 5, 10, 60]
SCORES = np.concatenate([np.linspace(-12, 7, 77), [-690.0, -300.0, -40.0, 40.0, 650.0]])


@pytest.mark.parametrize("ceiling", CEILINGS)
class TestOneRecord:
    def test_slope_is_what_is_expected_less_what_came(self, ceiling):
        grid, most = np.arange(ceiling + 1), SCORES <= 7
        tail = np.minimum(grid, ceiling)
        for score in SCORES[most]:
            law = stats.poisson(np.exp(score))
            mean = (law.pmf(grid[:-1]) * tail[:-1]).sum() + ceiling * law.sf(ceiling - 1)
            for count in (-2.0, 0.0, 1.0, ceiling + 7.0):
                found = Poisson(ceiling).slope(np.array([score]), np.array([count]))[0]
                assert found == pytest.approx(mean - np.clip(count, 0, ceiling), abs=1e-11 * ceiling)

    def test_slope_and_curvature_are_derivatives(self, ceiling):
        loss, h, counts = Poisson(ceiling), 1e-5, np.full(SCORES.shape, 1.0)
        ends = [loss.value(SCORES + move, counts) for move in (h, -h)]
        slopes = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(slopes, loss.slope(SCORES, counts), atol=2e-7 * ceiling)
        ends = [loss.slope(SCORES + move, counts) for move in (h, -h)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), loss.curvature(SCORES), atol=1e-8 * ceiling)

    def test_bounds_hold_and_are_attained(self, ceiling):
        loss = Poisson(ceiling)
        fine = np.log(np.linspace(1e-3, 3 * ceiling + 3, 200_001))
        steepest = loss.curvature(fine).max()
        assert 0.999999 * loss.curvature_bound < steepest <= loss.curvature_bound
        assert (loss.curvature(SCORES) >= 0).all()
        slopes = np.abs([loss.slope(SCORES, np.full(SCORES.shape, count)) for count in (0.0, ceiling + 1.0)])
        assert 0.999999 * loss.slope_bound < slopes.max() <= loss.slope_bound

    def test_far_out_nothing_overflows(self, ceiling):
        loss, far = Poisson(ceiling), np.array([-1e300, -800.0, 800.0, 1e300])
        np.testing.assert_allclose(loss.slope(far, np.zeros(4)), [0.0, 0.0, ceiling, ceiling], atol=1e-300)
        assert loss.curvature(far)[2:].tolist() == [0.0, 0.0]
        assert np.isfinite(loss.value(far, np.ones(4))).all()

    def test_the_clipped_score_has_mean_0_and_no_more_variance_than_curvature(self, ceiling):
        """So coefficients are those of Poisson, and standard errors by the curvature are not too short."""
        loss, counts = Poisson(ceiling), np.arange(4000.0)
        for rate in (0.05, 0.7, 3.0, 40.0):
            chances = stats.poisson(rate).pmf(counts)
            slopes = loss.slope(np.full(counts.shape, np.log(rate)), counts)
            assert chances @ slopes == pytest.approx(0, abs=1e-10 * ceiling)
            assert chances @ slopes**2 <= loss.curvature(np.log([rate]))[0] * (1 + 1e-9)


def test_published_curvature_bounds():
    """Three of them, rounded down, would be too small: 1.3711, 2.5435, 5.8313."""
    for ceiling, least, most in ((3, 1.37110, 1.3712), (5, 2.54353, 2.5436), (10, 5.83138, 5.8314)):
        assert least < Poisson(ceiling).curvature_bound < most


@pytest.mark.parametrize("ceiling", [0, -1, 2.5, float("inf"), True, "3"])
def test_ceilings_that_are_refused(ceiling):
    with pytest.raises(InputError):
        Poisson(ceiling)


def silos_of(seed=0, sizes=(9, 6), ceiling=4, **more):
    rng = np.random.default_rng(seed)
    rows = [rng.uniform(-0.5, 0.5, (n, 3)) for n in sizes]
    counts = [rng.integers(0, ceiling + 1, n) for n in sizes]
    made = Silos.from_parts(rows, [2 * each / ceiling - 1 for each in counts], row_norm=1.0, **more)
    return replace(made, base_scores=rng.uniform(-1, 1, sum(sizes)))


class TestRisk:
    @pytest.mark.parametrize("has_people", [False, True])
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_sums_over_records(self, has_people, is_sparse):
        silos, loss = silos_of(), Poisson(4)
        if has_people:
            silos = replace(silos, people=tuple(PersonRows.of(np.arange(n) // 2).people for n in (9, 6)))
        weights = np.linspace(0.2, 1, 15)
        silos = replace(silos, row_weights=weights)
        stored = replace(silos, features=sparse.csr_array(silos.features)) if is_sparse else silos
        risk = CountRisk(stored, loss, mu=0.1)
        w = np.random.default_rng(1).standard_normal((2, 3, 2))
        for i in range(2):
            part, n = risk.part(i), risk.sizes[i]
            for r in range(2):
                x = w[i, :, r]
                scores = silos.features[part] @ x + silos.base_scores[part]
                counts, own = (silos.labels[part] + 1) * 2, silos.weights[part]
                value = own @ loss.value(scores, counts) / n + 0.05 * x @ x
                gradient = silos.features[part].T @ (own * loss.slope(scores, counts)) / n + 0.1 * x
                hessian = (silos.features[part].T * (own * loss.curvature(scores))) @ silos.features[part] / n
                assert risk.value(w)[i, r] == pytest.approx(value, rel=1e-12)
                np.testing.assert_allclose(risk.gradient(w)[i, :, r], gradient, atol=1e-13)
                np.testing.assert_allclose(risk.hessian(i, x), hessian + 0.1 * np.eye(3), atol=1e-13)
        np.testing.assert_allclose(risk.take(np.array([1])).gradient(w[1:]), risk.gradient(w)[[1]], atol=1e-14)

    def test_constants_hold(self):
        risk, rng = CountRisk(silos_of(), Poisson(4), mu=0.1), np.random.default_rng(2)
        assert risk.constants.record_gradient == risk.constants.gradient_range == 4.0
        for _ in range(50):
            x, y = rng.standard_normal((2, 1, 3, 1)) * 10 ** rng.uniform(-1, 1)
            moved, far = risk.gradient(x) - risk.gradient(y), np.linalg.norm(x - y)
            assert np.linalg.norm(moved, axis=1).max() <= risk.constants.smoothness * far * (1 + 1e-9)
            assert (moved * (x - y)).sum(axis=1).min() >= 0.1 * far**2 * (1 - 1e-9)

    def test_base_scores_are_for_counts_alone(self):
        with pytest.raises(InputError, match="Huber"):
            EmpiricalRisk(silos_of(), Huber(1.0))
        with pytest.raises(InputError, match="risk_of"):
            EmpiricalRisk(replace(silos_of(), base_scores=None), Poisson(4))
        for wrong in (np.zeros(3), np.full(15, np.nan)):
            with pytest.raises(InputError, match="Base scores"):
                replace(silos_of(), base_scores=wrong)

    def test_a_subclass_is_not_certified(self):
        class Steeper(Poisson):
            curvature_bound = 0.1

        with pytest.raises(InputError, match="Steeper"):
            PublicFunctions.of_loss(np.array([9]), 3, Steeper(4), 1.0)


@pytest.mark.parametrize("relation", list(NeighbouringRelation))
@pytest.mark.parametrize("unit", [Unit.RECORD, Unit.PERSON])
def test_neighbours_stay_within_the_certificates(unit, relation):
    """Never above 1 of what is certified of gradients and curvature; of gradients 0.99 is reached."""
    rng, loss, who, reached = np.random.default_rng(3), Poisson(3), Protection(unit=unit, relation=relation), [0.0, 0.0]
    replaced = relation is NeighbouringRelation.REPLACE_ONE
    for _ in range(20):
        shared, labels = rng.uniform(-0.5, 0.5, (4, 2)), rng.choice([-1.0, 0.2, 1.0], 4)
        worlds = []
        for sign in (1.0, -1.0):
            number = 1 if unit is Unit.RECORD else 3
            number = number if sign > 0 or replaced else 0
            mine = np.tile([sign, 0.0], (number, 1))
            count = 1.0  # the ceiling, where none is expected: a pull of -C towards opposite sides
            whose = np.concatenate([np.zeros(number), 1 + np.arange(4)]).astype(np.intp)
            silos = Silos.from_parts(
                [np.vstack([mine, shared])],
                [np.concatenate([np.full(number, count), labels])],
                row_norm=1.0,
                people=[PersonRows.of(whose).people] if unit is Unit.PERSON else None,
                nominal=None if replaced else [5],
            )
            worlds.append(Problem.of(CountRisk(replace(silos, base_scores=np.full(4 + number, -30.0)), loss, mu=0.05)))
        setting = Setting(worlds[0], 1, 1e-12, protection=who)
        (mechanism,) = NoisyGradients(step=1.0).mechanisms(setting)
        points = rng.standard_normal((2, 50)) * 10 ** rng.uniform(-1, 1, 50)
        moved = np.linalg.norm(worlds[0].gradient(points) - worlds[1].gradient(points), axis=0)
        reached[0] = max(reached[0], moved.max() / mechanism.rows[0].certificates[0].bound)
        bent = np.linalg.norm(
            curvature_messages(at_peak(worlds[0]), points) - curvature_messages(at_peak(worlds[1]), points), axis=1
        )
        reached[1] = max(reached[1], bent.max() / curvature_bound(worlds[0], who))
    assert 0.99 < reached[0] <= 1
    assert 0.1 < reached[1] <= 1


def curvature_bound(problem, who):
    """By how much the curvature of a problem is certified to move."""
    sizes = tuple(problem.functions.sizes.tolist())
    setting, facts = Setting(problem, 1, 0.0, protection=who), ReleaseFacts(sizes, who, is_pooled=True)
    (release,) = plan_curvature(setting, Target(1.0, 1e-5), facts, 2, is_secure=False)
    return release.bound


def at_peak(problem):
    """Exposures by which the curvature is near its greatest at small scores."""
    risk = problem.functions
    return replace(
        problem, functions=replace(risk, silos=replace(risk.silos, base_scores=np.zeros(len(risk.silos.labels)) + 0.6))
    )


def test_a_run_and_methods_that_refuse():
    problem = Problem.of(risk_of(silos_of(sizes=(200, 150)), Poisson(4), 0.05))
    done = run_private(NoisyGradients(step=0.5), problem, 60, Target(1e6, 1e-5), SimulatedSampler(0))
    assert np.linalg.norm(problem.gradient(done.run.estimate)) < 1e-3
    with pytest.raises(InputError, match="gradients"):
        run_private(PADMM(eta=0.1), problem, 2, Target(1.0, 1e-5), SimulatedSampler(0), network=complete(2))


def test_gradients_at_scattered_points_are_brought_to_their_mean():
    """Without noise: one Newton step from scattered points finds the intercept, which it misses uncorrected."""
    rng, truth, constant = np.random.default_rng(4), np.array([0.8, -0.5, 0.6, -3.0]), 0.3
    rows = np.column_stack([rng.uniform(-0.5, 0.5, (2_000, 3)), np.full(2_000, constant)])
    expected = np.exp(rows @ truth)
    silos = Silos.from_parts([rows], [expected / 12 * 2 - 1], row_norm=1.0)  # the expected counts themselves
    risk = CountRisk(silos, Poisson(12))
    points = truth + 0.4 * rng.standard_normal((400, 4))
    mean = points.mean(axis=0)
    gradient = risk.gradient(points.T[None])[0].mean(axis=1) * 2_000
    matrix = risk.hessian(0, mean) * 2_000
    scatter = np.einsum("ki,ij,kj->", points - mean, matrix, points - mean) / len(points)
    facts = CurvatureFacts(
        point=tuple(mean), gradient=tuple(gradient), matrix=tuple(pack(matrix)), gradient_std=0.0, matrix_std=0.0,
        epsilon=1.0,
    )  # fmt: skip
    missed = []
    for each in (facts, facts.without_scatter(scatter, constant)):
        centre = np.array(each.point) - np.linalg.solve(matrix, each.gradient)
        missed.append(abs(centre - truth)[-1] * constant)
    assert missed[0] > 0.02
    assert missed[1] < missed[0] / 5
