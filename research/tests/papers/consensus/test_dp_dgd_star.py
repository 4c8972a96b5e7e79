"""DP-DGD's calibrations and its response to noise."""

import numpy as np
import pytest

from dpadmm_research.papers.consensus import fig2b
from dpadmm_research.papers.consensus.bench import ERROR, RELEASED
from dpadmm_research.papers.consensus.dp_dgd_star import GeometricDescent, NoiseAt, twice_the_largest_gradient
from dpadmm_research.papers.consensus.fig2b import BOUNDED, BOUNDED_COORDINATOR, CLOSE, DESCENTS, RIVALS
from dpadmm_research.papers.consensus.lasso import Lasso
from dpadmm_research.papers.consensus.search import EXACT, EXACT_RELEASED
from dpadmm_research.reproduction.figure import Order, Size
from dpadmm_research.reproduction.table import Reading, joined


def test_gradient_bound_by_hand():
    """The gradient at 0 is c_i."""
    bench = Lasso(agents=50).bench()
    lengths = [sum(float(entry) ** 2 for entry in slope) ** 0.5 for slope in bench.problem.functions.slopes]
    assert twice_the_largest_gradient(bench.problem) == pytest.approx(2 * max(lengths), rel=1e-12)


@pytest.mark.parametrize("place", list(NoiseAt))
def test_expected_error_is_the_bare_error_and_a_sum_over_the_noises(place):
    """Written again: every noise travels through the later steps by itself."""
    bench, descent = Lasso(agents=40, dimension=3, l1_weight=2.0).bench(), GeometricDescent(0.5, 0.9, 0.95, rounds=12)
    problem, epsilon, distance = bench.problem, 0.3, 2.0
    matrix, slope = problem.functions.curvatures.mean(axis=0), problem.functions.slopes.mean(axis=0)
    y = np.zeros(3)
    for step in descent.steps:
        y = y - step * (matrix @ y + slope + 2.0 / 40 * np.sign(y))
    total = np.square(y - bench.optimum).sum()
    for k, rate in enumerate(descent.rates(epsilon, distance)):
        travelled = np.eye(3)
        for step in descent.steps[k + 1 :]:
            travelled = (np.eye(3) - step * matrix) @ travelled
        # E vv' = (d + 1)/rate^2 I for one agent's step; the mean of 40 noises has 1/40 of it, one noise on the mean
        # of 40 steps is 1/40 as long.
        total += np.square(travelled).sum() * 4 / rate**2 / (40 if place is NoiseAt.AGENTS else 40**2)
    expected = descent.expected_error(problem, bench.optimum, epsilon, distance, place)
    assert expected == pytest.approx(total / np.square(bench.optimum).sum(), rel=1e-9)


def test_the_papers_ordering_needs_a_gradient_bound_at_every_agent():
    """What DP-ADMM releases with claimed noise has 0.14, 0.0092, 0.00066 at eps 0.01, 0.1, 0.5."""
    bench = Lasso().bench()
    responses = [descent.response(bench.problem, bench.optimum) for descent in DESCENTS]

    def least(rival, epsilon, first=0.0):
        noise = (epsilon, rival.distance(bench), rival.noise_at)
        pairs = zip(DESCENTS, responses, strict=True)
        return min(response.error(*noise) for descent, response in pairs if descent.step >= first)

    ours = {0.01: 0.138, 0.1: 0.0092, 0.5: 0.00066}
    for epsilon, error in ours.items():
        assert least(BOUNDED, epsilon) > error > least(BOUNDED_COORDINATOR, epsilon)
        assert least(CLOSE, epsilon) < error
        assert least(BOUNDED, epsilon) < 1.1  # standing still costs 1
    assert [least(BOUNDED, epsilon, 0.3) for epsilon in ours] == pytest.approx([440, 4.5, 0.30], rel=0.02)


def test_only_what_a_certificate_covers_counts_as_certified():
    assert {rival.reading for rival in RIVALS if rival.is_bounded} == {Reading.CLAIMED}
    assert {rival.reading for rival in RIVALS if not rival.is_bounded} == {Reading.CERTIFIED}


def test_dp_dgd_does_not_borrow_the_certified_epsilon_of_dp_admm():
    """Both number something by x: iterations the one, settings the other."""
    order = Order(Size.TOY)
    table = joined([fig2b.compute(Reading.CLAIMED, order), fig2b.compute_descent(order)])
    for rival in RIVALS:
        points = fig2b.points_of(table, rival.reading, EXACT_RELEASED, RELEASED, rival.name)
        assert len(points) == len(fig2b.TOY_EPSILONS)
        assert points["cost"].isna().all()
    assert fig2b.points_of(table, Reading.CLAIMED, EXACT, ERROR)["cost"].notna().all()
