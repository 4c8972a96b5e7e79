"""The checks of single releases: they find what attacks on everything together miss, and leave sound builds alone."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from research.tests.audit.builders import Altered
from tests.contracts.noise_contract import gaussian, laplace, message, spherical

from dpadmm.methods.consensus_dp import GaussianConsensusADMM
from dpadmm.methods.p_admm import PADMM
from dpadmm.noise import exact, sampler
from dpadmm.noise.masks import PairwiseMasks
from dpadmm.noise.sampler import Draw, SimulatedSampler
from dpadmm.privacy.protection import Certificate
from dpadmm_research.audit import batch_checks
from dpadmm_research.audit.audit import STANDARD, examine, gather
from dpadmm_research.audit.catalogue import all_subjects, subjects_of
from dpadmm_research.audit.findings import FALSE_ALARM, Check
from dpadmm_research.audit.inspection import broken, inspect
from dpadmm_research.audit.neighbours import crossing, saturated
from dpadmm_research.audit.noise_checks import Stream, _binomial, _scale, _smallest, size_of, streams_of
from dpadmm_research.audit.sampler_checks import check_rounding, check_sampler
from dpadmm_research.audit.sensitivity import check_sensitivity

TWENTY = subjects_of("p-admm")[1]


def found(subject, **kwargs):
    return {finding.check for finding in broken(inspect(subject, seed=1, **kwargs))}


class TestSoundBuilds:
    @pytest.mark.parametrize("subject", all_subjects(), ids=lambda s: f"{s.method}-{s.pair[:40]}")
    def test_everything_passes(self, subject):
        findings = inspect(subject, runs=400, seed=2)
        is_sampled = hasattr(getattr(subject, "algorithm", None), "batches")
        expected = [Check.SENSITIVITY, Check.SCALE, Check.INDEPENDENCE, *[Check.SAMPLING] * is_sampled]
        assert [finding.check for finding in findings] == expected
        assert not broken(findings)
        # Bounds are reached: else one twice as large, or a script that goes nowhere, would pass as well.
        is_loose = subject.method == "dvp" and "logistic" in subject.pair  # C2 counts determinants on their own
        assert findings[0].worst >= (0.5 if is_loose else 0.95)


@dataclass(frozen=True)
class Reused:
    """Even rounds get the noise of the round before, which an eavesdropper subtracts."""

    is_secure: ClassVar[bool] = False

    def perturb(self, values, releases, draw):
        once = Draw(draw.kind, draw.round - (draw.round % 2 == 0), draw.agents, draw.replicas)
        again = [replace(release, round=once.round) for release in releases]
        return SimulatedSampler(7).perturb(values, again, once)


@dataclass(frozen=True)
class NoiseFreeDual(PADMM):
    """The dual adds up the agent's own models as they were before noise."""

    def update(self, k, agents, state, inbox):
        updated = super().update(k, agents, state, inbox)
        degrees = agents.degrees[:, None, None]
        return updated._replace(a=updated.a + self.eta * degrees * (state.guess - state.x))


@dataclass(frozen=True)
class BareModel(PADMM):
    """The model is the mean of the agents' models before their last noise."""

    def estimate(self, state, inbox):
        return state.guess.mean(axis=0)


@dataclass(frozen=True)
class FirstBound(GaussianConsensusADMM):
    """The first round's bound is taken for all rounds."""

    def mechanisms(self, setting):
        (mechanism,) = super().mechanisms(setting)
        row = mechanism.rows[0]
        first = tuple(replace(one, bound=row.certificates[0].bound) for one in row.certificates)
        return (replace(mechanism, rows=(replace(row, certificates=first),)),)


def shared_by_runs(draw, noise, values):
    return np.repeat(noise[:, :, ::2], 2, axis=2)[:, :, : noise.shape[2]]


def shared_by_agents(draw, noise, values):
    return np.repeat(noise[:1], len(noise), axis=0)


def turned_to_the_side_of_the_value(draw, noise, values):
    """Of the right law and fresh."""
    return np.where(values > np.median(values, axis=2, keepdims=True), 1.0, -1.0) * np.abs(noise)


DEPENDENT = (shared_by_runs, shared_by_agents, turned_to_the_side_of_the_value)


class TestBrokenBuilds:
    """The four breaks that attacks on whole transcripts let pass."""

    def test_noise_too_small_in_one_round(self):
        sampler = Altered(lambda draw, noise, values: noise * (0.8 if draw.round == 7 else 1.0))
        assert not examine(TWENTY, runs=8000, seed=1, sampler=sampler)[0].is_violation
        (finding,) = broken(inspect(TWENTY, sampler=sampler))
        assert (finding.check, "round 7" in finding.where) == (Check.SCALE, True)

    def test_noise_used_twice(self):
        assert not examine(TWENTY, runs=8000, seed=1, sampler=Reused())[0].is_violation
        assert found(TWENTY, sampler=Reused()) == {Check.INDEPENDENCE}

    def test_a_dual_that_remembers_models_without_noise(self):
        wrong = replace(TWENTY, algorithm=NoiseFreeDual(eta=TWENTY.algorithm.eta))
        assert not examine(wrong, runs=8000, seed=1)[0].is_violation
        assert found(wrong) == {Check.SENSITIVITY}

    def test_the_first_bound_for_all_rounds(self):
        right = subjects_of("consensus-gaussian")[0]
        assert found(replace(right, algorithm=FirstBound(rho=1.0))) == {Check.SENSITIVITY}

    def test_sizes_that_are_used_again(self):
        """Signs alone are fresh: whoever knows a size knows the noise up to its sign."""
        rng = np.random.default_rng(0)
        first, _, other = (release.level for release in TWENTY.plan(STANDARD) if release.round <= 1)

        def resigned(draw, noise, values):
            last = np.abs(noise[:1]) * rng.choice([-1.0, 1.0], noise[:1].shape) * (other / first)
            return np.concatenate([noise[:-1], last])

        assert found(TWENTY, sampler=Altered(resigned)) == {Check.INDEPENDENCE}

    @pytest.mark.parametrize("how", DEPENDENT)
    def test_noise_that_depends_on_something(self, how):
        assert Check.INDEPENDENCE in found(TWENTY, sampler=Altered(how))

    def test_noise_of_another_law(self):
        """The right variance is not enough where most runs have far less noise than planned."""

        def rare(draw, noise, values):
            return noise * np.where(np.random.default_rng(draw.round).random(noise.shape) < 0.01, 7.0, 0.715)

        assert found(TWENTY, sampler=Altered(rare))

    def test_a_model_with_something_bare_in_it(self):
        wrong = replace(TWENTY, algorithm=BareModel(eta=TWENTY.algorithm.eta))
        assert examine(wrong, runs=400, seed=1)[0].is_violation

    def test_masks_that_serve_twice(self, monkeypatch):
        right = PairwiseMasks.values
        monkeypatch.setattr(PairwiseMasks, "values", lambda self, kind, k, size: right(self, kind, 1, size))
        subject = next(s for s in subjects_of("noisy-gradients") if "masked" in s.pair)
        assert found(subject) == {Check.INDEPENDENCE}

    def test_determinants_that_are_not_counted(self, monkeypatch):
        subject = subjects_of("dvp")[1]
        right = Certificate.__getattribute__
        monkeypatch.setattr(
            Certificate, "__getattribute__", lambda self, name: 1e-3 if name == "log_jacobian" else right(self, name)
        )
        assert Check.SENSITIVITY in {f.check for f in broken([check_sensitivity(subject, STANDARD)])}

    def test_batches_that_come_again(self, monkeypatch):
        subject = subjects_of("dp-sgd")[0]
        right = batch_checks.batch_gradients
        monkeypatch.setattr(
            batch_checks,
            "batch_gradients",
            lambda b, when, *rest: right(b, when._replace(round=1 + when.round // 2), *rest),
        )
        assert found(subject) == {Check.SAMPLING}


class TestStatistics:
    def test_p_values_are_exact(self):
        """False alarms come as often as stated, for every family."""
        rng, alarms = np.random.default_rng(0), []
        for make, draw in (
            (gaussian, lambda: rng.normal(0, 2.0, (3, 40))),
            (laplace, lambda: rng.laplace(0, 2.0, (3, 40))),
        ):
            for _ in range(500):
                noise = draw()
                stream = Stream("here", noise, size_of(make(2.0), noise), noise)
                alarms.append(_smallest(_scale([stream]))[0] < 0.1)
        assert 0.06 < np.mean(alarms) < 0.14

    def test_spherical_noise(self):
        drawn = SimulatedSampler(3).perturb(np.zeros((1, 4, 5000)), spherical(2.0), message(agents=1, replicas=5000))
        size = size_of(spherical(2.0), drawn[0])
        assert size.shape == 4
        assert abs(size.values.mean() / 4 - 1) < 0.05

    def test_counts(self):
        assert _binomial(np.array([5.0, 0.0, 10.0]), 10) == pytest.approx([1.0, 2 / 1024, 2 / 1024])

    def test_masked_sums_are_checked_share_by_share(self):
        subject = next(s for s in all_subjects() if "masked" in s.pair)
        plan = subject.plan(STANDARD)
        run = gather(subject, plan, SimulatedSampler(1), 50).runs[0]
        assert len(list(streams_of(run, plan))) == 5 * len(run.events)

    def test_crossing_pairs_change_sides(self):
        like = saturated(2, records=2)[0]
        pair = crossing(like)
        x = np.zeros((2, 2, 2))
        x[:, 1] = (50.0, -50.0)
        gap = (pair[0].functions.gradient(x) - pair[1].functions.gradient(x))[0]
        assert np.allclose(gap[:, 0], -gap[:, 1])
        assert np.linalg.norm(gap, axis=0) == pytest.approx(2 / 2 * np.cos(0.1))


class TestSecureSampler:
    def test_its_noise_is_what_it_states(self):
        findings = check_sampler(vectors=2000)
        assert [finding.check for finding in findings] == [Check.SCALE, Check.INDEPENDENCE] * 3
        assert not broken(findings)

    @pytest.mark.parametrize(("law", "place"), [(exact.GAUSSIAN, 0), (exact.LAPLACE, 2)], ids=["Gaussian", "Laplace"])
    def test_too_little_of_it(self, monkeypatch, law, place):
        right = exact.draw
        monkeypatch.setattr(
            exact, "draw", lambda any_law, scale, n: right(any_law, scale * (0.8 if any_law is law else 1), n)
        )
        findings = check_sampler(vectors=2000)
        assert broken(findings)[0] == findings[place]

    def test_noise_that_is_kept(self, monkeypatch):
        """Every draw is the same."""
        kept = {}

        right = exact.draw
        monkeypatch.setattr(exact, "draw", lambda *given: kept.setdefault(given, right(*given)))
        assert check_sampler(vectors=500)[1].is_broken


class TestRounding:
    def test_the_secure_sampler(self):
        assert not check_rounding().is_broken

    def test_no_rounding_at_all(self):
        assert check_rounding(SimulatedSampler(1)).where == "off the grid"

    @pytest.mark.parametrize("cut", [np.rint, np.floor])
    def test_a_coarser_grid(self, monkeypatch, cut):
        right = sampler.to_multiples
        monkeypatch.setattr(sampler, "to_multiples", lambda v, grid: right(cut(v / (128 * grid)) * 128 * grid, grid))
        finding = check_rounding()
        assert finding.worst < FALSE_ALARM
        assert "128 grids" in finding.where
