"""What a fresh interpreter does not load: a path imports late what it may not need. So help and imports are quick."""

import json
import subprocess
import sys

import pytest

HEAVY = {
    "cryptography",
    "dask",
    "distributed",
    "dp_accounting",
    "httpx",
    "jinja2",
    "llvmlite",
    "matplotlib",
    "networkx",
    "numba",
    "pandas",
    "pyarrow",
    "rich",
    "typer",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.compose",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.pipeline",
    "sklearn.preprocessing",
    "uvicorn",
}
"""What is slow to load and not needed before a fit, a plot, a report or a federation."""

_REPORT = """
import json, sys
print(json.dumps(sorted(set(sys.modules) - globals().get("before", set()))), file=sys.stderr)"""
_COMMANDS = """
import sys
from dpadmm.cli.main import app
for command in {commands}:
    sys.argv = ["dpadmm", *command.split(), "--help"]
    try:
        app()
    except SystemExit as end:
        assert not end.code, command
"""


def loaded_by(program):
    """Return the names of the modules in a fresh interpreter after the program, but for what it calls `before`."""
    done = subprocess.run([sys.executable, "-c", program + _REPORT], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_importing_the_package_loads_nothing_but_it():
    loaded = loaded_by("import dpadmm")
    assert not loaded & (HEAVY | {"numpy", "scipy", "sklearn"})
    assert {name for name in loaded if name.startswith("dpadmm")} == {"dpadmm"}


def test_importing_the_estimators_loads_little_beyond_scikit_learns_base():
    """scikit-learn itself loads pandas and SciPy's statistics, depending on its version: no part of ours."""
    ours = loaded_by("import sklearn.base, sys; before = set(sys.modules); import dpadmm.estimators.classifiers")
    assert "dpadmm.estimators.classifiers" in ours
    assert not ours & HEAVY
    assert "dpadmm.estimators.pipelines" not in ours


@pytest.mark.parametrize(
    "commands",
    [
        ("",),
        ("fit", "predict", "evaluate", "plan", "report", "demo", "federate"),
        ("ledger", "ledger show", "schema", "schema init", "silo", "coordinator"),
    ],
)
def test_help_loads_no_numbers(commands):
    loaded = loaded_by(_COMMANDS.format(commands=commands))
    assert not loaded & ((HEAVY - {"rich", "typer"}) | {"numpy", "scipy", "sklearn"})


def test_importing_the_planner_loads_nothing_slow():
    loaded = loaded_by("import dpadmm.planner, dpadmm.core.loop, dpadmm.privacy.ledger, dpadmm.networks")
    assert "dpadmm.methods.p_admm" in loaded
    assert not loaded & (HEAVY | {"sklearn", "scipy.linalg", "scipy.sparse.linalg", "scipy.spatial"})


def test_a_silo_that_waits_has_loaded_no_tables_and_no_plots():
    pytest.importorskip("httpx", reason="needs the extra dpadmm[federation]")
    loaded = loaded_by("import dpadmm.federation.https.client")
    assert not loaded & {"dp_accounting", "jinja2", "matplotlib", "networkx", "pandas", "sklearn", "typer", "uvicorn"}


def test_a_small_fit_loads_no_compiled_code():
    """Planning by simulation and seeded noise included."""
    program = """
import numpy as np, pandas as pd, warnings
warnings.simplefilter("ignore")
import dpadmm
rng = np.random.default_rng(0)
table = pd.DataFrame({"x": rng.integers(0, 9, 300), "sick": rng.choice(["no", "yes"], 300)})
dpadmm.fit(table, "sick", schema={"x": (0, 9), "sick": ["no", "yes"]}, epsilon=5, delta=1e-5, seed=0)
"""
    assert not loaded_by(program) & {"numba", "llvmlite", "sklearn"}
