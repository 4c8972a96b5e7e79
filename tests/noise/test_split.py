"""The split of noise between a Gaussian and a sampled mechanism, against the exact composition and closed forms."""

import math

import numpy as np
import pytest
from tests.contracts.certificates import by_agent
from tests.contracts.local_facts import of

from dpadmm.noise.mechanisms import AgentReleases, Family, Geometric, MechanismSpec, MessageKind
from dpadmm.noise.plan import calibrate
from dpadmm.noise.split import best_split, is_free_split
from dpadmm.privacy.accounting import PureTarget, Target, calibrate_scale
from dpadmm.privacy.certificates.gradients import ps_admm_correction, ps_admm_full_gradient
from dpadmm.privacy.protection import in_l1_norm
from dpadmm.privacy.releases import CoordinateLaplaceRelease, FixedSizeSampling, PoissonSampling

DELTA = 1e-5


def pair(n, size, steps, rounds, weights=(1.0, 1.0), is_fixed=False):
    ks = tuple(range(1, rounds + 1))
    full = of(ps_admm_full_gradient, gradient_bound=1.0, n_records=n)
    part = of(ps_admm_correction, batch_size=size, gradient_bound=1.0)
    drawn = FixedSizeSampling(size=size, population=n) if is_fixed else PoissonSampling(rate=size / n)
    rows = AgentReleases(0, ks, (full,) * rounds), AgentReleases(0, ks, (part,) * rounds, drawn)
    return (
        MechanismSpec(MessageKind("full"), Family.GAUSSIAN, rows[:1], count=steps, variance_weight=weights[0]),
        MechanismSpec(MessageKind("part"), Family.SAMPLED, rows[1:], count=steps, variance_weight=weights[1]),
    )


def exact_variance(mechanisms, target, ratio):
    releases = [p.release(p.rows[0], j, r) for p, r in zip(mechanisms, (1.0, ratio), strict=True) for j in range(2)]
    factor = calibrate_scale(target, releases)
    return factor**2 * (mechanisms[0].variance_weight + mechanisms[1].variance_weight * ratio**2)


@pytest.mark.parametrize(
    ("n", "size", "epsilon", "weights", "is_fixed"),
    [
        (500, 10, 0.5, (1.0, 1.0), False),
        (500, 10, 0.5, (1.0, 1.0), True),
        (500, 100, 2.0, (1.0, 1.0), False),
        (500, 50, 2.0, (1.0, 9.0), True),
        (100, 100, 1.0, (4.0, 1.0), False),
    ],
)
def test_no_ratio_is_much_better(n, size, epsilon, weights, is_fixed):
    mechanisms, target = pair(n, size, 10, 2, weights, is_fixed), Target(epsilon, DELTA)
    relative = best_split([(p, p.rows[0]) for p in mechanisms], target, np.ones(2))
    assert relative[0] == 1.0
    found = exact_variance(mechanisms, target, relative[1])
    tried = [exact_variance(mechanisms, target, relative[1] * f) for f in (0.5, 0.85, 1.2, 2.0)]
    assert min(tried) >= 0.95 * found
    assert min(tried[0], tried[-1]) > 1.03 * found


def test_everyone_takes_part_is_the_closed_form():
    """Two Gaussian mechanisms: s_k^2 prop. to bound_k/sqrt(weight_k) (C0); a term's bound doubles under replace-one."""
    mechanisms = pair(100, 100, 3, 2, weights=(2.0, 5.0))
    ratio = best_split([(p, p.rows[0]) for p in mechanisms], Target(0.01, DELTA), np.ones(2))[1]
    first, second = (p.rows[0].certificates[0].bound for p in mechanisms)
    assert ratio**2 == pytest.approx(2 * second / math.sqrt(5) / (first / math.sqrt(2)), rel=0.01)


def test_agents_of_different_size_get_their_own_split_and_spend_the_budget():
    small, large = (pair(n, 20, 5, 2) for n in (60, 600))
    merged = []
    for one, two in zip(small, large, strict=True):
        rows = (one.rows[0], AgentReleases(1, two.rows[0].rounds, two.rows[0].certificates, two.rows[0].sampling))
        merged.append(MechanismSpec(one.kind, one.family, rows, count=one.count, variance_weight=1.0))
    plan = calibrate(merged, Target(2.0, DELTA), Geometric(0.8))
    for curve in by_agent(plan).values():
        assert 2.0 * (1 - 1.001e-3) <= curve.epsilon(DELTA) <= 2.0
    agents = np.array([0, 1])
    stds = [np.array([r.noise_std for r in plan.of(MessageKind(name), 1, agents)]) for name in ("full", "part")]
    ratios = stds[1] / stds[0]
    assert ratios[1] > 1.05 * ratios[0]
    later = np.array([r.noise_std for r in plan.of(MessageKind("part"), 2, agents)])
    np.testing.assert_allclose(later / stds[1], math.sqrt(0.8), rtol=1e-12)


def test_a_fixed_ratio_is_kept():
    full, part = pair(100, 10, 5, 2)
    fixed = [MechanismSpec(p.kind, p.family, p.rows, count=5, relative=r) for p, r in ((full, 1.0), (part, 3.0))]
    assert not is_free_split(fixed)
    assert is_free_split((full, part))
    plan = calibrate(fixed, Target(1.0, DELTA))
    stds = [plan.of(MessageKind(name), 1, np.array([0]))[0].noise_std for name in ("full", "part")]
    assert stds[1] / stds[0] == pytest.approx(3.0)


def test_laplace_on_coordinates_is_planned_with_its_own_schedule():
    certificate = in_l1_norm(of(ps_admm_full_gradient, gradient_bound=1.0, n_records=10), dimension=4)
    rows = (AgentReleases(0, (1, 2), (certificate,) * 2),)
    mechanism = MechanismSpec(MessageKind("message"), Family.COORDINATE, rows, schedule=Geometric(0.25))
    releases = list(calibrate([mechanism], PureTarget(1.0)))
    assert all(isinstance(release, CoordinateLaplaceRelease) for release in releases)
    scales = [release.scale for release in releases]
    assert scales[1] / scales[0] == pytest.approx(0.5)
    assert sum(certificate.bound / scale for scale in scales) == pytest.approx(1.0, rel=1e-9)
