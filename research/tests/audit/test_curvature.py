"""The attack on the curvature: C14 is reached and not passed, and too little noise or a wrong packing are caught."""

import math

import numpy as np
import pytest
from research.tests.audit.builders import FOUR, attacked, is_reached

from dpadmm.noise.plan import NoisePlan
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.accounting import Target
from dpadmm.privacy.protection import View
from dpadmm.queries import curvature
from dpadmm_research.audit.attacks import Afresh
from dpadmm_research.audit.audit import STANDARD, audit
from dpadmm_research.audit.curvature import curvature_subjects, matrices

SUBJECTS = curvature_subjects()
HEADLINE = SUBJECTS[0]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.pair)
def test_every_pair_reaches_its_bound(subject):
    p, q = (matrices(world, has_products=subject.has_products).sum(axis=0) for world in subject.worlds)
    (release,) = subject.plan(STANDARD)
    assert 0.999 < np.linalg.norm(p - q) / release.bound <= 1


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.pair)
def test_attacks_find_most_of_the_certified_epsilon_and_no_more(subject):
    found = attacked(subject, runs=60_000)
    assert is_reached(found)
    assert found.certified_epsilon == pytest.approx(4.0, rel=1e-6)


def test_the_noise_of_real_releases():
    target = Target(epsilon=8.0, delta=1e-5)
    plan = HEADLINE.plan(target, is_secure=True)
    assert {release.certificate.theorem for release in plan} == {"C14 (curvature) + C8"}
    found = attacked(HEADLINE, runs=400, target=target, plan=plan, sampler=Afresh(SecureSampler))
    assert not found.is_violation
    assert found.advantage.advantage_lower > 0


def test_by_name():
    found = audit("curvature", runs=2000)
    assert (found.method, found.view) == ("curvature", View.EAVESDROPPER)


def test_too_little_noise_is_caught():
    plan = HEADLINE.plan(FOUR)
    (place, row) = next(iter(plan.releases.items()))
    quiet = {agent: type(each)(**{**vars(each), "noise_std": each.noise_std / 1.5}) for agent, each in row.items()}
    found = attacked(HEADLINE, plan=NoisePlan({place: quiet}))
    assert found.estimate.epsilon_lower > 4.0


def test_a_packing_that_stretches_is_caught(monkeypatch):
    honest = curvature.pack
    monkeypatch.setattr(curvature, "pack", lambda matrix: math.sqrt(2) * honest(matrix))
    assert attacked(HEADLINE).is_violation
