"""The certified contest at toy size: every method spends its budget and no more, and the best point is shown."""

import numpy as np
import pytest

from dpadmm_research.papers.fixed_point.contest import COORDINATOR, ENTRANTS, Entrant, scores
from dpadmm_research.papers.fixed_point.world import TOY, World


@pytest.fixture(scope="module")
def world():
    return World.of(TOY)


@pytest.mark.parametrize("entrant", ENTRANTS, ids=lambda entrant: entrant.curve)
def test_budgets_are_met(world, entrant):
    found = scores(entrant, world, runs=2, seed=0)
    assert [score.epsilon for score in found] == list(TOY.epsilons)
    for score in found:
        assert score.objectives.shape == (2,)
        assert 0.99 * score.epsilon <= score.certified_epsilon <= score.epsilon * (1 + 1e-9)


def test_the_better_point_is_shown_wherever_it_stands(world):
    """A huge step drowns the model in its own noise, a tiny one hardly moves it."""
    tiny, huge = (0.05, 0.003), (50.0, 30.0)

    def objectives(*points):
        found = scores(Entrant(COORDINATOR.curve, points, COORDINATOR.build), world, runs=2, seed=0)
        return np.array([score.objectives for score in found])

    assert (objectives(huge) > 10 * objectives(tiny)).all()
    for points in ((tiny, huge), (huge, tiny)):
        np.testing.assert_array_equal(objectives(*points), objectives(tiny))
