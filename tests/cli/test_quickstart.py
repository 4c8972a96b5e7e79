"""docs/quickstart.md, docs/tables.md and docs/persons.md are run as one session each: files are written, commands run,
and what is printed there is printed.

A command followed by a line that starts with `Error:` must be refused with exit code 2; every other one must succeed.
Each line shown after a command must begin a line of its output, list marks aside.
"""

import re
import shlex
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|console|json)(?: title=\"(.+?)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Return each command of a console block with the lines shown after it."""
    parts = re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [(part.splitlines()[0], [line for line in part.splitlines()[1:] if line.strip()]) for part in parts]


def check_step(cli, command: str, shown: list[str]) -> None:
    words = shlex.split(command)
    assert words[0] == "dpadmm"
    result = cli.run(*words[1:])
    is_refused = bool(shown) and shown[0].startswith("Error:")
    assert result.exit_code == (2 if is_refused else 0), f"{command}\n{result.output}"
    printed = [line.strip().removeprefix("- ") for line in result.output.splitlines()]
    for line in shown:
        assert any(each.startswith(line) for each in printed), f"{command}\n{line}\n{result.output}"


def run_session(cli, page: str) -> tuple[list[str], dict[str, object]]:
    """Run a page from top to bottom, here; return its commands, and Python's names."""
    ran, names = [], dict[str, object]()
    for language, title, content in BLOCK.findall(page):
        if language == "json":
            Path(title).write_text(content)
        elif language == "python":
            exec(compile(content, f"{content[:30]!r}", "exec"), names)
        else:
            for command, shown in steps(content):
                check_step(cli, command, shown)
                ran.append(command)
    return ran, names


def test_several_visits_of_a_patient(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran, names = run_session(cli, (DOCS / "persons.md").read_text())
    assert len(ran) <= 6  # from the file to its report in fewer still
    report = (tmp_path / "report.html").read_text()
    assert "every person with all their rows" in report
    assert not re.search(rf"(?<![\d.]){len(names['rows'])}(?![\d.])", report)  # how many rows there are is secret
    assert names["model"].privacy_.epsilon <= 1.0
    assert not (tmp_path / "other.json").exists()


def test_the_session(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(run_session(cli, (DOCS / "quickstart.md").read_text())[0]) >= 10
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 601
    assert not (tmp_path / "another.json").exists()


def test_other_kinds_of_table_go_from_file_to_report_in_six_commands(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran, _ = run_session(cli, (DOCS / "tables.md").read_text())
    for kind, end in (("accounts", "csv"), ("heart", "data")):
        own = [command for command in ran if f"{kind}.{end}" in command]
        assert 3 <= len(own) <= 6
        assert "<svg" in Path(f"{kind}.html").read_text()
    first, *rest = Path("predictions.csv").read_text().splitlines()
    assert first.split(",")[:2] == ["account", "repaid"]
    assert [line.split(",")[0] for line in rest] == [f"DE{i:05}" for i in range(1200)]
