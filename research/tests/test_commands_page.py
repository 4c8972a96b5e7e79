"""Every command of docs/commands.md is run, and prints what the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from dpadmm.methods.base import by_name
from dpadmm_research.accounting.public_facts import is_accountable

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


STEPS = [step for block in BLOCKS for step in block.replace("\\\n", " ").split("$ ")[1:]]
"""A command of the page each, with what is shown below it."""


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.splitlines()[0])
def test_a_command_of_the_page_runs_and_prints_what_is_shown(cli, step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *shown = step.splitlines()
    program, *texts = shlex.split(command)
    assert program == "dpadmm"
    result = cli.run(*texts)
    assert result.exit_code == 0, result.output
    cells = [cell.strip() for line in shown if line.startswith("│") for cell in line.split("│") if cell.strip()]
    assert [cell for cell in cells if cell not in result.stdout] == []


@pytest.mark.parametrize("name", [name for name, method in by_name().items() if is_accountable(method)])
def test_every_method_is_on_the_page(name):
    assert any(name in step.split() for step in STEPS)
