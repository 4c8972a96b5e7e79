"""Every snippet and command that the documents show is run here."""

import re
import shlex
import subprocess
import sys
from glob import glob
from pathlib import Path

import pytest
from tests.cli.conftest import run

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "research/README.md", "contrib/flower/README.md")),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("research/docs/**/*.md"),
    ]
)
# Long commands that have tests, or runs, of their own; those of pip are in test_install.py.
ELSEWHERE = ("make ", "pre-commit ", "pip ")
# These pages are one session each, run from top to bottom: test_documentation.py and test_quickstart.py in tests/cli,
# test_commands_page.py in research/tests.
SESSIONS = ("README.md", "command-line.md", "commands.md", "persons.md", "quickstart.md", "tables.md")
PACKAGES = ("src", "tests", "examples", "benchmarks", "research", "contrib")


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "document",
    [d for d in DOCUMENTS if (d.name not in SESSIONS or d.name == "README.md") and blocks(d, "python")],
    ids=lambda d: d.name,
)
def test_python_snippets_run(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(document, "python")), str(document), "exec"), {"__name__": "__main__"})


def commands_of(document: Path) -> list[str]:
    lines = [line[2:] for block in blocks(document, "console") for line in block.splitlines() if line[:2] == "$ "]
    return [line for line in lines if not line.startswith(ELSEWHERE)]


def commands():
    for document in (d for d in DOCUMENTS if d.name not in SESSIONS):
        for line in commands_of(document):
            yield pytest.param(line, id=f"{document.name}: {line[:50]}")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d.name == "README.md"], ids=lambda d: d.parent.name)
def test_the_commands_of_a_readme_run_in_one_folder(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in commands_of(document):
        parts = [found for text in shlex.split(line) for found in (sorted(glob(text)) if "*" in text else [text])]
        assert parts[0] == "dpadmm"
        result = run(*parts[1:])
        assert result.exit_code == 0, result.output


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", list(commands()))
def test_commands_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = shlex.split(command)
    assert parts[0] == "dpadmm", f"only dpadmm, make and pip commands are shown, got {command!r}"
    if parts[1:] == ["--help"]:  # a process of its own, as a reader starts it
        done = subprocess.run([Path(sys.executable).parent / "dpadmm", "--help"], capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return
    result = run(*parts[1:])
    assert result.exit_code == 0, result.output


def test_there_are_snippets_to_run():
    assert blocks(ROOT / "README.md", "python")
    assert list(commands())


def test_no_line_names_a_machine_path():
    for document in [*DOCUMENTS, *(file for package in PACKAGES for file in ROOT.glob(f"{package}/**/*.py"))]:
        assert not re.search(r"(?<![\w.])/(work|root|home)/\w", document.read_text()), document


def test_the_readme_is_read_in_a_few_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130
