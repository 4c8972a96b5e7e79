"""The tests of solvers have few rows, but are about compiled code; classes with `is_small = True` are about NumPy."""

import pytest

from dpadmm.problems.silos import Silos


@pytest.fixture(autouse=True)
def _way(request, monkeypatch):
    is_small = getattr(request.cls, "is_small", False)
    monkeypatch.setattr(Silos, "is_small", property(lambda silos: is_small), raising=False)
