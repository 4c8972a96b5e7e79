"""Real processes and kill -9; every other point of a crash is in test_transport.py, without processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
SCRIPT = Path(__file__).with_name("crashes.py")


def outcomes(place: Path, noise: str, points: list[str]) -> list[dict]:
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(place), noise, *points]
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_with_secure_noise_what_left_is_what_is_stored(tmp_path):
    """Fresh noise cannot be compared; but no round may have two answers, and each is paid for once."""
    points = ["s0:reserve:after:2", "s0:store:after:2", "s1:commit:after:3", "s0:head:before:2"]
    points += ["coordinator:accept:after:1", "coordinator:complete:before:2"]
    for one in outcomes(tmp_path, "secure", points):
        assert one["killed"] == 1, one
        assert one["done"], one
        assert one["same"], one
        assert one["releases"] == [3, 3], one
        assert max(one["spent"]) <= 1.0, one
