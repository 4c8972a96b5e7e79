"""What round 0 of a fit hands to its noise: the counts that the certificate is about, and no other plan."""

import numpy as np
import pytest
from tests.grouped import grouped

from dpadmm.core.release import OpenRelease
from dpadmm.estimators import PrivateLogisticRegression
from dpadmm.privacy.protection import Unit


class Drawn(Exception):
    """Round 0 was reached; nothing is trained."""


@pytest.fixture
def heard(monkeypatch):
    """Return a list of what is given to the draw of a profile, which ends the fit."""
    found = []

    def draw(release, query, plan, counts):
        assert query.name == "profile"
        found.append((plan, counts, release.sampler))
        raise Drawn

    monkeypatch.setattr(OpenRelease, "total", draw)
    return found


def reach_round_zero(X, y, groups, **options):
    usual = {"epsilon": 8.0, "delta": 1e-5, "feature_bounds": (-1.0, 1.0), "classes": (0, 1), "profile_share": 0.1}
    with pytest.raises(Drawn):
        PrivateLogisticRegression(**grouped(**{**usual, **options})).fit(X, y, groups)


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.notices.SimulatedNoiseWarning")
@pytest.mark.parametrize("view", ["eavesdropper", "public"])
@pytest.mark.parametrize("unit", ["record", "user"])
def test_a_user_counts_once_in_every_column_and_a_record_does(table, heard, unit, view):
    X, y, _, _ = table
    people = np.repeat(np.arange(60), 5)
    reach_round_zero(X, y, people, unit=unit, view=view, random_state=0)
    ((plan, counts, _),) = heard
    each = 1.0 if unit == "user" else 5.0
    assert counts.sum(axis=1) == pytest.approx(np.full(60, 3 * each))  # three columns
    assert all(one.certificate.protection.unit is Unit(unit) for one in plan)


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.notices.SimulatedNoiseWarning")
@pytest.mark.parametrize("seed", [None, 0])
def test_a_release_is_planned_on_the_grid_of_its_noise(table, heard, seed):
    X, y, _, groups = table
    reach_round_zero(X, y, groups, random_state=seed)
    ((plan, _, _),) = heard
    assert all((one.certificate.grid is None) is (seed is not None) for one in plan)
