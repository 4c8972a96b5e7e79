"""Fixtures: SuperNodes in this process, and Flower's own commands."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FEDERATIONS = HERE.parents[2] / "tests" / "federation"


def loaded(name: str, folder: Path = HERE):
    """Return the helpers in a file, of this folder unless another is given."""
    pytest.importorskip("flwr", reason="needs the extra dpadmm[flower]")
    spec = importlib.util.spec_from_file_location(f"flower_{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


federations = loaded("conftest", FEDERATIONS)
setups, template, world, calm = federations.setups, federations.template, federations.world, federations.calm


@pytest.fixture(scope="session")
def grids():
    """The helpers in grids.py."""
    return loaded("grids")


@pytest.fixture(scope="session")
def stocks():
    """The helpers in stock.py."""
    return loaded("stock")


@pytest.fixture
def task(grids, monkeypatch):
    """Be a process that Flower has started for a ServerApp, and look for answers without a pause."""
    from flwr.supercore.task_identity import TaskIdentity  # set by Flower, for whoever makes messages

    from dpadmm_flower import transport

    monkeypatch.setattr(transport, "LOOK_SECONDS", 0.0)
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, grids.SERVER)
