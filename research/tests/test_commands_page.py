"""Every command of docs/commands.md is run, and prints what the page shows."""

import re
import shlex
from pathlib import Path

import pytest

from dpadmm.methods.base import by_name
from dpadmm_research.accounting.public_facts import is_accountable

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """The lines after `$`, continued lines joined."""
    lines = "\n".join(BLOCKS).replace("\\\n", " ").splitlines()
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


@pytest.mark.parametrize("texts", commands(), ids=" ".join)
def test_every_command_of_the_page_runs(cli, texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert texts[0] == "dpadmm"
    result = cli.run(*texts[1:])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", [name for name, method in by_name().items() if is_accountable(method)])
def test_every_method_is_on_the_page(name):
    assert any(name in texts for texts in commands())


def test_the_outputs_printed_on_the_page_are_true(cli):
    """Rows of a table that follow a block's first command hold what that command prints."""
    for block in BLOCKS:
        command, _, output = block.replace("\\\n", " ").partition("\n")
        shown = [line for line in output.splitlines() if line.startswith("│")]
        if shown:
            printed = cli.run(*shlex.split(command[2:])[1:]).stdout
            cells = [cell.strip() for line in shown for cell in line.split("│") if cell.strip()]
            assert all(cell in printed for cell in cells), cells
