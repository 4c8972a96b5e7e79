"""How much of PS-ADMM's certificate an attacker can have at most, on cases small enough to compute exactly."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.accounting import account_for
from dpadmm.privacy.curves import epsilon_of_delta
from dpadmm.privacy.releases import GaussianRelease
from dpadmm.problems.losses import Huber
from dpadmm.problems.problem import EmpiricalRisk
from dpadmm.problems.silos import Silos
from dpadmm_research.audit.audit import STANDARD, gather
from dpadmm_research.audit.catalogue import subjects_of

CHANGED = 1
"""It has four records; the agent before it has one more."""


@cache
def one_round(inner_steps):
    """Return PS-ADMM with so many inner steps, and its noise."""
    subject = subjects_of("ps-admm")[0]
    subject = replace(subject, algorithm=replace(subject.algorithm, inner_steps=inner_steps), rounds=1)
    return subject, subject.plan(STANDARD)


def levels(plan):
    """Return the releases of the agent whose record differs, and the noises of its full gradients and corrections."""
    releases = [release for release in plan if release.agent == CHANGED]
    noises = {isinstance(release, GaussianRelease): release.noise_std for release in releases}
    return releases, noises[True], noises.get(False, 0.0)


def travels(subject, plan):
    """Return the distance of the worlds' messages, in units of their noise; corrections are zero on this pair.

    v+ = v - step (g + noise + rho (v - z)), and the mean of the v+ travels: a linear map of g and the noises.
    """
    (first, *_), full, part = levels(plan)
    steps, keep = subject.algorithm.inner_steps, 1 - subject.algorithm.step * subject.algorithm.rho
    moved = np.tril(keep ** np.maximum(np.subtract.outer(np.arange(steps), np.arange(steps)), 0)).mean(axis=0)
    stds = np.hypot(full, np.where(np.arange(steps) > 0, part, 0.0))
    return first.certificate.bound * moved.sum() / np.linalg.norm(moved * stds)


@pytest.mark.parametrize(("inner_steps", "read", "seen"), [(1, 1.0, 1.0), (2, 0.668, 0.522), (3, 0.625, 0.426)])
def test_what_an_attacker_can_have(inner_steps, read, seen):
    """Certified is 1: of it so much for who reads every full gradient, and for who sees what travels."""
    subject, plan = one_round(inner_steps)
    releases, *_ = levels(plan)
    assert account_for(releases).curve.epsilon(STANDARD.delta) == pytest.approx(1.0, abs=2e-3)
    full = [release for release in releases if isinstance(release, GaussianRelease)]
    assert account_for(full).curve.epsilon(STANDARD.delta) == pytest.approx(read, abs=2e-3)
    assert epsilon_of_delta(travels(subject, plan), STANDARD.delta) == pytest.approx(seen, abs=2e-3)


def test_the_linear_map_is_that_of_the_method():
    subject, plan = one_round(2)
    runs = gather(subject, plan, SimulatedSampler(1), 20_000).runs
    first, second = (run.messages[0][CHANGED, 0] for run in runs)
    m = abs(first.mean() - second.mean()) / first.std()
    assert m == pytest.approx(travels(subject, plan), rel=0.03)  # five standard errors: the worlds share their noise


def test_corrections_reach_their_bound_in_the_plane_but_not_on_a_line():
    """Two records nearly across the way from vt to v: their corrections are opposite, and as long as they can be."""
    tilt, far = 0.01, 1e4
    across = math.sqrt(1 - tilt**2)

    def correction(row, label, v, vt):
        risk = EmpiricalRisk(Silos.from_parts([[row]], [[label]], row_norm=1.0), Huber(1.0))
        after, before = (risk.gradient(np.array(x, dtype=float)[None, :, None])[0, :, 0] for x in (v, vt))
        return after - before

    bound = 2 * 1.0  # range of the slope: one record's term, so that a replaced one moves the sum by twice that
    apart = correction((tilt, across), 0.0, (far, 0.0), (-far, 0.0)) - correction(
        (tilt, -across), 0.0, (far, 0.0), (-far, 0.0)
    )
    assert np.linalg.norm(apart) == pytest.approx(2 * bound, rel=1e-4)
    line = [
        correction((sign,), label, (v,), (-v,))[0] for sign in (1, -1) for label in (-3, 0, 3) for v in (0.5, 2, far)
    ]
    assert np.ptp(line) <= bound * (1 + 1e-12)
