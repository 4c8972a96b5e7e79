"""docs/quickstart.md is run as one session: files are written, commands run, and what is printed there is printed.

A command followed by a line that starts with `Error:` must be refused with exit code 2; every other one must succeed.
Each line shown after a command must begin a line of its output, list marks aside.
"""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
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


def test_the_session(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran, names = 0, dict[str, object]()
    for language, title, content in BLOCK.findall(PAGE.read_text()):
        if language == "json":
            (tmp_path / title).write_text(content)
        elif language == "python":
            exec(compile(content, f"{PAGE.name}: {content[:30]!r}", "exec"), names)
        else:
            for command, shown in steps(content):
                check_step(cli, command, shown)
                ran += 1
    assert ran >= 10
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 601
    assert not (tmp_path / "another.json").exists()
