"""Distributions know their scale, and refuse parameters that are none."""

import math

import pytest

from dpadmm.errors import InputError
from dpadmm.noise import CoordinateLaplace, Gaussian, SphericalLaplace


def test_scales():
    assert [law.scale for law in (Gaussian(0.7), SphericalLaplace(1.3), CoordinateLaplace(0.4))] == [0.7, 1 / 1.3, 0.4]


@pytest.mark.parametrize("family", [Gaussian, SphericalLaplace, CoordinateLaplace])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan, "1", None, True])
def test_parameters_that_are_none_are_refused(family, value):
    with pytest.raises(InputError):
        family(value)
