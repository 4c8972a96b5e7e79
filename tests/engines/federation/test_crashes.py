"""kill -9 of any process at any durable step: the same model, nothing spent twice, nothing unrecorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
SCRIPT = Path(__file__).with_name("crashes.py")

SILO = [
    *(f"s0:reserve:{when}:{n}" for when in ("before", "after") for n in (1, 2, 3)),
    "s0:anchor:before:2",
    "s1:compute:after:1",
    "s1:compute:after:3",
    "s0:store:before:2",
    *(f"s0:store:after:{n}" for n in (1, 2, 3)),  # written, not committed
    *(f"s1:commit:after:{n}" for n in (1, 2, 3, 4)),  # committed, the answer never left: joining, then rounds
    "s0:head:before:2",
    "s1:head:after:1",
    "s1:answer:before:1",
    "s0:answer:after:3",
]
COORDINATOR = [
    "coordinator:joined:after:1",
    "coordinator:request:before:1",
    "coordinator:accept:before:1",
    "coordinator:accept:after:1",
    *(f"coordinator:complete:{when}:{n}" for when in ("before", "after") for n in (1, 2, 3)),
    "coordinator:commit:after:2",
]


def outcomes(place: Path, noise: str, points: list[str]) -> list[dict]:
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(place), noise, *points]
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_the_matrix_ends_as_an_undisturbed_run(tmp_path):
    """Deterministic noise: every point, and one undisturbed run."""
    found = outcomes(tmp_path, "test", ["none", *SILO, *COORDINATOR])
    assert len(found) > 25
    calm, *disturbed = found
    assert calm["killed"] == 0
    for one in disturbed:
        assert one["killed"] == 1, one  # the trap was sprung
        assert one["done"], one
        assert one["model"] == calm["model"], one
        assert one["releases"] == calm["releases"] == [3, 3], one
        assert one["spent"] == calm["spent"], one
        assert one["same"], one


def test_with_secure_noise_what_left_is_what_is_stored(tmp_path):
    """Fresh noise cannot be compared; but no round may have two answers, and each is paid for once."""
    points = ["s0:reserve:after:2", "s0:store:after:2", "s1:commit:after:3", "coordinator:complete:before:2"]
    for one in outcomes(tmp_path, "secure", points):
        assert one["killed"] == 1, one
        assert one["done"], one
        assert one["same"], one
        assert one["releases"] == [3, 3], one
        assert max(one["spent"]) <= 1.0, one
