"""A silo that does not answer: wait or stop."""

import pytest

from dpadmm.federation.agreement import Missing
from dpadmm.federation.errors import FederationStopped

COMPLETE = ((0, 1), (0, 2), (1, 2))


def make(worlds, place, rule, **terms):
    """Return three silos, all joined to each other, under a rule for missing ones."""
    return worlds.make(place, edges=COMPLETE, missing=rule, wait_seconds=30.0, **terms)


def test_the_rule_stop(worlds, tmp_path):
    world = make(worlds, tmp_path, Missing.STOP)
    coordinator = world.coordinator()
    with pytest.raises(FederationStopped, match="No usable answer from s1 in round 2"):
        world.drive(coordinator, world.transport(worlds.losing("s1", 2)))
    coordinator.close()
    world = worlds.reopened(world)
    again = world.coordinator()
    world.drive(again)  # the silo is back: the same run continues
    assert again.is_done
    assert world.statement("s0").releases == 4


def test_the_rule_wait(worlds, tmp_path):
    """A silo that comes back long after the time is waited for."""
    world = make(worlds, tmp_path, Missing.WAIT)

    coordinator = world.coordinator()
    carried = world.drive(coordinator, world.transport(worlds.losing("s1", 2, until=6))).carried
    assert sum(one.is_request and one.node == "s1" for one in carried) > 6
    assert coordinator.is_done
