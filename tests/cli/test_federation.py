"""`dpadmm silo`, `coordinator` and `federate`: what they make, say and refuse."""

import json
import re
import shlex
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra dpadmm[federation]")

from dpadmm.datasets import Numeric, Schema, ThresholdLabel
from dpadmm.datasets.schema import Screening
from dpadmm.engines.federation.agreement import Aggregation, Agreement, NoiseOrigin, Participant, write_federation
from dpadmm.engines.federation.keys import fingerprint
from dpadmm.engines.federation.silo import Silo
from dpadmm.engines.federation.silo_files import schema_digest
from dpadmm.engines.flower import processes
from dpadmm.errors import InputError
from dpadmm.reporting.model import ReleasedModel

ROWS = "age,dose,result\n" + "".join(f"{20 + i},{i % 7},{(-1) ** i}\n" for i in range(40))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with two tables and their schema."""
    monkeypatch.chdir(tmp_path)
    Schema((Numeric("age", 0, 120), Numeric("dose", 0, 10)), ThresholdLabel("result", 0)).save("schema.json")
    for name in ("north", "south"):
        (tmp_path / f"{name}.csv").write_text(ROWS)
    return tmp_path


def init(cli, name, *more):
    options = ("--data", f"{name}.csv", "--schema", "schema.json", "--budget-epsilon", "2", "--delta", "1e-5")
    return cli.run("silo", "init", name, *options, *more)


def terms(key, *people, **change):
    """Return the terms of a federation of these participants."""
    standard = {"method": "p-admm", "settings": (("eta", 0.05),), "rounds": 3, "epsilon": 1.0, "delta": 1e-5}
    return Agreement(
        run="trial",
        participants=people,
        coordinator=key,
        schema=schema_digest("schema.json"),
        dimension=2,
        edges=((0, 1),),
        mu=0.01,
        **(standard | change),
    )


def made(cli):
    """Make a coordinator and two silos; return the coordinator's key and the participants."""
    said = cli.run("coordinator", "init", "coordinator", "--host", "127.0.0.1").stdout
    key = re.search(r'coordinator = "(\w{64})"', said)[1]
    people = []
    for name in ("north", "south"):
        result = init(cli, name)
        assert result.exit_code == 0, result.output
        found = re.search(r'name = "(\w+)"\nrecords = (\d+)\nkey = "(\w{64})"', result.stdout)
        people.append(Participant(found[1], int(found[2]), found[3]))
    return key, people


def test_init_approve_show(cli, place):
    key, people = made(cli)
    assert people[0].records == 40
    for secret in (
        "north/silo.key",
        "north/node.key",
        "north/rehearsal.ledger",
        "north/ledger.key",
        "coordinator/server.key",
    ):
        path = place / secret
        if path.exists():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (place / "north" / "rehearsal.ledger").exists()
    write_federation(place / "federation.toml", terms(key, *people))
    approved = cli.run("silo", "approve", "north", "federation.toml", "--yes")
    assert approved.exit_code == 0, approved.output
    assert "Certified cost to a record here: epsilon 1 at delta 1e-05" in approved.stdout
    assert "Rows are encoded by bounds, plainly, alone" in approved.stdout
    shown = cli.run("silo", "show", "north", "--log")
    assert "# dimension = 2; with a profile_share also: n_numeric = 2, n_categorical = 0, n_counts = 42" in shown.stdout
    assert "approved: run 'trial'" in shown.stdout
    assert "Spent      epsilon 0 of 2" in shown.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reach": 0.6}, "Rows are encoded by public bounds and categories alone"),
        (
            {"reach": 0.6, "profile_share": 0.1, "n_numeric": 2, "n_counts": 42},
            "Round 0 releases noisy counts of the columns, which alone cost epsilon 0.285;",
        ),
    ],
)
def test_an_owner_is_told_how_rows_are_encoded(cli, place, change, words):
    key, people = made(cli)
    write_federation(place / "federation.toml", terms(key, *people, **change))
    approved = cli.run("silo", "approve", "north", "federation.toml", "--yes")
    assert approved.exit_code == 0, approved.output
    assert words in approved.stdout
    assert "Certified cost to a record here: epsilon 1 at delta 1e-05" in approved.stdout


def test_a_rehearsal_encodes_as_the_planner_would(cli, place, monkeypatch):
    """By public knowledge where counts would drown in noise, else by a profile."""
    built = []

    def stop(_place, tables, _schema, build, _policy, _budget):
        people = [Participant(name, len(table), f"{i}" * 64) for i, (name, table) in enumerate(tables.items())]
        built.append(build(people, "a" * 64, "b" * 64))
        raise InputError("Enough.")

    monkeypatch.setattr("dpadmm.engines.flower.rehearsal.prepared", stop)
    many = "age,dose,result\n" + "".join(f"{20 + i % 60},{i % 7},{(-1) ** i}\n" for i in range(4000))
    (place / "many.csv").write_text(many)
    for table in ("north.csv", "many.csv"):
        cli.run("federate", "--local", "2", "--data", table, "--schema", "schema.json")
    small, large = built
    assert small.reach == large.reach > 0
    assert small.profile_share == 0 < large.profile_share <= 0.1
    assert (large.n_numeric, large.n_categorical, large.n_counts) == (2, 0, 42)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "fp-coordinator", "settings": (("gamma", 1.0),), "edges": ()}, "does not allow the method"),
        ({"noise": NoiseOrigin.TEST}, "secure noise only"),
        ({"rounds": 3, "dimension": 3}, "another schema"),
    ],
)
def test_terms_against_the_policy_are_not_approved(cli, place, change, words):
    key, people = made(cli)
    standard = {"dimension": 2, "edges": ((0, 1),)}
    plain = json.loads(terms(key, *people).as_json()) | {
        name: value.value if isinstance(value, NoiseOrigin) else value for name, value in (standard | change).items()
    }
    plain.pop("format")
    write_federation(place / "federation.toml", Agreement.from_plain(plain))
    result = cli.run("silo", "approve", "north", "federation.toml", "--yes")
    assert result.exit_code == 2
    assert words in result.stderr
    assert all(entry.event != "approved" for entry in Silo(place / "north").log())


def test_a_graph_by_name(cli, place):
    key, people = made(cli)
    write_federation(place / "federation.toml", terms(key, *people))
    text = (place / "federation.toml").read_text()
    (place / "federation.toml").write_text(re.sub(r"edges = .*", 'graph = "path"', text))
    assert cli.run("silo", "approve", "south", "federation.toml", "--yes").exit_code == 0
    (place / "federation.toml").write_text(re.sub(r"edges = .*", 'graph = "web"', text))
    assert "graph must be one of" in cli.run("silo", "approve", "south", "federation.toml", "--yes").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["federate"], "Give a FEDERATION.toml, or --local N"),
        (["federate", "--local", "1"], "at least 2"),
        (["federate", "federation.toml"], "--coordinator DIR"),
        (["federate", "--local", "2", "--data", "north.csv"], "public schema"),
        (["federate", "federation.toml", "--coordinator", "c", "--page", "p.html"], "give --schema FILE"),
        (["federate", "federation.toml", "--coordinator", "c", "--out", "o.json"], "give --schema FILE"),
        (
            ["federate", "federation.toml", "--coordinator", "c", "--out", "none/o.json", "--schema", "schema.json"],
            "does not exist",
        ),
        (
            ["federate", "federation.toml", "--coordinator", "c", "--page", "p", "--schema", "none"],
            "Cannot read the schema",
        ),
        (["federate", "--local", "2", "--page", "north.csv"], "is there already"),
        (["federate", "--local", "2", "--out", "o"], "ends in .json or .npz"),
        (["federate", "--local", "2", "--out", "o.json", "--page", "./o.json"], "are the same file"),
        (["silo", "run", "north", "--superlink", "127.0.0.1:1"], "--root-certificates"),
        (["silo", "show", "nowhere"], "cannot be used"),
        (["coordinator", "register", "nowhere", "north.csv", "--name", "x"], "No SuperLink"),
    ],
)
def test_clear_refusals(cli, place, words, said):
    result = cli.run(*words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_silos_and_coordinators_are_never_overwritten(cli, place):
    made(cli)
    assert "not empty" in init(cli, "north").stderr
    assert "not empty" in cli.run("coordinator", "init", "coordinator").stderr


def test_plain_http_stays_on_the_loopback(cli, place):
    init(cli, "north")
    result = cli.run("silo", "run", "north", "--superlink", "example.org:9092", "--insecure")
    assert result.exit_code == 2
    assert "loopback only" in result.stderr
    cli.run("coordinator", "init", "open", "--insecure")
    result = cli.run("coordinator", "run", "open", "--host", "0.0.0.0")
    assert "loopback only" in result.stderr


def test_a_rehearsal_refuses_awkward_cells_unless_told_otherwise(cli, place, monkeypatch):
    """Before anything is started, by the user's own file and row; the silos' policies then say the same."""
    policies = []

    def stop(_place, _tables, _schema, _build, policy, _budget):
        policies.append(policy("north", Path("north.csv"), Path("schema.json")))
        raise InputError("Enough.")

    monkeypatch.setattr("dpadmm.engines.flower.rehearsal.prepared", stop)
    (place / "north.csv").write_text(ROWS.replace("23,3,", "23,,"))
    words = ("federate", "--local", "2", "--data", "north.csv", "--schema", "schema.json")
    assert "north.csv, row 4, column 'dose': the cell is empty." in cli.run(*words).stderr
    assert not policies
    assert "Enough." in cli.run(*words, "--missing", "blank").stderr
    assert policies[0].screening == Screening.of("blank")


def documented(language: str) -> list[str]:
    """Return the blocks of docs/federation.md in a language."""
    text = (Path(__file__).parents[2] / "docs" / "federation.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_documented_way_under_masks(cli, place):
    """The commands and the file of docs/federation.md about masks, for three silos, up to their owners' approval."""
    (script,) = documented("bash")
    make, show, approve = script.splitlines()
    (place / "patients.csv").write_text(ROWS)
    key = re.search(r'coordinator = "(\w{64})"', cli.run("coordinator", "init", "coordinator").stdout)[1]
    shown = {}
    for name in CLINICS:
        assert cli.run(*shlex.split(make.replace("clinic", name))[1:]).exit_code == 0
        shown[name] = cli.run(*shlex.split(show.replace("clinic", name))[1:]).stdout
    entries = [re.search(r'name = "\w+"\nrecords = \d+\nkey = "\w{64}"', shown[name])[0] for name in CLINICS]
    text = (
        documented("toml")[1]
        .replace("dimension = 24", "dimension = 2")
        .replace('coordinator = "…"', f'coordinator = "{key}"')
    )
    text = text.replace('schema = "…"', f'schema = "{schema_digest("schema.json")}"')
    (place / "federation.toml").write_text(text + "".join(f"\n[[participants]]\n{entry}\n" for entry in entries))
    told = {name: re.search(r"past the coordinator: ([0-9a-f-]{35})", shown[name])[1] for name in CLINICS}
    words = shlex.split(approve.replace("north=…", f"north={told['north']}"))[1:]

    def said(*words):
        done = cli.run(*words, "--yes")
        return done.exit_code, done.stdout + done.stderr

    code, text = said("silo", "approve", "clinic", "federation.toml")
    assert code == 2
    assert "keys of north, south are not confirmed" in text
    assert "silo approve --peer NAME=FINGERPRINT" in text
    assert "north  NOT CONFIRMED" in text
    assert told["north"] not in text  # who reads it here and types it in has confirmed nothing
    assert "--peer takes NAME=FINGERPRINT, got 'north'" in said(*words[:4], "--peer", "north")[1]
    code, text = said(*(word.replace("south=…", f"south={told['north']}") for word in words))
    assert code == 2
    assert f"its fingerprint is {told['south']}" in text
    code, text = said(*(word.replace("south=…", f"south={told['south']}") for word in words))
    assert code == 0, text
    assert "against the coordinator with up to 1 silo, who see sums" in text
    assert f"north  {told['north']}  confirmed" in text
    assert f"clinic  {told['clinic']}  this silo" in text
    assert "Certified cost to a record here: epsilon 1 at delta 1e-06" in text
    assert "from the coordinator with up to 1 silo, who see sums" in cli.run("silo", "show", "clinic").stdout


def test_a_silo_with_a_budget_against_others_approves_no_sums(cli, place):
    key, people = made(cli)
    (place / "east.csv").write_text(ROWS)
    result = init(cli, "east", "--allow", "noisy-gradients")
    found = re.search(r'name = "(\w+)"\nrecords = (\d+)\nkey = "(\w{64})"', result.stdout)
    people.append(Participant(found[1], int(found[2]), found[3]))
    masked = {"method": "noisy-gradients", "settings": (("step", 0.5),), "edges": (), "aggregation": Aggregation.MASKED}
    write_federation(place / "federation.toml", replace(terms(key, *people), **masked))
    peers = [word for each in people[:2] for word in ("--peer", f"{each.name}={fingerprint(each.key)}")]
    approved = cli.run("silo", "approve", "east", "federation.toml", "--yes", *peers)
    assert approved.exit_code == 2
    assert "against the eavesdropper" in approved.stderr
    assert "make the silo with --view aggregate" in approved.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--view", "public"), "must be eavesdropper or aggregate"),
        (("--colluders", "1"), "is for --view aggregate"),
        (("--view", "aggregate", "--trust-coordinator"), "choose one of the two"),
        (("--view", "aggregate", "--colluders", "-1"), "colluders"),
    ],
)
def test_views_that_a_silo_cannot_have(cli, place, more, words):
    result = init(cli, "north", *more)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (place / "north").exists()


@pytest.mark.slow
def test_the_documented_rehearsal(place):
    """The first command of docs/federation.md, word by word."""
    command, *_ = documented("sh")
    words = shlex.split(command)
    assert words[:3] == ["dpadmm", "federate", "--local"]
    done = subprocess.run([processes.command("dpadmm"), *words[1:]], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "REHEARSAL, not a private release" in done.stdout
    assert "Wrote the model to model.json.\nWrote the report to report.html." in done.stdout
    model = ReleasedModel.load(place / "model.json")
    assert model.choice.rounds == 10
    assert [silo.cost.epsilon for silo in model.silos] == pytest.approx([1.0] * 4, rel=1e-9)
    page = (place / "report.html").read_text()
    assert "Not a private release" in page
    assert all(f'<th scope="row">{silo.name}</th>' in page for silo in model.silos)


CLINICS = ("clinic", "north", "south")


@pytest.mark.slow
def test_the_documented_way(place):
    """All further commands and the file of docs/federation.md, with secure noise, each command its own process.

    Changed are only the host and port, what the schema implies, and that three silos do what it shows for one.
    """
    _, *scripts = documented("sh")
    lines = [line for script in scripts for line in script.splitlines()]
    port, started, said = processes.free_port(), [], {}
    (place / "patients.csv").write_text(ROWS)

    def words(line: str, name: str) -> list[str]:
        for old, new in {
            "--host 0.0.0.0 --port 9092": f"--host 127.0.0.1 --port {port}",
            "federation.example.org:9092": f"127.0.0.1:{port}",
            "clinic": name,
        }.items():
            line = line.replace(old, new)
        return [processes.command("dpadmm"), *shlex.split(line)[1:]]

    def run(line: str, name: str = "clinic") -> str:
        done = subprocess.run(words(line, name), capture_output=True, text=True, timeout=600, input="y\n")
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    def serve(line: str, name: str = "clinic") -> processes.Process:
        home = processes.flower_environment(place / "home")
        started.append(processes.Process.start(words(line, name), home, place / f"{len(started)}.log"))
        return started[-1]

    try:
        for line in lines:
            verb = " ".join(line.split()[1:3])
            if verb == "coordinator run":
                serve(line).wait_for_port(port, 120)
                shutil.copy("coordinator/ca.pem", "ca.pem")
            elif verb == "silo run":
                for name in CLINICS:
                    serve(line, name)
            elif verb.startswith(("silo", "coordinator register")):
                for name in CLINICS:
                    said[verb, name] = run(line, name)
                    if verb == "silo init":
                        shutil.copy(f"{name}/node.pub", f"{name}-node.pub")
            else:
                said[verb, ""] = run(line)
            if verb == "coordinator register":
                (place / "federation.toml").write_text(filled(documented("toml")[0], said))
    finally:
        for process in started:
            process.ask_to_stop()
        for process in started:
            process.stop()
    federated = said["federate federation.toml", ""]
    assert "round 0, the columns' noisy counts" in federated
    assert "round 10/10" in federated
    assert "(private release)" in federated
    model = ReleasedModel.load(place / "model.json")
    assert [column.name for column in model.profile.columns] == ["age", "dose"]
    assert model.guarantee.is_release
    assert [silo.name for silo in model.silos] == list(CLINICS)
    for name in CLINICS:
        model.verify(ledger=place / name / "ledger")
    for name in CLINICS:
        assert "Certified cost to a record here: epsilon 1 at delta 1e-06" in said["silo approve", name]
        shown = subprocess.run([processes.command("dpadmm"), "silo", "show", name], capture_output=True, text=True)
        assert "Spent      epsilon 1 of 2" in shown.stdout


def filled(template: str, said: dict[tuple[str, str], str]) -> str:
    """Return the documented federation file with what the commands have printed."""
    head = template[: template.index("[[participants]]")]
    for name in ("dimension", "n_numeric", "n_categorical", "n_counts"):
        number = re.search(rf"\b{name} = \d+", said["silo init", "clinic"])[0]
        head, found = re.subn(rf"^{name} = \d+", number, head, flags=re.MULTILINE)
        assert found == 1
    printed = {"coordinator": said["coordinator init", ""], "schema": said["silo init", "clinic"]}
    for name, text in printed.items():
        head = head.replace(f'{name} = "…"', re.search(rf'{name} = "\w{{64}}"', text)[0])
    assert "…" not in head
    entries = [
        re.search(r'name = "\w+"\nrecords = \d+\nkey = "\w{64}"', said["silo init", name])[0] for name in CLINICS
    ]
    return head + "".join(f"[[participants]]\n{entry}\n" for entry in entries)
