"""The end of a federation: files, the page with a section per silo; and what importing the apps costs."""

import json
import subprocess
import sys
from html import unescape

import pytest

from dpadmm.engines.federation.agreement import NoiseOrigin
from dpadmm.engines.federation.outcome import outcome_of
from dpadmm.reporting.federation import federation_page
from dpadmm.reporting.model import Custody


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh process has loaded after a statement."""
    code = f"{statement}; import sys; print(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(done.stdout.split())


def test_importing_the_client_app_loads_nothing_heavy():
    """Flower itself takes most of the time; of ours nothing may be added that a message does not need."""
    pytest.importorskip("flwr")
    loaded = loaded_by("import dpadmm.engines.flower.client_app")
    heavy = {"numba", "scipy", "pandas", "sklearn", "matplotlib", "dp_accounting", "opendp", "networkx"}
    assert not loaded & heavy


def test_without_the_extra_there_is_a_clear_error(tmp_path):
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pathlib import Path\n"
        "from dpadmm.engines.flower.coordinator_files import CoordinatorFiles\n"
        f"CoordinatorFiles(Path({str(tmp_path / 'c')!r})).create(['127.0.0.1'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert "pip install '.[federation]'" in done.stderr
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("noise", list(NoiseOrigin))
def test_the_report_has_a_section_for_every_silo(worlds, tmp_path, noise):
    world = worlds.make(tmp_path, noise=noise)
    coordinator = world.coordinator()
    world.drive(coordinator)
    outcome = outcome_of(coordinator)
    page = federation_page(outcome, worlds.SCHEMA)
    assert page.count('<section class="silo">') == 3
    for silo in outcome.silos:
        assert f"<h2>Silo {silo.name}</h2>" in page
        assert f"ε = {silo.epsilon:.6g}" in page
    assert "federated: every silo's own process kept its records" in unescape(page)
    rehearsed = unescape(federation_page(outcome, worlds.SCHEMA, Custody.ONE_PLACE))
    assert "simulated in one place: all tables were on one machine" in rehearsed
    assert "kept its" not in rehearsed
    assert ("Not a private release" in page) == (noise is NoiseOrigin.TEST)
    plain = json.loads(outcome.as_json())
    assert plain["digest"] == world.agreement.digest
    assert plain["is_private_release"] == (noise is NoiseOrigin.SECURE)
    assert [silo["releases"] for silo in plain["silos"]] == [4, 4, 4]


def test_names_cannot_break_the_page(worlds, tmp_path):
    world = worlds.make(tmp_path, run="<script>alert(1)</script>")
    coordinator = world.coordinator()
    world.drive(coordinator)
    assert "<script>" not in federation_page(outcome_of(coordinator), worlds.SCHEMA)
