"""Real processes over TLS and kill -9: the same model bit for bit, nothing unrecorded, nothing drawn or paid twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("httpx", reason="needs the extra dpadmm[federation]")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

SCRIPT = Path(__file__).with_name("kill_processes.py")


def points(actors: str, names: str, numbers: range, sides: tuple[str, ...] = ("before", "after")) -> list[str]:
    """Return points of a crash: of these processes, around the n-th call of these functions."""
    return [
        f"{actor}:{name}:{when}:{n}"
        for actor in actors.split()
        for name in names.split()
        for when in sides
        for n in numbers
    ]


ALL = {
    "plain": [
        *points("s0", "reserve store anchor send", range(1, 4)),
        *points("s1", "commit", range(1, 6), ("after",)),
        *points("coordinator", "complete", range(1, 4)),
        *points("coordinator", "accept", range(1, 12, 2)),
    ],
    "masked": [
        *points("s0", "reserve store anchor", range(1, 3)),
        *points("s2", "send", range(1, 4)),
        *points("coordinator", "complete", range(1, 3)),
    ],
}
"""Every kill of the long matrix."""

FEW = ["s0:reserve:after:2", "s0:store:after:2", "s1:commit:after:5", "s0:anchor:before:3", "s0:anchor:after:4"]
FEW += ["s1:send:before:2", "s2:send:after:4", "coordinator:accept:after:7", "coordinator:complete:before:2"]
FEW += ["coordinator:complete:after:1"]


def outcomes(place: Path, kind: str, noise: str, chosen: list[str]) -> list[dict]:
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(place), kind, noise, *chosen]
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert [one["point"] for one in found] == chosen
    for one in found:
        assert one["killed"] == (one["point"] != "none"), one
        assert one["done"], one
        assert one["same"], one
        assert one["releases"] == [3, 3, 3], one
        assert max(one["spent"]) <= 1.0, one
    return found


def test_with_secure_noise_what_left_is_what_is_stored(tmp_path):
    """Fresh noise cannot be compared; but no round may have two answers, and each is paid for once."""
    outcomes(tmp_path, "plain", "secure", FEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALL)
def test_the_same_model_wherever_a_process_is_killed(tmp_path, kind):
    calm, *killed = outcomes(tmp_path, kind, "test", ["none", *ALL[kind]])
    assert all(one["model"] == calm["model"] for one in killed)


def test_the_long_matrix_has_at_least_sixty_kills():
    assert sum(map(len, ALL.values())) >= 60
