"""Every snippet and command that the documents show is run here.

Some pages are a session each: files are written, commands run, and what is printed there is printed.

A command followed by a line that starts with `Error:` must be refused with exit code 2; every other one must succeed.
Each line shown after a command must begin a line of its output, list marks aside. Pages of federations and clusters,
with processes on several machines, are run in tests/cli.
"""

import re
import shlex
import shutil
from glob import glob
from pathlib import Path

import pytest
from tests.cli.conftest import cli, run, study  # noqa: F401 - fixtures

from dpadmm.methods.p_admm import PADMM
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.releases import Origin
from dpadmm_research.accounting.public_facts import one_agent

ROOT = Path(__file__).parents[1]
READMES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "research/README.md", "contrib/flower/README.md")]
DOCUMENTS = sorted([*READMES, *ROOT.glob("docs/**/*.md"), *ROOT.glob("research/docs/**/*.md")])
SESSIONS = ("README.md", "command-line.md", "commands.md", "persons.md", "quickstart.md", "tables.md")
"""Run from top to bottom, here or, commands.md, in research/tests."""

ELSEWHERE = ("make ", "pre-commit ", "pip ")
"""Long commands that have tests, or runs, of their own; those of pip are in test_install.py."""

PACKAGES = ("src", "tests", "examples", "benchmarks", "research", "contrib")
BLOCK = re.compile(r"^```(python|console|json)(?: title=\"(.+?)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a console block with the lines shown after it."""
    parts = re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [(part.splitlines()[0], [line for line in part.splitlines()[1:] if line.strip()]) for part in parts]


def check_step(command: str, shown: list[str]) -> None:
    program, *texts = shlex.split(command)
    assert program == "dpadmm"
    result = run(*texts)
    is_refused = bool(shown) and shown[0].startswith("Error:")
    assert result.exit_code == (2 if is_refused else 0), f"{command}\n{result.output}"
    printed = [line.strip().removeprefix("- ") for line in result.output.splitlines()]
    for line in shown:
        assert any(each.startswith(line) for each in printed), f"{command}\n{line}\n{result.output}"


def run_page(name: str) -> tuple[list[str], dict[str, object]]:
    """Run a page from top to bottom, here; return its commands, and Python's names."""
    ran, names = [], dict[str, object]()
    for language, title, content in BLOCK.findall((ROOT / "docs" / name).read_text()):
        if language == "json":
            Path(title).write_text(content)
        elif language == "python":
            exec(compile(content, f"{content[:30]!r}", "exec"), names)
        else:
            for command, shown in steps(content):
                check_step(command, shown)
                ran.append(command)
    return ran, names


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands_of(document: Path) -> list[str]:
    found = [command for block in blocks(document, "console") for command, _ in steps(block)]
    return [command for command in found if not command.startswith(ELSEWHERE)]


ALONE = [document for document in DOCUMENTS if document.name not in SESSIONS]
TWICE = set(commands_of(ROOT / "research" / "docs" / "commands.md"))  # a command of that page is run there
COMMANDS = [
    pytest.param(line, id=f"{each.name}: {line[:50]}")
    for each in ALONE
    for line in commands_of(each)
    if line not in TWICE
]
SNIPPETS = [each for each in (*READMES, *ALONE) if blocks(each, "python")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_command_line(study, here):  # noqa: F811
    """Beside a ledger like the one the page speaks of."""
    shutil.copytree(study.folder, Path(), dirs_exist_ok=True)
    for name in ("new.csv", "register.csv"):
        shutil.copy("south.csv", name)
    Path("raw.csv").write_text("".join(Path("south.csv").read_text().splitlines(keepends=True)[1:]))
    agent = one_agent(PADMM, records=1000, degree=2, eta=0.05, mu=0.01, rounds=5)
    data = [SiloColumns("clinic", {"x": [1.0, 2.0]})]
    with Ledger.create(Path("clinic.ledger"), data, Budget(epsilon=1.0, delta=1e-5)) as ledger:
        ledger.confirm(data).reserve(agent.releases(1.0), run="pilot", algorithm="p-admm", origin=Origin.SECURE)
    assert len(run_page("command-line.md")[0]) >= 20
    assert Path("clinic.json").exists()


def test_several_visits_of_a_patient(here):
    ran, names = run_page("persons.md")
    assert len(ran) <= 6  # from the file to its report in fewer still
    report = Path("report.html").read_text()
    assert "every person with all their rows" in report
    assert not re.search(rf"(?<![\d.]){len(names['rows'])}(?![\d.])", report)  # how many rows there are is secret
    assert names["model"].privacy_.epsilon <= 1.0
    assert not Path("other.json").exists()


def test_the_quickstart(here):
    assert len(run_page("quickstart.md")[0]) >= 10
    assert "<svg" in Path("report.html").read_text()
    assert len(Path("predictions.csv").read_text().splitlines()) == 601
    assert not Path("another.json").exists()


def test_other_kinds_of_table_go_from_file_to_report_in_six_commands(here):
    ran, _ = run_page("tables.md")
    for kind, end in (("accounts", "csv"), ("heart", "data")):
        assert 3 <= len([command for command in ran if f"{kind}.{end}" in command]) <= 6
        assert "<svg" in Path(f"{kind}.html").read_text()
    first, *rest = Path("predictions.csv").read_text().splitlines()
    assert first.split(",")[:2] == ["account", "repaid"]
    assert [line.split(",")[0] for line in rest] == [f"DE{i:05}" for i in range(1200)]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("document", sorted(set(SNIPPETS)), ids=lambda document: document.name)
def test_python_snippets_run(document, here):
    exec(compile("\n".join(blocks(document, "python")), str(document), "exec"), {"__name__": "__main__"})


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("document", [d for d in READMES if d.name == "README.md"], ids=lambda d: d.parent.name)
def test_the_commands_of_a_readme_run_in_one_folder(document, here):
    for line in commands_of(document):
        parts = [found for text in shlex.split(line) for found in (sorted(glob(text)) if "*" in text else [text])]
        check_step(shlex.join(parts), [])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, here):
    check_step(command, [])


def test_no_line_names_a_machine_path():
    for document in [*DOCUMENTS, *(file for package in PACKAGES for file in ROOT.glob(f"{package}/**/*.py"))]:
        assert not re.search(r"(?<![\w.])/(work|root|home)/\w", document.read_text()), document


def test_the_readme_is_read_in_a_few_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130
