"""Fixtures shared by all rooms."""

import os

import pytest

from dpadmm.datasets import load_adult


@pytest.fixture(scope="session")
def adult():
    """UCI Adult, encoded; skipped where the files are not at hand."""
    if not os.environ.get("DPADMM_DATA"):
        pytest.skip("needs UCI Adult: set DPADMM_DATA to the folder that holds adult/")
    return load_adult()
