"""`python -m dpadmm` is the command, for whom its script is not on the path; its help says what everything is."""

import inspect
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'click", DeprecationWarning)
    import typer

    from dpadmm.cli import terminal
    from dpadmm.cli.main import COMMANDS, MACHINES, app


def commands(command, name):
    """Yield all commands of a group, or a command alone, with their names."""
    parts = getattr(command, "commands", {})
    for term, each in parts.items():
        yield from commands(each, f"{name} {term}")
    if not parts:
        yield name, command


def named(name):
    return commands(typer.main.get_command(app).get_command(None, name), name)


def help_text(name, command):
    """Return the help of a command: what it does, its arguments, and its options by panel."""
    lines = [f"dpadmm {name}", "", inspect.cleandoc(command.help), ""]
    shown = [param for param in command.params if param.name != "help"]
    for param in sorted(shown, key=lambda each: getattr(each, "rich_help_panel", None) or ""):
        args = "/".join([*param.opts, *param.secondary_opts])
        panel, kind = getattr(param, "rich_help_panel", None) or "", param.metavar or param.type.name
        choices = f" {'|'.join(param.type.choices)}" if hasattr(param.type, "choices") else ""
        lines += [f"{args} ({kind}{choices}) [{panel}]", f"    {param.help}"]
    return "\n".join(lines)


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "dpadmm", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("dpadmm ")


@pytest.mark.parametrize("name", [name for name, (panel, _) in COMMANDS.items() if panel != MACHINES])
def test_help(name, snapshot):
    """Of arguments, too: click from 8.5 on clears what typer up to 0.20 has set."""
    snapshot(f"help/{name}.txt", "\n\n\n".join(help_text(*each) for each in named(name)) + "\n")


def test_every_command_explains_its_arguments(cli):
    found = [each for name in COMMANDS for each in named(name)]
    assert len(found) > 20
    assert [(name, param.name) for name, command in found for param in command.params if not param.help] == []
    shown = " ".join(cli.run("predict", "--help").stdout.split())
    assert "Rows to predict" in shown


def test_the_list_of_commands(snapshot):
    snapshot("help/dpadmm.txt", "".join(f"{panel}: {name}: {line}\n" for name, (panel, line) in COMMANDS.items()))


def test_every_command_of_a_federation_is_known_to_need_its_extra():
    from tests.cli.test_without_extra import COMMANDS as known

    listed = {each for name, (panel, _) in COMMANDS.items() if panel == MACHINES for each, _ in named(name)}
    assert {" ".join(each.split()[:2]) for each in known} == listed


def test_compiled_code_finds_a_private_place_where_nothing_can_be_written(monkeypatch):
    """As for a service's user without a home, of a program that root has installed."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    terminal._find_place_for_kernels()
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(os, "access", lambda *_: False)
    terminal._find_place_for_kernels()
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    terminal._find_place_for_kernels()
    assert os.environ["NUMBA_CACHE_DIR"] == str(place)
    place.rmdir()
