"""Commands of other distributions: listed and run where they are installed, and what to install where not."""

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import dpadmm
from dpadmm.cli import main


def listed(cli):
    return cli.run("--help").stdout.split()


def test_commands_of_research_are_listed(cli, monkeypatch):
    assert set(main.RESEARCH) <= set(listed(cli))
    monkeypatch.setattr(main, "added_commands", dict)
    assert not set(main.RESEARCH) & set(listed(cli))


@pytest.mark.parametrize("name", main.RESEARCH)
def test_without_research_a_command_says_what_to_install(cli, monkeypatch, name):
    monkeypatch.setattr(main, "added_commands", dict)
    result = cli.run(name, "--help")
    assert result.exit_code == 2
    assert "pip install ./research" in " ".join(result.stderr.replace("│", " ").split())


def test_a_command_is_imported_when_it_is_asked_for(cli, monkeypatch):
    entry = EntryPoint("broken", "no_such_module:app", "dpadmm.commands")
    monkeypatch.setattr(main, "added_commands", lambda: {"broken": entry})
    assert cli.run("methods").exit_code == 0
    assert isinstance(cli.run("broken").exception, ModuleNotFoundError)


@pytest.mark.parametrize("folder", ["research", "contrib/flower"])
def test_versions_agree(folder):
    project = tomllib.loads((Path(__file__).parents[2] / folder / "pyproject.toml").read_text())["project"]
    assert project["version"] == dpadmm.__version__
    assert any(re.fullmatch(rf"dpadmm(\[.*\])?=={dpadmm.__version__}", each) for each in project["dependencies"])
