"""One fit goes through few modules: docs/trace.py prints which, and the number may only fall."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("trace_of_a_fit", Path(__file__).parents[1] / "docs" / "trace.py")
assert _SPEC is not None
assert _SPEC.loader is not None
trace = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(trace)


@pytest.mark.parametrize(("way", "most"), [("estimator", 85), ("fit", 101)])
def test_a_fit_goes_through_few_modules(way, most):
    found = trace.trace(way)
    assert len(found) <= most, found
