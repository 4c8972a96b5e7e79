"""Attacks on own costs: C16 to C19 are reached and not passed; broken builds of them are caught."""

import numpy as np
import pytest
from research.tests.audit.builders import FOUR, attacked, is_reached

from dpadmm.costs import sharing
from dpadmm.noise.sampler import SecureSampler
from dpadmm.privacy.accounting import Target
from dpadmm_research.audit.attacks import Afresh
from dpadmm_research.audit.audit import audit
from dpadmm_research.audit.own_costs import own_cost_subjects

SUBJECTS = own_cost_subjects()
HEADLINE = SUBJECTS[0]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.pair)
def test_attacks_find_most_of_the_certified_epsilon_and_no_more(subject):
    found = attacked(subject, runs=20_000)
    assert is_reached(found, 0.8)
    assert found.certified_epsilon == pytest.approx(4.0, rel=1e-6)


def test_the_noise_of_real_releases():
    target = Target(epsilon=8.0, delta=1e-5)
    plan = HEADLINE.plan(target, is_secure=True)
    assert {release.certificate.theorem for release in plan} == {"C17 + C8"}
    found = attacked(HEADLINE, runs=300, target=target, plan=plan, sampler=Afresh(SecureSampler))
    assert not found.is_violation
    assert found.advantage.advantage_lower > 0


def test_by_name():
    found = audit("own-costs", runs=2000)
    assert (found.method, found.pair) == ("own-costs", HEADLINE.pair)


def test_messages_that_are_not_projected_are_caught(monkeypatch):
    (whole,) = (subject for subject in SUBJECTS if "opposite ends" in subject.pair)
    monkeypatch.setattr("dpadmm.costs.splitting.project", lambda region, values: values)
    assert attacked(whole).is_violation


def test_agents_that_keep_their_noise_free_part_are_caught(monkeypatch):
    """Broken: nobody trusted, noisy values sent, and noise-free ones kept: the certificate of the first round fails."""
    from dpadmm.costs import Gap, Quadratics, Sharing
    from dpadmm.problems.regularisers import Quadratic
    from dpadmm_research.audit import own_costs

    def slow(n, side):
        return Quadratics(0.1 * np.eye(2), [[side, 0.0], *[[0.3, -0.4]] * (n - 1)], (0.1, 0.1))

    coupling = Sharing(Quadratic(np.eye(2), [0.0, 0.0]))
    made = own_costs._subject("a gradient", slow, coupling, Gap(1.0), trust="nobody")
    assert not attacked(made).is_violation
    honest = sharing.LocalSharingADMM.local_step

    def keeps(self, k, agents, state, inbox, noise):
        seen = []

        class Tap:
            def perturb(self, kind, k, who, values):
                seen.append(values.copy())
                return noise.perturb(kind, k, who, values)

        after, sent = honest(self, k, agents, state, inbox, Tap())
        return after._replace(own=seen[0]), sent

    monkeypatch.setattr(sharing.LocalSharingADMM, "local_step", keeps)
    assert attacked(made, target=FOUR).is_violation
