"""The attack on column profiles: C11 is reached and not passed, and broken counts or too little noise are caught.

The attacked code is the one that real runs use (tables, bins, counts, plan, noise), so a mistake in any of it shows
here. Seeds are fixed; bounds hold at a confidence of 1 - 1e-6.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from research.tests.audit.builders import FOUR, attacked, is_caught, is_reached

from dpadmm.core.dataset import Dataset
from dpadmm.data.profile import NumberBins, ProfileForm
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Unit, View
from dpadmm_research.audit import column_profile
from dpadmm_research.audit.attacks import Afresh
from dpadmm_research.audit.audit import STANDARD, audit
from dpadmm_research.audit.column_profile import SCHEMA, profile_subjects

SUBJECTS = profile_subjects()
HEADLINE = SUBJECTS[0]


def gaps(subject):
    """How far the two worlds' counts are apart, silo by silo."""
    p, q = (world.counts(per_user=subject.protection.unit is Unit.USER) for world in subject.worlds)
    return np.linalg.norm(p - q, axis=1)


class TestWorstCases:
    @pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.pair)
    def test_every_pair_reaches_its_bound(self, subject):
        """Exactly: what is left to find of the certified epsilon is nothing."""
        plan, moved = subject.plan(STANDARD), gaps(subject)
        if subject.is_pooled:
            (release,) = plan
            assert moved.sum() == pytest.approx(release.bound, rel=1e-12)
            return
        m = math.hypot(*(gap / one.noise_std for gap, one in zip(moved, plan.by(range(len(moved))), strict=True)))
        assert m == pytest.approx(plan.account().curve.m, rel=1e-6)

    @pytest.mark.parametrize("subject", [s for s in SUBJECTS if View.AGGREGATE not in s.views], ids=lambda s: s.pair)
    def test_attacks_find_most_of_the_certified_epsilon_and_no_more(self, subject):
        """Those under masks are attacked in test_insider.py."""
        found = attacked(subject, runs=80_000)
        assert is_reached(found)
        assert found.certified_epsilon == pytest.approx(4.0, rel=1e-6)

    def test_the_noise_of_real_releases(self):
        """Exact discrete noise from the operating system, on the grid that the plan says."""
        target = Target(epsilon=8.0, delta=1e-5)
        plan = HEADLINE.plan(target, is_secure=True)
        assert {release.certificate.theorem for release in plan} == {"C11 + C8"}
        assert {release.bound for release in plan} == {one.bound for one in HEADLINE.plan(target)}
        found = attacked(HEADLINE, runs=400, target=target, plan=plan, sampler=Afresh(SecureSampler))
        assert not found.is_violation
        assert found.advantage.advantage_lower > 0

    def test_by_name_and_budget(self):
        found = audit("column-profile", runs=2000)
        assert (found.method, found.view) == ("column-profile", View.EAVESDROPPER)
        assert found.certified_epsilon == pytest.approx(1.0, rel=1e-6)


def test_a_noise_for_half_the_bound():
    right = HEADLINE.plan(FOUR)
    halved = NoisePlan(
        {
            place: {agent: replace(one, noise_std=one.noise_std / 2) for agent, one in row.items()}
            for place, row in right.releases.items()
        }
    )
    assert not attacked(HEADLINE, plan=right, reserved=right.account().curve).is_violation
    assert is_caught(attacked(HEADLINE, plan=halved, reserved=right.account().curve))


def test_a_plan_for_another_number_of_columns(monkeypatch):
    """Only the numbers are paid for."""
    assert not attacked(SUBJECTS[1]).is_violation
    monkeypatch.setattr(column_profile, "COUNTED", replace(column_profile.COUNTED, n_categorical=0))
    assert is_caught(attacked(SUBJECTS[1], runs=80_000))


WHOLE = np.where(ProfileForm(SCHEMA.columns).weights < 1, 2.0, 1.0)


def anchor_in_two_bins(right, form, cells, blank, row_weights=None):
    """A value of 0 is counted in the bin of its own and in the interval beside it."""
    extra = []
    for bins, found in zip(form.bins, cells, strict=True):
        again = np.zeros(bins.number)
        if isinstance(bins, NumberBins):
            place = int(np.searchsorted(bins.edges[1:-1], bins.anchor, side="right"))
            again[place] = sum((found.values == bins.anchor) & ~found.missing)
        extra.append(again)
    return right(form, cells, blank) + np.concatenate(extra)


def missing_cells_in_an_extra_column(right, form, cells, blank, row_weights=None):
    """They are counted as the value that stands for them, and once more in a column about missing cells."""
    filled = [replace(one, missing=np.zeros_like(one.missing), codes=np.maximum(one.codes, 0)) for one in cells]
    flags = [[np.sum(~one.missing), np.sum(one.missing)] for one in cells]
    return np.concatenate([right(form, filled, blank), np.concatenate(flags).astype(float)])


@pytest.mark.parametrize(
    ("wrong", "place", "runs"),
    [
        pytest.param(lambda right, *rows: 2 * right(*rows), 0, 16_000, id="every record counted twice"),
        pytest.param(lambda right, *rows: WHOLE * right(*rows), 0, 40_000, id="categories counted in full"),
        pytest.param(lambda right, *rows: np.cumsum(right(*rows)), 1, 16_000, id="every bin up to a record's own"),
        pytest.param(lambda right, *rows: right(*rows[:3]), 5, 16_000, id="no weights for a person's three rows"),
        (anchor_in_two_bins, 1, 40_000),
        (missing_cells_in_an_extra_column, 0, 16_000),
    ],
)
def test_wrong_counts_are_caught(monkeypatch, wrong, place, runs):
    right = ProfileForm.counts
    monkeypatch.setattr(ProfileForm, "counts", lambda *rows: wrong(right, *rows))
    assert is_caught(attacked(SUBJECTS[place], runs))


def test_users_whose_rows_all_count(monkeypatch):
    right = Dataset.counts
    monkeypatch.setattr(Dataset, "counts", lambda rows, *, per_user: right(rows, per_user=False))
    assert is_caught(attacked(SUBJECTS[4]))


def test_one_noise_that_is_meant_for_one_silo():
    """A person in two silos moves the pooled counts twice as far."""
    pooled = SUBJECTS[3]
    alone = replace(pooled, protection=replace(pooled.protection, silos_per_person=1))
    assert not attacked(pooled).is_violation
    assert is_caught(attacked(alone))
