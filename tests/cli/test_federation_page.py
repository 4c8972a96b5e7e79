"""The commands and files of docs/federation.md, word by word: real processes, over TLS.

Changed are only the host and port, what the schema implies, and that three silos do what the page shows for one.
"""

import re
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.page_facts import facts_of

pytest.importorskip("uvicorn", reason="needs the extra dpadmm[federation]")


from dpadmm.core.model import ReleasedModel
from dpadmm.federation.https.service import free_port
from dpadmm.federation.silo_directory import schema_digest
from dpadmm.federation.terms import read_federation

CLINICS = ("clinic", "north", "south")


def documented(language: str) -> list[str]:
    """Return the blocks of docs/federation.md in a language."""
    text = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


class Machines:
    """Everybody's machine: runs and starts what the page says, each command in a process of its own."""

    def __init__(self, programs) -> None:
        self.programs, self.port = programs, free_port()
        self.said: dict[tuple[str, str], str] = {}

    def args(self, line: str, name: str) -> list[str]:
        for old, new in {
            "--host 0.0.0.0 --port 9092": f"--host 127.0.0.1 --port {self.port}",
            "federation.example.org:9092": f"127.0.0.1:{self.port}",
            "clinic": name,
        }.items():
            line = line.replace(old, new)
        return shlex.split(line)[1:]

    def run(self, line: str, name: str = "clinic") -> None:
        done = self.programs.run(*self.args(line, name), typed="y\n")
        assert done.returncode == 0, f"{line}: {done.stderr}"
        self.said[" ".join(line.split()[1:3]), name] = done.stdout

    def do(self, line: str) -> None:
        """Do what a line says, at every silo if it is for silos."""
        verb = " ".join(line.split()[1:3])
        if verb == "coordinator run":
            self.programs.wait(self.programs.start(*self.args(line, "clinic")), "listens on")
        elif verb == "silo run":
            for name in CLINICS:
                self.programs.start(*self.args(line, name))
        elif verb.startswith("silo"):
            with ThreadPoolExecutor() as together:
                list(together.map(lambda name: self.run(line, name), CLINICS))
        else:
            self.run(line)

    def entry(self, name: str) -> str:
        """Return a silo's entry for the federation file, as `silo init` has printed it."""
        return re.search(r'name = "\w+"\nrecords = \d+\nkey = "\w{64}"', self.said["silo init", name])[0]


def test_the_rehearsal(place, programs):
    """The first command of the page."""
    command, *_ = documented("sh")
    args = shlex.split(command)
    done = programs.run(*args[1:])
    assert done.returncode == 0, done.stderr
    model, facts = ReleasedModel.load("model.json"), facts_of(Path("report.html").read_text())
    assert model.choice.rounds == 10
    assert [silo.cost.epsilon for silo in model.silos] == pytest.approx([1.0] * 4, rel=1e-9)
    assert "not-private" in facts
    assert facts["silo"] == [silo.name for silo in model.silos]


@pytest.mark.slow  # processes, TLS and owners at prompts are those of the administrators' page
def test_the_way_for_real(place, programs):
    """All further commands and the file, with secure noise."""
    machines = Machines(programs)
    lines = [line for script in documented("sh")[1:] for line in script.splitlines()]
    check = lines.pop()
    for line in lines:
        machines.do(line)
        if line.startswith("dpadmm silo init"):
            for name in CLINICS:
                shutil.copy(f"{name}/silo.entry", f"{name}.entry")  # as the owners send them
        if line.startswith("dpadmm federate draft"):
            drafted = read_federation(Path("federation.toml"))
            assert [each.name for each in drafted.participants] == list(CLINICS)
            assert (drafted.run, drafted.epsilon, drafted.delta) == ("asthma 2026", 1.0, 1e-6)
            Path("federation.toml").write_text(filled(documented("toml")[0], machines))  # the one by hand
    model, page = ReleasedModel.load("model.json"), Path("report.html").read_text()
    assert [column.name for column in model.profile.columns] == ["age", "dose"]
    assert model.guarantee.is_private_release
    assert [silo.name for silo in model.silos] == list(CLINICS)
    assert check.replace("clinic", "SILO") in page
    for name in CLINICS:
        machines.run(check, name)
        assert "ε 1 of 2" in Path("model.html").read_text()
        Path("model.html").unlink()  # the next owner has a machine of its own


def filled(template: str, machines: Machines) -> str:
    """Return the documented federation file with what the commands have printed."""
    head, said = template[: template.index("[[participants]]")], machines.said
    for name in ("dimension", "n_numeric", "n_categorical", "size"):
        number = re.search(rf"\b{name} = \d+", said["silo init", "clinic"])[0]
        head, found = re.subn(rf"^{name} = \d+", number, head, flags=re.MULTILINE)
        assert found == 1
    printed = {"coordinator": said["coordinator init", "clinic"], "schema": said["silo init", "clinic"]}
    for name, text in printed.items():
        head = head.replace(f'{name} = "…"', re.search(rf'{name} = "\w{{64}}"', text)[0])
    assert "…" not in head
    return head + "".join(f"[[participants]]\n{machines.entry(name)}\n" for name in CLINICS)


def test_the_way_under_masks(cli, place, programs):
    """The commands and the file about masks, up to the owners' approval; then all goes on as above."""
    (script,) = documented("bash")
    make, show, approve = script.splitlines()
    machines, shown = Machines(programs), {}
    key = re.search(r'coordinator = "(\w{64})"', cli.run("coordinator", "init", "coordinator").stdout)[1]
    for name in CLINICS:
        made = cli.run(*machines.args(make, name))
        assert made.exit_code == 0
        machines.said["silo init", name] = made.stdout
        shown[name] = cli.run(*machines.args(show, name)).stdout
    text = documented("toml")[1].replace("dimension = 24", "dimension = 3").replace("rounds = 50", "rounds = 3")
    text = text.replace('coordinator = "…"', f'coordinator = "{key}"')
    text = text.replace('schema = "…"', f'schema = "{schema_digest("schema.json")}"')
    people = "".join(f"\n[[participants]]\n{machines.entry(name)}\n" for name in CLINICS)
    Path("federation.toml").write_text(text + people)
    for name in CLINICS[1:]:
        digits = re.search(r"not through the coordinator: ([0-9a-f-]{35})", shown[name])[1]
        approve = approve.replace(f"{name}=…", f"{name}={digits}")
    done = cli.run(*shlex.split(approve)[1:], "--yes")
    assert done.exit_code == 0, done.output
    assert "from the coordinator with up to 1 silo, who see sums" in cli.run("silo", "show", "clinic").stdout
