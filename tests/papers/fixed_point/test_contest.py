"""The certified contest at toy size: every method spends its budget and no more, and the best point is shown."""

import numpy as np
import pytest

from dpadmm.papers.fixed_point.contest import COORDINATOR, ENTRANTS, Entrant, scores
from dpadmm.papers.fixed_point.world import TOY, World


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


def test_the_best_point_is_shown_at_every_budget(world):
    """The same points alone: of one run each, the one with the least training objective is what the contest shows."""
    alone = []
    for point in COORDINATOR.points:
        one = Entrant(COORDINATOR.curve, (point,), COORDINATOR.build)
        alone.append([score.objectives for score in scores(one, world, runs=2, seed=0)])
    together = [score.objectives for score in scores(COORDINATOR, world, runs=2, seed=0)]
    for place, objectives in enumerate(together):
        assert any(np.array_equal(objectives, one[place]) for one in alone)
