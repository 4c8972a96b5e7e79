"""What a command writes never replaces a ledger, a model, or what it reads: names, links and --force alike."""

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture
def copied(trained, study, tmp_path, monkeypatch):
    """A folder with a model, its ledger and a table, to stand in."""
    for each in (*trained.model.parent.iterdir(), *map(Path, study.files)):
        shutil.copy(each, tmp_path / each.name)
    os.symlink("study.ledger", tmp_path / "link.json")
    os.link(tmp_path / "model.json", tmp_path / "hard.html")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fit --ledger one.json --budget 3 --out one.json", "belongs to the ledger"),
        ("fit --ledger one --budget 3 --report one", "belongs to the ledger"),
        ("fit --ledger one --budget 3 --report one.key", "belongs to the ledger"),
        ("fit --ledger one --budget 3 --report one-wal", "belongs to the ledger"),
        ("fit --ledger study.ledger --out link.json --force", "belongs to the ledger"),
        ("fit --ledger link.json --report study.ledger.head --force", "belongs to the ledger"),
        ("fit --out one.json --report ./one.json", "are the same file"),
        ("fit --out model.json --report hard.html --force", "are the same file"),
        ("fit --report north.csv --force", "reads"),
        ("fit --ledger north.csv", "a file that this command reads"),
        ("fit --out link.json --force", "never replaced"),
        ("report model.json --out model.json --force", "reads"),
        ("report model.json --out hard.html --force", "reads"),
        ("report model.json --out study.ledger --force", "never replaced"),
        ("report model.json --out study.ledger.key --force", "never replaced"),
        ("report model.json --ledger study.ledger --out study.ledger.head --force", "belongs to the ledger"),
        ("predict model.json north.csv --out model.json --force", "reads"),
        ("predict model.json north.csv --out north.csv --force", "reads"),
        ("predict model.json north.csv --out link.json --force", "never replaced"),
        ("schema init north.csv --target sick --out north.csv --force", "reads"),
        ("schema init north.csv --target sick --out study.ledger --force", "never replaced"),
        ("ledger export study.ledger study.ledger-wal", "belongs to the ledger"),
    ],
)
def test_outputs_replace_nothing_that_matters(cli, study, copied, words, message):
    before = contents(copied)
    command, *rest = words.split()
    if command == "fit":
        rest = ["north.csv", "south.csv", *study.words[2:], *rest]
    result = cli.run(command, *rest)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert contents(copied) == before
