"""Insiders: the coordinator and t silos, with all their secrets, find what C12 says and no more, broken builds apart.

Caught means that the lower bound on epsilon exceeds the certified one at a confidence of 1 - 1e-6; seeds are fixed.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from research.tests.audit import builders
from research.tests.audit.builders import FOUR, Altered, is_caught, is_reached

from dpadmm.methods.noisy_gradients import NoisyGradients
from dpadmm.noise.masks import pairwise_masks, sum_uint64
from dpadmm.noise.sampler import SimulatedSampler
from dpadmm.privacy.curves import GaussianCurve, epsilon_of_delta
from dpadmm.privacy.protection import View
from dpadmm.privacy.releases import SummedGaussianRelease
from dpadmm.problems.problem import Weighting
from dpadmm_research.audit import transcripts
from dpadmm_research.audit.audit import audit, gather
from dpadmm_research.audit.catalogue import all_subjects, subjects_of
from dpadmm_research.audit.insider import SILOS, Insider
from dpadmm_research.audit.neighbours import saturated

SUBJECTS = [subject for subject in all_subjects() if View.AGGREGATE in subject.views]
ONE_LOOKS, NONE_LOOKS = (subject for subject in subjects_of("noisy-gradients") if View.AGGREGATE in subject.views)


def attacked(subject, runs=60_000, **options):
    return builders.attacked(subject, runs, views=(View.AGGREGATE,), **options)


def attacked_by(subject, colluders):
    return replace(subject, views={View.AGGREGATE: Insider(colluders)})


class TestTightness:
    @pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.method}-{s.protection.colluders}")
    def test_insiders_find_most_of_the_certified_epsilon_and_no_more(self, subject):
        found = attacked(subject, runs=20_000)
        assert is_reached(found, 0.8)
        assert found.certified_epsilon == pytest.approx(4.0, rel=1e-6)

    def test_which_methods_are_attacked(self):
        assert {subject.method for subject in SUBJECTS} == {
            "noisy-gradients", "fp-coordinator", "consensus-gaussian", "column-profile", "curvature", "own-costs",
            "noisy-gradients-preconditioned",
        }  # fmt: skip
        assert {subject.protection.colluders for subject in SUBJECTS} == {0, 1}

    def test_by_name(self):
        found = audit("noisy-gradients", view=View.AGGREGATE, runs=400)
        assert (found.view, found.attack) == (View.AGGREGATE, "insider")


class TestStripping:
    def test_what_insiders_can_take_off(self):
        """Honest messages stay hidden one by one as long as there are two of them; of their sum the masks are gone."""
        plan = ONE_LOOKS.plan(FOUR)
        run = gather(ONE_LOOKS, plan, SimulatedSampler(1), 50).runs[0]
        event = run.events[0]
        envelopes = run.masked[event.kind, event.round]
        assert np.array_equal(sum_uint64(envelopes.sent), sum_uint64(envelopes.own))
        for colluders in range(SILOS):
            honest = SILOS - colluders
            bare = [Insider(colluders)._stripped(envelopes, i, event) for i in range(honest)]
            assert np.array_equal(sum_uint64(bare), sum_uint64(envelopes.own[:honest]))
            is_read = [np.array_equal(one, own) for one, own in zip(bare, envelopes.own[:honest], strict=True)]
            assert is_read == [honest == 1] * honest
            same = [np.mean(one == own) for one, own in zip(bare, envelopes.own[:honest], strict=True)]
            assert max(same) == (honest == 1)

    def test_more_colluders_than_are_counted(self):
        """A certificate for one: with two silos m grows by sqrt(4/3), with all others by 2."""
        m = ONE_LOOKS.plan(FOUR).account().curve.m
        for colluders, factor in ((2, math.sqrt(4 / 3)), (4, 2.0)):
            found = attacked(attacked_by(ONE_LOOKS, colluders))
            assert is_caught(found)
            known = epsilon_of_delta(factor * m, 1e-5)
            assert 0.9 * known <= found.estimate.epsilon_lower <= known

    @pytest.mark.parametrize("silos", [2, 5])
    def test_a_curious_silo_where_none_is_counted(self, silos):
        """The caveat of t = 0 is true: one silo that looks finds m sqrt(N/(N - 1)), and no more."""
        subject = replace(NONE_LOOKS, worlds=saturated(silos, records=2, weighting=Weighting.AVERAGE))
        plan = subject.plan(FOUR)
        more = GaussianCurve(plan.account().curve.m * math.sqrt(silos / (silos - 1)))
        assert is_caught(attacked(attacked_by(subject, 1), runs=120_000))
        assert is_reached(attacked(attacked_by(subject, 1), reserved=more))


def scaled(factor, agents=range(SILOS)):
    """Noise that is scaled by `factor`, for these agents only."""

    def how(draw, noise, values):
        return np.where(np.isin(draw.agents, agents), factor, 1.0)[:, None, None] * noise

    return Altered(how)


ALL = pytest.mark.parametrize("method", ["noisy-gradients", "fp-coordinator"])


def one_looks(method):
    return next(subject for subject in SUBJECTS if subject.method == method and subject.protection.colluders == 1)


class TestBrokenBuilds:
    @ALL
    def test_the_right_one(self, method):
        assert not attacked(one_looks(method), sampler=scaled(1.0)).is_violation

    @ALL
    @pytest.mark.parametrize("factor", [0.0, 0.5])
    def test_noise_off_or_halved(self, method, factor):
        assert is_caught(attacked(one_looks(method), runs=8000, sampler=scaled(factor)))

    @ALL
    def test_a_silo_that_forgets_its_share(self, method):
        assert is_caught(attacked(one_looks(method), sampler=scaled(0.0, agents=(1,))))

    @ALL
    def test_the_colluders_share_counted_as_hiding(self, method, monkeypatch):
        monkeypatch.setattr(SummedGaussianRelease, "honest", property(lambda release: release.silos))
        assert is_caught(attacked(one_looks(method), runs=120_000))

    @pytest.mark.parametrize("method", ["noisy-gradients", "fp-coordinator", "column-profile"])
    @pytest.mark.parametrize("partners", [(), (SILOS - 1,)], ids=["with nobody", "with the colluder"])
    def test_masks_left_out_for_one_silo(self, method, partners, monkeypatch):
        """Its message travels with one share of the noise, which everybody, or one colluder, can read."""

        def is_kept(*pair):
            return 0 not in pair or any(silo in pair for silo in partners)

        def without(n_silos, run):
            return [
                replace(one, secrets=tuple(key if is_kept(i, j) else None for j, key in enumerate(one.secrets)))
                for i, one in enumerate(pairwise_masks(n_silos, run))
            ]

        monkeypatch.setattr(transcripts, "pairwise_masks", without)
        assert is_caught(attacked(one_looks(method), runs=8000))

    def test_one_noise_that_is_meant_for_one_silo(self):
        """A person in two silos moves the sum twice as far."""
        profile = one_looks("column-profile")
        alone = replace(profile, protection=replace(profile.protection, silos_per_person=1))
        assert is_caught(attacked(alone, runs=4000))

    def test_a_silo_that_answers_for_itself(self):
        """Gradients that are not read through their sum alone: the coordinator passes one of them on."""

        class Talkative(NoisyGradients):
            def exchange(self, k, problem, network, inbox, messages, noise):
                return super().exchange(k, problem, network, inbox, messages, noise) + 1e-3 * messages[:1]

        wrong = replace(ONE_LOOKS, algorithm=Talkative(step=ONE_LOOKS.algorithm.step))
        assert is_caught(attacked(wrong, runs=2000))
