"""Fixtures for federations: small worlds in temporary folders."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="federations need the extra dpadmm[federation]")


def _load(name):
    spec = importlib.util.spec_from_file_location(f"flower_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def worlds():
    """The helpers in worlds.py."""
    return _load("worlds")


@pytest.fixture(scope="session")
def template(worlds, tmp_path_factory):
    """Three silos on a path, P-ADMM, four rounds, test noise, approved; closed, to be copied."""
    made = worlds.make(tmp_path_factory.mktemp("template"))
    for silo in made.silos.values():
        silo.close()
    return made


@pytest.fixture
def world(worlds, template, tmp_path):
    """A copy of the template."""
    made = worlds.copied(template, tmp_path)
    yield made
    for silo in made.silos.values():
        silo.close()
