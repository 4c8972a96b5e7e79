"""One fit goes through few modules, and the picture of its way shows them: docs/trace.py prints and draws which."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("trace_of_a_fit", Path(__file__).parents[1] / "docs" / "trace.py")
assert _SPEC is not None
assert _SPEC.loader is not None
trace = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(trace)


@pytest.mark.filterwarnings("ignore:.*no ledger")
@pytest.mark.parametrize(("way", "most"), [("estimator", 60), ("fit", 73)])
def test_a_fit_goes_through_few_modules(way, most):
    found = trace.trace(way)
    assert len(found) <= most, found


def test_the_picture_is_true_to_the_trace():
    found = trace.trace("masked")
    assert len(found) <= 86, found
    assert all(trace.stages(found))
    assert {name for name in found if name.startswith("core/")} == {
        "core/budget", "core/dataset", "core/loop", "core/model", "core/release", "core/spec", "core/task", "core/train"
    }  # fmt: skip
    assert trace.PICTURE.read_text() == trace.picture(found), "run `python docs/trace.py draw`"


def test_a_package_that_the_picture_does_not_know_is_refused():
    with pytest.raises(ValueError, match="new_room/file"):
        trace.stages(["core/loop", "checks", "new_room/file"])
