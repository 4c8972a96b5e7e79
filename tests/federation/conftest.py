"""Fixtures for federations: small setups in temporary folders."""

import importlib.util
import sys
from pathlib import Path

import pytest

from dpadmm.planner import planner
from dpadmm.planner.forecast import SignalScores
from dpadmm.planner.simulations import SimulatedScores


@pytest.fixture(autouse=True)
def no_unexpected_failures(caplog):
    """What silos and coordinators refuse because of a fault of the program is a fault of theirs, though they go on.

    A test that provokes one looks at the log and clears it.
    """
    yield
    found = [each.getMessage() for each in caplog.get_records("call") if "UnexpectedFailure" in each.getMessage()]
    assert not found


@pytest.fixture
def instant_forecasts(monkeypatch):
    """Plans whose forecasts are given, not simulated."""
    scores = SimulatedScores(score=0.8, loss=0.4, norm=1.0, loss_best=0.3, loss_trivial=0.7)
    monkeypatch.setattr(planner, "run_simulation", lambda *_: scores)
    monkeypatch.setattr(planner, "run_signal", lambda *_: SignalScores((0.8,), 0.9, kept=0.5))


@pytest.fixture(scope="session")
def setups():
    """The helpers in protocol/setups.py."""
    pytest.importorskip("cryptography", reason="federations need the extra dpadmm[federation]")
    path = Path(__file__).parent / "protocol" / "setups.py"
    spec = importlib.util.spec_from_file_location("federation_setups", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def template(setups, tmp_path_factory):
    """Three silos on a path, P-ADMM, four rounds, test noise, approved; closed, to be copied."""
    made = setups.make(tmp_path_factory.mktemp("template"))
    for silo in made.silos.values():
        silo.close()
    return made


@pytest.fixture
def world(setups, template, tmp_path):
    """A copy of the template."""
    made = setups.copied(template, tmp_path)
    yield made
    for silo in made.silos.values():
        silo.close()


@pytest.fixture(scope="session")
def calm(setups, template, tmp_path_factory):
    """All estimates of a run of the template in memory, where nothing fails."""
    made = setups.copied(template, tmp_path_factory.mktemp("calm"))
    run = made.coordinator()
    made.drive(run)
    found = run.estimates().tolist()
    for each in (run, *made.silos.values()):
        each.close()
    return found
