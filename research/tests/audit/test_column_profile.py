"""The attack on column profiles: C11 is reached and not passed, and broken counts or too little noise are caught.

The attacked code is the one that real runs use (tables, bins, counts, plan, noise), so a mistake in any of it shows
here. Seeds are fixed; bounds hold at a confidence of 1 - 1e-6.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpadmm.core.dataset import Dataset
from dpadmm.data.profile import NumberBins, ProfileForm
from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import Unit, View
from dpadmm_research.audit import column_profile
from dpadmm_research.audit.attacks import Afresh
from dpadmm_research.audit.audit import STANDARD, audit, examine
from dpadmm_research.audit.column_profile import SCHEMA, profile_subjects

CONFIDENCE = 1 - 1e-6
RUNS = 16_000
GENEROUS = Target(epsilon=4.0, delta=1e-5)
"""At a larger epsilon the same number of runs shows a larger part of it."""

SUBJECTS = profile_subjects()
HEADLINE = SUBJECTS[0]


def attacked(subject, runs=RUNS, target=GENEROUS, **kwargs):
    return examine(subject, target, runs=runs, confidence=CONFIDENCE, seed=3, **kwargs)[0]


def is_caught(result):
    return result.is_violation and result.estimate.epsilon_lower > result.certified_epsilon


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

    @pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.pair)
    def test_attacks_find_most_of_the_certified_epsilon_and_no_more(self, subject):
        found = attacked(subject, runs=80_000)
        assert 0.9 <= found.tightness <= 1
        assert not found.is_violation
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
    right = HEADLINE.plan(GENEROUS)
    halved = NoisePlan(
        {
            place: {agent: replace(one, noise_std=one.noise_std / 2) for agent, one in row.items()}
            for place, row in right.releases.items()
        }
    )
    assert not attacked(HEADLINE, plan=right, promised=right.account().curve).is_violation
    assert is_caught(attacked(HEADLINE, plan=halved, promised=right.account().curve))


def test_a_plan_for_another_number_of_columns(monkeypatch):
    """Only the numbers are paid for."""
    assert not attacked(SUBJECTS[1]).is_violation
    monkeypatch.setattr(column_profile, "COUNTED", replace(column_profile.COUNTED, n_categorical=0))
    assert is_caught(attacked(SUBJECTS[1], runs=80_000))


def test_every_record_counted_twice(monkeypatch):
    right = ProfileForm.counts
    monkeypatch.setattr(ProfileForm, "counts", lambda *rows: 2 * right(*rows))
    assert is_caught(attacked(HEADLINE))


def test_categories_counted_in_full(monkeypatch):
    right = ProfileForm.counts
    whole = np.where(ProfileForm(SCHEMA.columns).weights < 1, 2.0, 1.0)
    monkeypatch.setattr(ProfileForm, "counts", lambda *rows: whole * right(*rows))
    assert is_caught(attacked(HEADLINE, runs=40_000))


def test_the_anchor_counted_in_two_bins(monkeypatch):
    """A value of 0 in the bin of its own and in the interval beside it."""
    right = ProfileForm.counts

    def twice(form, cells, blank, row_weights=None):
        extra = []
        for bins, found in zip(form.bins, cells, strict=True):
            again = np.zeros(bins.number)
            if isinstance(bins, NumberBins):
                again[int(np.searchsorted(bins.edges[1:-1], bins.anchor, side="right"))] = sum(
                    (found.values == bins.anchor) & ~found.missing
                )
            extra.append(again)
        return right(form, cells, blank) + np.concatenate(extra)

    monkeypatch.setattr(ProfileForm, "counts", twice)
    assert is_caught(attacked(SUBJECTS[1], runs=40_000))


def test_missing_cells_in_an_extra_column(monkeypatch):
    """Missing cells are counted as the value that stands for them, and once more in a column about missing cells."""
    right = ProfileForm.counts

    def beside(form, cells, blank, row_weights=None):
        filled = [replace(one, missing=np.zeros_like(one.missing), codes=np.maximum(one.codes, 0)) for one in cells]
        flags = [[np.sum(~one.missing), np.sum(one.missing)] for one in cells]
        return np.concatenate([right(form, filled, blank), np.concatenate(flags).astype(float)])

    monkeypatch.setattr(ProfileForm, "counts", beside)
    assert is_caught(attacked(HEADLINE))


def test_cumulative_counts(monkeypatch):
    """A record in every bin up to its own."""
    right = ProfileForm.counts
    monkeypatch.setattr(ProfileForm, "counts", lambda *rows: np.cumsum(right(*rows)))
    assert is_caught(attacked(SUBJECTS[1]))


def test_users_whose_rows_all_count(monkeypatch):
    right = Dataset.counts
    monkeypatch.setattr(Dataset, "counts", lambda rows, *, per_user: right(rows, per_user=False))
    assert is_caught(attacked(SUBJECTS[4]))


def test_persons_whose_rows_all_count(monkeypatch):
    """The weights of a person's rows forgotten in the profile: three rows are three counts."""
    right = ProfileForm.counts
    monkeypatch.setattr(ProfileForm, "counts", lambda form, cells, blank, row_weights: right(form, cells, blank))
    assert is_caught(attacked(SUBJECTS[5]))


def test_one_noise_that_is_meant_for_one_silo():
    """A person in two silos moves the pooled counts twice as far."""
    pooled = SUBJECTS[3]
    alone = replace(pooled, protection=replace(pooled.protection, silos_per_person=1))
    assert not attacked(pooled).is_violation
    assert is_caught(attacked(alone))
