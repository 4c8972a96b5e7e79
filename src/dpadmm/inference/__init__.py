"""Coefficients with confidence intervals, from what was released."""

from dpadmm import _offer

_HOMES = {"CoefficientRow": "intervals", "CoefficientTable": "intervals"}

__all__, __getattr__, __dir__ = _offer(__name__, _HOMES)
