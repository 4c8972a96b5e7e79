"""Every command of docs/command-line.md is run, in order, beside a ledger like the one the page speaks of."""

import re
import shlex
import shutil
from pathlib import Path

from dpadmm.methods.p_admm import PADMM
from dpadmm.privacy.ledger import Budget, Ledger, SiloColumns
from dpadmm.privacy.releases import Origin
from dpadmm_research.accounting.public_facts import one_agent

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def commands() -> list[list[str]]:
    """The lines after `$` in the page's console blocks, continued lines joined."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


def test_every_command_of_the_page_runs(cli, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(study.folder, tmp_path, dirs_exist_ok=True)
    for name in ("new.csv", "register.csv"):
        shutil.copy("south.csv", name)
    Path("raw.csv").write_text("".join(Path("south.csv").read_text().splitlines(keepends=True)[1:]))
    agent = one_agent(PADMM, records=1000, degree=2, eta=0.05, mu=0.01, rounds=5)
    data = [SiloColumns("clinic", {"x": [1.0, 2.0]})]
    with Ledger.create("clinic.ledger", data, Budget(epsilon=1.0, delta=1e-5)) as ledger:
        ledger.confirm(data).reserve(agent.releases(1.0), run="pilot", algorithm="p-admm", origin=Origin.SECURE)
    listed = commands()
    assert len(listed) >= 20
    for words in listed:
        assert words[0] == "dpadmm"
        result = cli.run(*words[1:])
        assert result.exit_code == 0, f"{' '.join(words)}\n{result.output}"
    assert (tmp_path / "clinic.json").exists()
    (snippet,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(snippet, str(PAGE), "exec"), {})
