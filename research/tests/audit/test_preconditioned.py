"""The attack on preconditioned rounds: what the matrix and the gradients tell together stays below the certificate."""

import pytest
from research.tests.audit.builders import attacked, is_caught, is_reached, scaled

from dpadmm_research.audit import neighbours
from dpadmm_research.audit.catalogue import subjects_of

NAMES = ("noisy-gradients-preconditioned", "dp-gd-preconditioned")
TURNED = [next(each for each in subjects_of(name) if each.pair == neighbours.TURNED) for name in NAMES]


@pytest.mark.parametrize("subject", TURNED, ids=NAMES)
def test_likelihood_ratios_find_most_of_the_certified_epsilon_and_no_more(subject):
    assert is_reached(attacked(subject), least=0.75)


@pytest.mark.parametrize("subject", TURNED, ids=NAMES)
def test_too_little_noise_is_caught(subject):
    assert is_caught(attacked(subject, sampler=scaled(0.6)))
