"""A killed `init` can be run again: directories are made whole, or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from dpadmm.errors import InputError
from dpadmm.federation.coordinator_store import CoordinatorFiles
from dpadmm.federation.keys import SigningKey
from dpadmm.federation.party_directory import new_directory


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and kills what it forked")
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_a_process_killed_at_any_step_leaves_nothing_in_the_way(setups, tmp_path, stride):
    setups.SCHEMA.save(tmp_path / "schema.json")
    setups.tables((20,))["s0"].to_csv(tmp_path / "data.csv", index=False)
    script = Path(__file__).with_name("kill_creation.py")
    reported = [sys.executable, script, tmp_path, str(stride)]
    done = subprocess.run(reported, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    killed = [int(line) for line in done.stdout.split()]
    assert len(killed) == 3
    assert min(killed) >= 1
    assert sum(killed) >= 90 / stride


def test_what_another_command_is_making_is_left_alone(tmp_path):
    place, made = tmp_path / "coordinator", []

    def overtaken():
        with new_directory(place, "coordinator") as draft:
            (draft / "half").touch()
            made.append(CoordinatorFiles(place).create().public)
            assert (draft / "half").exists()

    with pytest.raises(InputError, match="cannot be created: Directory not empty"):
        overtaken()
    assert [CoordinatorFiles(place).key().public] == made
    assert [path.name for path in tmp_path.iterdir()] == ["coordinator"]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    (tmp_path / "volume").mkdir()
    monkeypatch.setattr(SigningKey, "save", fail)
    for name in ("volume", "new"):
        with pytest.raises(KeyboardInterrupt):
            CoordinatorFiles(tmp_path / name).create()
    assert [path.name for path in tmp_path.rglob("*")] == ["volume"]
