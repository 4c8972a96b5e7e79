"""Fixtures: a port that serves in a thread, and the keys of everybody."""

import importlib.util
import sys
from pathlib import Path

import pytest


def loaded(name: str):
    """Return the helpers in a file beside this one."""
    pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")
    spec = importlib.util.spec_from_file_location(f"https_{name}", Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def ports():
    """The helpers in ports.py."""
    return loaded("ports")


@pytest.fixture(scope="session")
def threads():
    """The helpers in threads.py."""
    return loaded("threads")


@pytest.fixture(scope="session")
def parties(template):
    """By name, the keys of the coordinator and of three silos of the template, and of a stranger."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from dpadmm.federation.keys import SigningKey

    keys = {name: silo.key for name, silo in template.silos.items()}
    return keys | {"coordinator": template.key, "stranger": SigningKey(Ed25519PrivateKey.generate())}


@pytest.fixture(scope="module")
def whole_port(ports, template, parties, tmp_path_factory):
    """A port at which the three silos are known."""
    keys = {name: parties[name] for name in template.silos}
    made = ports.Port(template.key, keys, tmp_path_factory.mktemp("port"))
    yield made
    made.close()


@pytest.fixture
def port(whole_port):
    """The same, and afterwards nobody is there."""
    yield whole_port
    whole_port.hang_up()


@pytest.fixture
def box(port, template, monkeypatch):
    """The letters of a run of all three; who looks for answers does not wait for them."""
    monkeypatch.setattr("dpadmm.federation.https.queue._RECEIVE_SECONDS", 0.01)
    made = port.queue.open(template.terms)
    yield made
    made.close()
    port.server.config.loaded_app._limits.clear()


@pytest.fixture
def reached(monkeypatch):
    """Whose connections have got as far as HTTP."""
    from dpadmm.federation.https.server import SiloConnection

    found, original = [], SiloConnection.connection_made

    def noted(self, transport):
        found.append("somebody")
        original(self, transport)
        found[-1] = self.app_state["silo"]

    monkeypatch.setattr(SiloConnection, "connection_made", noted)
    return found
