"""`python -m dpadmm` is the command, for whom its script is not on the path."""

import subprocess
import sys


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "dpadmm", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("dpadmm ")
