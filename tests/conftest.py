"""Fixtures shared by all rooms."""

import os

import pytest
from hypothesis import settings

from dpadmm_research.datasets.adult import load_adult

settings.register_profile("quick", max_examples=50)  # `make test`; `make test-all` tries twice as many

collect_ignore = ["mutants.py"]  # a script, with the list of broken builds beside it


@pytest.fixture(scope="session")
def adult():
    """UCI Adult, encoded; skipped where the files are not at hand."""
    if not os.environ.get("DPADMM_DATA"):
        pytest.skip("needs UCI Adult: set DPADMM_DATA to the folder that holds adult/")
    return load_adult()
