"""The planner simulates in these tests, as it does for users."""

import pytest


@pytest.fixture
def real_plans() -> None:
    """Let the planner simulate, as it does here in every test."""
