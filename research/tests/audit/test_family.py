"""The bound within a family of noise levels: sound, and tight where rare events decide about epsilon."""

import numpy as np
import pytest

from dpadmm.noise.plan import NoisePlan
from dpadmm.privacy.curves import GaussianCurve
from dpadmm.privacy.releases import SampledGaussianRelease
from dpadmm_research.audit.audit import STANDARD, audit, examine
from dpadmm_research.audit.catalogue import subjects_of
from dpadmm_research.audit.estimates import Advantage, How, family_bound, gdp_bound


def advantage(value):
    return Advantage(value, 0.95, 0.0, 0, 0, 1000)


def test_it_agrees_with_the_gaussian_bound():
    rng = np.random.default_rng(0)
    p, q = rng.normal(0.8, size=4000), rng.normal(0.0, size=4000)
    known = gdp_bound(p, q, 1e-5, threshold=0.4)
    found = family_bound(advantage(GaussianCurve(known.m_lower).delta(0.0)), 1e-5, lambda f: GaussianCurve(1 / f))
    assert found.epsilon_lower == pytest.approx(known.epsilon_lower, rel=1e-3)
    assert found.how is How.FAMILY


def test_nothing_found_is_nothing():
    assert family_bound(advantage(0.0), 1e-5, lambda f: GaussianCurve(1 / f)).epsilon_lower == 0


def test_more_than_the_known_curve_allows():
    """A broken build has less noise than planned: factors below 1 are tried as well."""
    found = family_bound(advantage(GaussianCurve(2.0).delta(0.0)), 1e-5, lambda f: GaussianCurve(1 / f))
    assert found.epsilon_lower == pytest.approx(GaussianCurve(2.0).epsilon(1e-5), rel=1e-3)


@pytest.mark.parametrize("method", ["dp-sgd", "dp-prox-sgd"])
def test_batch_methods_are_tight(method):
    """The likelihood ratio is the best attack, and the certificate exact: what was missing were rare events."""
    found = audit(method, runs=20_000)
    assert found.estimate.how is How.FAMILY
    assert 0.8 <= found.tightness <= 1
    assert found.advantage.true_positives / 10_000 - found.advantage.false_positives / 10_000 == pytest.approx(
        found.certified_advantage, abs=0.01
    )


def test_what_the_pair_of_ps_admm_can_show():
    """On a saturated pair corrections are zero: the attacker finds all that full gradients tell, and no more."""
    subject = subjects_of("ps-admm")[1]
    plan = subject.plan(STANDARD)
    useful = NoisePlan(
        {
            at: row
            for at, row in plan.releases.items()
            if not any(isinstance(release, SampledGaussianRelease) for release in row.values())
        }
    )
    most, certified = (one.account().curve.delta(0.0) for one in (useful, plan))
    found = examine(subject, runs=20_000)[0].advantage
    observed = (found.true_positives - found.false_positives) / found.runs
    assert observed == pytest.approx(most, abs=0.012)
    assert 0.6 < most / certified < 0.8
