"""The notebooks of examples/ run from top to bottom in an empty folder, and the site shows what they print."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = runpy.run_path(str(ROOT / "docs" / "notebooks.py"))


def read(name: str) -> dict:
    return json.loads((ROOT / "examples" / f"{name}.ipynb").read_text())


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Return what a notebook defines and prints, run in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(name: str):
        notebook = read(name)
        names = NOTEBOOKS["run"](notebook)
        return names, [output for cell in NOTEBOOKS["code_cells"](notebook) for output in cell["outputs"]]

    return run


def test_the_analysts_goes_from_a_table_to_a_report(ran, tmp_path):
    names, outputs = ran("analyst")
    assert names["model"].privacy_.is_private_release
    assert names["model"].privacy_.epsilon <= 1.0
    assert names["model"].score(names["X"], names["y"]) > 0.8
    page = (tmp_path / "report.html").read_text()
    assert "to find out who needs an early appointment" in page
    assert "ε 1 of 2" in page.replace("</dd>", "")
    assert "spent 1.00 of 2, left 1.00" in "".join(outputs[-1]["text"])


def test_the_researchers_compares_methods(ran):
    names, outputs = ran("researcher")
    assert set(names["scores"]) == {"p-admm", "output-perturbation", "noisy-gradients"}
    assert min(scores[-1] for scores in names["scores"].values()) > 0.85
    moved = [each.average_movement for each in names["planned"].history]
    assert np.mean(moved[-10:]) < 0.2 * moved[0]
    assert sum("image/svg+xml" in output.get("data", ()) for output in outputs) == 2


@pytest.mark.parametrize("name", ["analyst", "researcher"])
def test_what_is_kept_in_the_file_was_run_whole_and_in_order(name):
    cells = NOTEBOOKS["code_cells"](read(name))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    page = NOTEBOOKS["on_page_markdown"](f"before\n<!-- notebook: examples/{name}.ipynb -->\nafter")
    assert page.count("```python\n") == len(cells)
    assert page.count("<img") == page.count('alt="') == sum("plt.subplots" in "".join(c["source"]) for c in cells)
    assert 'alt=""' not in page
    assert "../docs/" not in page
