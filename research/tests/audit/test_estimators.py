"""Estimators as black boxes with secure noise. Nothing is seeded: an assertion fails a sound build once in 1e6."""

import numpy as np
import pytest

from dpadmm.core import release
from dpadmm.methods.p_admm import PADMM
from dpadmm.noise import exact, sampler
from dpadmm.noise.sampler import sum_on_grid
from dpadmm.privacy.accounting import Target
from dpadmm_research.audit.estimators import PRODUCTS, audit_product, gather_fits
from dpadmm_research.audit.findings import Check

LARGE = Target(epsilon=16.0, delta=1e-5)  # a few hundred fits tell much about a large epsilon

EACH = pytest.mark.parametrize("product", PRODUCTS, ids=["one-silo", "p-admm"])


@pytest.mark.parametrize(
    ("product", "fits"),
    [(PRODUCTS[0], 240), (PRODUCTS[1], 60), pytest.param(PRODUCTS[1], 240, marks=pytest.mark.slow)],
    ids=["one-silo", "p-admm-few", "p-admm"],
)
def test_a_sound_build(product, fits):
    result, findings = audit_product(product, LARGE, fits=fits, confidence=0.76)
    assert result.certified_epsilon == pytest.approx(16.0, rel=1e-6)
    assert fits < 240 or result.tightness > 0.5  # of few fits nobody can tell much
    assert not result.is_violation
    assert [finding.check for finding in findings] == [Check.SCALE, Check.INDEPENDENCE, Check.MODEL]
    assert not [finding for finding in findings if finding.is_broken]


def test_a_quarter_of_the_noise_is_caught_twice(monkeypatch):
    right = exact.draw
    monkeypatch.setattr(exact, "draw", lambda law, scale, count: right(law, scale / 4, count))
    result, (scale, *_) = audit_product(PRODUCTS[0], Target(epsilon=8.0, delta=1e-5), fits=120)
    assert result.is_violation
    assert result.estimate.epsilon_lower > 8.0
    assert scale.is_broken


def test_noise_that_two_rounds_share(monkeypatch):
    """The attacker who looks at everything sees little of it, the check of single noises all."""
    right, kept = exact.draw, {}

    def lazy(law, scale, count):
        if scale in kept:
            return kept.pop(scale)
        kept[scale] = right(law, scale, count)
        return kept[scale]

    monkeypatch.setattr(exact, "draw", lazy)
    _, findings = audit_product(PRODUCTS[0], LARGE, fits=100)
    assert findings[1].is_broken


@EACH
def test_every_released_message_is_read_off_what_is_public(product, monkeypatch):
    """What the attacker reconstructs is what the sampler gave out, to the last bits."""
    given, right = [], sampler._with_discrete

    def tapped(law, *more):
        drawn = right(law, *more)
        if law is exact.GAUSSIAN:
            given.append(drawn.copy())
        return drawn

    monkeypatch.setattr(sampler, "_with_discrete", tapped)
    # Noise is added to a part of each sum, and the rest to that: here to the whole, which is exact for such sums.
    monkeypatch.setattr(release, "sum_on_grid", lambda *values: (0.0, sum(sum_on_grid(*values))))
    found = gather_fits(product, LARGE, fits=40)
    rounds = len(found.runs[0].events)
    read = np.stack([event.sent[:, 0] for event in found.runs[0].events])  # rounds, senders, fits
    sent = np.stack([values[:, 0, 0] for values in given]).reshape(-1, 2, rounds, read.shape[1])[:, 0]
    np.testing.assert_allclose(read, np.moveaxis(sent, 0, -1), rtol=1e-6, atol=1e-9)


def test_a_model_with_something_bare_in_it(monkeypatch):
    """The mean of the agents' models before their last noise."""
    monkeypatch.setattr(PADMM, "estimate", lambda self, state, inbox: state.guess.mean(axis=0))
    findings = audit_product(PRODUCTS[1], LARGE, fits=40).findings
    assert [finding.check for finding in findings if finding.is_broken] == [Check.MODEL]
