"""The example attacks a method with a mistake, and refutes it; the page shows its code."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_audit_your_method():
    found = runpy.run_path(str(ROOT / "examples" / "audit_your_method.py"))["main"](runs=4000)
    assert not found["p-admm"].is_violation
    assert found["my-admm"].is_violation
    assert found["my-admm"].estimate.epsilon_lower > found["my-admm"].certified_epsilon


def test_the_page_includes_it():
    assert '--8<-- "examples/audit_your_method.py"' in (ROOT / "docs" / "own-method.md").read_text()
