"""Fits are planned at once, unless a test takes `real_plans`."""

import pytest


@pytest.fixture(autouse=True)
def _plans(instant_forecasts):
    """Skip the planner's simulations."""
