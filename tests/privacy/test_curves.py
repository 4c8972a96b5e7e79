"""Privacy curves: each against an independent form, and all against the contract of a curve."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from dpadmm.errors import InputError
from dpadmm.privacy.curves import (
    Curve,
    GaussianCurve,
    InfiniteCurve,
    PureCurve,
    WorstCurve,
)
from dpadmm.privacy.sampled import PldCurve

PLD = PldCurve(privacy_loss_distribution.from_gaussian_mechanism(1.0), slack=1e-14)
CURVES = [
    GaussianCurve(1.0),
    PureCurve(1.5),
    PLD,
    WorstCurve((GaussianCurve(1.0), PureCurve(2.0))),
    InfiniteCurve(),
]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: type(curve).__name__)
def test_contract(curve):
    assert isinstance(curve, Curve)
    grid = np.linspace(0, 8, 33)
    deltas = [curve.delta(float(eps)) for eps in grid]
    assert all(0 <= d <= 1 for d in deltas)
    assert all(b <= a for a, b in itertools.pairwise(deltas))
    for delta in (0.5, 1e-2, 1e-4, 1e-6):
        eps = curve.epsilon(delta)
        if math.isfinite(eps):
            assert curve.delta(eps) <= delta * (1 + 1e-6)
            if eps > 1e-6:
                assert curve.delta(eps * (1 - 1e-3)) > delta
    assert curve.epsilon(1e-6) >= curve.epsilon(1e-2)
    assert curve.epsilon(1.0) == 0.0
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(InputError):
            curve.epsilon(bad)
    with pytest.raises(InputError):
        curve.delta(-1.0)


def test_pure_curve_is_that_of_randomised_response():
    total = 1.3
    p = math.exp(total) / (1 + math.exp(total))
    for eps in (0.0, 0.4, 1.0, 1.3, 2.0):
        assert PureCurve(total).delta(eps) == pytest.approx(max(0.0, p - math.exp(eps) * (1 - p)), abs=1e-15)
    assert PureCurve(total).epsilon(0.0) == total
    assert PureCurve(800.0).delta(1.0) == 1.0


def test_slack_counts():
    loose = PldCurve(PLD.distribution, slack=1e-6)
    assert loose.delta(3.0) == pytest.approx(PLD.delta(3.0) + 1e-6, abs=1e-12)
    assert loose.epsilon(1e-5) == pytest.approx(GaussianCurve(1.0).epsilon(9e-6), rel=1e-4)
    assert loose.epsilon(1e-7) == math.inf


def test_worst_curve_is_the_envelope():
    worst = WorstCurve((GaussianCurve(1.0), PureCurve(2.0)))
    assert worst.delta(0.1) == PureCurve(2.0).delta(0.1)
    assert worst.delta(3.0) == GaussianCurve(1.0).delta(3.0)
