"""Whatever dies, and whoever else writes: recorded is never less than released, and never more than the budget."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.privacy.ledger import tools

from dpadmm.privacy.ledger import Budget

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
SCRIPT = Path(__file__).with_name("writers.py")
BUDGET, RATIO = Budget(epsilon=1.0, delta=1e-5), 0.03  # as in writers.py


def run(task: str, place: Path, number: int) -> dict:
    quiet = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), task, str(place), str(number), "7"]
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", [80, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_at_random_moments(tmp_path, number):
    outcome = run("kills", tmp_path, number)
    assert outcome["killed"] == number
    assert outcome["unrecorded"] == 0
    assert outcome["sent"] > number / 2  # the kills came while messages were leaving
    assert outcome["unsent"] > 0  # and some between the record and the message
    assert outcome["most"] <= tools.most_releases(RATIO, BUDGET)


def test_eight_writers_at_once(tmp_path):
    outcome = run("race", tmp_path, 8)
    assert outcome["failed"] == 0
    assert outcome["same"]
    assert outcome["sent"] == outcome["recorded"] == tools.most_releases(RATIO, BUDGET)
    assert outcome["busy_writers"] > 1
    assert outcome["spent"] <= BUDGET.epsilon


def test_killed_while_creating(tmp_path):
    outcome = run("creations", tmp_path, 25)
    assert outcome["there"] + outcome["not there"] == 25
    assert outcome["not there"] > 0
